"""Decide when a question is asked about a run: a plain function of its events and findings."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.goals.tracker import GoalTracker
from steadyhelm.incidents import Incident
from steadyhelm.judge import FIXED_WEIGHT, JudgedReport, Question, name_pattern
from steadyhelm.judging.bands import MIN_STEPS_BETWEEN_LOOPS, GoalBand, LoopBand, is_reply_uncertain
from steadyhelm.judging.questions import (
    Redact,
    RunNotes,
    build_goal_question,
    build_loop_question,
    build_reply_question,
)
from steadyhelm.judging.severity_shifts import SeverityShifts, identify_call, is_certain

STEPS_UNTIL_LOST: Final = 100
"""Steps after which no answer to a question comes any more: the process that asked has ended."""

_SUBJECTS_KEPT: Final = 64
_LOWERED_KEYS: Final = frozenset({"lowered_because", "judged"})
"""What the context of a finding has when people or a judge have lowered it."""

GOAL_PATTERN: Final = name_pattern("goal", "", "goal_drift")


class RunFacts(NamedTuple):
    """What a session knows when an event was judged: the goal, the open incidents by kind, the verdicts."""

    goal: GoalTracker
    incidents: Mapping[str, Incident]
    shifts: SeverityShifts


class QuestionMemory(Struct):
    """What was asked about a run, by the number of steps the agent had taken then, and its latest steps.

    `waiting` are the subjects of questions without an answer. `weight` is how far verdicts are trusted in
    this run, whatever the setting is by now; None in a state from before it was kept.
    """

    notes: RunNotes = field(default_factory=RunNotes)
    asked: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    goal: GoalBand = field(default_factory=GoalBand)
    loop: LoopBand = field(default_factory=LoopBand)
    weight: float | None = None

    def drop_texts(self) -> "QuestionMemory":
        """Return it without what the run said: the next questions show the steps from then on."""
        return structs.replace(self, notes=self.notes.drop_texts())


class Questioner:
    """Raises the questions of one run.

    Args:
        redact: Returns a text without secrets.
        weight: How far verdicts are trusted, 0 to 1, unless the run was begun with another weight.
    """

    def __init__(self, redact: Redact, weight: float = FIXED_WEIGHT) -> None:
        self._redact = redact
        self.memory = QuestionMemory(weight=weight)

    def resume(self, memory: QuestionMemory) -> None:
        """Continue with what a suspended run remembers; verdicts are trusted as they were in it."""
        weight = self.memory.weight if memory.weight is None else memory.weight
        self.memory = structs.replace(memory, weight=weight)

    def observe(
        self, event: TraceEvent, findings: Sequence[DriftEvent], facts: RunFacts
    ) -> Sequence[Question]:
        """Note an event with its findings; return the questions it raises."""
        before = self.memory.notes.message_seq
        label = self.memory.notes.add(event)
        questions = [it for it in (self._ask_about_loop(event, findings, facts),) if it is not None]
        if label is not None and (question := self._ask_about_reply(event, label, facts, before)):
            questions.append(question)
        if question := self._ask_about_goal(event, findings, facts):
            questions.append(question)
        return questions

    def close(self, report: JudgedReport) -> None:
        """Note that a question was answered."""
        if report.subject in self.memory.waiting:
            self.memory.waiting.remove(report.subject)

    def _ask_about_loop(
        self, event: TraceEvent, findings: Sequence[DriftEvent], facts: RunFacts
    ) -> Question | None:
        memory = self.memory
        loops = [it for it in findings if it.kind == "loop" and not is_certain(it)]
        is_noticed = any(not _LOWERED_KEYS & it.context.keys() for it in loops)
        proof = memory.loop.observe(event, memory.notes.steps, is_noticed=is_noticed)
        worst = max(loops, key=lambda it: (it.severity.rank, it.score), default=None)
        pattern = _name_alike(event) if worst is None else name_pattern("loop", worst.subject, worst.detector)
        subject, incident = pattern, facts.incidents.get("loop")
        if incident is not None:
            if incident.hard_limit or worst is None or worst.severity is Severity.LOW:
                return None
            subject, proof = incident.incident_id, worst.event_ids
        if not proof or not memory.notes.has_enough_steps(proof) or not self._is_due(subject):
            return None
        # Signs that a rule only notices, or none, are asked about once; a repetition until it was judged.
        is_known = pattern in memory.asked if incident is None else not self._is_due(pattern)
        if is_known or (worst is not None and facts.shifts.find_shift(worst, event)):
            return None
        memory.loop.record_question(is_reported=incident is not None)
        self._note_asked(subject, pattern)
        return build_loop_question(
            memory.notes,
            proof,
            goal=facts.goal.current,
            subject=subject,
            place=event.seq,
            pattern=pattern,
            redact=self._redact,
            run_id=event.run_id,
            call=0 if worst is None else identify_call(event),
        )

    def _ask_about_goal(
        self, event: TraceEvent, findings: Sequence[DriftEvent], facts: RunFacts
    ) -> Question | None:
        memory = self.memory
        is_found = any(it.kind == "goal" for it in findings)
        is_due = memory.goal.observe(event, facts.goal, is_found=is_found)
        incident = facts.incidents.get("goal")
        pattern, subject = GOAL_PATTERN, GOAL_PATTERN
        if incident is not None:
            pattern = name_pattern("goal", incident.subject, incident.detector)
            subject = incident.incident_id
        is_confirmed = any(facts.shifts.steps.get(it, 0) > 0 for it in (pattern, GOAL_PATTERN))
        if not is_due or is_confirmed or self._is_waiting(subject) or not memory.notes.has_enough_steps():
            return None
        memory.goal.record_question()
        self._note_asked(subject, pattern)
        return build_goal_question(
            memory.notes,
            goal=facts.goal.current,
            subject=subject,
            place=event.seq,
            pattern=pattern,
            redact=self._redact,
        )

    def _ask_about_reply(
        self, event: TraceEvent, label: ReplyLabel, facts: RunFacts, before: int
    ) -> Question | None:
        """Ask about a message; its pattern names the message before, for corrections in a row."""
        if not is_reply_uncertain(label, is_answer=self.memory.notes.is_answer):
            return None
        subject = str(event.seq)
        self._note_asked(subject)
        return build_reply_question(
            self.memory.notes,
            goal=facts.goal.current,
            subject=subject,
            place=event.seq,
            pattern=name_pattern("correction", f"after {before}", ""),
            redact=self._redact,
        )

    def _is_due(self, subject: str) -> bool:
        """Return whether an incident may be asked about: never while a question about it is open."""
        asked_at = self.memory.asked.get(subject)
        if self._is_waiting(subject):
            return False
        return asked_at is None or self.memory.notes.calls - asked_at >= MIN_STEPS_BETWEEN_LOOPS

    def _is_waiting(self, subject: str) -> bool:
        """Return whether a question about this is open; one that was asked long ago is lost."""
        memory = self.memory
        is_lost = memory.notes.calls - memory.asked.get(subject, 0) >= STEPS_UNTIL_LOST
        return subject in memory.waiting and not is_lost

    def _note_asked(self, subject: str, *others: str) -> None:
        """Note that something was asked about, and under which other names it is known."""
        memory = self.memory
        for name in (subject, *others):
            memory.asked.pop(name, None)
            memory.asked[name] = memory.notes.calls
        while len(memory.asked) > _SUBJECTS_KEPT:
            del memory.asked[next(iter(memory.asked))]
        memory.waiting = [*memory.waiting, subject][-_SUBJECTS_KEPT:]


def _name_alike(event: TraceEvent) -> str:
    """Return the pattern of steps that resemble each other and that no rule has noticed.

    It is no finding's: that such steps are healthy says nothing about what a rule reports later.
    """
    steps = f"calls of {event.action_name}" if event.action_type == TOOL_CALL else "replies"
    return name_pattern("loop", f"{steps} that are alike", "")
