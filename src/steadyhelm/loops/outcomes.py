"""The outcome of a call: whether it failed, and whether it equals an earlier one, volatile noise aside."""

import re
from typing import Any, Final

from msgspec import Struct

from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, hash_bytes
from steadyhelm.loops.ages import is_equal_but_age
from steadyhelm.loops.echoes import is_equal_but_echo
from steadyhelm.loops.error_words import SIBLING_PHRASE, cut_to_ends, mask_tally, reports_failure
from steadyhelm.loops.failure_words import is_item, takes_item, tells_failure
from steadyhelm.loops.measures import find_measures, grade_measures
from steadyhelm.loops.phrases import Phrases, to_lower
from steadyhelm.loops.progress import is_short_of_target, states_unfinished
from steadyhelm.loops.similarity import VaryingWords, find_varying_words
from steadyhelm.noise import find_volatile_parts, is_equal_without_noise, mask_noise, mask_numbers

_HEAD_CHARS: Final = 320
_TAIL_CHARS: Final = 160
MAX_SAMPLE_CHARS: Final = _HEAD_CHARS + _TAIL_CHARS
_MAX_WAIT_ANSWER_CHARS: Final = 200
_MAX_SIZE_DIFFERENCE: Final = 16
_MAX_VARYING_CHARS: Final = 96
_SHORT_ANSWER_CHARS: Final = 200
_MAX_ERROR_CHARS: Final = 200


