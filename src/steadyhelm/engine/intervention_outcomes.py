"""The interventions of one run and their outcomes: worked, ignored, worse or unknown."""

from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.decisions import DriftAction, Outcome
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.policy.outcomes import Trial
from steadyhelm.policy.response_levels import LastResponse

CORRECTION: Final = "correction"
"""The kind of drift that only a user's message shows, and only the next one can judge."""


class JudgedIntervention(NamedTuple):
    """The outcome of the latest intervention against one kind of drift, and the tokens it saved."""

    kind: str
    outcome: Outcome
    tokens_saved: int | None = None


class RunningTrial(Struct, array_like=True):
    """An intervention whose outcome is open, with the tokens each step of its incident had cost."""

    trial: Trial
    tokens_a_step: float = 0.0


class InterventionOutcomes(Struct):
    """The latest intervention against each kind of drift, and those whose outcome is still open."""

    answered: dict[str, LastResponse] = field(default_factory=dict)
    running: dict[str, RunningTrial] = field(default_factory=dict)

    def begin(self, kind: str, action: DriftAction, event: TraceEvent, tokens_a_step: float) -> Trial:
        """Start to judge an intervention made at this event."""
        counts = event.action_type if event.action_type in {TOOL_CALL, LLM_REQUEST} else TOOL_CALL
        trial = Trial(seq=event.seq, counts=counts)
        self.running[kind] = RunningTrial(trial, tokens_a_step)
        self.answered[kind] = LastResponse(action, going_on=True)
        return trial

    def restart(self, kind: str, action: DriftAction, event: TraceEvent) -> None:
        """Judge an intervention by what follows this event: it was delivered only now."""
        before = self.running.get(kind)
        trial = self.begin(kind, action, event, 0.0 if before is None else before.tokens_a_step)
        if before is not None:
            trial.counts, trial.window = before.trial.counts, before.trial.window

    def judge(self, event: TraceEvent, seen: Collection[str], *, begins: bool) -> list[JudgedIntervention]:
        """Return the interventions whose outcome this event decides.

        `seen` are the kinds of drift it shows; `begins` is True when one of them is new.
        """
        if event.action_type == USER_MESSAGE:
            return [self.settle(kind, _judge_by_user(kind, seen)) for kind in list(self.running)]
        judged = []
        for kind, on_trial in list(self.running.items()):
            trial = on_trial.trial
            if kind == CORRECTION or not trial.is_after(event.started_seq):
                continue
            if event.action_type != trial.counts and not begins:
                continue
            outcome = trial.record_step(returned=kind in seen, other=begins)
            if outcome is not None:
                judged.append(self.settle(kind, outcome))
        return judged

    def record_ignored(self, kind: str) -> list[JudgedIntervention]:
        """Record that the agent asked for a refused call again; return the outcome if that decides it."""
        outcome = self.running[kind].trial.record_step(returned=True)
        return [self.settle(kind, outcome)] if outcome is not None else []

    def settle(self, kind: str, outcome: Outcome) -> JudgedIntervention:
        """Set the outcome of the intervention against this kind of drift."""
        tried = self.running.pop(kind)
        # After a user's message the ladder starts again with a reminder.
        self.answered[kind] = LastResponse(self.answered[kind].action, outcome, outcome != "unknown")
        saved = round(tried.tokens_a_step * tried.trial.window) if outcome == "worked" else 0
        return JudgedIntervention(kind, outcome, saved or None)

    def lengthen(self, steps: int) -> None:
        """Wait for more steps: after a rollback the agent repeats steps that decide nothing."""
        for on_trial in self.running.values():
            on_trial.trial.window += steps

    def drop(self, kind: str) -> None:
        """Forget an intervention that was not carried out: it has no outcome."""
        self.running.pop(kind, None)

    def close(self, kind: str) -> None:
        """Note that the incident of this kind is closed; the next one starts with a reminder."""
        if kind in self.answered:
            self.answered[kind] = self.answered[kind]._replace(going_on=False)

    def predict_answers(self, call: TraceEvent, kinds: Collection[str]) -> dict[str, LastResponse]:
        """Return the latest answers as they would be if this call were made and showed these kinds."""
        answered = dict(self.answered)
        for kind in kinds:
            tried = self.running.get(kind)
            if tried is not None and tried.trial.is_after(call.started_seq) and tried.trial.is_last_chance:
                answered[kind] = answered[kind]._replace(outcome="ignored")
        return answered

    def settle_at_end(self, kind: str) -> JudgedIntervention:
        """Set the outcome of an intervention that is still open when the run ends."""
        outcome = "unknown" if kind == CORRECTION else self.running[kind].trial.final_outcome()
        return self.settle(kind, outcome)


def _judge_by_user(kind: str, seen: Collection[str]) -> Outcome:
    """Return the outcome of an intervention when the user's next message arrives."""
    if kind == CORRECTION:
        return "ignored" if kind in seen else "worked"
    # What happens now has more than one cause.
    return "unknown"
