"""From findings to a decision: which response they call for, and whether there is anything new to say."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from steadyhelm.decisions import Decision, DriftAction, Verdict
from steadyhelm.engine.drift_state import DriftState
from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.totals import Totals
from steadyhelm.fatigue import Fatigue
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.goals.plan_tracker import PlanTracker, describe_plan
from steadyhelm.policy.guidance import write_guidance
from steadyhelm.policy.response_levels import LastResponse, Response, respond


def choose_response(
    findings: Sequence[DriftEvent],
    drift: DriftState,
    answered: Mapping[str, LastResponse],
    chronic: Collection[str] = (),
) -> Response:
    """Return the response to findings, by the latest answers; `chronic` are kinds that keep coming back."""
    if drift.is_exhausted:
        return Response(DriftAction.ASK_USER, certain=True, reasons=("the budget is used up",))
    return respond(findings, answered, by_score=drift.action, chronic=chronic)


def make_decision(
    response: Response,
    findings: Sequence[DriftEvent],
    verdicts: tuple[Verdict, Verdict | None],
    drift: DriftState,
    incidents: IncidentTracker,
    plan: PlanTracker,
) -> Decision:
    """Return the decision with its guidance; `verdicts` are the verdict and, if another, the wanted one."""
    kinds = {finding.kind for finding in findings if finding.severity is not Severity.LOW}
    words = write_guidance(
        response.action,
        findings,
        drift.goal,
        wordings=drift.steering.wordings,
        tried=incidents.past_messages(findings),
        user_words=drift.user_words,
        plan=describe_plan(plan, drift.goal, response.action, kinds),
        is_blocked=verdicts[0] == "deny",
    )
    decision = Decision(
        action=response.action,
        verdict=verdicts[0],
        wanted=verdicts[1],
        guidance=words.text,
        wording=words.wording,
        findings=tuple(findings),
    )
    return drift.explain(decision, response)


def is_news(
    findings: Sequence[DriftEvent],
    action: DriftAction,
    seq: int,
    incidents: IncidentTracker,
    fatigue: Fatigue,
    totals: Totals,
) -> bool:
    """Return whether to intervene again: the action is stronger, or the last one is long enough ago."""
    for finding in findings:
        if finding.severity is Severity.LOW:
            continue
        incident = incidents.open.get(finding.kind)
        if incident is None or not incident.interventions:
            return True
        last = incident.interventions[-1]
        since = totals.count_events(last.seq, seq)
        if action.level > last.action.level or since > fatigue.cooldown(pattern_of(finding)):
            return True
    return False


def pattern_of(finding: DriftEvent) -> str:
    """Return what a finding is an instance of: its detector with the pattern, if it has one."""
    return f"{finding.detector}/{finding.context.get('pattern', '')}"


def read_action(name: Any) -> DriftAction:
    """Return the action a caller says it followed; a refusal without one counts as a new plan."""
    try:
        return DriftAction(name)
    except ValueError:
        return DriftAction.SUMMARIZE_REPLAN