_WAIT_PHRASES: Final = Phrases(
    (
        "running",
        "output",
        "progress",
        "not ",
        "pending",
        "please wait",
        "queued",
        "waiting",
        "still ",
        "false",
        "status",
        "state",
        "phase",
    ),
    re.compile(
        r"still (?!nothing)\w{2,20}ing\b|running\.\.\.|no new output|no output yet|in[ _-]progress"
        r"|pending|please wait|queued|\bwaiting for\b"
        r"|\bnot (?:yet )?(?:ready|finished|done|complete|completed|started)\b"
        r"|\b(?:done|ready|finished|completed?)\W{1,4}false\b"
        # A state that is named as such.
        r"|(?:status|state|phase)\W{1,6}(?!failing|missing)[a-z]{2,20}ing\b"
    ),
)
_NOTHING_NEW_PHRASES: Final = Phrases(
    ("no new ", "nothing ", "unread", " yet"),
    re.compile(
        r"\bno new (?:e-?mails?|mails?|messages?|events?|notifications?|repl(?:y|ies)|orders?|alerts?|entries"
        r"|items?)\b"
        r"|\bnothing (?:new|yet)\b|\b(?:0|no) unread\b"
        r"|\b(?:no|not) (?:reply|response|answer|message|decision|arrived|received|available|here) yet\b"
    ),
)
"""What a tool says that is asked whether something has come."""
_MAX_CHANGE_CHARS: Final = 80
_CHANGED: Final = re.compile(
    r"\W{0,4}(?:(?!no\b|not\b|0\b|never\b)[\w'#.:-]{1,30} ){0,5}"
    r"(?:adjusted|altered|changed|corrected|edited|fixed|inserted|mended|modified|moved|patched|removed|swapped|tightened|updated"
    r"|re(?:arranged|assigned|built|coded|configured|fitted|formatted|laid|named|ordered|painted|paired|placed|set"
    r"|shaped|sized|tied|tuned|wired|worded|worked|written))\b"
)
_STATE_ALONE: Final = re.compile(
    r"\W*(?!failing|missing|nothing|string)[a-z]{2,20}ing\W*\Z"
    r"|\W*(?:running|processing|working|thinking|analy[sz]ing|building|computing)\b\W{0,4}[.\u2026;\n]"
)
"""A text that is nothing but what is being done, such as "deploying", or begins with that."""
_OUTAGE_PHRASES: Final = Phrases(
    ("429", "502", "503", "504", "529", "limit", "too many", "overloaded", "quota", "capacity",
     "unavailable", "time", "connection", "deadlock", "again ", "locked", "throttl", "econn", "eai_again",
     "temporar"),
    re.compile(
        r"\b(?:429|502|503|504|529)\b|rate.{0,3}limit|too many requests|overloaded|at capacity"
        r"|\b(?:requests?|rate|tokens?|api|query|queries|reads?|writes?|calls?)\b[^\n]{0,40}quota"
        r"|quota[^\n]{0,80}(?:\bper\b|retry|later|resets?\b|minute)"
        r"|\btemporar(?:y|ily)\b|econnre(?:set|fused)|eai_again|service unavailable|timed? ?out|timeout"
        r"|connection (?:refused|reset|aborted)|deadlock|database is locked|throttl"
        r"|try again (?:later|shortly|in (?:a|\d))"
    ),
)  # fmt: skip
# What trying again cannot repair is no outage, whatever else the error says.
_PERMANENT_PHRASES: Final = re.compile(
    r"\b(?:400|401|403|404|405|410|422)\b|forbidden|unauthori[sz]ed|denied|not found|no such"
    r"|does ?n[o']t exist"
    r"|unknown|invalid|unsupported|not supported|disk quota|no space|exceeded your|billing|payment|upgrade"
    r"|expired|revoked|suspended|disabled|read-only|not allowed|syntax|no longer|deprecated|retired"
)
# A quota of a day or more is used up for the rest of the run, unless it says that seconds or minutes will do.
_LONG_QUOTA: Final = Phrases(
    ("quota", "limit", "allowance", "credit"),
    re.compile(
        r"\b(?:annual|daily|monthly|weekly|yearly|trial|free|plan)\b[^\n]{0,30}"
        r"\b(?:quota|limit|allowance|credits?)\b"
        r"|\b(?:quota|limit|allowance|credits?)\b[^\n]{0,60}"
        r"\b(?:(?:per|this|a|for the) (?:day|week|month|year)\b"
        r"|today\b|tomorrow\b|until next\b|resets? (?:on|at midnight|next|in \d{1,3} ?(?:d|h)))"
        r"|\b(?:out of|insufficient|no(?: more)?) (?:credits?|quota)\b"
    ),
)
_SOON: Final = re.compile(
    r"(?:again|retry|wait|resets?)\b[^\n]{0,24}?\b\d{1,4}(?:\.\d+)? ?"
    r"(?:m|mins?|minutes?|ms|s|secs?|seconds?)(?![a-z])"
)
_UNCHANGED_PHRASES: Final = Phrases(
    (
        "unchanged",
        "no change",
        "not change",
        "n't change",
        "nothing ",
        "no effect",
        "no visible",
        "already ",
        "not modified",
        "0 row",
        "0 file",
        "0 record",
        "0 line",
        "0 item",
        "0 replace",
        "no-op",
        "noop",
        "still ",
    ),
    re.compile(
        r"\bunchanged\b|\bno changes?\b|\b(?:did ?n[o']t|has ?n[o']t|not) changed?\b"
        r"|\bnothing (?:changed|happened|to (?:do|commit|update|change))\b|\bno (?:visible )?effect\b"
        r"|\balready (?:up[- ]to[- ]date|exists?|set|done|closed|applied|present)\b|\bnot modified\b"
        r"|\bno-?op\b"
        r"|\bstill (?:visible|open|shown|there|present|displayed|disabled|the same|at the same)\b"
        r"|\b0 (?:rows?|files?|records?|lines?|items?|replacements?) (?:changed|updated|affected|made)\b"
    ),
)
_FAILURE_COUNTS: Final = re.compile(
    r"\b(\d+) (?:tests? |checks? |type )?(?:failed|failures?|failing|errors?|problems?|issues?|warnings?"
    r"|violations?|offen[cs]es?|mistakes?|mismatches)\b"
    r"|\b(?:failed(?: (?:requests|tests|checks|cases|jobs))?|failures?|errors?|problems?|warnings?)"
    r"\W{1,3}(\d+)\b"
    # What a linter counts, at the beginning; a status such as 404 counts nothing.
    r"|\A\W{0,4}(?![45]\d\d\b)(\d+) "
)
_ERROR_FIELDS: Final = frozenset({"error", "error_message", "errors"})
_FINAL_STATE: Final = re.compile(
    r"\b(?:status|state|conclusion|phase|result)\W{1,6}(?:fail(?:ed|ure)|error|cancell?ed|expired|complete|succe"
    r"|finished|done|closed|rejected|aborted|terminated|timed_out|stopped|ended|killed|crashed|exited"
    r"|deleted|halted|merged|denied|declined|refused|approved"
    r"|accepted|resolved|delivered|archived|withdrawn)"
)
"""A state that does not change any more."""
_SUCCESS_AT_START: Final = re.compile(
    r"\W{0,4}(?:ok\b|success|valid\b|passed\b|all (?:good|green|checks|tests)\b"
    r"|no (?:errors?|issues?|problems?|warnings?)\b)"
)
_BARE_STATUS: Final = re.compile(
    r"(?s:.{0,400})\breturned non-zero exit status \d{1,3}\W{0,2}\Z"
    r"|\W{0,4}(?:process )?exit(?:ed)?(?: with)?(?: code| status)?\W{0,3}\d{1,3}\W{0,2}\Z"
    r"|make(?:\[\d\])?: \*{3} \[[^\]\n]{1,80}\] error \d{1,3}\W{0,3}(?:exit status \d{1,3}\W{0,2})?\Z"
    r"|\W{0,4}(?:\w{1,20} ){0,3}failed\W{1,3}(?:with )?(?:exit )?(?:code|status) \d{1,3}\W{0,2}\Z"
)
"""A failure of which nothing but the exit status is known."""
_QUOTED_PART: Final = re.compile(r"\{[^{}]*\}|'[^']*'|\"[^\"]*\"|`[^`]*`|https?://\S+")


