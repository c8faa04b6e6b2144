"""Check an agent's runs in your own tests, live or recorded."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn, Self

import msgspec
from msgspec import structs

from steadyhelm.assembly import DriftMonitor
from steadyhelm.components import make_detector_factory, make_redactor
from steadyhelm.declarations import parse_declarations
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.run_control import RunControl
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.recordings.recognition import open_runs
from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.redaction import Redactor
from steadyhelm.replay import JudgedReplay, Replayer
from steadyhelm.reports.evidence import EvidenceFormatter
from steadyhelm.reports.formats import make_printable
from steadyhelm.settings import Settings, load
from steadyhelm.sink import Record, RecordedEvent, Sink

_MAX_RUNS_SHOWN: Final = 3


class _MemorySink(Sink):
    """A sink that keeps runs and events in memory, in order."""

    name = "memory"

    def __init__(self) -> None:
        self.infos: dict[str, RunInfo] = {}
        self.events: dict[str, list[TraceEvent]] = {}

    def write(self, records: Sequence[Record]) -> None:
        """Keep a batch."""
        for record in records:
            if isinstance(record, RunInfo):
                self.infos[record.run_id] = record
            elif isinstance(record, RecordedEvent):
                self.events.setdefault(record.event.run_id, []).append(_copy_event(record))


def _copy_event(record: RecordedEvent) -> TraceEvent:
    """Return the event with its data as recorded: the agent may change its own objects later."""
    return structs.replace(
        record.event,
        event_id=str(record.event.seq),
        input_data=msgspec.json.decode(record.input_json) if record.input_json else None,
        output_data=msgspec.json.decode(record.output_json) if record.output_json else None,
    )


class Watch(DriftMonitor):
    """A monitor for tests: it keeps runs in memory, and judges them on request.

    It can be used wherever a `DriftMonitor` can: `run`, `tool`, `model`, `wrap` and `record_event` are the
    same. It only watches, and each run is judged alone, as in `steadyhelm scan`.
    Thresholds come from your settings.

    Args:
        agent_id: The name of the agent in messages.
        settings: Settings to use instead of those that would be found.

    >>> with Watch("example") as watch:
    ...     for page in ("a", "b", "c"):
    ...         _ = watch.record_event("tool_call", "read", input_data=page, output_data=f"text {page}")
    ...     watch.assert_no_loop()
    """

    def __init__(self, agent_id: str = "tested", *, settings: Settings | None = None) -> None:
        self.settings = settings if settings is not None else load().settings
        self._alert_worker = None
        self._memory = _MemorySink()
        self._redactor = make_redactor(self.settings)
        health = Health()
        # Unlike a DriftMonitor: no store, no alerts, nothing sampled or dropped.
        control = RunControl(
            agent_id,
            make_detectors=make_detector_factory(self.settings),
            dispatch=Dispatch([self._memory], health=health, durable=True),
            capture=Capture(self._redactor),
            health=health,
            tools=parse_declarations(self.settings.tools),
        )
        Monitor.__init__(self, control)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge_runs(self) -> list[JudgedReplay]:
        """Return every run watched so far, judged."""
        self.flush()
        replayer = Replayer(self.settings, tools=self._control.sessions.tools)
        return [replayer.judge(run) for run in self._iter_runs()]

    def assert_no_loop(self, *, min_severity: str = "MED") -> None:
        """Fail when a run repeats itself without progress."""
        __tracebackhide__ = True
        self._assert_none(min_severity, kind="loop")

    def assert_no_drift(self, *, min_severity: str = "MED") -> None:
        """Fail when a run has a finding of this severity or above."""
        __tracebackhide__ = True
        self._assert_none(min_severity)

    def assert_within(
        self, *, tokens: int | None = None, steps: int | None = None, duration_s: float | None = None
    ) -> None:
        """Fail when all runs together took more than this."""
        __tracebackhide__ = True
        events = [event for run in self._require_runs() for event in run.events]
        spent = sum(event.token_count for event in events)
        if tokens is not None and not spent:
            _fail("no step recorded its tokens, so whether they are within the limit is unknown")
        began = min(event.timestamp - event.duration_ms / 1000 for event in events)
        took = max(event.timestamp for event in events) - began
        limits = [("tokens", spent, tokens), ("steps", len(events), steps), ("seconds", took, duration_s)]
        over = [
            f"{round(used, 3):,} {unit}, the limit is {most:,}"
            for unit, used, most in limits
            if most is not None and used > most
        ]
        if over:
            costly = sorted(events, key=lambda event: -event.token_count)[: _MAX_RUNS_SHOWN if tokens else 0]
            evidence = EvidenceFormatter(self._redactor)
            rows = [
                f"  {event.token_count:>9,} tokens  {evidence.describe_step([0], event).text}"
                for event in costly
            ]
            _fail("\n".join(["the run took " + "; ".join(over), *rows]))

    def _assert_none(self, min_severity: str, *, kind: str | None = None) -> None:
        __tracebackhide__ = True
        self._require_runs()
        _assert_none(
            self.judge_runs(),
            EvidenceFormatter(self._redactor, least=_get_severity_rank(min_severity)),
            kind=kind,
        )

    def _require_runs(self) -> list[ReadRun]:
        __tracebackhide__ = True
        self.flush()
        runs = list(self._iter_runs())
        if not runs:
            _fail("nothing was recorded: pass steadyhelm_watch to your agent, or record its steps with it")
        return runs

    def _iter_runs(self) -> Iterator[ReadRun]:
        for run_id, events in self._memory.events.items():
            yield ReadRun(
                info=self._memory.infos.get(run_id, RunInfo(agent_id=self.agent_id, run_id=run_id)),
                events=events,
                entries=len(events),
                line=1,
                labels=[],
                outcome="",
                meta={},
                extra={},
                problems=[],
                unread=0,
            )


def assert_healthy(
    run_file: str | os.PathLike[str],
    *,
    min_severity: str = "MED",
    kind: str | None = None,
    settings: Settings | None = None,
) -> None:
    """Fail when a recorded run drifts, or cannot be read.

    Args:
        run_file: A run file or a transcript, as `steadyhelm scan` reads it.
        min_severity: The severity from which a finding counts.
        kind: Only findings of this kind count, such as `loop`.
        settings: Settings to use instead of those that would be found.
    """
    __tracebackhide__ = True
    settings = settings if settings is not None else load().settings
    items = list(open_runs(run_file))
    broken = [item for item in items if isinstance(item, BrokenLine)]
    if broken:
        _fail(f"{Path(run_file).name}:{broken[0].line} cannot be read: {make_printable(broken[0].reason)}")
    runs = [item for item in items if isinstance(item, ReadRun)]
    if not runs:
        _fail(f"{Path(run_file).name} holds no run")
    replayer = Replayer(settings)
    redactor = Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)
    evidence = EvidenceFormatter(redactor, least=_get_severity_rank(min_severity))
    _assert_none([replayer.judge(run) for run in runs], evidence, kind=kind)


def _assert_none(judged: Sequence[JudgedReplay], evidence: EvidenceFormatter, *, kind: str | None) -> None:
    __tracebackhide__ = True
    bad = [
        one for one in judged if any(kind in (None, finding.kind) for finding in evidence.list_findings(one))
    ]
    if not bad:
        return
    what = "drifted" if kind is None else f"drifted ({kind})"
    rest = [f"and {len(bad) - _MAX_RUNS_SHOWN} more runs"] if len(bad) > _MAX_RUNS_SHOWN else []
    told = [evidence.describe_as_text(one) for one in bad[:_MAX_RUNS_SHOWN]]
    _fail("\n".join([f"{len(bad)} of {len(judged)} runs {what}", *told, *rest]))


def _get_severity_rank(severity: str) -> int:
    names = [name.value for name in Severity]
    if severity.upper() not in names:
        raise SettingsError(f"min_severity must be one of {', '.join(names)}, got {severity!r}.")
    return Severity(severity.upper()).rank


def _fail(message: str) -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError(message)
