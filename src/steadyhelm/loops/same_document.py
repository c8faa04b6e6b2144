"""One document or record that is fetched again and again, by other tools, commands or arguments."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from steadyhelm.loops.call_arguments import COMMAND_ARGUMENTS
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch, is_report_due
from steadyhelm.loops.outcomes import MAX_SAMPLE_CHARS, CallOutcome
from steadyhelm.loops.questions import says_nothing, says_refused
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import is_equal_without_noise

SAME_DOCUMENT_OF_LOOP: Final = 5

_MIN_DIFFERENT_CALLS: Final = 3
"""Fewer calls in turn are a repetition or a cycle."""
_MIN_CHARS: Final = 60
_MAX_DOCUMENTS: Final = 8
_MAX_STEPS_BETWEEN: Final = 12
_MAX_SIZE_DIFFERENCE: Final = 16
_MAX_WORDS: Final = 60
_MIN_SAME_CHARS: Final = 8
_MAX_VERDICT_CHARS: Final = 200

_VERDICT: Final = re.compile(
    r"\b(?:pass(?:ed|es)?|succe(?:ss|eded)\w*|valid|up[ -]to[ -]date|all (?:good|clear|checks)"
    r"|no (?:errors?|issues?|problems?|warnings?|conflicts?)|[1-9]\d* (?:failed|errors?|warnings?))\b",
    re.IGNORECASE,
)
# What a shell adds to the output of every command.
_SHELL_STATUS: Final = re.compile(
    r"\[(?:the )?(?:command|process|current working|python interpreter)\b[^\]\n]{0,300}\]?", re.IGNORECASE
)
_WORD: Final = re.compile(r"[^\s\"'`,;()\[\]{}<>=|&]+")
_SCHEME: Final = re.compile(r"[a-z]{2,9}://(?:www\.)?")
_SMALL_NUMBER: Final = re.compile(r"[-+]?\d{1,4}[a-z]?\Z")
# With letters and digits, a part of a path, or a long number: it names one thing.
_NAMES_ONE_THING: Final = re.compile(r"(?=.*[a-z])(?=.*\d).{4}|.*[a-z@]/|.*/[a-z]|.*\w[.@]\w\w|.*\d{5}")
# The version of what runs a command is no thing that it is about.
_PROGRAM: Final = re.compile(r"(?:.*/)?(?:bash|java|node|perl|php|pip|pypy|python|ruby|sh)[\d.-]*\Z")
_LONG_WORD: Final = re.compile(r"[^\W\d_]{7,}\Z")
_GOES_THERE: Final = re.compile(r"\s{0,9}cd [^;&|]{1,80}&& ?")
# Arguments that say how much of a thing is asked for, not which thing.
_SIZE_NAMES: Final = re.compile(
    r"(?i)(?:.*[_-])?(?:max|num|limit|lines?|range|offset|start|end|count|depth|size|chars|length|page|top"
    r"|timeout|height|width)(?:[A-Z_-].*)?\Z"
)


class FetchedDocument(Struct):
    """A result, and the calls that brought it: the things that all of them name, and the words of the latest.

    `forms` holds, for each way of asking, the words of its latest call.
    """

    outcome: CallOutcome
    tool: str
    arguments: bytes
    ids: list[str]
    calls: list[int]
    last_seq: int
    last_step: int
    things: list[str] = field(default_factory=list)
    forms: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def from_step(cls, step: ToolStep, number: int) -> "FetchedDocument":
        """Return the record of a result that is seen for the first time."""
        event = step.event
        return cls(
            step.outcome,
            event.action_name,
            step.arguments,
            [event.event_id],
            [step.call_key],
            event.seq,
            number,
        )

    def is_result_of(self, step: ToolStep) -> bool:
        """Return whether a call whose result begins and ends like this one brought the same.

        One tool answers in one form, so that what it leaves out of the sample has changed.
        """
        now = step.outcome
        is_whole = now.size <= MAX_SAMPLE_CHARS or self.tool != step.event.action_name
        return self.outcome.raw == now.raw or (self.outcome.size == now.size and is_whole)

    def add(self, step: ToolStep, number: int) -> bool:
        """Count a call with this result, and return whether it asked for the same thing.

        A call that names nothing, such as for the text of the page that is open, is not counted.
        """
        if not self.forms:
            words = list_words(self.arguments)
            self.things = _list_things(words, self.outcome.sample)
            self.forms = {_name_form(self.tool, self.arguments): words}
        event, words = step.event, list_words(step.arguments)
        if not _list_things(words, self.outcome.sample):
            return True
        shared = [it for it in self.things if any(_is_same_word(it, word) for word in words)]
        form = _name_form(event.action_name, step.arguments)
        if not shared or self._asks_for_another(form, words):
            return False
        self.things, self.last_seq, self.last_step = shared, event.seq, number
        self.forms[form] = words
        self.ids = [*self.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        self.calls = [*self.calls, step.call_key][-MAX_EVIDENCE_IDS:]
        return True

    def _asks_for_another(self, form: str, words: list[str]) -> bool:
        """Return whether this call and an earlier one each name something that the other does not."""
        alike = self.forms.get(form)
        if alike is not None and _differ(alike, words):
            return True
        specific = [it for it in words if _NAMES_ONE_THING.match(it)]
        return any(
            _differ([it for it in before if _NAMES_ONE_THING.match(it)], specific)
            for before in self.forms.values()
        )

    def match(self) -> LoopMatch | None:
        """Return the match of a document that was fetched too often."""
        count = len(self.ids)
        if count < SAME_DOCUMENT_OF_LOOP or not is_report_due(count, SAME_DOCUMENT_OF_LOOP):
            return None
        if len(set(self.calls)) < _MIN_DIFFERENT_CALLS or not is_document(self.outcome.sample):
            return None
        return LoopMatch(
            pattern="same document",
            count=count,
            patience=SAME_DOCUMENT_OF_LOOP,
            event_ids=tuple(self.ids),
            message=f"{self.things[0]} was fetched {count} times in other ways, with the same result",
        )


class FetchedDocuments(Struct):
    """The latest substantial results of this segment."""

    documents: dict[str, FetchedDocument] = field(default_factory=dict)
    steps: int = 0

    def clear(self) -> None:
        """Forget everything."""
        if self.documents:
            self.documents.clear()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when one thing is fetched once more in another way."""
        self.steps += 1
        outcome = step.outcome
        if step.kind != "look" or outcome.size < _MIN_CHARS or not outcome.known or outcome.failed:
            return None
        before = self.documents.pop(outcome.sample, None)
        if before is None and outcome.size <= MAX_SAMPLE_CHARS:
            before = self._take_but_noise(outcome)
        if before is None or not before.is_result_of(step):
            self._keep(FetchedDocument.from_step(step, self.steps))
            return None
        if not step.has_seen(before.last_seq):
            self._keep(before)
            return None
        count = len(before.ids)
        if self.steps - before.last_step > _MAX_STEPS_BETWEEN or not before.add(step, self.steps):
            before = FetchedDocument.from_step(step, self.steps)
        self._keep(before)
        return before.match() if len(before.ids) > count else None

    def _take_but_noise(self, outcome: CallOutcome) -> FetchedDocument | None:
        """Return the document that is equal to a short result, noise aside, and take it out."""
        size, start = outcome.size, outcome.sample[:_MIN_SAME_CHARS]
        for sample, it in self.documents.items():
            if not sample.startswith(start) or abs(it.outcome.size - size) > _MAX_SIZE_DIFFERENCE:
                continue
            if is_equal_without_noise(sample, outcome.sample):
                document = self.documents.pop(sample)
                document.outcome = outcome
                return document
        return None

    def _keep(self, document: FetchedDocument) -> None:
        self.documents[document.outcome.sample] = document
        if len(self.documents) > _MAX_DOCUMENTS:
            del self.documents[next(iter(self.documents))]


