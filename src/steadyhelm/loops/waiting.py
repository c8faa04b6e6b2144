"""How long an agent may wait: by the time that has passed and the number of looks, never by one alone."""

from typing import Final

from msgspec import Struct, field

POLLS_OF_LOOP: Final = 25
WAIT_OF_LOOP_S: Final = 600.0
POLLS_WITHOUT_TIMES: Final = 10
LONG_CALL_MS: Final = 240_000
"""A call that takes so long waits itself: the time is a pause, and no work."""

_USUAL_FACTOR: Final = 3.0
_MAX_TOOLS: Final = 16
_SCHEDULE_MIN_S: Final = 240.0
_SLEPT_SCHEDULE_MIN_S: Final = 60.0
_MAX_UNEVENNESS: Final = 1.25
_MAX_STEPS_ON_SCHEDULE: Final = 12
_MAX_SLEPT_UNEVENNESS: Final = 2.0
_TOLD_PAUSE_S: Final = 3.0
_STATUS_PAUSE_S: Final = 15.0
_MAX_PACE_UNEVENNESS: Final = 1.6
_EVEN_PACES: Final = ((15.0, 1.05), (20.0, 1.15))
"""The shortest pause, and how uneven the pauses may be, of an agent that sleeps: thinking is less even."""
_EXACT_UNEVENNESS: Final = 1.03
_GROWTH: Final = 1.8
_IDLE_SHARE: Final = 0.8
_THOUGHT_PACE: Final = (10.0, 1.3)
"""The same where the time spent thinking is known, and no part of the pauses."""


class UsualWaits(Struct):
    """How long each tool was waited for until its answer changed, the longest time in seconds.

    `longest_s` is that of this run, `usual_s` that of the agent's runs before it.
    """

    longest_s: dict[str, float] = field(default_factory=dict)
    usual_s: dict[str, float] = field(default_factory=dict)

    def record(self, tool: str, waited_s: float) -> None:
        """Record that a tool's answer changed after this time."""
        longest = max(waited_s, self.longest_s.pop(tool, 0.0))
        self.longest_s[tool] = longest
        if len(self.longest_s) > _MAX_TOOLS:
            del self.longest_s[next(iter(self.longest_s))]

    def is_too_long(self, tool: str, polls: int, waited_s: float) -> bool:
        """Return whether so many polls in so much time are more than waiting, for this tool."""
        if waited_s <= 0.0:
            return polls >= POLLS_WITHOUT_TIMES  # the run has no times: the number alone is known
        usual_s = max(self.longest_s.get(tool, 0.0), self.usual_s.get(tool, 0.0))
        return polls >= POLLS_OF_LOOP and waited_s >= max(WAIT_OF_LOOP_S, _USUAL_FACTOR * usual_s)


class Intervals(Struct):
    """The intervals at which one call was made: the last time, and the shortest and longest pause.

    `busy_s` is how long the run had worked and thought by then: that is no pause. `every_s` and `until_s` are
    the shortest and the longest time from one of these calls to the next, the pause and all; `grows` is
    whether each pause so far was much longer than the one before, and `latest_s` the latest.
    """

    first_at: float
    last_at: float
    busy_s: float = 0.0
    shortest_s: float = -1.0
    longest_s: float = 0.0
    every_s: float = -1.0
    until_s: float = 0.0
    latest_s: float = 0.0
    grows: bool = True

    def record(self, at: float, busy_s: float, steps_between: int = 0) -> None:
        """Record that the call was made again, after the run had been busy for so long in all.

        An agent that did much else in between has not paused.
        """
        after_s = at - self.last_at
        self.every_s = after_s if self.every_s < 0 else min(self.every_s, after_s)
        self.until_s = max(self.until_s, after_s)
        pause_s = max(0.0, after_s - (busy_s - self.busy_s))
        self.grows = self.grows and pause_s >= _GROWTH * self.latest_s
        self.latest_s = pause_s
        if steps_between > _MAX_STEPS_ON_SCHEDULE:
            pause_s = 0.0
        self.shortest_s = pause_s if self.shortest_s < 0 else min(self.shortest_s, pause_s)
        self.longest_s = max(self.longest_s, pause_s)
        self.last_at, self.busy_s = at, busy_s

    def is_schedule(self, *, slept: bool) -> bool:
        """Return whether the call is made at even intervals too long for an agent that merely goes on.

        `slept` says that the agent waited on purpose in between: then shorter intervals are a schedule too.
        """
        least_s = _SLEPT_SCHEDULE_MIN_S if slept else _SCHEDULE_MIN_S
        most = _MAX_SLEPT_UNEVENNESS if slept else _MAX_UNEVENNESS
        return self.shortest_s >= least_s and self.longest_s <= most * self.shortest_s

    def is_paced(self, *, is_told: bool) -> bool:
        """Return whether the pauses are about as long as each other, and long enough."""
        least_s = _TOLD_PAUSE_S if is_told else _STATUS_PAUSE_S
        return self.shortest_s >= least_s and self.longest_s <= _MAX_PACE_UNEVENNESS * self.shortest_s

    def is_even(self, *, thinks: bool) -> bool:
        """Return whether the pauses are those of an agent that sleeps in between.

        `thinks` says that the time spent thinking is known.
        """
        paces = (*_EVEN_PACES, _THOUGHT_PACE) if thinks else _EVEN_PACES
        return any(
            self.shortest_s >= least and self.longest_s <= most * self.shortest_s for least, most in paces
        )

    @property
    def paused_s(self) -> float:
        """The shortest pause where they are exactly even, or each much longer than the one before; else 0.

        Thinking does not take such times. Two calls alone, with one pause between them, cannot tell.
        """
        if self.until_s <= 0.0 or self.last_at - self.first_at <= self.until_s:
            return 0.0
        if self.shortest_s >= _IDLE_SHARE * self.every_s and (
            self.grows or self.until_s <= _EXACT_UNEVENNESS * self.every_s
        ):
            return self.every_s  # by the clock, however long each call took
        return self.shortest_s if self.longest_s <= _EXACT_UNEVENNESS * self.shortest_s else 0.0

    @property
    def waited_s(self) -> float:
        """The seconds from the first of these calls to the last."""
        return self.last_at - self.first_at
