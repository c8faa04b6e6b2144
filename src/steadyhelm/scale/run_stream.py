"""Judge the messages of one run, a few at a time, with its saved session between: no Spark in here."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from msgspec import structs

from steadyhelm.decisions import Decision, DriftAction
from steadyhelm.engine.agent_knowledge import KnowledgeStore, StoredKnowledge
from steadyhelm.engine.responses import Observation
from steadyhelm.engine.session import Session
from steadyhelm.errors import FormatError
from steadyhelm.events import USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.portable_session import make_session, save_session
from steadyhelm.scale.messages import EventMessage, decode_message
from steadyhelm.scale.results import (
    Result,
    report_end,
    report_finding,
    report_incident,
    report_skipped,
    report_unreadable,
)
from steadyhelm.settings import Settings


class Latest(NamedTuple):
    """The time of a run's latest event or end, the id of its latest event, and what was called for so far.

    `action` is the strongest response; `tokens_saved` are the tokens spent after a new plan or a stop, and
    grow until the user's next message while `is_saving`.
    """

    at: float = 0.0
    event_id: str = ""
    action: str = DriftAction.CONTINUE.value
    tokens_saved: int | None = None
    is_saving: bool = False

    def add(self, event: TraceEvent, decision: Decision) -> "Latest":
        """Return this after one more event, as a replay sums it up."""
        latest = self
        if self.is_saving and event.action_type == USER_MESSAGE:
            latest = latest._replace(is_saving=False)
        elif self.is_saving:
            latest = latest._replace(tokens_saved=(self.tokens_saved or 0) + event.token_count)
        if decision.action.level > DriftAction(self.action).level:
            latest = latest._replace(action=decision.action.value)
            if decision.action.level >= DriftAction.SUMMARIZE_REPLAN.level and self.tokens_saved is None:
                latest = latest._replace(tokens_saved=0, is_saving=True)
        return latest


class StreamProgress(NamedTuple):
    """How far a run is: its saved session, its latest event, whether it has ended, and what is new."""

    state: bytes
    latest: Latest
    has_ended: bool
    results: list[Result]


class RunStream:
    """Judges the runs of a stream as `steadyhelm scan` judges recorded ones.

    Args:
        settings: The detectors and their options.
        knowledge: What runs are compared with, read once when they begin; None judges each run alone.
    """

    def __init__(self, settings: Settings, knowledge: KnowledgeStore | None = None) -> None:
        self._settings = structs.replace(settings, mode="observe")
        self._knowledge = knowledge
        self._known: dict[str, StoredKnowledge] = {}

    def judge(
        self, key: tuple[str, str], state: bytes | None, latest: Latest, values: Iterable[bytes | str]
    ) -> StreamProgress:
        """Judge messages of one run, in the order of their places, from where it was saved."""
        messages, results = _decode_all(key, values)
        session = None if state is None else make_session(self._settings, state=state)
        for message in sorted(messages, key=_place):
            session = session or self._begin(message.run)
            latest = latest._replace(at=max(latest.at, message.at))
            if message.event is not None:
                seen = session.observe(message.event)
                results += _report(session.run, message.event, seen)
                latest = latest if seen.skipped else latest.add(message.event, seen.decision)
                if session.next_seq == message.event.seq + 1:
                    latest = latest._replace(event_id=message.event.event_id)
        ends = [message.ended_at for message in messages if message.ended_at is not None]
        if session is not None and ends:
            results += self._end(session, latest._replace(at=max(ends)))
        saved = b"" if session is None or ends else save_session(session)
        return StreamProgress(saved, latest, bool(ends), results)

    def end(self, state: bytes, latest: Latest) -> list[Result]:
        """End a run of which nothing has come for long; return what is said of it as a whole."""
        return self._end(make_session(self._settings, state=state), latest)

    def _begin(self, run: RunInfo) -> Session:
        if run.agent_id not in self._known:
            self._known[run.agent_id] = StoredKnowledge(
                run.agent_id,
                self._knowledge,
                calibration_runs=self._settings.calibration_runs,
                uses_profiles=self._settings.budget_from_profiles,
            )
        reference = self._known[run.agent_id].get_reference(run.version, run.task_type)
        return make_session(self._settings, run, reference)

    def _end(self, session: Session, latest: Latest) -> list[Result]:
        run, seq = session.run, session.next_seq
        not_checked = dict(session.not_checked)
        if self._knowledge is not None and not session.baseline.calibration_runs:
            not_checked["baseline"] = "no baseline was learnt; the run was judged alone"
        ending = session.end(at=latest.at)
        last = TraceEvent(
            agent_id=run.agent_id,
            run_id=run.run_id,
            action_type="",
            action_name="",
            timestamp=ending.summary.ended_at,
            event_id=latest.event_id,
            seq=seq - 1,
        )
        return [
            *(report_finding(run, last, finding, at_end=True) for finding in ending.findings),
            *(report_incident(run, incident, seq) for incident in ending.incidents),
            report_end(run, ending, not_checked, seq, action=latest.action, tokens_saved=latest.tokens_saved),
        ]


def _report(run: RunInfo, event: TraceEvent, seen: Observation) -> list[Result]:
    if seen.skipped:
        return [report_skipped(run, event, seen.skipped)]
    found = [finding for finding in seen.decision.findings if not finding.is_ongoing]
    return [
        *(report_finding(run, event, finding) for finding in found),
        *(report_incident(run, incident, event.seq) for incident in seen.incidents),
    ]


def _decode_all(
    key: tuple[str, str], values: Iterable[bytes | str]
) -> tuple[list[EventMessage], list[Result]]:
    messages, unreadable = [], []
    for value in values:
        try:
            messages.append(decode_message(value))
        except FormatError as exc:
            content = value.encode() if isinstance(value, str) else value
            digest = blake2b(content, digest_size=8).hexdigest()
            unreadable.append(report_unreadable(*key, digest, str(exc)))
    return messages, unreadable


def _place(message: EventMessage) -> float:
    return float("inf") if message.event is None else message.event.seq
