"""Decide when a question is asked about a run: a plain function of its events and findings."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, TraceEvent
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.judge import JudgedReport, Question, name_pattern
from steadyhelm.judging.bands import (
    GOAL_STEPS_PER_QUESTION,
    MAX_GOAL_QUESTIONS,
    is_goal_uncertain,
    is_reply_uncertain,
)
from steadyhelm.judging.blocks import Redact
from steadyhelm.judging.questions import build_goal_question, build_loop_question, build_reply_question
from steadyhelm.judging.run_notes import RunNotes
from steadyhelm.judging.severity_shifts import is_certain

STEPS_PER_QUESTION: Final = 25
"""Steps of the agent between two questions about one incident, and between two about LOW findings."""

LOW_FINDINGS_OF_QUESTION: Final = 3
"""LOW findings of one pattern after which they keep coming."""

_SUBJECTS_KEPT: Final = 64
GOAL_PATTERN: Final = name_pattern("goal", "", "goal_drift")


class RunFacts(NamedTuple):
    """What a session knows when an event was judged: goal, open incidents by kind, drift from the goal."""

    goal: str
    incidents: Mapping[str, Incident]
    goal_level: float | None
    goal_reason: str | None


class QuestionMemory(Struct):
    """What was asked about a run, by the number of steps the agent had taken then, and its latest steps.

    `waiting` are the subjects of questions without an answer.
    """

    notes: RunNotes = field(default_factory=RunNotes)
    asked: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    low_findings: dict[str, int] = field(default_factory=dict)
    low_asked: int = -STEPS_PER_QUESTION
    goal_asked: int = 0
    goal_asked_at: int = 0


class Questioner:
    """Raises the questions of one run.

    Args:
        redact: Returns a text without secrets.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.memory = QuestionMemory()

    def observe(
        self, event: TraceEvent, findings: Sequence[DriftEvent], facts: RunFacts
    ) -> Sequence[Question]:
        """Note an event with its findings; return the questions it raises."""
        before = self.memory.notes.message_seq
        label = self.memory.notes.add(event)
        questions = [it for it in (self._ask_about_loop(event, findings, facts),) if it is not None]
        if label is not None and (question := self._ask_about_reply(event, label, facts, before)):
            questions.append(question)
        if event.action_type in {TOOL_CALL, LLM_REQUEST} and (
            question := self._ask_about_goal(event, findings, facts)
        ):
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
        if not loops:
            return None
        worst = max(loops, key=lambda it: (it.severity.rank, it.score))
        pattern = name_pattern("loop", worst.subject, worst.detector)
        incident = facts.incidents.get("loop")
        if worst.severity is not Severity.LOW and incident is not None:
            subject = incident.incident_id
            if incident.hard_limit or not (self._is_due(subject) and self._is_due(pattern)):
                return None
        else:
            subject = pattern
            if incident is not None or not self._is_low_due(pattern):
                return None
            memory.low_asked = memory.notes.calls
        self._note_asked(subject)
        memory.asked[pattern] = memory.notes.calls
        return build_loop_question(
            memory.notes,
            worst,
            goal=facts.goal,
            subject=subject,
            place=event.seq,
            pattern=pattern,
            redact=self._redact,
        )

    def _ask_about_goal(
        self, event: TraceEvent, findings: Sequence[DriftEvent], facts: RunFacts
    ) -> Question | None:
        memory = self.memory
        steps = memory.notes.calls
        is_found = any(it.kind == "goal" and it.severity is not Severity.LOW for it in findings)
        if not facts.goal or memory.goal_asked >= MAX_GOAL_QUESTIONS:
            return None
        if steps - memory.goal_asked_at < GOAL_STEPS_PER_QUESTION and not (
            is_found and not memory.goal_asked
        ):
            return None
        if not is_found and not is_goal_uncertain(facts.goal_level, facts.goal_reason):
            return None
        incident = facts.incidents.get("goal")
        subject = GOAL_PATTERN if incident is None else incident.incident_id
        if subject in memory.waiting:
            return None
        memory.goal_asked += 1
        memory.goal_asked_at = steps
        self._note_asked(subject)
        return build_goal_question(
            memory.notes,
            goal=facts.goal,
            subject=subject,
            place=event.seq,
            pattern=GOAL_PATTERN,
            redact=self._redact,
        )

    def _ask_about_reply(
        self, event: TraceEvent, label: ReplyLabel, facts: RunFacts, before: int
    ) -> Question | None:
        """Ask about a message; its pattern names the message before, for corrections in a row."""
        if not is_reply_uncertain(label):
            return None
        subject = str(event.seq)
        self._note_asked(subject)
        return build_reply_question(
            self.memory.notes,
            goal=facts.goal,
            subject=subject,
            place=event.seq,
            pattern=name_pattern("correction", f"after {before}", ""),
            redact=self._redact,
        )

    def _is_due(self, subject: str) -> bool:
        """Return whether an incident may be asked about: never while a question about it is open."""
        asked_at = self.memory.asked.get(subject)
        if subject in self.memory.waiting:
            return False
        return asked_at is None or self.memory.notes.calls - asked_at >= STEPS_PER_QUESTION

    def _is_low_due(self, pattern: str) -> bool:
        counts = self.memory.low_findings
        count = counts.pop(pattern, 0) + 1
        counts[pattern] = count
        if len(counts) > _SUBJECTS_KEPT:
            del counts[next(iter(counts))]
        is_time = self.memory.notes.calls - self.memory.low_asked >= STEPS_PER_QUESTION
        return count >= LOW_FINDINGS_OF_QUESTION and is_time and self._is_due(pattern)

    def _note_asked(self, subject: str) -> None:
        memory = self.memory
        memory.asked.pop(subject, None)
        memory.asked[subject] = memory.notes.calls
        if len(memory.asked) > _SUBJECTS_KEPT:
            del memory.asked[next(iter(memory.asked))]
        memory.waiting = [*memory.waiting, subject][-_SUBJECTS_KEPT:]
