"""Whether the user will have to correct a turn, judged at its end and by nothing after it."""

from collections.abc import Mapping
from typing import Any

from steadyhelm.corrections.outlook import outlook_of
from steadyhelm.corrections.turns import TurnEnd, turn_end
from steadyhelm.corrections.weights import shipped


def foresee_correction(
    *,
    prompt_before: str = "",
    assistant_before: str = "",
    tool_calls: int = 0,
    tool_errors: int = 0,
    turn: int = 0,
    run: Mapping[str, Any] | None = None,
    event: int | None = None,
) -> float:
    """How probable it is that the user's next message corrects this turn.

    Args:
        prompt_before: What the user had asked; its beginning is looked at.
        assistant_before: What the agent said last; its end is looked at.
        tool_calls: How many tools it called since the prompt.
        tool_errors: How many of those calls failed.
        turn: The number of the message that follows: those the user has sent so far, and one.
        run: The run as a run file has it; fills in whatever was not given.
        event: Where in the run's events the user's next message stands or will stand; nothing from there on
            is looked at. None means after the last event; what is no whole number, that nothing is known.

    >>> asking = foresee_correction(assistant_before="Option A is simpler. Or would you prefer B?")
    >>> asking < foresee_correction(assistant_before="Done. It should now work.", tool_calls=9, tool_errors=2)
    True
    """
    known = turn_end(run, event) if run is not None else TurnEnd()
    numbers = outlook_of(
        prompt_before=prompt_before or known.prompt,
        assistant_before=assistant_before or known.answer,
        tool_calls=tool_calls or known.calls,
        tool_errors=tool_errors or known.errors,
        turn=turn or known.turn,
    )
    return shipped().outlook.shares(numbers)["correction"]
