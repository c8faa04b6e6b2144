"""What a policy would have done to one recorded run."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from steadyhelm.decisions import DriftAction, Outcome, Verdict
from steadyhelm.engine.drift_findings import BUDGET
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.lab.evaluation.excerpts import ShownEvent, around
from steadyhelm.lab.evaluation.expectations import NOBODY_SAID
from steadyhelm.lab.evaluation.scoring import RunScore
from steadyhelm.lab.simulation.truth import Known, Truth, truth_of
from steadyhelm.policy.response_levels import DRIFT_SCORE
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Judge, Judged, Replay, spared

STOPPING: Final = DriftAction.SUMMARIZE_REPLAN
"""From this rung on a run is re-planned or stopped; below it, it is only reminded."""

_LETS_PASS: Final[frozenset[Verdict]] = frozenset({"proceed", "guide"})
_USED_UP: Final = 1.0


class Reached(Struct, frozen=True, kw_only=True):
    """A rung of the ladder, reached for the first time, and what brought the run there.

    `place` counts the run's steps from 0, `at` is the entry in its own `events` list.
    """

    action: DriftAction
    verdict: Verdict
    place: int
    at: int
    by: str
    message: str


class Refusal(Struct, frozen=True, kw_only=True):
    """A call that would not have been let through before it was made."""

    at: int
    verdict: Verdict
    message: str


class RanOut(Struct, frozen=True, kw_only=True):
    """Where a run's budget would have been used up, and what of the run came after that."""

    run_id: str
    at: int
    message: str
    steps_left: int
    tokens_left: int | None


class SimulatedRun(Struct, frozen=True, kw_only=True):
    """One run: what is known about it, and what the policy would have done.

    `tokens` is None where none were recorded, `tokens_saved` also where nothing was stopped.
    `given` counts the answers by action and outcome, `first_given` the first of each incident by outcome;
    `shown` are the events around the strongest one.
    """

    run_id: str
    truth: Truth
    steps: int
    tokens: int | None
    tokens_saved: int | None
    has_durations: bool
    has_costs: bool
    reached: list[Reached]
    refusals: list[Refusal]
    given: dict[tuple[DriftAction, Outcome], int]
    first_given: dict[Outcome, int]
    ran_out: RanOut | None
    shown: list[ShownEvent]

    def reaches(self, action: DriftAction) -> Reached | None:
        """The answer that first stood on this rung or above; None when none did."""
        return next((it for it in self.reached if it.action.level >= action.level), None)

    def delay(self, action: DriftAction) -> int | None:
        """Steps from the first evidence of the loop to that answer; below 0 it came before."""
        answer, evidence = self.reaches(action), self.truth.evidence
        return None if answer is None or evidence is None else answer.place - evidence


def simulated(run: ReadRun, judge: Judge, known: Known) -> SimulatedRun:
    """Replay one run, asking before every call as a caller would, and sum up."""
    replay = judge.begin(run.info)
    refusals = _replayed(run, replay)
    judged = replay.end(run)
    tokens = sum(event.token_count for event in run.events) or None
    return SimulatedRun(
        run_id=run.info.run_id,
        truth=truth_of(run, known),
        steps=_steps(run.events),
        tokens=tokens,
        tokens_saved=None if tokens is None else judged.report.tokens_saved,
        has_durations=any(event.duration_ms > 0 for event in run.events),
        has_costs=any(event.cost_usd is not None for event in run.events),
        reached=_reached(judged),
        refusals=refusals,
        given=Counter((it.action, it.outcome) for one in judged.incidents for it in one.interventions),
        first_given=Counter(one.interventions[0].outcome for one in judged.incidents if one.interventions),
        ran_out=_ran_out(judged, tokens),
        shown=_shown(judged),
    )


def _replayed(run: ReadRun, replay: Replay) -> list[Refusal]:
    """Show the run event by event; gives the calls that would have been refused beforehand."""
    issued: dict[int, list[TraceEvent]] = {}
    for event in run.events:
        if event.action_type == TOOL_CALL:
            when = event.seq if event.started_seq is None else event.started_seq
            issued.setdefault(when, []).append(event)
    refusals = []
    for event in run.events:
        for call in issued.get(event.seq, ()):
            decision = replay.foresee(call)
            if decision.verdict not in _LETS_PASS:
                message = decision.findings[0].message if decision.findings else ""
                refusals.append(Refusal(at=int(call.event_id), verdict=decision.verdict, message=message))
        replay.observe(event)
    return refusals


def _reached(judged: Judged) -> list[Reached]:
    events = judged.run.events
    return [
        Reached(
            action=answer.action,
            verdict=answer.verdict,
            place=answer.place,
            at=int(events[answer.place].event_id),
            by=_cause(answer.finding),
            message=answer.finding.message if answer.finding is not None else "",
        )
        for answer in judged.answers
    ]


def _cause(finding: FindingReport | None) -> str:
    if finding is None:
        return ""
    return finding.detector if finding.detector in {DRIFT_SCORE, BUDGET} else finding.kind


def _ran_out(judged: Judged, tokens: int | None) -> RanOut | None:
    """Where the budget was used up, if the agent took any step after that."""
    used_up = (it for it in judged.report.findings if it.detector == BUDGET and it.score >= _USED_UP)
    first = next(used_up, None)
    if first is None:
        return None
    events = judged.run.events
    place = next(i for i, event in enumerate(events) if int(event.event_id) == first.at)
    steps_left = _steps(events[place + 1 :])
    if not steps_left:
        return None
    left = sum(event.token_count for event in spared(events, place))
    return RanOut(
        run_id=judged.run.info.run_id,
        at=first.at,
        message=first.message,
        steps_left=steps_left,
        tokens_left=None if tokens is None else left,
    )


def _steps(events: Iterable[TraceEvent]) -> int:
    return sum(event.action_type in {TOOL_CALL, LLM_REQUEST} for event in events)


def _shown(judged: Judged) -> list[ShownEvent]:
    """The events around the strongest answer, for people to judge it."""
    answer = judged.answers[-1] if judged.answers else None
    if answer is None or answer.finding is None:
        return []
    return around(RunScore(run=judged.run, expected=NOBODY_SAID, found=[answer.finding]))
