"""Whether two short texts say the same in other words: cheap, and without a list of synonyms.

What was asked is the same when its facts are the same, in the same order, and its words are, once filler and
endings are taken off.
What came back is the same when its facts, its words and its outcome are; only the name of what a number
counts may change ("3 issues", "3 problems").
A fact is what cannot be put in other words: a number, a path, an identifier, a quoted word, a name.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

LOOKED_AT: Final = 512
_LINE_LOOKED_AT: Final = 200
_SHORTEST_STEM: Final = 3

Outcome = Literal["", "failed", "waiting", "done"]

_TOKEN: Final = re.compile(r'"[^"\s]{1,200}"|`[^`\s]{1,200}`|[\w$@#%~*\\/][\w$@#%~*\\/.:+\'\u2019-]*')
_NAMES_A_THING: Final = re.compile(r"[\d_/\\.@#$%~*:]|(?<=[^\W\d_])[A-Z]")
_PLURAL: Final = re.compile(r"[^\W\d_]{2,}(?<!s)s")

_FAILED: Final = re.compile(
    r"""(?<!\bno\s)(?<!\b0\s)(?<!\bwithout\s)
        \b(?:fail(?:ed|s|ing|ure|ures)?|\w*error|errors|\w*exception|traceback|unable|cannot
            |(?:could|did|was)\ not
            |not\ (?:found|allowed|permitted|supported|possible|valid|recogni[sz]ed|exist\w*)
            |denied|refused|rejected|invalid|forbidden|unauthorized|unsuccessful|missing|aborted|crashed
            |time(?:d\ |-)?out)\b
        (?!"?\s*[:=]\s*(?:null|none|false|0|""|\[\])\s*(?:[,;.}\n]|$))
        |\b(?:ca|could|did|was)n['\u2019]t\b | exit\ (?:code|status)[\s:=]*[1-9]""",
    re.VERBOSE,
)
_WAITING: Final = re.compile(
    r"\b(?:queued|pending|waiting|running|processing|building|loading|in progress|not (?:ready|yet))\b"
)
_DONE: Final = re.compile(
    r"\b(?:ok|okay|done|success\w*|succeeded|passed|completed|created|updated|saved|wrote|written|added|applied)\b"
)
# A result that holds none of these says nothing of its outcome: the patterns above are costly, this is not.
_HINTS: Final = tuple(
    """
    fail error exception traceback unable cannot not n't n\u2019t denied refused rejected invalid forbidden
    unauthorized unsuccessful missing aborted crashed time exit queued pending waiting running processing
    building loading progress ok done succe passed completed created updated saved wrote written added applied
    """.split()  # noqa: SIM905 - a list of thirty quoted words reads worse
)

# The closed classes of English, and the words that only say that something goes on. No word for a thing, an
# action or a quality belongs here.
_FILLER: Final = frozenset(
    """
    a an the this that these those there here it its i me my we us our you your they them their
    is are was were be been being am do does did has have had will would shall should can could may might must
    to of in on at by for from with into onto over through about as and or but so then than if while
    still again now just yet already also once more further continue continuing continued continues
    keep keeping let going please
    """.split()  # noqa: SIM905 - a list of ninety quoted words reads worse
)
# That something failed is the outcome; these words say no more than that.
_SAY_ONLY_FAILED: Final = frozenset(("fail", "failur", "error", "unabl", "cannot", "not"))


class Wording(NamedTuple):
    """What a text says: its facts in order, its words without filler and endings, what its numbers count."""

    facts: tuple[str, ...]
    words: frozenset[str]
    counted: frozenset[str]
    outcome: Outcome


def wording(text: str) -> Wording | None:
    """What a short text says; None for one too long to be read for its meaning.

    >>> said = wording("Found 3 issues in src/app.py")
    >>> said.facts, sorted(said.words), sorted(said.counted)
    (('3', 'src/app.py'), ['found', 'issu'], ['issu'])
    """
    if len(text) > LOOKED_AT:
        return None
    facts, words, counted = [], set(), set()
    after_number = False
    for token, opens in _tokens(text):
        if _is_fact(token, opens=opens):
            facts.append(token)
            after_number = token.isdecimal()
            continue
        lower = token.lower()
        if lower not in _FILLER:
            words.add(stem(lower))
            if after_number and _PLURAL.fullmatch(lower):
                counted.add(stem(lower))
        after_number = False
    return Wording(tuple(facts), frozenset(words), frozenset(counted), outcome(text))


def asked_alike(first: Wording, second: Wording) -> float:
    """How much of what was asked is the same: Jaccard of facts and words, 0 as soon as a fact differs.

    >>> asked_alike(wording("Analyzing the config file"), wording("Still analyzing config file"))
    1.0
    >>> asked_alike(wording("Read a.py"), wording("Read b.py"))
    0.0
    """
    if first.facts != second.facts:
        return 0.0
    facts = len(set(first.facts))
    either = facts + len(first.words | second.words)
    return (facts + len(first.words & second.words)) / either if either else 0.0


def answered_alike(first: Wording, second: Wording) -> float:
    """How much of two answers that say the same is the same (Dice); 0 if they say something else.

    An answer that says it is waiting is never the same answer in other words.

    >>> round(answered_alike(wording("Found 3 issues"), wording("Found 3 problems")), 2)
    0.67
    >>> answered_alike(wording("Found 3 issues"), wording("Found 2 issues"))
    0.0
    >>> answered_alike(wording("3 tests failed"), wording("3 tests passed"))
    0.0
    """
    if first.facts != second.facts or first.outcome != second.outcome or first.outcome == "waiting":
        return 0.0
    if _plain(first) != _plain(second) or len(first.counted) != len(second.counted):
        return 0.0
    facts = len(set(first.facts))
    total = 2 * facts + len(first.words) + len(second.words)
    return 2 * (facts + len(first.words & second.words)) / total if total else 1.0


def outcome(text: str) -> Outcome:
    """Whether a result says, in its first or last line, that it failed, waits or worked.

    >>> outcome("Failed"), outcome("0 errors, all done"), outcome("still running"), outcome("12 rows")
    ('failed', 'done', 'waiting', '')
    """
    lines = text.strip().splitlines()
    if not lines:
        return ""
    shown = f"{lines[0][:_LINE_LOOKED_AT]}\n{lines[-1][-_LINE_LOOKED_AT:]}".lower()
    if not any(hint in shown for hint in _HINTS):
        return ""
    if _WAITING.search(shown):
        return "waiting"
    if _FAILED.search(shown):
        return "failed"
    return "done" if _DONE.search(shown) else ""


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without its ending, so that analyze, analyzes, analyzed and analyzing are one.

    >>> [stem(word) for word in ("analyze", "analyzing", "running", "run", "queries", "query", "class")]
    ['analyz', 'analyz', 'run', 'run', 'query', 'query', 'class']
    """
    word = word.removesuffix("'s").removesuffix("\u2019s")
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "s"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= _SHORTEST_STEM and not rest.endswith("s"):
            word = rest
            if ending != "s" and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_STEM else word


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each token, and whether it opens a sentence."""
    opens = True
    for match in _TOKEN.finditer(text):
        raw = match.group()
        token = raw if raw[0] in '"`' else raw.rstrip(".:'\u2019-+")
        if token:
            yield token, opens
        opens = raw[-1] in ".:" or text[match.end() : match.end() + 1] in {"!", "?", "\n"}


def _is_fact(token: str, *, opens: bool) -> bool:
    if token.isalpha() and token.islower():
        return False
    if token[0] in '"`' or _NAMES_A_THING.search(token):
        return True
    # A capital inside a sentence is a name; the word that opens one has its capital for free.
    return not opens and token[0].isupper()


def _plain(said: Wording) -> frozenset[str]:
    """The words no other word may stand for."""
    words = said.words - said.counted
    return words - _SAY_ONLY_FAILED if said.outcome == "failed" else words
