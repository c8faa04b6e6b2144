"""Tell a result that names an error: in the words of shells, tracebacks, test runners and JSON."""

import re
from typing import Final

from steadyhelm.loops.phrases import Phrases

SIBLING_PHRASE: Final = "sibling tool call"
_FAILURE_HEAD_CHARS: Final = 240
_FAILURE_TAIL_CHARS: Final = 120
_ERROR_PHRASES: Final = Phrases(
    ("error:", "exception:", "failure:"),
    # Also as test runners and tracebacks say it, at the beginning of a line: "E   AssertionError: 1 != 2".
    re.compile(r"\b(?:error|exception|failure):|(?m:^(?:e +)?[\w.]*(?:error|exception): )"),
)
# An object whose own field names an error. One further in is part of what was looked up.
_JSON_ERROR: Final = re.compile(
    r"\s*\{[^{}\[\]]{0,200}"
    r"(?:\"(?:errors?|error_message)\"\s*:\s*(?:\"[^\"]|\{\s*\"|\[\s*[\"{]|true\b|[1-9])|\"status\"\s*:\s*\"error\")"
)
_FAILED_TEST_PHRASES: Final = Phrases((" failed",), re.compile(r"\b[1-9]\d* failed\b"))
_FAILURE_AT_START: Final = re.compile(
    r"(?!\s{0,9}\{\s{0,9}\")\W*(?:error|traceback|fatal|exception|failure|failed)\b"
    # "Failed requests: 0" counts none.
    r"(?!(?: [a-z]{1,12}){0,2}\W{1,3}0(?:\W{0,2}\Z|[,;\n]))"
)
_REJECTION: Final = re.compile(
    r"\b(?:wrong|incorrect|invalid|declined|rejected|not accepted)\b[^\n]{0,80}\btry again\b"
    r"(?! (?:later|in \d))"
)

_TALLY: Final = re.compile(
    r"(?i:\b(?:failed|called|tried|attempted|repeated|rejected|refused|invoked|made|seen)"
    r"(?: (?:this|it|now|already|again|consecutively)){0,2} ?)\d{1,4}(?= (?:consecutive )?times?\b)"
    r"|(?i:\bconsecutive (?:failures?|errors?)\W{1,3})\d{1,4}\b"
    r"|\b\d{1,4}(?:st|nd|rd|th)"
    r"(?= (?:(?:consecutive|identical|failed|same) ){0,2}(?:time|attempt|call|failure|try)\b)"
)


def mask_tally(text: str) -> str:
    """Return an error without the number that a tool gives to each failure of one call.

    >>> mask_tally("no name [failed 3 times with identical arguments]")
    'no name [~ times with identical arguments]'
    >>> mask_tally("3 tests failed, 2 times slower")
    '3 tests failed, 2 times slower'
    """
    if "time" in text or "consecutive" in text or "attempt" in text or "identical" in text:
        return _TALLY.sub("~", text)
    return text


def reports_failure(lowered: str) -> bool:
    """Return whether the beginning and end of a result, in lower case, name an error."""
    # Plain searches, written out: every result goes through them, and most hold none of these words.
    if (
        "error" in lowered
        or "fail" in lowered
        or "exception" in lowered
        or "traceback" in lowered
        or "fatal" in lowered
    ) and _names_failure(lowered):
        return True
    return (
        "command not found" in lowered
        or "no such file" in lowered
        or "permission denied" in lowered
        or "is not recognized" in lowered
        or "no replacement was performed" in lowered
        or "no such tool" in lowered
        or "unknown tool" in lowered
        or ("try again" in lowered and _REJECTION.search(lowered) is not None)
    )


def cut_to_ends(text: str) -> str:
    """Return the parts of a result that report a failure: its beginning and its end."""
    if len(text) <= _FAILURE_HEAD_CHARS + _FAILURE_TAIL_CHARS + 1:
        return text
    return f"{text[:_FAILURE_HEAD_CHARS]}\n{text[-_FAILURE_TAIL_CHARS:]}"


def _names_failure(lowered: str) -> bool:
    return (
        _FAILURE_AT_START.match(lowered) is not None
        or _JSON_ERROR.match(lowered) is not None
        or _ERROR_PHRASES.occur_in(lowered)
        or _FAILED_TEST_PHRASES.occur_in(lowered)
        or "traceback (most recent" in lowered
        or "returned: error" in lowered
        or "returned: failure" in lowered
    )
