"""Remind the model of its goal: in full at first and after a compaction, briefly otherwise."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.goals.tree import GoalTree, format_percent
from steadyhelm.goals.tree_nodes import to_single_line

ReminderMode = Literal["minimal", "compact", "full"]

DRIFT_WARNED_FROM: Final = 0.3
TRIED_SHOWN: Final = 5
_TRIED_KEPT: Final = 2 * TRIED_SHOWN
_CONSTRAINTS_SHOWN: Final = 10
_MAX_GOAL_CHARS: Final = 600
_SHORT_CHARS: Final = 120
_MODES: Final[tuple[ReminderMode, ...]] = ("minimal", "compact", "full")


class ReminderState(Struct):
    """The saved state of a reminder injector."""

    compacted_at: int | None = None
    drift: float | None = None
    progress: float | None = None
    shown: ReminderMode = "minimal"
    tried: list[str] = field(default_factory=list)


class GoalReminderInjector:
    """Builds the reminders that put the goal back into the context.

    The first turns of a run get the full reminder, the next ones a compact one, later ones a single line.
    After a compaction this starts again, since the goal may be missing from the context.
    While the agent drifts, a reminder is at least compact and does not become shorter.

    Args:
        goal: The goal of the run.
        tree: The goal tree; provides the progress, the next step and what has failed.
        full_until: The last turn with a full reminder, counted from the start or from a compaction.
        compact_until: The last turn with a compact one.
        constraints: Rules to follow; in every full reminder.
        drift_from: The drift from which a reminder warns.

    >>> injector = GoalReminderInjector("Mend the parser", constraints=["keep the public names"])
    >>> injector.note_tried("a regular expression: too slow")
    >>> print(injector.get_reminder(1))
    Reminder of the goal.
    Goal: Mend the parser
    Keep to:
    - keep the public names
    Tried already, do not repeat:
    - a regular expression: too slow
    >>> injector.get_reminder(40)
    'Goal: Mend the parser'
    """

    def __init__(
        self,
        goal: str,
        tree: GoalTree | None = None,
        *,
        full_until: int = 5,
        compact_until: int = 15,
        constraints: Iterable[str] = (),
        drift_from: float = DRIFT_WARNED_FROM,
    ) -> None:
        for name, value in (("full_until", full_until), ("compact_until", compact_until)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise SettingsError(f"{name} must be 0 or more turns, got {value!r}.")
        if compact_until < full_until:
            raise SettingsError(
                f"compact_until must be at least full_until ({full_until}), got {compact_until!r}."
            )
        if not _is_share(drift_from):
            raise SettingsError(f"drift_from must be from 0 to 1, got {drift_from!r}.")
        self.goal = to_single_line(goal, _MAX_GOAL_CHARS)
        self.tree = tree
        self.full_until = full_until
        self.compact_until = compact_until
        self.constraints = tuple(filter(None, map(to_single_line, constraints)))[:_CONSTRAINTS_SHOWN]
        self.drift_from = drift_from
        self._state = ReminderState()

    def note_compaction(self, turn: int) -> None:
        """Record that the context was compacted at this turn."""
        self._state.compacted_at = _read_turn(turn)

    def note_tried(self, text: Any) -> None:
        """Record something that was tried and did not help. Repeated, it moves to the front."""
        words = to_single_line(text)
        if words:
            known = [other for other in self._state.tried if other != words]
            self._state.tried = [*known, words][-_TRIED_KEPT:]

    def note_drift(self, score: float | None) -> None:
        """Record how far the agent has drifted, 0 to 1; None when it is not known."""
        self._state.drift = max(0.0, min(1.0, score)) if score is not None and _is_number(score) else None

    def note_progress(self, value: float | None) -> None:
        """Record the progress, 0 to 1, for runs without a tree; None when it is not known."""
        self._state.progress = value if _is_share(value) else None

    @property
    def is_warning(self) -> bool:
        """Whether the last recorded drift is high enough for a warning."""
        return self._state.drift is not None and self._state.drift >= self.drift_from

    @property
    def tried(self) -> list[str]:
        """What was tried and must not be repeated, the latest first: recorded here, or failed in the tree."""
        failed = self.tree.tried if self.tree is not None else []
        return list(
            dict.fromkeys([*reversed(self._state.tried), *reversed([to_single_line(it) for it in failed])])
        )

    def mode(self, turn: int) -> ReminderMode:
        """Return the length of a reminder at this turn."""
        age = _read_turn(turn)
        if self._state.compacted_at is not None and age >= self._state.compacted_at:
            age -= self._state.compacted_at
        by_age = 2 if age <= self.full_until else 1 if age <= self.compact_until else 0
        if not self.is_warning:
            return _MODES[by_age]
        return _MODES[max(by_age, 1, _MODES.index(self._state.shown))]

    def get_reminder(self, turn: int, force_full: bool = False) -> str:
        """Return the reminder for the model at this turn."""
        mode = "full" if force_full else self.mode(turn)
        self._state.shown = mode
        if mode == "minimal":
            return " | ".join(self._iter_minimal())
        return "\n".join(self._iter_full() if mode == "full" else self._iter_compact())

    def state(self) -> bytes:
        """Return the saved state, without goal and tree, which have their own."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Restore what `state` returned. Raise FormatError for anything else."""
        try:
            self._state = msgspec.msgpack.decode(state, type=ReminderState)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved reminders cannot be read: {exc}.") from exc

    def _iter_full(self) -> Iterator[str]:
        yield "Reminder of the goal."
        yield f"Goal: {self.goal or '(not given)'}"
        if progress := self._describe_progress():
            yield f"Progress: {progress}"
        if focus := self._describe_focus():
            yield f"Now: {focus}"
        if self.constraints:
            yield "Keep to:"
            yield from (f"- {words}" for words in self.constraints)
        if tried := self.tried[:TRIED_SHOWN]:
            yield "Tried already, do not repeat:"
            yield from (f"- {words}" for words in tried)
        if self.is_warning:
            yield self._format_warning()

    def _iter_compact(self) -> Iterator[str]:
        yield f"Goal: {to_single_line(self.goal, 2 * _SHORT_CHARS) or '(not given)'}"
        state = filter(
            None, (self._describe_progress(), to_single_line(self._describe_focus(), _SHORT_CHARS))
        )
        if words := ", now: ".join(state):
            yield f"Progress: {words}" if self._describe_progress() else f"Now: {words}"
        if self.constraints:
            yield "Keep to: " + "; ".join(
                to_single_line(words, _SHORT_CHARS) for words in self.constraints[:3]
            )
        if tried := self.tried[:2]:
            yield "Do not repeat: " + "; ".join(to_single_line(words, _SHORT_CHARS) for words in tried)
        if self.is_warning:
            yield self._format_warning()

    def _iter_minimal(self) -> Iterator[str]:
        yield f"Goal: {to_single_line(self.goal, _SHORT_CHARS) or '(not given)'}"
        if focus := self._describe_focus():
            yield f"Now: {to_single_line(focus, _SHORT_CHARS)}"

    def _format_warning(self) -> str:
        drift = format_percent(self._state.drift or 0.0)
        return f"Warning: you are drifting ({drift}). Your next step must serve this goal."

    def _describe_progress(self) -> str:
        tree = self.tree
        if tree is not None and tree.has_plan:
            done = sum(leaf.status.is_done for leaf in tree.leaves)
            return f"{format_percent(tree.progress)}, {done} of {len(tree.leaves)} steps"
        return "" if self._state.progress is None else format_percent(self._state.progress)

    def _describe_focus(self) -> str:
        focus = self.tree.focus if self.tree is not None else None
        return focus.description if focus is not None else ""


def _read_turn(turn: Any) -> int:
    """Return a turn's number; 0, the longest reminder, for an invalid one."""
    return turn if isinstance(turn, int) and not isinstance(turn, bool) and turn > 0 else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value <= 1.0
