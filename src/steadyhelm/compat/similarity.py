"""Compare short texts that may say the same in other words: cheap, and without a list of synonyms.

Two actions are the same when their facts are the same, in the same order, and so are their words without
filler and endings.
Two results are the same when their facts, their words and their outcome are; only the name of what a number
counts may differ ("3 issues", "3 problems").
A fact is what has no synonym: a number, a path, an identifier, a quoted word, a name.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

MAX_PARSED_CHARS: Final = 512
_MAX_LINE_CHARS: Final = 200
_MIN_STEM_CHARS: Final = 3

ResultOutcome = Literal["", "failed", "waiting", "done"]

_TOKEN: Final = re.compile(r'"[^"\s]{1,200}"|`[^`\s]{1,200}`|[\w$@#%~*\\/][\w$@#%~*\\/.:+\'\u2019-]*')
_FACT_CHARACTER: Final = re.compile(r"[\d_/\\.@#$%~*:]|(?<=[^\W\d_])[A-Z]")
_PLURAL: Final = re.compile(r"[^\W\d_]{2,60}(?<!s)s")

_FAILURE_WORDS: Final = re.compile(
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
_WAITING_WORDS: Final = re.compile(
    r"\b(?:queued|pending|waiting|running|processing|building|loading|in progress|not (?:ready|yet))\b"
)
_SUCCESS_WORDS: Final = re.compile(
    r"\b(?:ok|okay|done|success\w*|succeeded|passed|completed|created|updated|saved|wrote|written|added|applied)\b"
)
# A result with none of these does not report its outcome: the patterns above are costly, this is not.
_OUTCOME_HINTS: Final = tuple(
    """
    fail error exception traceback unable cannot not n't n\u2019t denied refused rejected invalid forbidden
    unauthorized unsuccessful missing aborted crashed time exit queued pending waiting running processing
    building loading progress ok done succe passed completed created updated saved wrote written added applied
    """.split()  # noqa: SIM905 - a list of thirty quoted words reads worse
)

# Function words of English, and words that only say that something continues. No word for a thing, an action
# or a quality belongs here.
_FILLER_WORDS: Final = frozenset(
    """
    a an the this that these those there here it its i me my we us our you your they them their
    is are was were be been being am do does did has have had will would shall should can could may might must
    to of in on at by for from with into onto over through about as and or but so then than if while
    still again now just yet already also once more further continue continuing continued continues
    keep keeping let going please
    """.split()  # noqa: SIM905 - a list of ninety quoted words reads worse
)
# Stems that only report a failure: that is part of the outcome already.
_FAILURE_STEMS: Final = frozenset(("fail", "failur", "error", "unabl", "cannot", "not"))


class ParsedText(NamedTuple):
    """The facts of a text in order, its words without filler and endings, what it counts, its outcome."""

    facts: tuple[str, ...]
    words: frozenset[str]
    counted: frozenset[str]
    outcome: ResultOutcome


def parse_text(text: str) -> ParsedText | None:
    """Return the parts of a short text; None for one that is too long.

    >>> parsed = parse_text("Found 3 issues in src/app.py")
    >>> parsed.facts, sorted(parsed.words), sorted(parsed.counted)
    (('3', 'src/app.py'), ['found', 'issu'], ['issu'])
    """
    if len(text) > MAX_PARSED_CHARS:
        return None
    facts, words, counted = [], set(), set()
    after_number = False
    for token, opens in _split_tokens(text):
        if _is_fact(token, opens=opens):
            facts.append(token)
            after_number = token.isdecimal()
            continue
        lower = token.lower()
        if lower not in _FILLER_WORDS:
            words.add(stem_word(lower))
            if after_number and _PLURAL.fullmatch(lower):
                counted.add(stem_word(lower))
        after_number = False
    return ParsedText(tuple(facts), frozenset(words), frozenset(counted), classify_outcome(text))


def compare_actions(first: ParsedText, second: ParsedText) -> float:
    """Return how much of two actions is the same: Jaccard of facts and words, 0 as soon as a fact differs.

    >>> compare_actions(parse_text("Analyzing the config file"), parse_text("Still analyzing config file"))
    1.0
    >>> compare_actions(parse_text("Read a.py"), parse_text("Read b.py"))
    0.0
    """
    if first.facts != second.facts:
        return 0.0
    facts = len(set(first.facts))
    either = facts + len(first.words | second.words)
    return (facts + len(first.words & second.words)) / either if either else 0.0


def compare_results(first: ParsedText, second: ParsedText) -> float:
    """Return how much of two results is the same (Dice); 0 if they say something else.

    A result that reports waiting never equals another one.

    >>> round(compare_results(parse_text("Found 3 issues"), parse_text("Found 3 problems")), 2)
    0.67
    >>> compare_results(parse_text("Found 3 issues"), parse_text("Found 2 issues"))
    0.0
    >>> compare_results(parse_text("3 tests failed"), parse_text("3 tests passed"))
    0.0
    """
    if first.facts != second.facts or first.outcome != second.outcome or first.outcome == "waiting":
        return 0.0
    if _find_required_words(first) != _find_required_words(second) or len(first.counted) != len(
        second.counted
    ):
        return 0.0
    facts = len(set(first.facts))
    total = 2 * facts + len(first.words) + len(second.words)
    return 2 * (facts + len(first.words & second.words)) / total if total else 1.0


def classify_outcome(text: str) -> ResultOutcome:
    """Return whether a result reports, in its first or last line, that it failed, waits or worked.

    >>> [classify_outcome(text) for text in ("Failed", "0 errors, all done", "still running", "12 rows")]
    ['failed', 'done', 'waiting', '']
    """
    lines = text.strip().splitlines()
    if not lines:
        return ""
    ends = f"{lines[0][:_MAX_LINE_CHARS]}\n{lines[-1][-_MAX_LINE_CHARS:]}".lower()
    if not any(hint in ends for hint in _OUTCOME_HINTS):
        return ""
    if _WAITING_WORDS.search(ends):
        return "waiting"
    if _FAILURE_WORDS.search(ends):
        return "failed"
    return "done" if _SUCCESS_WORDS.search(ends) else ""


@lru_cache(maxsize=4096)
def stem_word(word: str) -> str:
    """Return the word without its ending, so that analyze, analyzes, analyzed and analyzing are one.

    >>> [stem_word(word) for word in ("analyze", "analyzing", "running", "run", "queries", "query", "class")]
    ['analyz', 'analyz', 'run', 'run', 'query', 'query', 'class']
    """
    word = word.removesuffix("'s").removesuffix("\u2019s")
    if word.endswith("ies") and len(word) > _MIN_STEM_CHARS + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "s"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= _MIN_STEM_CHARS and not rest.endswith("s"):
            word = rest
            if ending != "s" and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > _MIN_STEM_CHARS else word


def _split_tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each token, and whether it opens a sentence."""
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
    if token[0] in '"`' or _FACT_CHARACTER.search(token):
        return True
    # A capital inside a sentence marks a name; at the beginning of one it does not.
    return not opens and token[0].isupper()


def _find_required_words(parsed: ParsedText) -> frozenset[str]:
    """Return the words that must be the same in both texts."""
    words = parsed.words - parsed.counted
    return words - _FAILURE_STEMS if parsed.outcome == "failed" else words
