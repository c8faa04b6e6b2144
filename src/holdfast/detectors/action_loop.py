"""Notice an agent that makes the same calls again and gets the same answers."""

from typing import Final

from msgspec import Struct, field

from holdfast.baselines import BaselineStats
from holdfast.detector import Detector
from holdfast.errors import SettingsError
from holdfast.events import TOOL_CALL, USER_MESSAGE, TraceEvent
from holdfast.findings import DriftEvent
from holdfast.fingerprints import Fingerprint, canonical, fingerprint, text_hash

_IDS_KEPT: Final = 48
_NAMES_KEPT: Final = 15


class _Memory(Struct):
    """`runs[p - 1]` counts the calls in a row that equalled the call p places before."""

    keys: list[tuple[int, int]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    last_seq: int = -1
    last_failed: bool = False
    last_words: int = 0


class ActionLoop(Detector):
    """Signal when a call, or a short sequence of calls, repeats with equal arguments and equal results.

    A changed argument or a changed result is progress, and so is a user's new message, unless the
    call before it had failed.
    Calls of one parallel batch do not repeat each other: the agent had not seen the first answer yet.

    Args:
        max_repeats: Repetitions from which it is a loop.
        sequence_length: The longest sequence of calls looked for.
        window: Only this many recent calls count; None remembers the whole run.

    >>> fired_at(ActionLoop(max_repeats=3), "aaab abab")  # a letter is a call, a space a user's turn
    [2]
    >>> fired_at(ActionLoop(max_repeats=3), "abababab")
    [5, 6, 7]
    """

    name = "action_loop"
    kind = "loop"

    _memory: _Memory

    def __init__(self, *, max_repeats: int = 4, sequence_length: int = 3, window: int | None = None) -> None:
        if max_repeats < 2:  # noqa: PLR2004 - one call alone repeats nothing
            raise SettingsError(f"action_loop.max_repeats must be 2 or more, got {max_repeats!r}.")
        if not 1 <= sequence_length <= 8:  # noqa: PLR2004 - evidence is kept for this many
            raise SettingsError(f"action_loop.sequence_length must be from 1 to 8, got {sequence_length!r}.")
        if window is not None and window < max_repeats:
            raise SettingsError(
                f"action_loop.window must be None or at least max_repeats ({max_repeats}), got {window!r}."
            )
        self.max_repeats = max_repeats
        self.sequence_length = sequence_length
        self.window = window
        self._memory = _Memory(runs=[0] * sequence_length)

    def check(self, event: TraceEvent, baseline: BaselineStats) -> DriftEvent | None:  # noqa: ARG002
        """Count how often the calls just made have come in the same order before."""
        if event.action_type == USER_MESSAGE:
            self._hear(event)
        if event.action_type != TOOL_CALL:
            return None
        memory = self._memory
        unseen = event.started_seq is not None and event.started_seq <= memory.last_seq
        memory.last_seq = event.seq
        if unseen:
            return None
        self._remember(event, fingerprint(event))
        for period in range(1, self.sequence_length + 1):
            count = memory.runs[period - 1] // period + 1
            if self.window is not None:
                count = min(count, self.window // period)
            if count >= self.max_repeats:
                return self._loop(event, period, count)
        return None

    def restore(self, state: bytes) -> None:
        """Take up a saved state, also one kept while `sequence_length` was another."""
        super().restore(state)
        runs = self._memory.runs
        self._memory.runs = (runs + [0] * self.sequence_length)[: self.sequence_length]

    def _hear(self, event: TraceEvent) -> None:
        """A user's new words open a new scope; the same words again, or words after a failure, do not."""
        memory = self._memory
        said = text_hash(canonical(event.text))
        if said != memory.last_words and not memory.last_failed:
            self._memory = _Memory(runs=[0] * self.sequence_length, last_seq=memory.last_seq)
        self._memory.last_words = said

    def _remember(self, event: TraceEvent, key: Fingerprint) -> None:
        memory = self._memory
        keys, runs = memory.keys, memory.runs
        for period in range(1, self.sequence_length + 1):
            same = len(keys) >= period and keys[-period] == key
            runs[period - 1] = runs[period - 1] + 1 if same else 0
        keys.append(key)
        memory.names.append(event.action_name)
        memory.ids.append(event.event_id)
        memory.last_failed = event.error is not None
        if len(memory.ids) >= 2 * _IDS_KEPT:
            del keys[:-_IDS_KEPT], memory.names[:-_IDS_KEPT], memory.ids[:-_IDS_KEPT]

    def _loop(self, event: TraceEvent, period: int, count: int) -> DriftEvent:
        memory = self._memory
        sequence = memory.names[-period:]
        outcome = "the same error" if event.error else "the same result"
        if period == 1:
            what = f"{event.action_name} called {count} times in a row"
            context = {"tool_name": event.action_name, "recent_actions": memory.names[-10:]}
        else:
            what = f"{' → '.join(sequence)} repeated {count} times"
            context = {"sequence": sequence, "recent_actions": memory.names[-_NAMES_KEPT:]}
        return self.finding(
            event,
            score=count / (self.max_repeats * 2),
            message=f"{what} with the same arguments and {outcome}",
            suggested_action="Change the approach: the same call has kept giving the same answer.",
            event_ids=memory.ids[-min(count * period, _IDS_KEPT) :],
            repeat_count=count,
            period=period,
            **context,
        )
