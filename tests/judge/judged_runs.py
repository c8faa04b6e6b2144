"""Runs with verdicts: a session, pictures of traces, and `judged` events between their steps."""

from collections.abc import Callable, Sequence

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import Mode
from steadyhelm.detector import Detector
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.engine.responses import Observation
from steadyhelm.engine.session import Session
from steadyhelm.events import JUDGED, STATE_TRANSITION, RunInfo, TraceEvent
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.judge import JudgedReport, JudgeVerdict, Question
from steadyhelm.judging.questioner import Questioner
from steadyhelm.redaction import Redactor
from steadyhelm.testing.traces import AGENT, RUN, events

REDACT = Redactor().redact_text
SURE = 0.95
Answer = Callable[[Question], JudgeVerdict | None]


def answer_with(label: str, confidence: float = SURE) -> Answer:
    """Return a judge that gives every question the same label."""
    return lambda _question: JudgeVerdict(label=label, confidence=confidence)


class JudgedRun:
    """One run; a judge answers each question right after the event that raised it.

    Args:
        answer: Returns the verdict on a question; None asks nobody.
        detectors: What looks; by default loops alone.
    """

    def __init__(
        self,
        answer: Answer | None = None,
        detectors: Sequence[Detector] = (),
        *,
        goal: str = "finish every part",
        mode: Mode = "enforce",
    ) -> None:
        self.answer = answer
        self.session = Session(
            RunInfo(agent_id=AGENT, run_id=RUN, goal=goal),
            detectors or [ActionLoop()],
            BaselineStats(agent_id=AGENT),
            mode=mode,
            questioner=None if answer is None else Questioner(REDACT),
        )
        self.trace: list[TraceEvent] = []
        self.seen: list[Observation] = []
        self.asked: list[Question] = []

    def play(self, picture: str | Sequence[TraceEvent]) -> "JudgedRun":
        """Record the events of a picture, one after the other."""
        for event in events(picture) if isinstance(picture, str) else picture:
            before = sum(1 for it in self.trace if it.action_name != JUDGED)
            seq = len(self.trace)
            # A picture begins at place 0; its data differs by place, so that of a second one continues.
            moved = structs.replace(event, seq=seq, event_id=f"{RUN}.{seq}", timestamp=1e9 + before)
            self.record(moved)
        return self

    def record(self, event: TraceEvent) -> Observation:
        """Record one event, and answer what it asks."""
        self.trace.append(event)
        seen = self.session.observe(event)
        self.seen.append(seen)
        for question in seen.questions:
            self.asked.append(question)
            verdict = None if self.answer is None else self.answer(question)
            if verdict is not None:
                self.judge(question, verdict)
        return seen

    def judge(self, question: Question, verdict: JudgeVerdict, **report: object) -> Observation:
        """Record a verdict on a question."""
        seq = len(self.trace)
        return self.record(
            TraceEvent(
                agent_id=AGENT,
                run_id=RUN,
                action_type=STATE_TRANSITION,
                action_name=JUDGED,
                timestamp=self.session.last_at,
                event_id=f"{RUN}.{seq}",
                seq=seq,
                metadata=JudgedReport.build(question, verdict, **report).to_metadata(),  # type: ignore[arg-type]
            )
        )

    @property
    def findings(self) -> list[DriftEvent]:
        """What was noticed, in order."""
        return [finding for seen in self.seen for finding in seen.decision.findings]

    @property
    def incidents(self) -> list[Incident]:
        """The latest version of each incident."""
        return list({it.incident_id: it for seen in self.seen for it in seen.incidents}.values())

    @property
    def severities(self) -> list[str]:
        """The severity of each finding, in order."""
        return [str(finding.severity) for finding in self.findings]


def replay(trace: Sequence[TraceEvent], make: Callable[[], JudgedRun]) -> JudgedRun:
    """Show recorded events, verdicts included, to a session that asks nobody."""
    again = make()
    for event in trace:
        again.record(event)
    return again