def is_document(text: str) -> bool:
    """Return whether a result tells of something, and is no verdict, no refusal and not nothing.

    >>> is_document("status: held, reason: address check"), is_document("3 checks passed")
    (True, False)
    """
    if len(_SHELL_STATUS.sub("", text).strip()) < _MIN_CHARS and _SHELL_STATUS.search(text) is not None:
        return False
    if len(text) <= _MAX_VERDICT_CHARS and (says_nothing(text) or says_refused(text)):
        return False
    return _VERDICT.search(text[-_MAX_VERDICT_CHARS:]) is None


def list_words(arguments: bytes) -> list[str]:
    """Return the words of canonical arguments that say what is asked for, not how much of it.

    >>> list_words(b'{"path":"./src/Ledger.py","limit":200}'), list_words(b'{"command":"head -n 9 a.py"}')
    (['src/ledger.py'], ['head', 'a.py'])
    """
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []  # none, or cut off, or nested too deeply
    return list(dict.fromkeys(_iterate_words("", read)))[:_MAX_WORDS]


def _iterate_words(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _iterate_words(key, one)
    elif isinstance(value, list):
        for one in value:
            yield from _iterate_words(name, one)
    elif isinstance(value, str):
        is_command = name in COMMAND_ARGUMENTS
        for found in _WORD.findall(value.lower()):
            word = _normalize_word(found)
            if word and not word.startswith("-") and not (is_command and _SMALL_NUMBER.match(word)):
                yield word
    elif isinstance(value, int) and not isinstance(value, bool) and not _SIZE_NAMES.match(name):
        yield str(value)


def _normalize_word(word: str) -> str:
    """Return a word without signs at its ends; of an address the page alone."""
    address = _SCHEME.match(word)
    if address is not None:
        word = word[address.end() :].partition("?")[0].partition("#")[0]
    return word.removeprefix("./").rstrip("/.:!?")


def _list_things(words: list[str], result: str) -> list[str]:
    """Return the words that name one thing; a plain word only where it is long and the result has it too."""
    lowered = result.lower()
    return [
        it
        for it in words
        if (_NAMES_ONE_THING.match(it) or (_LONG_WORD.match(it) and it in lowered))
        and _PROGRAM.match(it) is None
    ]


def _is_same_word(one: str, other: str) -> bool:
    """Return whether two words name the same: one path may begin further up."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _differ(one: list[str], other: list[str]) -> bool:
    return _has_own(one, other) and _has_own(other, one)


def _has_own(one: list[str], other: list[str]) -> bool:
    return any(not any(_is_same_word(it, word) for word in other) for it in one)


def _name_form(tool: str, arguments: bytes) -> str:
    """Return the way in which a call asks: its tool and its arguments by name, or the command it runs."""
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return tool
    if not isinstance(read, dict):
        return tool
    command = next((read[it] for it in COMMAND_ARGUMENTS if isinstance(read.get(it), str)), None)
    if command is None:
        return f"{tool} {' '.join(sorted(read))}"
    return f"{tool} {' '.join(_GOES_THERE.sub('', command).split(None, 1)[:1])}"
