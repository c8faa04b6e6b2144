"""How often one call may be made again with the same result before it is a loop."""

from typing import Final

from steadyhelm.loops.call_memory import RepeatedCall
from steadyhelm.loops.loop_detector import SCORE_WITHOUT_RESULTS, LoopMatch
from steadyhelm.loops.steps import ToolStep, is_status_look

REPEATS_IN_A_ROW: Final = 3
REPEATS_SPREAD_OUT: Final = 4
REPEATS_WITHOUT_RESULTS: Final = 4
REPEATS_IN_OUTAGE: Final = 8


def judge_repeat(
    step: ToolStep,
    seen: RepeatedCall,
    patience: int | None,
    *,
    had_news: bool,
    is_between_items: bool,
    is_patient: bool,
) -> LoopMatch | None:
    """Return the match of a call made again with the same result; it is a loop from a usual number on.

    `had_news` says that results were new in between, `is_between_items` that the call comes between items,
    `is_patient` that it failed and was tried again after pauses made on purpose.
    """
    outcome, name = step.outcome, step.event.action_name
    if step.event.tool_kind == "schedule" or is_on_schedule(step, seen):
        return None
    is_in_a_row = seen.in_a_row == seen.count
    if outcome.outage or is_patient:
        enough = REPEATS_IN_OUTAGE
        if seen.count < enough:
            return None
    elif patience is not None:
        enough = patience if is_in_a_row else patience + 1
    elif not outcome.known:
        enough = REPEATS_WITHOUT_RESULTS
    else:
        enough = REPEATS_IN_A_ROW if is_in_a_row and not seen.is_deed else REPEATS_SPREAD_OUT
    # Between new results a status is looked at again, and a start made anew, without going in circles.
    is_status = (
        had_news
        and not outcome.failed
        and not is_in_a_row
        and (step.kind == "work" or outcome.says_success or is_status_look(step.event))
    )
    how = "in a row" if is_in_a_row else "without new work between"
    return LoopMatch(
        pattern="repetition" if is_in_a_row else "slow loop",
        count=seen.count,
        patience=enough,
        event_ids=tuple(seen.ids),
        sequence=(name,),
        message=f"{name} called {seen.count} times {how} with the same arguments{_name_result(step)}",
        noticed_only=is_status or is_between_items or step.event.tool_kind == "idempotent",
        most=SCORE_WITHOUT_RESULTS if seen.is_deed or not outcome.known else 1.0,
        declare="idempotent" if is_status else "",
    )


def is_on_schedule(step: ToolStep, seen: RepeatedCall) -> bool:
    """Return whether a call is made at even, long intervals, without failing."""
    return not step.outcome.failed and seen.times.is_schedule(slept=False)


def _name_result(step: ToolStep) -> str:
    outcome = step.outcome
    if not outcome.known:
        return ", results not seen"
    return " and the same error" if outcome.failed else " and the same result"
