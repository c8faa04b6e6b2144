"""Notice an agent whose user has to correct it."""

from typing import Final

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.corrections.conversation import Conversation
from steadyhelm.corrections.replies import ReplyLabel
from steadyhelm.detector import Detector
from steadyhelm.errors import SettingsError
from steadyhelm.events import USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent

WINDOW: Final = 3
"""How many of the user's latest messages are looked at together."""

LIKELY: Final = 0.5
"""A message counts towards repeated corrections when it is more likely one than not."""

_ONCE: Final = 0.45
_OUTBURST: Final = 0.55
_REPEATED, _EACH_MORE, _SURENESS = 0.5, 0.06, 0.1
_MOST: Final = 0.65
_NOTHING_YET: Final = "no message of the user about the agent's work seen yet"
_SAID: Final = {
    "correction_substance": "the user corrects what was done",
    "correction_style": "the user corrects how the agent works or speaks",
    "frustration": "the user is losing patience",
}
_HEED: Final = "Read the user's last message as a correction of the turn before it."
_SAY_BACK: Final = "Say back in a sentence what the user wants changed, before acting on it."


class Corrected(Struct, array_like=True):
    """One of the user's messages: how likely it is a correction, and which it is."""

    message: int
    probability: float
    event_id: str


class _Memory(Struct):
    conversation: Conversation = field(default_factory=Conversation)
    recent: list[Corrected] = field(default_factory=list)


class UserCorrection(Detector):
    """Signal when the user corrects the agent: once is noticed, again and again is reported.

    It is reported when two of the last three messages were, more likely than not, corrections, and when the
    user, more likely than not, loses patience. The finding is about the turn before the message.
    What answers a question of an agent that did nothing but ask does not count as one of the two.

    Args:
        repeats: Corrections among the user's last three messages that are reported, 1 to 3.

    >>> fired_at(UserCorrection(), "r r r")
    []
    """

    name = "user_correction"
    kind = "correction"

    _memory: _Memory

    def __init__(self, *, repeats: int = 2) -> None:
        if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= WINDOW:
            raise SettingsError(f"user_correction.repeats must be 1, 2 or {WINDOW}, got {repeats!r}.")
        self.repeats = repeats
        self._memory = _Memory()
        self.not_checked = _NOTHING_YET

    def begin(self, run: RunInfo) -> None:  # noqa: ARG002 - every run begins alike
        """No message was seen yet."""
        self.not_checked = _NOTHING_YET

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Follow the conversation; a message of the user says how the turn before it went."""
        conversation = self._memory.conversation
        if event.action_type != USER_MESSAGE:
            conversation.take(event)
            return None
        turn, only_asked = list(conversation.ids), conversation.only_asked
        label = conversation.take(event)
        if label is None:
            return None
        self.not_checked = None
        recent = self._kept(event, label, counts=not only_asked)
        return self._finding(event, label, turn, recent) if label.is_drift else None

    def _kept(self, event: TraceEvent, label: ReplyLabel, *, counts: bool) -> list[Corrected]:
        """The likely corrections among the latest messages, this one among them if it is one."""
        memory = self._memory
        message = memory.conversation.messages
        kept = [it for it in memory.recent if message - it.message < WINDOW]
        if counts and label.drift >= LIKELY:
            kept.append(Corrected(message, label.drift, event.event_id))
        memory.recent = kept
        return kept

    def _finding(
        self, event: TraceEvent, label: ReplyLabel, turn: list[str], recent: list[Corrected]
    ) -> DriftEvent:
        is_outburst = label.primary == "frustration" and label.drift >= LIKELY
        is_counted = bool(recent) and recent[-1].event_id == event.event_id
        is_repeated = is_counted and len(recent) >= self.repeats
        told = _SAID[label.primary]
        if is_repeated and len(recent) > 1:
            told = f"{told}: {len(recent)} corrections in their last {WINDOW} messages"
        earlier = [it.event_id for it in recent if it.event_id != event.event_id] if is_repeated else []
        return self.finding(
            event,
            score=_score(label, recent, is_repeated=is_repeated, is_outburst=is_outburst),
            message=told,
            suggested_action=_SAY_BACK if is_repeated or is_outburst else _HEED,
            event_ids=[*earlier, *(step for step in turn if step not in earlier), event.event_id],
            primary=label.primary,
            probability=round(label.drift, 4),
            corrections=len(recent),
            cues=[f"{cue.name}: {cue.words}" for cue in label.cues if cue.weight > 0],
        )


def _score(label: ReplyLabel, recent: list[Corrected], *, is_repeated: bool, is_outburst: bool) -> float:
    """Below MED for one correction; never HIGH, since messages are read by their words alone."""
    score = _ONCE * label.drift
    if is_outburst:
        score = _OUTBURST
    if is_repeated:
        mean = sum(it.probability for it in recent) / len(recent)
        score = max(score, _REPEATED + _EACH_MORE * (len(recent) - 1) + _SURENESS * (mean - LIKELY))
    return min(_MOST, score)
