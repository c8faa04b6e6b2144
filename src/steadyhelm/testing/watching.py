"""Hold an agent's runs to what you expect of them, in your own tests: live or recorded."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn, Self

import msgspec
from msgspec import structs

from steadyhelm.assembly import DriftMonitor
from steadyhelm.declarations import parse_declarations
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.parts import detector_factory
from steadyhelm.recordings.recognition import open_runs
from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.redaction import Redactor
from steadyhelm.replay import Judge, Judged, with_soft_limits
from steadyhelm.reports.evidence import Evidence
from steadyhelm.reports.formats import printable
from steadyhelm.settings import Settings, load
from steadyhelm.sink import Record, RecordedEvent, Sink

_TOLD: Final = 3


class _Memory(Sink):
    """Keeps runs and events in the order in which they came."""

    name = "memory"

    def __init__(self) -> None:
        self.infos: dict[str, RunInfo] = {}
        self.events: dict[str, list[TraceEvent]] = {}

    def write(self, records: Sequence[Record]) -> None:
        """Take a batch."""
        for record in records:
            if isinstance(record, RunInfo):
                self.infos[record.run_id] = record
            elif isinstance(record, RecordedEvent):
                self.events.setdefault(record.event.run_id, []).append(_as_it_was(record))


def _as_it_was(record: RecordedEvent) -> TraceEvent:
    """The event with its data as it was then: the agent may change its own objects later."""
    return structs.replace(
        record.event,
        event_id=str(record.event.seq),
        input_data=msgspec.json.decode(record.input_json) if record.input_json else None,
        output_data=msgspec.json.decode(record.output_json) if record.output_json else None,
    )


class Watch(DriftMonitor):
    """A monitor for tests: it keeps runs in memory, and judges them when it is asked to.

    It can stand wherever a `DriftMonitor` can: `run`, `tool`, `model`, `wrap` and `record_event` are the
    same, it only watches, and each run is judged alone, as `steadyhelm scan` does it.
    Thresholds come from your settings, as always.

    Args:
        agent_id: What the agent is called in messages.
        settings: Settings to use instead of those that would be found.

    >>> with Watch("example") as watch:
    ...     for page in ("a", "b", "c"):
    ...         _ = watch.record_event("tool_call", "read", input_data=page, output_data=f"text {page}")
    ...     watch.assert_no_loop()
    """

    def __init__(self, agent_id: str = "tested", *, settings: Settings | None = None) -> None:
        self.settings = settings if settings is not None else load().settings
        self._alert_worker = None
        self._memory = _Memory()
        self._redactor = Redactor(
            key_words=self.settings.redaction_keys, patterns=self.settings.redaction_patterns
        )
        health = Health()
        # The parts are other ones than a DriftMonitor's: no store, no alerts, nothing sampled or dropped.
        Monitor.__init__(
            self,
            agent_id,
            make_detectors=detector_factory(with_soft_limits(self.settings)),
            dispatch=Dispatch([self._memory], health=health, durable=True),
            capture=Capture(self._redactor),
            health=health,
            tools=parse_declarations(self.settings.tools),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judged(self) -> list[Judged]:
        """Every run that was watched so far, judged."""
        self.flush()
        judge = Judge(self.settings, tools=self._sessions.tools)
        return [judge.judge(run) for run in self._recorded()]

    def assert_no_loop(self, *, min_severity: str = "MED") -> None:
        """Fail when a run repeats itself without getting anywhere."""
        __tracebackhide__ = True
        self._assert_none(min_severity, kind="loop")

    def assert_no_drift(self, *, min_severity: str = "MED") -> None:
        """Fail when anything of this severity or above was found in a run."""
        __tracebackhide__ = True
        self._assert_none(min_severity)

    def assert_within(
        self, *, tokens: int | None = None, steps: int | None = None, duration_s: float | None = None
    ) -> None:
        """Fail when all runs together took more than this."""
        __tracebackhide__ = True
        events = [event for run in self._watched() for event in run.events]
        spent = sum(event.token_count for event in events)
        if tokens is not None and not spent:
            _fail("no step said how many tokens it took, so whether they stay within a limit is not known")
        began = min(event.timestamp - event.duration_ms / 1000 for event in events)
        took = max(event.timestamp for event in events) - began
        limits = [("tokens", spent, tokens), ("steps", len(events), steps), ("seconds", took, duration_s)]
        over = [
            f"{round(used, 3):,} {unit}, the limit is {most:,}"
            for unit, used, most in limits
            if most is not None and used > most
        ]
        if over:
            costly = sorted(events, key=lambda event: -event.token_count)[: _TOLD if tokens else 0]
            evidence = Evidence(self._redactor)
            rows = [f"  {event.token_count:>9,} tokens  {evidence.row([0], event).said}" for event in costly]
            _fail("\n".join(["the run took " + "; ".join(over), *rows]))

    def _assert_none(self, min_severity: str, *, kind: str | None = None) -> None:
        __tracebackhide__ = True
        self._watched()
        _assert_none(self.judged(), Evidence(self._redactor, least=_rank(min_severity)), kind=kind)

    def _watched(self) -> list[ReadRun]:
        __tracebackhide__ = True
        self.flush()
        runs = list(self._recorded())
        if not runs:
            _fail("nothing was watched: give steadyhelm_watch to your agent, or record its steps with it")
        return runs

    def _recorded(self) -> Iterator[ReadRun]:
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
        _fail(f"{Path(run_file).name}:{broken[0].line} cannot be read: {printable(broken[0].reason)}")
    runs = [item for item in items if isinstance(item, ReadRun)]
    if not runs:
        _fail(f"{Path(run_file).name} holds no run")
    judge = Judge(settings)
    redactor = Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)
    evidence = Evidence(redactor, least=_rank(min_severity))
    _assert_none([judge.judge(run) for run in runs], evidence, kind=kind)


def _assert_none(judged: Sequence[Judged], evidence: Evidence, *, kind: str | None) -> None:
    __tracebackhide__ = True
    bad = [one for one in judged if any(kind in (None, finding.kind) for finding in evidence.told(one))]
    if not bad:
        return
    what = "drifted" if kind is None else f"drifted ({kind})"
    rest = [f"and {len(bad) - _TOLD} more runs"] if len(bad) > _TOLD else []
    told = [evidence.text(one) for one in bad[:_TOLD]]
    _fail("\n".join([f"{len(bad)} of {len(judged)} runs {what}", *told, *rest]))


def _rank(severity: str) -> int:
    names = [name.value for name in Severity]
    if severity.upper() not in names:
        raise SettingsError(f"min_severity must be one of {', '.join(names)}, got {severity!r}.")
    return Severity(severity.upper()).rank


def _fail(message: str) -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError(message)
