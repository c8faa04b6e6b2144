"""Simulate a policy on one recorded run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from steadyhelm.decisions import DriftAction, Outcome, Verdict
from steadyhelm.engine.drift_findings import BUDGET
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.lab.evaluation.evaluator import ShownEvent, show_events_around
from steadyhelm.lab.evaluation.labelled_runs import (
    NOT_LABELLED,
    OUTCOMES,
    LabelQuestion,
    has_label,
    read_expectation,
)
from steadyhelm.lab.evaluation.scoring import RunScore, find_first_three_equal_calls
from steadyhelm.policy.response_levels import DRIFT_SCORE
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, JudgedReplay, Replay, Replayer, find_steps_after

# Decide which recorded runs loop and which are healthy, from labels or a plain rule.

_LOOP: Final = LabelQuestion()
SUCCESS: Final = "success"

HealthReason = Literal["succeeded", "unjudged", ""]


class SetTruth(Struct, frozen=True, kw_only=True):
    """What is known about the runs of a set as a whole.

    `loops_from` is whether labels or a plain rule define its loops, `definition` the same in words;
    `is_used` that some run carries a label for loops, `has_outcomes` that some run says how it ended.
    """

    loops_from: Literal["label", "rule"]
    definition: str
    is_used: bool
    has_outcomes: bool

    @property
    def is_unjudged(self) -> bool:
        """Whether nothing is known about these runs: they are then treated as healthy."""
        return not self.has_outcomes and self.loops_from == "rule"


class RunTruth(Struct, frozen=True, kw_only=True):
    """What is known about one run, independent of any policy.

    `evidence` is the step at which its loop first shows, None where it has none or its place is not labelled.
    `healthy_because` is why it should get no response: it succeeded, or no run of its set is judged.
    `repeats` is whether any label says loop, or three equal calls in a row had equal results.
    """

    outcome: str
    is_looping: bool
    evidence: int | None
    healthy_because: HealthReason
    repeats: bool

    @property
    def is_healthy(self) -> bool:
        """Whether the run should get no response."""
        return bool(self.healthy_because) and not self.repeats


def read_set_truth(runs: Sequence[ReadRun]) -> SetTruth:
    """Return how the loops of a set are known, and whether any run has an outcome."""
    is_used = has_label(runs, _LOOP.label)
    marked = [run for run in runs if read_expectation(run, _LOOP, is_used=is_used).run]
    by_people = [run for run in marked if not _is_from_detector(_find_loop_marks(run))]
    loops_from: Literal["label", "rule"] = "label" if by_people else "rule"
    if by_people:
        derived = any(mark.get("derived") for run in by_people for mark in _find_loop_marks(run))
        words = "labelled as a loop" + (", derived from what annotators wrote" if derived else "")
    else:
        words = "three equal calls in a row with equal results"
        words += "; its labels come from another detector" if marked else "; no loops are labelled"
    has_outcomes = any(run.outcome in OUTCOMES for run in runs)
    return SetTruth(loops_from=loops_from, definition=words, is_used=is_used, has_outcomes=has_outcomes)


def read_run_truth(run: ReadRun, known: SetTruth) -> RunTruth:
    """Return what is known about a run of this set."""
    expected = read_expectation(run, _LOOP, is_used=known.is_used)
    triple = find_first_three_equal_calls(run.events)
    if known.loops_from == "label":
        is_looping, first = bool(expected.run), expected.first
        first = expected.at_most if first is None else first
    else:
        # The second of them is the first that repeats, which is also where people put their labels.
        is_looping, first = triple is not None, None if triple is None else triple.second
    return RunTruth(
        outcome=run.outcome if run.outcome in OUTCOMES else "",
        is_looping=is_looping,
        evidence=_find_step(run, first) if is_looping and first is not None else None,
        healthy_because="succeeded" if run.outcome == SUCCESS else "unjudged" if known.is_unjudged else "",
        repeats=triple is not None or bool(expected.run) or bool(_find_loop_marks(run)),
    )


def _find_loop_marks(run: ReadRun) -> list[dict[str, Any]]:
    return [mark for mark in run.labels if isinstance(mark, dict) and mark.get("kind") == _LOOP.label]


def _is_from_detector(marks: Sequence[dict[str, Any]]) -> bool:
    """Return whether all labels come from another detector: agreeing with it proves nothing."""
    return bool(marks) and all(str(mark.get("by", "")).endswith("detector") for mark in marks)


def _find_step(run: ReadRun, entry: int) -> int:
    """Return the step of an entry: the one that began with it, or the last before it."""
    begun = [(int(event.event_id), place) for place, event in enumerate(run.events)]
    return max((pair for pair in begun if pair[0] <= entry), default=(0, 0))[1]


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


def simulate_run(known: SetTruth, replayer: Replayer, run: ReadRun) -> SimulatedRun:
    """Replay one run, asking before every call as a host would, and return the summary."""
    replay = replayer.begin(run.info)
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


def _list_levels(judged: JudgedReplay) -> list[ReachedLevel]:
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


def _find_budget_end(judged: JudgedReplay, tokens: int | None) -> BudgetEnd | None:
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


def _show_strongest(judged: JudgedReplay) -> list[ShownEvent]:
    """Return the events around the strongest response, for review."""
    answer = judged.answers[-1] if judged.answers else None
    if answer is None or answer.finding is None:
        return []
    return show_events_around(RunScore(run=judged.run, expected=NOT_LABELLED, found=[answer.finding]))
