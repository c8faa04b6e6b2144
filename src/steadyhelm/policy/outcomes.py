"""Judge whether an intervention helped, by the steps that follow it."""

from typing import Final

from msgspec import Struct

from steadyhelm.decisions import Outcome

TRIAL_STEPS: Final = 8
"""Steps of the agent without the same drift after which an intervention has worked."""

RETURNS_UNTIL_IGNORED: Final = 2
"""Steps with the same drift after which it was ignored: the first may have been under way already."""

EXPECTED_CHANGES: Final = {
    "loop": "the same steps do not come back",
    "goal": "the next replies are about the goal again",
    "resource": "the run comes to an end, or spends less",
    "style": "the next replies are as they should be",
    "correction": "the user has no more to correct",
    "transition": "the agent goes back to its usual ways",
}


class Trial(Struct):
    """An intervention whose outcome is not known yet.

    `seq` is where it was delivered, `counts` the type of step the drift showed in: only such steps count.
    `quiet` counts those since the same drift was last seen, `returns` how often it was seen again.
    """

    seq: int
    counts: str
    window: int = TRIAL_STEPS
    quiet: int = 0
    returns: int = 0

    def is_after(self, started_seq: int | None) -> bool:
        """Return whether a step began after the intervention; a call under way could not follow it."""
        return started_seq is None or started_seq > self.seq

    @property
    def is_last_chance(self) -> bool:
        """Whether the intervention counts as ignored if the same drift is seen once more."""
        return self.returns + 1 >= RETURNS_UNTIL_IGNORED

    def final_outcome(self) -> Outcome:
        """Return the outcome if the run ends now: half the usual steps are enough, fewer are not."""
        return "worked" if 2 * self.quiet >= TRIAL_STEPS else "unknown"

    def record_step(self, *, returned: bool, other: bool = False) -> Outcome | None:
        """Record one step after the intervention, and return the outcome once it is known.

        `returned` says that the same drift was seen at this step, `other` that drift of another kind began:
        then the intervention did more harm than good.

        >>> trial = Trial(seq=4, counts="tool_call")
        >>> [trial.record_step(returned=returned) for returned in (True, False, True)]
        [None, None, 'ignored']
        """
        if other:
            return "worse"
        if not returned:
            self.quiet += 1
            return "worked" if self.quiet >= self.window else None
        self.quiet = 0
        self.returns += 1
        return "ignored" if self.returns >= RETURNS_UNTIL_IGNORED else None
