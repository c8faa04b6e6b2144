"""What a user's message means for repetition: that the agent should go on, or that something be repeated."""

import functools
import re
from typing import Final

from msgspec import Struct

_HEAD_CHARS: Final = 600
_TAIL_CHARS: Final = 300
_MAX_GO_ON_WORDS: Final = 14
_MAX_TIMES: Final = 1000

_WORD: Final = re.compile(r"[^\W\d_]+")
# A message of these words alone, one of the first line among them, says only that the agent should go on.
_GO_ON_CORE: Final = frozenset(
    """
    ahead approved begin carry continua continue continuez continúa continuing devam done fortfahren go going
    keep next ok okay onward onwards proceed resume start sure weiter weitermachen yeah yep yes продолжай
    继续 继续吧
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_GO_ON_WORDS: Final = _GO_ON_CORE | frozenset(
    """
    a all alright and are as at bitte can cool do everything fine finish finished from further good great have
    i if in is it job just left let me my nice now of off on one perfect please pls plan rest right s so step
    stopped task thank thanks that the then there thing this to up until we were what where with work working
    you your complete completed
    """.split()  # noqa: SIM905 - the same
)

_NUMBERS: Final = {
    name: value
    for value, names in {
        2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine",
        10: "ten", 12: "twelve dozen", 15: "fifteen", 20: "twenty", 25: "twenty-five", 30: "thirty",
        40: "forty", 50: "fifty", 100: "hundred", 1000: "thousand",
    }.items()
    for name in names.split()
}  # fmt: skip
_NUMBER: Final = rf"(?:\d{{1,4}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_COUNTED: Final = re.compile(
    rf"(?<![\d.^$])\b(?P<number>{_NUMBER})(?: (?:more|consecutive|separate|full|independent|further))?"
    r"(?: times\b(?! (?:faster|slower|more|less|bigger|larger|smaller|as|the|better|worse|cheaper))"
    r"| ?x(?=\s*(?:[.,;!?)]|\Z|and\b|to\b|in\b|please\b))"
    r"| (?:runs|iterations|rounds|repetitions|repeats|attempts|trials|samples|passes|cycles|tries"
    r"|measurements|executions)\b)"
)
# "Scan each of the twelve bottles": the same deed on each of several equal things.
_EACH_OF: Final = re.compile(
    r"\b(?:each|every(?: single)? one|all) (?:one )?of (?:the |these |those |my |our |your )?"
    rf"(?P<all>{_NUMBER})\b"
    rf"|\b(?P<number>{_NUMBER}) (?:\w{{2,20}} ){{1,5}}?(?:one by one|one at a time"
    r"|one after (?:the |an)?other|individually|(?:each )?on (?:its|their) own)\b"
)
_EACH_HINTS: Final = (
    " of ",
    "one by one",
    "one at a time",
    "one after ",
    "individually",
    " on its own",
    " on their own",
)
_VERB_OF_ANYTHING: Final = frozenset(
    """
    ask call check command do edit exec execute fetch find get invoke list look make open query read request
    run search show start submit test use view write
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_UNCOUNTED: Final = re.compile(
    r"\brepeat(?:edly)?\b|\bover and over\b|\bagain and again\b|\b(?:in|on) a loop\b|\bon repeat\b"
    r"|\bback[- ]to[- ]back\b|\bkeep (?:on )?(?!going|working)\w+ing\b"
    r"|\b(?:several|multiple) times\b"
    r"|\bevery (?:other |few |\d+ ?|[a-z]+ )?(?:s|sec|seconds?|min|minutes?|hours?|h)\b"
    r"|\ba (?:few|number of) times\b|\bcontinuously\b|\bperiodically\b|\bhourly\b"
)
# What is repeated by saying it is said once: a text, or what somebody said.
_SAID: Final = re.compile(
    r"(?:\s?[:,])?\s{1,3}(?:(?:it|them|this|that|everything)? ?\bback\b|after me\b|verbatim\b|word for word\b"
    r"|what (?:i|he|she|they|we|you|was|is|has|the \w{1,20}) |[\"'\u2018\u201c\u00ab]"
    r"|(?:(?:the|this|that|these|those|my|your|our|his|her|its|their|a|an|all|both|exactly|only|just|back|following"
    r"|given|provided|supplied|same|exact|entire|whole|full|short|long|above|below|previous|last|first|next|final"
    r"|original|quoted|two|three|\d{1,3}|\w{1,20}'s|users|customers) ){0,5}"
    r"(?:answer|greeting|input|letter|line|message|name|number|paragraph|passage|phrase|poem|prompt|question"
    r"|quotation|quote|reply|response|sentence|statement|string|text|title|verse|word|wording)s?\b)"
)
_SAID_AGAIN: Final = re.compile(
    r"\b(?:until|till|while|as long as|as often|every|each|times|forever|again and again|over and over"
    r"|for all|in a loop|one by one)\b"
)
# It is asked for where a verb orders it; what was done is no order, and what is forbidden is none.
_ORDER: Final = re.compile(
    r"\b(?:benchmark|build|call|check|click|collect|do|execute|fetch|gather|give|hit|invoke|iterate|keep|like|load|loop"
    r"|make|measure|monitor|need|open|perform|ping|poll|press|query|read|refresh|reload|repeat|request|rerun|re-run"
    r"|restart|retry|roll|run|sample|send|start|submit|take|test|toss|try|visit|want|watch)\b"
)
# Any other verb orders it where a sentence begins with it: no sentence with a subject begins with these.
_BEGINS_WITH_VERB: Final = re.compile(
    r"\s{0,9}(?:(?:please|now|then|ok|okay|so|and|just|also|next|first|finally|hey|hi|hello)\b[,:]?\s{1,3}){0,4}"
    # "For the wake, ring the bell": where, when or for what.
    r"(?:(?:for|in|at|on|after|before|during|with|by|to)\b[^.!?,;\n]{1,60},\s{1,3}(?:please\s{1,3})?)?"
    r"(?:(?:can|could|would|will) you (?:please )?)?"
    r"(?!(?:a|about|after|all|an|any|are|at|because|before|but|by|can|could|did|do|does|each|even|every|few|for|from"
    r"|had|has|have|he|her|here|his|how|i|if|in|is|it|its|last|many|may|might|more|most|much|must|my|no|not|of|on"
    r"|only|or|our|same|she|should|since|some|still|that|the|their|there|these|they|this|those|two|was|we|were|what"
    r"|when|where|which|while|who|why|will|with|would|yes|yesterday|today|you|your)\b)"
    r"[a-z]{2,20}(?<!s)(?<!ed)(?<![a-z]{3}ing)(?<!ion)(?<!body)\s"
)
_NOT_ASKED: Final = re.compile(
    r"(?:n't|\b(?:not|never|stop|without|avoid|already|ran|failed|tried|told|asked|said|did|has|have|had|was|were"
    r"|why|whenever|when|if|because|which))\b[^.!?\n]{0,30}\Z"
)
_SUBJECTS: Final = ("i ", "we ", "it ", "they ")
_ORDER_CHARS: Final = 120
_SENTENCE_END: Final = re.compile(r"(?<![./])[.!?](?=\s|\Z)|\n")
_COUNTED_HINTS: Final = (
    " times", " runs", " iterations", " rounds", " repetitions", " repeats", " attempts", " trials",
    " samples", " passes", " cycles", " tries", " measurements", " executions",
)  # fmt: skip
_UNCOUNTED_HINTS: Final = (
    "repeat", "over and over", "again and again", "in a loop", "on a loop", "back to back",
    "back-to-back", "every ", "keep ", " times", "continuously", "periodically", "hourly",
)  # fmt: skip
_TIMES_SIGN: Final = re.compile(r"\d ?x\b")


_WAIT_HINTS: Final = ("wait", "as soon as", "until", " when ", "once ", "any minute", "any moment")
_ASKS_TO_WAIT: Final = re.compile(
    r"(?<!not )(?<!n't )\bwait (?:for|until|till)\b|\bas soon as\b|\bany (?:minute|moment)\b"
    r"|\b(?:tell me|let me know|notify me|say so|ping me) (?:when|once)\b"
    r"|\b(?:when|once|until) (?:it|he|she|they|that|this|all|both|(?:the|my|our) \w+(?: \w+)?)"
    r"(?: (?:is|are|has|have|turns?|goes|comes?|finish(?:es)?|completes?|pass(?:es)?|signs?|arrives?)\b|'s\b)"
)


@functools.lru_cache(maxsize=8)
def asks_to_wait(text: str) -> bool:
    """Return whether a message asks the agent to wait for something.

    >>> asks_to_wait("Merge it as soon as the checks pass."), asks_to_wait("Why did you wait?")
    (True, False)
    """
    lowered = text[:_HEAD_CHARS].lower()
    return _has_one(lowered, _WAIT_HINTS) and _ASKS_TO_WAIT.search(lowered) is not None


class RepetitionRequest(Struct, frozen=True):
    """What a user asked to be repeated: how often (0 for no number), and the words of the message.

    With a number, `text` is the sentence that says what is to be done with each of so many things, if any.
    """

    times: int
    text: str

    def covers(self, call_text: str, count: int) -> bool:
        """Return whether a call made this often is what was asked for; a few more than asked are let pass."""
        if self.times:
            if self.text and not self._names_deed(call_text):
                return False
            return count <= self.times + max(2, self.times // 5)
        words = set(_WORD.findall(self.text))
        return any(word in words for word in _WORD.findall(call_text.lower()) if len(word) > 3)  # noqa: PLR2004

    def _names_deed(self, call_text: str) -> bool:
        """Return whether a call begins with a verb of the sentence that says something of its own."""
        verb = _WORD.search(call_text.lower())
        return verb is not None and verb[0] not in _VERB_OF_ANYTHING and verb[0] in _WORD.findall(self.text)


@functools.lru_cache(maxsize=8)
def is_go_on(text: str) -> bool:
    """Return whether a message only says that the agent should go on, in whatever words.

    >>> is_go_on("Please continue with the task."), is_go_on("continue with the login page")
    (True, False)
    """
    if len(text) > 120:  # noqa: PLR2004 - more than the few words it may have
        return False
    if any(map(str.isdigit, text)):
        return False  # it names something
    words = _WORD.findall(text.lower())
    return (
        0 < len(words) <= _MAX_GO_ON_WORDS
        and not _GO_ON_CORE.isdisjoint(words)
        and _GO_ON_WORDS.issuperset(words)
    )


@functools.lru_cache(maxsize=8)
def read_request(text: str) -> RepetitionRequest | None:
    """Return what a message asks to be repeated, None when it asks for no repetition.

    >>> read_request("Run `make bench` 20 times, please.").times
    20
    >>> read_request("Make it 10 times faster.") is None
    True
    >>> read_request("Repeat the sentence after me.") is None
    True
    """
    if len(text) > _HEAD_CHARS + _TAIL_CHARS:
        text = f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}"  # an order is at the beginning or the end
    lowered = text.lower()
    times = 0
    if _has_one(lowered, _COUNTED_HINTS) or _TIMES_SIGN.search(lowered):
        for found in _COUNTED.finditer(lowered):
            if _is_order(lowered, found):
                times = max(times, _to_times(found["number"]))
    if times:
        return RepetitionRequest(times, "")
    for_each = _read_each(lowered) if _has_one(lowered, _EACH_HINTS) else None
    if for_each is not None:
        return for_each
    if _has_one(lowered, _UNCOUNTED_HINTS):
        for found in _UNCOUNTED.finditer(lowered):
            if _is_order(lowered, found) and not _is_said_once(lowered, found):
                return RepetitionRequest(0, lowered[max(0, found.start() - 200) : found.end() + 200])
    return None


def _read_each(lowered: str) -> RepetitionRequest | None:
    """Return what is asked for each of so many things."""
    each = _EACH_OF.search(lowered)
    if each is None or not _is_order(lowered, each):
        return None
    before = _SENTENCE_END.split(lowered[max(0, each.start() - _ORDER_CHARS) : each.start()])[-1]
    sentence = before + _SENTENCE_END.split(lowered[each.start() : each.end() + _ORDER_CHARS])[0]
    return RepetitionRequest(_to_times(each["all"] or each["number"]), sentence)


def _has_one(lowered: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - every user's message goes through it, and a generator costs more
        if hint in lowered:
            return True
    return False


def _is_order(lowered: str, found: re.Match[str]) -> bool:
    """Return whether the sentence around these words orders what they say."""
    before = _SENTENCE_END.split(lowered[max(0, found.start() - _ORDER_CHARS) : found.start()])[-1]
    sentence = before + _SENTENCE_END.split(lowered[found.start() : found.end() + _ORDER_CHARS])[0]
    if found[0].startswith("keep ") and before.endswith(_SUBJECTS):
        return False
    if _NOT_ASKED.search(before[-40:]) and not re.search(r"\b(?:want|need|like)\b", before):
        return False
    return _ORDER.search(sentence) is not None or _BEGINS_WITH_VERB.match(sentence) is not None


def _is_said_once(lowered: str, found: re.Match[str]) -> bool:
    """Return whether it orders no deed but words: `repeat the sentence`, unless until or for something."""
    if found[0] != "repeat" or _SAID.match(lowered, found.end()) is None:
        return False
    rest = _SENTENCE_END.split(lowered[found.end() : found.end() + _ORDER_CHARS])[0]
    return _SAID_AGAIN.search(rest) is None


def _to_times(word: str) -> int:
    return min(_MAX_TIMES, int(word) if word.isdigit() else _NUMBERS[word])
