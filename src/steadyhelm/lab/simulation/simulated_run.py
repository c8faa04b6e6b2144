"""Simulate a policy on one recorded run."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from steadyhelm.decisions import DriftAction, Outcome, Verdict
from steadyhelm.engine.drift_findings import BUDGET
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.lab.evaluation.evaluator import ShownEvent, show_events_around
from steadyhelm.lab.evaluation.expectations import NOT_LABELLED
from steadyhelm.lab.evaluation.scoring import RunScore
from steadyhelm.lab.simulation.ground_truth import RunTruth, SetTruth, read_run_truth
from steadyhelm.policy.response_levels import DRIFT_SCORE
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Judge, Judged, Replay, find_steps_after

REPLAN_LEVEL: Final = DriftAction.SUMMARIZE_REPLAN
"""From this response level on a run is re-planned or stopped; below it, it is only reminded."""

_PASSING_VERDICTS: Final[frozenset[Verdict]] = frozenset({"proceed", "guide"})
_USED_UP_SCORE: Final = 1.0


class ReachedLevel(Struct, frozen=True, kw_only=True):
    """A response level, reached for the first time, and what caused it.

    `place` counts the run's steps from 0, `at` is the entry in its own `events` list.
    """

    action: DriftAction
    verdict: Verdict
    place: int
    at: int
    by: str
    message: str


class Refusal(Struct, frozen=True, kw_only=True):
    """A call that would have been blocked before it was made."""

    at: int
    verdict: Verdict
    message: str


class BudgetEnd(Struct, frozen=True, kw_only=True):
    """The entry at which a run's budget would have been used up, and what of the run came after it."""

    run_id: str
    at: int
    message: str
    steps_left: int
    tokens_left: int | None


class SimulatedRun(Struct, frozen=True, kw_only=True):
    """One run: what is known about it, and what the policy would have done.

    `tokens` is None where none were recorded, `tokens_saved` also where nothing was stopped.
    `outcomes` counts interventions by action and outcome, `first_outcomes` the first of each incident;
    `events_shown` are the events around the strongest one.
    """

    run_id: str
    truth: RunTruth
    steps: int
    tokens: int | None
    tokens_saved: int | None
    has_durations: bool
    has_costs: bool
    reached: list[ReachedLevel]
    refusals: list[Refusal]
    outcomes: dict[tuple[DriftAction, Outcome], int]
    first_outcomes: dict[Outcome, int]
    budget_end: BudgetEnd | None
    events_shown: list[ShownEvent]

    def find_level(self, action: DriftAction) -> ReachedLevel | None:
        """Return the first response of this level or above; None when there was none."""
        return next((it for it in self.reached if it.action.level >= action.level), None)

    def delay(self, action: DriftAction) -> int | None:
        """Return the steps from the first evidence of the loop to that response; below 0 it came before."""
        answer, evidence = self.find_level(action), self.truth.evidence
        return None if answer is None or evidence is None else answer.place - evidence


def simulate_run(run: ReadRun, judge: Judge, known: SetTruth) -> SimulatedRun:
    """Replay one run, asking before every call as a host would, and return the summary."""
    replay = judge.begin(run.info)
    refusals = _replay(run, replay)
    judged = replay.end(run)
    tokens = sum(event.token_count for event in run.events) or None
    return SimulatedRun(
        run_id=run.info.run_id,
        truth=read_run_truth(run, known),
        steps=_count_steps(run.events),
        tokens=tokens,
        tokens_saved=None if tokens is None else judged.report.tokens_saved,
        has_durations=any(event.duration_ms > 0 for event in run.events),
        has_costs=any(event.cost_usd is not None for event in run.events),
        reached=_list_levels(judged),
        refusals=refusals,
        outcomes=Counter((it.action, it.outcome) for one in judged.incidents for it in one.interventions),
        first_outcomes=Counter(one.interventions[0].outcome for one in judged.incidents if one.interventions),
        budget_end=_find_budget_end(judged, tokens),
        events_shown=_show_strongest(judged),
    )


def _replay(run: ReadRun, replay: Replay) -> list[Refusal]:
    """Record the run event by event and return the calls that would have been blocked beforehand."""
    issued: dict[int, list[TraceEvent]] = {}
    for event in run.events:
        if event.action_type == TOOL_CALL:
            when = event.seq if event.started_seq is None else event.started_seq
            issued.setdefault(when, []).append(event)
    refusals = []
    for event in run.events:
        for call in issued.get(event.seq, ()):
            decision = replay.foresee(call)
            if decision.verdict not in _PASSING_VERDICTS:
                message = decision.findings[0].message if decision.findings else ""
                refusals.append(Refusal(at=int(call.event_id), verdict=decision.verdict, message=message))
        replay.observe(event)
    return refusals


def _list_levels(judged: Judged) -> list[ReachedLevel]:
    events = judged.run.events
    return [
        ReachedLevel(
            action=answer.action,
            verdict=answer.verdict,
            place=answer.place,
            at=int(events[answer.place].event_id),
            by=_get_cause(answer.finding),
            message=answer.finding.message if answer.finding is not None else "",
        )
        for answer in judged.answers
    ]


def _get_cause(finding: FindingReport | None) -> str:
    if finding is None:
        return ""
    return finding.detector if finding.detector in {DRIFT_SCORE, BUDGET} else finding.kind


def _find_budget_end(judged: Judged, tokens: int | None) -> BudgetEnd | None:
    """Return the entry at which the budget was used up, if the agent took any step after it."""
    used_up = (it for it in judged.report.findings if it.detector == BUDGET and it.score >= _USED_UP_SCORE)
    first = next(used_up, None)
    if first is None:
        return None
    events = judged.run.events
    place = next(i for i, event in enumerate(events) if int(event.event_id) == first.at)
    steps_left = _count_steps(events[place + 1 :])
    if not steps_left:
        return None
    left = sum(event.token_count for event in find_steps_after(events, place))
    return BudgetEnd(
        run_id=judged.run.info.run_id,
        at=first.at,
        message=first.message,
        steps_left=steps_left,
        tokens_left=None if tokens is None else left,
    )


def _count_steps(events: Iterable[TraceEvent]) -> int:
    return sum(event.action_type in {TOOL_CALL, LLM_REQUEST} for event in events)


def _show_strongest(judged: Judged) -> list[ShownEvent]:
    """Return the events around the strongest response, for review."""
    answer = judged.answers[-1] if judged.answers else None
    if answer is None or answer.finding is None:
        return []
    return show_events_around(RunScore(run=judged.run, expected=NOT_LABELLED, found=[answer.finding]))
