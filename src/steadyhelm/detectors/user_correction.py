"""Notice an agent whose user has to correct it."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.corrections.conversation import ReplyTracker
from steadyhelm.corrections.model import CorrectionWeights
from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.detector import Detector
from steadyhelm.errors import SettingsError
from steadyhelm.events import USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.loops.steps import works_on_files

WINDOW_MESSAGES: Final = 3
"""How many of the user's latest messages are judged together."""

MIN_PROBABILITY: Final = 0.5
"""A message counts towards repeated corrections from this probability on.

Chosen on labelled replies, so that at least .85 of the sessions reported have two corrections in a row, also
in projects never seen: `steadyhelm lab train` prints how many have.
"""

IN_A_ROW, IN_A_ROW_OF_ONE_THING = 3, 2
"""How many messages in a row must be corrections when `repeats` is not given: of anything, of one thing.

After two of different things the next message is a correction as often as after a single one.
"""

_SINGLE_SCORE: Final = 0.45
_OUTBURST_SCORE: Final = 0.55
_REPEATED_SCORE, _SCORE_PER_REPEAT, _SCORE_PER_CERTAINTY = 0.5, 0.06, 0.1
_MAX_SCORE: Final = 0.65
_NO_MESSAGE_YET: Final = "no message of the user about the agent's work seen yet"
_MESSAGES: Final = {
    "correction_substance": "the user corrects what was done",
    "correction_style": "the user corrects how the agent works or speaks",
    "frustration": "the user is losing patience",
}
_GUIDANCE_ONCE: Final = "Read the user's last message as a correction of the turn before it."
_GUIDANCE_REPEATED: Final = "Say back in a sentence what the user wants changed, before acting on it."


class LikelyCorrection(Struct, array_like=True):
    """One of the user's messages: its number, how likely it is a correction, and its event."""

    message: int
    probability: float
    event_id: str


class _Memory(Struct):
    conversation: ReplyTracker = field(default_factory=ReplyTracker)
    recent: list[LikelyCorrection] = field(default_factory=list)
    is_coding: bool = False


class UserCorrection(Detector):
    """Signal when the user corrects the agent: a single correction as LOW, repeated ones as MED.

    Repeated are likely corrections (`MIN_PROBABILITY`) in a row: two if the second is about the same thing as
    the first, else three. A user who is likely to have lost patience counts the same, but not in a coding
    session. The finding is about the turn before the message. An answer to an agent that did nothing but ask
    does not count as one of them.

    Args:
        repeats: Corrections among the user's last three messages that are reported, 1 to 3, and lost patience
            in every session. None for two in a row about one thing, or three.

    >>> fired_at(UserCorrection(), "r r r")
    []
    """

    name = "user_correction"
    kind = "correction"
    version = 3

    _memory: _Memory

    def __init__(self, *, repeats: int | None = None) -> None:
        if repeats is not None and (type(repeats) is not int or not 1 <= repeats <= WINDOW_MESSAGES):
            raise SettingsError(
                f"user_correction.repeats must be 1, 2 or {WINDOW_MESSAGES}, got {repeats!r}."
            )
        self.repeats = repeats
        self.weights: CorrectionWeights | None = None
        """What messages are classified by; None for the weights of this package."""
        self._memory = _Memory()
        self.not_checked = _NO_MESSAGE_YET

    def begin(self, run: RunInfo) -> None:  # noqa: ARG002 - every run begins alike
        """Start a run with no message recorded."""
        self.not_checked = _NO_MESSAGE_YET

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Record an event, and report a message of the user that corrects the turn before it."""
        conversation = self._memory.conversation
        if event.action_type != USER_MESSAGE:
            conversation.record(event)
            self._memory.is_coding = self._memory.is_coding or works_on_files(event)
            return None
        turn, only_asked = list(conversation.ids), conversation.only_asked
        label = conversation.record(event, self.weights)
        if label is None:
            return None
        self.not_checked = None
        recent = self._record_message(event, label, counts=not only_asked)
        return self._build_finding(event, label, turn, recent) if label.is_drift else None

    def _record_message(
        self, event: TraceEvent, label: ReplyLabel, *, counts: bool
    ) -> list[LikelyCorrection]:
        """Return the likely corrections among the latest messages, with this one if it is one.

        Unless `repeats` is given, only those that follow each other without another message.
        """
        memory = self._memory
        message = memory.conversation.messages
        recent = [it for it in memory.recent if message - it.message < WINDOW_MESSAGES]
        if counts and label.drift >= MIN_PROBABILITY:
            recent.append(LikelyCorrection(message, label.drift, event.event_id))
        memory.recent = recent
        if self.repeats is not None:
            return recent
        first = len(recent) - 1
        while first > 0 and recent[first].message - recent[first - 1].message == 1:
            first -= 1
        return recent[max(0, first) :]

    def _is_repeated(self, recent: list[LikelyCorrection]) -> bool:
        if self.repeats is not None:
            return len(recent) >= self.repeats
        is_one_thing = self._memory.conversation.takes_up
        return len(recent) >= (IN_A_ROW_OF_ONE_THING if is_one_thing else IN_A_ROW)

    def _build_finding(
        self, event: TraceEvent, label: ReplyLabel, turn: list[str], recent: list[LikelyCorrection]
    ) -> DriftEvent:
        is_angry = label.primary == "frustration" and label.drift >= MIN_PROBABILITY
        is_outburst = is_angry and (self.repeats is not None or not self._memory.is_coding)
        is_counted = bool(recent) and recent[-1].event_id == event.event_id
        is_repeated = is_counted and self._is_repeated(recent)
        text = _MESSAGES[label.primary]
        if is_repeated and len(recent) > 1:
            text = f"{text}: {self._describe_repeats(recent)}"
        earlier = [it.event_id for it in recent if it.event_id != event.event_id] if is_repeated else []
        return self.finding(
            event,
            score=_compute_score(label, recent, is_repeated=is_repeated, is_outburst=is_outburst),
            message=text,
            suggested_action=_GUIDANCE_REPEATED if is_repeated or is_outburst else _GUIDANCE_ONCE,
            event_ids=[*earlier, *(step for step in turn if step not in earlier), event.event_id],
            primary=label.primary,
            probability=round(label.drift, 4),
            corrections=len(recent),
            cues=[f"{cue.name}: {cue.words}" for cue in label.cues if cue.weight > 0],
        )

    def _describe_repeats(self, recent: list[LikelyCorrection]) -> str:
        if len(recent) == recent[-1].message - recent[0].message + 1:
            return f"{len(recent)} corrections in a row"
        return f"{len(recent)} corrections in their last {WINDOW_MESSAGES} messages"


def _compute_score(
    label: ReplyLabel, recent: list[LikelyCorrection], *, is_repeated: bool, is_outburst: bool
) -> float:
    """Return a score below MED for one correction, and never HIGH: only the words of messages are judged."""
    score = _SINGLE_SCORE * label.drift
    if is_outburst:
        score = _OUTBURST_SCORE
    if is_repeated:
        mean = sum(it.probability for it in recent) / len(recent)
        score = max(
            score,
            _REPEATED_SCORE
            + _SCORE_PER_REPEAT * (len(recent) - 1)
            + _SCORE_PER_CERTAINTY * (mean - MIN_PROBABILITY),
        )
    return min(_MAX_SCORE, score)
