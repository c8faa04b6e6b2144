"""What came of a call: whether it failed, and whether it is what came before, volatile noise aside."""

import re
from typing import Any, Final, NamedTuple

from msgspec import Struct

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import canonical, text_hash
from steadyhelm.noise import alike, skeleton, stable

_HEAD: Final = 320
_TAIL: Final = 160
SAMPLE: Final = _HEAD + _TAIL
_FAILURE_WITHIN: Final = 240
_FAILURE_AT_END: Final = 120
_SHORT: Final = 200
_SAME_SIZE: Final = 16
_ERROR_LENGTH: Final = 200


class _Signs(NamedTuple):
    """Words that tell of something, in lower case: plain hints first, since the pattern costs far more."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]

    def are_in(self, lowered: str) -> bool:
        """Whether a text has them."""
        for hint in self.hints:
            if hint in lowered:
                return self.pattern.search(lowered) is not None
        return False


_WAITING: Final = _Signs(
    (
        "running",
        "output",
        "progress",
        "not ready",
        "pending",
        "please wait",
        "queued",
        "processing",
        "starting",
        "provisioning",
        "building",
        "deploying",
        "waiting",
    ),
    re.compile(
        r"still running|running\.\.\.|no new output|no output yet|in[ _-]progress"
        r"|not ready|pending|please wait|queued"
        # A state that is told as such, or is all that is told.
        r"|(?:status|state|phase)\W{1,6}(?:running|processing|starting|provisioning|building|deploying|waiting)\b"
        r"|\A\W*(?:running|processing|starting|provisioning|building|deploying|waiting)\W*\Z"
    ),
)
_OUTAGE: Final = _Signs(
    ("429", "502", "503", "504", "529", "limit", "too many", "overloaded", "quota", "capacity",
     "unavailable", "time", "connection"),
    re.compile(
        r"\b(?:429|502|503|504|529)\b|rate.{0,3}limit|too many requests|overloaded|quota|at capacity"
        r"|temporarily unavailable|service unavailable|timed? ?out|timeout"
        r"|connection (?:refused|reset|aborted)"
    ),
)  # fmt: skip
_NAMED_FAILURE: Final = _Signs(
    ("error:", "exception:", "failure:"),
    # Also as test runners and tracebacks say it, at the beginning of a line: "E   AssertionError: 1 != 2".
    re.compile(r"\b(?:error|exception|failure):|(?m:^(?:e +)?[\w.]*(?:error|exception): )"),
)
_FAILED_TESTS: Final = _Signs((" failed",), re.compile(r"\b[1-9]\d* failed\b"))
_BEGINS_AS_FAILURE: Final = re.compile(r"\W*(?:error|traceback|fatal|exception|failure|failed)\b")
_SIBLING: Final = "sibling tool call"
_QUOTED: Final = re.compile(r"\{[^}]*\}|'[^']*'|\"[^\"]*\"|`[^`]*`|https?://\S+")


class Outcome(Struct, frozen=True):
    """What came of one call: a hash of its result, and as much of the words as tells results apart.

    `known` is whether any result is known.
    An outage is a failure that is nobody's fault.
    """

    raw: int
    sample: str
    size: int
    known: bool
    failed: bool
    outage: bool

    def equals(self, other: "Outcome") -> bool:
        """Whether another call came to the same, volatile noise aside."""
        if self.raw == other.raw:
            return True
        # The patterns are costly: they are tried only on texts of about the same size.
        if abs(self.size - other.size) > _SAME_SIZE or not self.sample:
            return False
        return alike(self.sample, other.sample)

    @property
    def says_wait(self) -> bool:
        """Whether it is a short answer that says "not yet"."""
        return 0 < self.size < _SHORT and _WAITING.are_in(_lowered(self.sample))


UNKNOWN: Final = Outcome(0, "", 0, known=False, failed=False, outage=False)
DONE: Final = Outcome(0, "", 0, known=True, failed=False, outage=False)


def outcome_of(event: TraceEvent) -> Outcome:
    """What came of a tool call."""
    output, error = event.output_data, event.error
    # Whoever fingerprinted the call did so with its result.
    raw = event.result_hash if event.call_hash else text_hash(canonical(error or output))
    text = error or result_text(output)
    size = len(text)
    sample = text if size <= SAMPLE else text[:_HEAD] + text[-_TAIL:]
    failed = looks_failed(text, told=error is not None)
    outage = failed and _OUTAGE.are_in(_lowered(text[:_HEAD]))
    return Outcome(raw, sample, size, output is not None or error is not None, failed, outage)


def looks_failed(text: str, *, told: bool) -> bool:
    """Whether a result tells of a failure; a call that failed only because its sibling did is none."""
    if len(text) > _FAILURE_WITHIN + _FAILURE_AT_END:
        # A result says at its beginning and its end how it went.
        text = f"{text[:_FAILURE_WITHIN]}\n{text[-_FAILURE_AT_END:]}"
    lowered = _lowered(text)
    if told:
        return _SIBLING not in lowered
    # Plain searches, written out: every result goes through them, and most hold none of these words.
    if (
        "error" in lowered
        or "fail" in lowered
        or "exception" in lowered
        or "traceback" in lowered
        or "fatal" in lowered
    ) and _says_failure(lowered):
        return True
    return (
        "command not found" in lowered
        or "no such file" in lowered
        or "permission denied" in lowered
        or "is not recognized" in lowered
        or "no replacement was performed" in lowered
    )


def _says_failure(lowered: str) -> bool:
    return (
        _BEGINS_AS_FAILURE.match(lowered) is not None
        or _NAMED_FAILURE.are_in(lowered)
        or _FAILED_TESTS.are_in(lowered)
        or "traceback (most recent" in lowered
        or "returned: error" in lowered
        or "returned: failure" in lowered
    )


def _lowered(text: str) -> str:
    """A text in lower case; what is not ASCII is mangled, but stays what it is: no word we look for."""
    if text.isascii():
        return text.lower()
    # Where a text holds one arrow or quotation mark, lowering it as text costs ten times as much.
    return text.encode("utf-8", "replace").lower().decode("latin-1")


def result_text(output: Any) -> str:
    """The words of a result."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict) and len(output) == 1:
        (only,) = output.values()
        if isinstance(only, str):
            return only
    return canonical(output).decode("utf-8", "replace")


def error_key(text: str) -> int:
    """A number for an error, without what it quotes: the same complaint about other arguments is the same."""
    return text_hash(
        skeleton(stable(_QUOTED.sub("~", text[:SAMPLE])))[:_ERROR_LENGTH].encode("utf-8", "replace")
    )
