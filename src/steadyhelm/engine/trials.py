"""The answers of one run: which was given last to each kind of drift, and what comes of those being tried."""

from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.decisions import DriftAction, Outcome
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.policy.ladder import Answered
from steadyhelm.policy.outcomes import Trial

CORRECTION: Final = "correction"
"""Drift that only the user can show, and only the user's next message can judge."""


class Judged(NamedTuple):
    """What came of the latest answer to one kind of drift, and the tokens it saved."""

    kind: str
    outcome: Outcome
    tokens_saved: int | None = None


class OnTrial(Struct, array_like=True):
    """An answer being tried, and what each step of its incident had cost when it was given."""

    trial: Trial
    tokens_a_step: float = 0.0


class Trials(Struct):
    """The latest answer to each kind of drift, also of incidents that are over, and those still on trial."""

    answered: dict[str, Answered] = field(default_factory=dict)
    running: dict[str, OnTrial] = field(default_factory=dict)

    def begin(self, kind: str, action: DriftAction, event: TraceEvent, tokens_a_step: float) -> Trial:
        """An answer was given at this event."""
        counts = event.action_type if event.action_type in {TOOL_CALL, LLM_REQUEST} else TOOL_CALL
        trial = Trial(seq=event.seq, counts=counts)
        self.running[kind] = OnTrial(trial, tokens_a_step)
        self.answered[kind] = Answered(action, going_on=True)
        return trial

    def judge(self, event: TraceEvent, seen: Collection[str], *, begins: bool) -> list[Judged]:
        """What this event says about the answers being tried.

        `seen` are the kinds of drift it shows; `begins` says that one of them was not there before.
        """
        if event.action_type == USER_MESSAGE:
            return [self.settle(kind, _by_a_user(kind, seen)) for kind in list(self.running)]
        judged = []
        for kind, on_trial in list(self.running.items()):
            trial = on_trial.trial
            if kind == CORRECTION or not trial.heard(event.started_seq):
                continue
            if event.action_type != trial.counts and not begins:
                continue
            outcome = trial.note(returned=kind in seen, other=begins)
            if outcome is not None:
                judged.append(self.settle(kind, outcome))
        return judged

    def ignored_once(self, kind: str) -> list[Judged]:
        """The same was wanted again, and refused."""
        outcome = self.running[kind].trial.note(returned=True)
        return [self.settle(kind, outcome)] if outcome is not None else []

    def settle(self, kind: str, outcome: Outcome) -> Judged:
        """The answer to this kind of drift was judged."""
        tried = self.running.pop(kind)
        # After a user's word it is another stretch, and begins gently.
        self.answered[kind] = Answered(self.answered[kind].action, outcome, outcome != "unknown")
        saved = round(tried.tokens_a_step * tried.trial.window) if outcome == "worked" else 0
        return Judged(kind, outcome, saved or None)

    def lengthen(self, steps: int) -> None:
        """The agent went back and walks the same steps again: they say nothing yet."""
        for on_trial in self.running.values():
            on_trial.trial.window += steps

    def drop(self, kind: str) -> None:
        """There is nothing to judge: the answer was not carried out."""
        self.running.pop(kind, None)

    def close(self, kind: str) -> None:
        """The incident of this kind is over; the next one begins anew."""
        if kind in self.answered:
            self.answered[kind] = self.answered[kind]._replace(going_on=False)

    def foreseen(self, call: TraceEvent, kinds: Collection[str]) -> dict[str, Answered]:
        """The latest answers as they would stand if this call were made and showed these kinds of drift."""
        answered = dict(self.answered)
        for kind in kinds:
            tried = self.running.get(kind)
            if tried is not None and tried.trial.heard(call.started_seq) and tried.trial.is_last_chance:
                answered[kind] = answered[kind]._replace(outcome="ignored")
        return answered

    def at_the_end(self, kind: str) -> Judged:
        """The run is over while this answer is being tried."""
        outcome = "unknown" if kind == CORRECTION else self.running[kind].trial.at_the_end()
        return self.settle(kind, outcome)


def _by_a_user(kind: str, seen: Collection[str]) -> Outcome:
    """What a user's message says about an answer to this kind of drift."""
    if kind == CORRECTION:
        return "ignored" if kind in seen else "worked"
    # Whatever happens now, it is not our answer alone that made it happen.
    return "unknown"
