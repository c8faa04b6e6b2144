"""Recognise a short answer that says how far something is, and a reading that has not reached its target."""

import re
from typing import Final

_MIN_STEPS_OF_WORK: Final = 20
_CONTEXT_CHARS: Final = 60
_WHOLE: Final = 100.0

_VERBS: Final = (
    r"\b(?:re)?(?:upload|download|render|process|index|import|export|train|convert|encod|transfer|migrat|build"
    r"|compil|scann|synchroni[sz]|sync|install|extract|analy[sz]|generat|restor|load|fetch|crawl|transcod"
    r"|transcrib|replicat|verify|verifi|archiv|copy|copi|send|writ|print|stream|unpack|comput)"
)
_DOING_OR_DONE: Final = (
    rf"(?:{_VERBS}(?:ing|ed)\b|\b(?:built|sent|written|done|complete|completed|completion|finished)\b)"
)
_UNIT: Final = (
    r"(?:frames?|chunks?|epochs?|batch(?:es)?|blocks?|segments?|shards?|tiles?|layers?|iterations?|samples?"
    r"|partitions?|[kmgt]i?b|(?:kilo|mega|giga)?bytes?)\b"
)
_THING: Final = (
    r"(?:files?|items?|rows?|records?|documents?|docs|images?|photos?|videos?|tables?|objects?|packages?"
    r"|parts?|steps?|pages?|replicas?|pods?|instances?|messages?|e-?mails?)\b"
)

_PERCENT: Final = re.compile(r"(?<![\d.,-])\d{1,2}(?:\.\d{1,3})? ?(?:%|percent\b)")
_BEFORE_PERCENT: Final = re.compile(
    rf"(?:{_DOING_OR_DONE}|\bprogress\b)[^\n%;]{{0,40}}\Z|[=>#]{{3,}}[^\w]{{0,40}}\Z"
)
_AFTER_PERCENT: Final = re.compile(rf"\||\W{{0,3}}(?:[a-z]{{1,12}} )?(?:{_DOING_OR_DONE}|\bthrough\b)")
_COUNT_HINT: Final = re.compile(r"\d ?(?:[kmgt]i?b ?)?(?:/|of|out of) ?\d")
_COUNT: Final = re.compile(
    r"(?<![\w.:/-])(\d{1,12}(?:\.\d{1,4})?) ?(?:[kmgt]i?b ?)?(?:/|\bof\b|\bout of\b) ?"
    r"(\d{1,12}(?:\.\d{1,4})?)(?!\d|[./:-]\d|/\w)"
)
_BEFORE_COUNT: Final = re.compile(rf"(?:\b{_UNIT}|{_DOING_OR_DONE}[^\n;]{{0,30}}|\bprogress\b\W?) ?\W?\Z")
_AFTER_COUNT: Final = re.compile(
    rf" ?{_UNIT}|\W{{0,3}}(?:{_THING} )?(?:(?:are|is|were|have been|has been) )?(?:{_DOING_OR_DONE}|ready\b)"
)
_STEP_BEFORE: Final = re.compile(r"\bsteps? ?\W?\Z")
_PLACE_BEFORE: Final = re.compile(
    r"\b(?:page|slide|chapter|question|lesson|showing|displaying|viewing) ?\W?\Z"
)
_COUNT_ALONE: Final = re.compile(
    rf"\W{{0,9}}(?:{_THING} )?[\d.]{{1,15}} ?(?:/|of|out of) ?[\d.]{{1,15}} {_THING}\W{{0,9}}"
    r"|\W{0,9}step \d{1,9} of \d{1,9}\W{0,9}"
)
_SHARE_FIELD: Final = re.compile(
    r"(?<![a-z])(?:progress(?:_?(?:percent|percentage|pct))?|fraction_?(?:done|completed?)"
    r"|(?:percent|percentage|pct)_?(?:done|completed?|finished)"
    r"|(?:done|completed?|finished)_?(?:percent|percentage|pct|fraction))"
    r"[\"']? ?[:= ] ?[\"']?(\d{1,3}(?:\.\d{1,6})?)(?![\w/]| ?of )"
)
_DONE_FIELD: Final = re.compile(
    rf"(?:{_VERBS}ed|\b(?:sent|written|done|completed?|finished))(?:_[a-z]{{1,12}})?"
    r"[\"']? ?[:=] ?(\d{1,12})\b"
)
_TOTAL_FIELD: Final = re.compile(r"\b(?:total|expected)(?:_[a-z]{1,12})?[\"']? ?[:=] ?(\d{1,12})\b")
_REMAINING: Final = re.compile(
    rf"(?<![\w.,-])(?=[\d.,]*[1-9])\d[\d.,]* ?(?:(?:{_UNIT}|{_THING}) )?(?:remain|remaining|to go)\b"
    rf"|(?<![\w.,-])(?=[\d.,]*[1-9])\d[\d.,]* ?{_UNIT} left\b"
)
_NO_WORK: Final = re.compile(
    # What has a share or a count without being under way.
    r"\b(?:coverage|discount|battery|humidity|accuracy|cpu|memory|ram|quota|credits?|budget|attempts?|tries"
    r"|retries|guesses|limit|stock|seats?|lives|score|rating|tests?|checks?)\b"
    # What has ended, or gone wrong.
    r"|\b(?:cancell?ed|aborted|stopped|paused|stalled|killed|offline|suspended)\b"
    r"|\b[1-9]\d{0,6} (?:\w{1,20} )?(?:failed|failures?|failing|errors?)\b|\b(?:failed|errors?)\W{1,3}[1-9]"
)
_TARGET: Final = re.compile(
    r"\b(?:target|setpoint|set_point|goal)(?:_[a-z]{1,12})?[\"']? ?[:= ] ?(-?\d{1,6}(?:\.\d{1,3})?)\b"
)
_READING: Final = re.compile(r"(?<![\w.-])-?\d{1,6}(?:\.\d{1,3})?(?![\d-]|\.\d)")


