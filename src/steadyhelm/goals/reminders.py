"""Keep the goal in the model's view: a reminder that says more when more has been lost."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.goals.lines import one_line
from steadyhelm.goals.tree import GoalTree
from steadyhelm.goals.tree_views import percent

ReminderMode = Literal["minimal", "compact", "full"]

DRIFT_WARNED_FROM: Final = 0.3
TRIED_SHOWN: Final = 5
_TRIED_KEPT: Final = 2 * TRIED_SHOWN
_CONSTRAINTS_SHOWN: Final = 10
_GOAL_LENGTH: Final = 600
_SHORT: Final = 120
_MODES: Final[tuple[ReminderMode, ...]] = ("minimal", "compact", "full")


class ReminderState(Struct):
    """What an injector remembers of a run."""

    compacted_at: int | None = None
    drift: float | None = None
    progress: float | None = None
    shown: ReminderMode = "minimal"
    tried: list[str] = field(default_factory=list)


class GoalReminderInjector:
    """Words that put the goal back into the context: full at first, shorter later, full when it was lost.

    A run's first turns get the full reminder, the next ones a compact one, later ones a line.
    After the context was compacted that begins anew, since the goal may be gone from it.
    While the agent drifts, a reminder is compact at least and does not shrink.

    Args:
        goal: What is to be reached.
        tree: The goal taken apart; it gives progress, the next step and what has failed.
        full_until: The last turn of a full reminder, counted from the start or from a compaction.
        compact_until: The last turn of a compact one.
        constraints: What must be kept to; in every full reminder.
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
        self.goal = one_line(goal, _GOAL_LENGTH)
        self.tree = tree
        self.full_until = full_until
        self.compact_until = compact_until
        self.constraints = tuple(filter(None, map(one_line, constraints)))[:_CONSTRAINTS_SHOWN]
        self.drift_from = drift_from
        self._state = ReminderState()

    def note_compaction(self, turn: int) -> None:
        """The context was compacted: what was said before may be gone."""
        self._state.compacted_at = _turn(turn)

    def note_tried(self, text: Any) -> None:
        """Something was tried and did not help; said again it moves to the front."""
        words = one_line(text)
        if words:
            known = [other for other in self._state.tried if other != words]
            self._state.tried = [*known, words][-_TRIED_KEPT:]

    def note_drift(self, score: float | None) -> None:
        """How far the agent has drifted, 0 to 1; None when nobody knows."""
        self._state.drift = max(0.0, min(1.0, score)) if score is not None and _is_number(score) else None

    def note_progress(self, value: float | None) -> None:
        """How far the work is, 0 to 1, for runs without a tree; None when nobody knows."""
        self._state.progress = value if _is_share(value) else None

    @property
    def is_warning(self) -> bool:
        """Whether the drift told last is worth a warning."""
        return self._state.drift is not None and self._state.drift >= self.drift_from

    @property
    def tried(self) -> list[str]:
        """What was tried and must not be repeated, the latest first: told here, or failed in the tree."""
        failed = self.tree.tried if self.tree is not None else []
        return list(dict.fromkeys([*reversed(self._state.tried), *reversed([one_line(it) for it in failed])]))

    def mode(self, turn: int) -> ReminderMode:
        """How much a reminder at this turn says."""
        age = _turn(turn)
        if self._state.compacted_at is not None and age >= self._state.compacted_at:
            age -= self._state.compacted_at
        by_age = 2 if age <= self.full_until else 1 if age <= self.compact_until else 0
        if not self.is_warning:
            return _MODES[by_age]
        return _MODES[max(by_age, 1, _MODES.index(self._state.shown))]

    def get_reminder(self, turn: int, force_full: bool = False) -> str:
        """The words to put before the model at this turn."""
        mode = "full" if force_full else self.mode(turn)
        self._state.shown = mode
        if mode == "minimal":
            return " | ".join(self._minimal())
        return "\n".join(self._full() if mode == "full" else self._compact())

    def state(self) -> bytes:
        """What it remembers, without goal and tree, which have a state of their own."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Go on from what `state` gave; raises FormatError when it is none of ours."""
        try:
            self._state = msgspec.msgpack.decode(state, type=ReminderState)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FormatError(f"The saved reminders cannot be read: {exc}.") from exc

    def _full(self) -> Iterator[str]:
        yield "Reminder of the goal."
        yield f"Goal: {self.goal or '(not given)'}"
        if progress := self._progress():
            yield f"Progress: {progress}"
        if focus := self._focus():
            yield f"Now: {focus}"
        if self.constraints:
            yield "Keep to:"
            yield from (f"- {words}" for words in self.constraints)
        if tried := self.tried[:TRIED_SHOWN]:
            yield "Tried already, do not repeat:"
            yield from (f"- {words}" for words in tried)
        if self.is_warning:
            yield self._warning()

    def _compact(self) -> Iterator[str]:
        yield f"Goal: {one_line(self.goal, 2 * _SHORT) or '(not given)'}"
        state = filter(None, (self._progress(), one_line(self._focus(), _SHORT)))
        if words := ", now: ".join(state):
            yield f"Progress: {words}" if self._progress() else f"Now: {words}"
        if self.constraints:
            yield "Keep to: " + "; ".join(one_line(words, _SHORT) for words in self.constraints[:3])
        if tried := self.tried[:2]:
            yield "Do not repeat: " + "; ".join(one_line(words, _SHORT) for words in tried)
        if self.is_warning:
            yield self._warning()

    def _minimal(self) -> Iterator[str]:
        yield f"Goal: {one_line(self.goal, _SHORT) or '(not given)'}"
        if focus := self._focus():
            yield f"Now: {one_line(focus, _SHORT)}"

    def _warning(self) -> str:
        drift = percent(self._state.drift or 0.0)
        return f"Warning: you are drifting ({drift}). Your next step must serve this goal."

    def _progress(self) -> str:
        tree = self.tree
        if tree is not None and tree.has_plan:
            done = sum(leaf.status.is_done for leaf in tree.leaves)
            return f"{percent(tree.progress)}, {done} of {len(tree.leaves)} steps"
        return "" if self._state.progress is None else percent(self._state.progress)

    def _focus(self) -> str:
        focus = self.tree.focus if self.tree is not None else None
        return focus.description if focus is not None else ""


def _turn(turn: Any) -> int:
    """A turn's number; what is none counts as the first, which says the most."""
    return turn if isinstance(turn, int) and not isinstance(turn, bool) and turn > 0 else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value <= 1.0