class CallOutcome(Struct, frozen=True):
    """The outcome of one call: a hash of its result, and enough of the text to compare results.

    `known` is whether any result is known.
    An outage is a failure that neither the agent nor the call caused.
    """

    raw: int
    sample: str
    size: int
    known: bool
    failed: bool
    outage: bool

    def equals(self, other: "CallOutcome") -> bool:
        """Return whether another call had the same outcome, volatile noise aside."""
        return self.raw == other.raw or (
            self.equals_but_measures(other) and self._compare_measures(other) is None
        )

    def equals_but_measures(self, other: "CallOutcome") -> bool:
        """Return whether another call had the same outcome, volatile noise and measured times aside."""
        if self.raw == other.raw:
            return True
        # The patterns are costly: they are tried only on texts of about the same size.
        if abs(self.size - other.size) > _MAX_SIZE_DIFFERENCE or not self.sample:
            return False
        if self.size > MAX_SAMPLE_CHARS and self.sample == other.sample:
            return False  # what is kept of them is equal, so that what is not has changed
        return is_equal_without_noise(self.sample, other.sample)

    def equals_but_age(self, other: "CallOutcome") -> bool:
        """Return whether another call had the same short outcome but for an age."""
        if self.failed != other.failed or max(self.size, other.size) > MAX_SAMPLE_CHARS:
            return False
        return is_equal_but_age(self.sample, other.sample)

    def find_varying_words(self, other: "CallOutcome") -> VaryingWords | None:
        """Return what differs from another outcome if that is nothing but identifiers, else None."""
        if self.failed != other.failed or abs(self.size - other.size) > _MAX_VARYING_CHARS:
            return None
        measures = self._compare_measures(other)
        if measures is not None and self.equals_but_measures(other):
            return VaryingWords(("time",), find_volatile_parts(other.sample), *measures, 0, is_made_up=False)
        varying = self._find_varying_words(other)
        if varying is None or measures is None:
            return varying
        before, now = (*varying.numbers_before, *measures[0]), (*varying.numbers, *measures[1])
        return varying._replace(numbers_before=before, numbers=now)

    def _find_varying_words(self, other: "CallOutcome") -> VaryingWords | None:
        is_cut = max(self.size, other.size) > MAX_SAMPLE_CHARS
        varying = find_varying_words(self.sample, other.sample, cut_at=_HEAD_CHARS if is_cut else 0)
        if varying is None or not is_cut:
            return varying
        # What lies between the two parts is not known: it must be as long as before, or it has changed.
        return varying if varying.growth == other.size - self.size else None

    def _compare_measures(self, other: "CallOutcome") -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Return the grades of the times both measured; None where there are none, or one is waited for."""
        if self.failed or self.raw == other.raw or self.size > MAX_SAMPLE_CHARS:
            return None
        before = find_measures(self.sample)
        if not before or self.says_wait or len(now := find_measures(other.sample)) != len(before):
            return None
        return (0.0,) * len(before), grade_measures(before, now)

    def equals_but_echo(self, other: "CallOutcome", arguments: bytes, other_arguments: bytes) -> bool:
        """Return whether another call had the same outcome but for the words each call itself contained."""
        if self.failed != other.failed or abs(self.size - other.size) > _MAX_VARYING_CHARS:
            return False
        return is_equal_but_echo(self.sample, arguments, other.sample, other_arguments)

    @property
    def is_short(self) -> bool:
        """Whether it is no more than an acknowledgement, a verdict or a row."""
        return self.size <= _SHORT_ANSWER_CHARS

    @property
    def says_unchanged(self) -> bool:
        """Whether it is a short answer that says that nothing was changed."""
        return 0 < self.size <= _SHORT_ANSWER_CHARS and _UNCHANGED_PHRASES.occur_in(to_lower(self.sample))

    def count_failures(self) -> tuple[str, ...]:
        """Return the numbers of failures that it names, in order."""
        found = _FAILURE_COUNTS.findall(to_lower(self.sample))
        return tuple(before or after or first for before, after, first in found)

    @property
    def is_permanent(self) -> bool:
        """Whether it names what trying again cannot repair."""
        return _PERMANENT_PHRASES.search(to_lower(self.sample[:_HEAD_CHARS])) is not None

    @property
    def is_bare_status(self) -> bool:
        """Whether nothing but an exit status is known of a failure: what failed may be another thing."""
        lowered = to_lower(self.sample)
        return (
            self.failed
            and ("exit" in lowered or "status" in lowered or "make" in lowered)
            and _BARE_STATUS.match(lowered) is not None
        )

    @property
    def says_wait(self) -> bool:
        """Whether it is a short answer that says "not yet", or how far something is that goes on."""
        if not 0 < self.size < _MAX_WAIT_ANSWER_CHARS:
            return False
        lowered = to_lower(self.sample)
        if _WAIT_PHRASES.occur_in(lowered) or _STATE_ALONE.match(lowered) is not None:
            return True
        return not self.failed and states_unfinished(lowered) and not self.says_final

    @property
    def is_short_of_target(self) -> bool:
        """Whether it is a short answer that gives a reading beside the target that it has not reached."""
        return self.is_short and is_short_of_target(self.sample)

    @property
    def says_changed(self) -> bool:
        """Whether it is a short answer that says that something was changed."""
        return (
            0 < self.size <= _MAX_CHANGE_CHARS
            and not self.failed
            and _CHANGED.match(to_lower(self.sample)) is not None
        )

    @property
    def says_final(self) -> bool:
        """Whether it names a state that does not change any more: there is nothing to wait for."""
        return _FINAL_STATE.search(to_lower(self.sample)) is not None

    @property
    def says_success(self) -> bool:
        """Whether it is a short answer that begins with words of success."""
        return self.is_short and _SUCCESS_AT_START.match(to_lower(self.sample)) is not None

    @property
    def says_nothing_new(self) -> bool:
        """Whether it is a short answer that says that what may come has not come."""
        return 0 < self.size < _MAX_WAIT_ANSWER_CHARS and _NOTHING_NEW_PHRASES.occur_in(to_lower(self.sample))


UNKNOWN: Final = CallOutcome(0, "", 0, known=False, failed=False, outage=False)
SUCCESS: Final = CallOutcome(0, "", 0, known=True, failed=False, outage=False)


def read_outcome(event: TraceEvent, kind: str = "look") -> CallOutcome:
    """Return the outcome of a tool call of this kind."""
    output, error = event.output_data, event.error
    # An event with a call hash has the hash of its result too.
    raw = event.result_hash if event.call_hash else hash_bytes(encode_canonical(error or output))
    text = error or extract_text(output)
    if error is not None and output:
        # An error such as "exit status 1" says nothing of what went wrong: the output does.
        shown = extract_text(output)
        raw = hash_bytes(encode_canonical(output)) ^ (0 if error in shown else raw)
        text = shown if error in shown else f"{shown}\n{error}"
    size = len(text)
    sample = text if size <= MAX_SAMPLE_CHARS else text[:_HEAD_CHARS] + text[-_TAIL_CHARS:]
    lowered = to_lower(cut_to_ends(text))
    if error is not None:
        failed = SIBLING_PHRASE not in lowered
    else:
        args = event.input_data
        failed = reports_failure(lowered) or tells_failure(lowered, size, event.action_name, args, kind)
    if failed and error is None and takes_item(event.action_name, event.input_data) and is_item(output):
        failed = False  # it is the item that failed once
    if failed and (masked := mask_tally(sample)) != sample:
        sample, size = masked, size + len(masked) - len(sample)
        raw = hash_bytes(masked.encode("utf-8", "replace"))
    outage = failed and _is_outage(to_lower(text[:_HEAD_CHARS]))
    return CallOutcome(raw, sample, size, output is not None or error is not None, failed, outage)


def _is_outage(lowered: str) -> bool:
    if not _OUTAGE_PHRASES.occur_in(lowered) or _PERMANENT_PHRASES.search(lowered) is not None:
        return False
    return not _LONG_QUOTA.occur_in(lowered) or _SOON.search(lowered) is not None


def looks_failed(text: str, *, is_error: bool) -> bool:
    """Return whether a result reports a failure; a call that failed only because its sibling did is none.

    `is_error` says that the text is the error of the call, not its output.
    """
    lowered = to_lower(cut_to_ends(text))
    return SIBLING_PHRASE not in lowered if is_error else reports_failure(lowered)


def extract_text(output: Any) -> str:
    """Return the text of a result; the name of its only field is left out, unless it names an error."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict) and len(output) == 1:
        ((name, only),) = output.items()
        if isinstance(only, str) and name not in _ERROR_FIELDS:
            return only
    return encode_canonical(output).decode("utf-8", "replace")


def hash_error(text: str) -> int:
    """Return a hash of an error without what it quotes: the same error about other arguments is the same."""
    unquoted = _QUOTED_PART.sub("~", text[:MAX_SAMPLE_CHARS])
    return hash_bytes(mask_numbers(mask_noise(unquoted))[:_MAX_ERROR_CHARS].encode("utf-8", "replace"))