def states_unfinished(lowered: str) -> bool:
    """Return whether a short text in lower case says how far something is that is not finished.

    >>> states_unfinished("6% uploaded"), states_unfinished("frame 57 of 300")
    (True, True)
    >>> states_unfinished("100% uploaded"), states_unfinished("page 2 of 5")
    (False, False)
    """
    # Each is asked for by what it cannot be without: short answers of every kind come here.
    found = (("%" in lowered or "percent" in lowered) and _states_share(lowered)) or (
        ("/" in lowered or " of " in lowered) and _states_count(lowered)
    )
    if not found:
        found = _has_field_of_share(lowered) or _has_fields_of_count(lowered) or _names_rest(lowered)
    return found and _NO_WORK.search(lowered) is None


def is_short_of_target(text: str) -> bool:
    """Return whether a short text gives a reading beside the target that it has not reached.

    >>> is_short_of_target("38 C, target 200"), is_short_of_target("200 C, target 200")
    (True, False)
    """
    lowered = text.lower()
    target = _TARGET.search(lowered) if "target" in lowered or "set" in lowered or "goal" in lowered else None
    if target is None:
        return False
    beside = f"{lowered[: target.start()]} {lowered[target.end() :]}"
    readings = [float(found) for found in _READING.findall(beside)]
    return bool(readings) and float(target[1]) not in readings


def _states_share(lowered: str) -> bool:
    """Return whether a percentage below 100 is that of work."""
    return any(
        _BEFORE_PERCENT.search(lowered, max(0, found.start() - _CONTEXT_CHARS), found.start()) is not None
        or _AFTER_PERCENT.match(lowered, found.end()) is not None
        for found in _PERCENT.finditer(lowered)
    )


def _states_count(lowered: str) -> bool:
    """Return whether it counts work done of a greater number."""
    if _COUNT_HINT.search(lowered) is None:
        return False
    return any(
        float(found[1]) < float(found[2]) and _counts_work(lowered, found)
        for found in _COUNT.finditer(lowered)
    )


def _counts_work(lowered: str, count: re.Match[str]) -> bool:
    start = max(0, count.start() - _CONTEXT_CHARS)
    if _PLACE_BEFORE.search(lowered, start, count.start()) is not None:
        return False
    if (
        _STEP_BEFORE.search(lowered, start, count.start()) is not None
        and float(count[2]) >= _MIN_STEPS_OF_WORK
    ):
        return True
    return (
        _BEFORE_COUNT.search(lowered, start, count.start()) is not None
        or _AFTER_COUNT.match(lowered, count.end()) is not None
        or _COUNT_ALONE.fullmatch(lowered) is not None
    )


def _has_field_of_share(lowered: str) -> bool:
    """Return whether a field of progress holds a share below the whole."""
    if (
        "progress" not in lowered
        and "percent" not in lowered
        and "fraction" not in lowered
        and "pct" not in lowered
    ):
        return False
    share = _SHARE_FIELD.search(lowered)
    return share is not None and float(share[1]) < _WHOLE and float(share[1]) != 1.0


def _has_fields_of_count(lowered: str) -> bool:
    """Return whether one field holds what is done, and another a greater total."""
    if "total" not in lowered and "expected" not in lowered:
        return False
    done, total = _DONE_FIELD.search(lowered), _TOTAL_FIELD.search(lowered)
    return done is not None and total is not None and int(done[1]) < int(total[1])


def _names_rest(lowered: str) -> bool:
    """Return whether it names how much is left to do."""
    if "remain" not in lowered and "to go" not in lowered and " left" not in lowered:
        return False
    return _REMAINING.search(lowered) is not None
