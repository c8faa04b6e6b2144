"""Did an answer help? Each is tried over the steps that follow it, and judged by what came back."""

from typing import Final

from msgspec import Struct

from steadyhelm.decisions import Outcome

WINDOW: Final = 8
"""Steps of the agent without the same drift after which an answer has worked."""

CHANCES: Final = 2
"""Steps with the same drift after which it was ignored: the first may have been under way already."""

EXPECTED: Final = {
    "loop": "the same steps do not come back",
    "goal": "the next replies are about the goal again",
    "resource": "the run comes to an end, or spends less",
    "style": "the next replies are as they should be",
    "correction": "the user has no more to correct",
    "transition": "the agent goes back to its usual ways",
}


class Trial(Struct):
    """An answer that is being tried.

    `seq` is where it was given, `counts` the type of step the drift showed in: only such steps can be quiet.
    `quiet` counts those since the same drift was last seen, `returns` how often it was seen again.
    """

    seq: int
    counts: str
    window: int = WINDOW
    quiet: int = 0
    returns: int = 0

    def heard(self, started_seq: int | None) -> bool:
        """Whether a step was taken after the answer was given: a call already under way could not heed it."""
        return started_seq is None or started_seq > self.seq

    @property
    def is_last_chance(self) -> bool:
        """Whether the answer counts as ignored if the same drift is seen once more."""
        return self.returns + 1 >= CHANCES

    def at_the_end(self) -> Outcome:
        """What came of it if the run ends now: half the usual steps will do, fewer say nothing."""
        return "worked" if 2 * self.quiet >= WINDOW else "unknown"

    def note(self, *, returned: bool, other: bool = False) -> Outcome | None:
        """Take in one step of the agent that heard the answer; gives the outcome once it is known.

        `returned` says that the same drift was seen at this step, `other` that drift of another kind began:
        then the answer did more harm than good.

        >>> trial = Trial(seq=4, counts="tool_call")
        >>> trial.note(returned=True), trial.note(returned=False), trial.note(returned=True)
        (None, None, 'ignored')
        """
        if other:
            return "worse"
        if not returned:
            self.quiet += 1
            return "worked" if self.quiet >= self.window else None
        self.quiet = 0
        self.returns += 1
        return "ignored" if self.returns >= CHANCES else None
