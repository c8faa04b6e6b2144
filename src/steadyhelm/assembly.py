"""Build `DriftMonitor`, the class that users start with, from the settings."""

import atexit
import functools
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Never

from msgspec import UNSET, UnsetType

from steadyhelm.adapters.frameworks import choose_adapter, describe_bypass
from steadyhelm.adapters.generic import GenericAdapter
from steadyhelm.arguments import (
    check_arguments,
    load_settings,
    merge_detector_options,
    read_path,
    read_sinks,
    refuse_unknown,
)
from steadyhelm.boundary.entry_points import WatchedObject
from steadyhelm.boundary.watched_functions import find_name, watch_function
from steadyhelm.budgets.limits import Budget
from steadyhelm.components import (
    build_alert_worker,
    make_detector_factory,
    make_judge_worker,
    make_keeper,
    make_redactor,
    make_steering,
    make_store_sink,
    read_data_files,
    try_make_otel_sinks,
    try_make_price,
    try_open_store,
)
from steadyhelm.declarations import ToolDeclaration, parse_declarations, read_ignored
from steadyhelm.detector import Detector
from steadyhelm.engine.capture import Capture
from steadyhelm.engine.coercion import to_timeout
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import FlushResult, Health
from steadyhelm.engine.listeners import require_function
from steadyhelm.engine.monitor import Monitor
from steadyhelm.engine.run_control import RunControl
from steadyhelm.engine.writer_thread import WRITER_NAME
from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.host_objects import is_a
from steadyhelm.logs import logger
from steadyhelm.settings import Settings
from steadyhelm.sink import Record, RecordedEvent, Sink
from steadyhelm.sinks.incident_log import IncidentLog
from steadyhelm.sinks.store import StoreSink
from steadyhelm.store import Store

_MANY_OPEN: Final = 50
_counts_logged: Final[set[int]] = set()


class DriftMonitor(Monitor):
    """Watches one agent: its loops, its goal, its spending.

    ```python
    from steadyhelm import DriftMonitor

    monitor = DriftMonitor("researcher")
    with monitor.run(goal="find the cheapest flight to Oslo"):
        ...
    ```

    An argument that is given counts, also where it equals the default. Settings not given here come from
    the environment, the settings file or their defaults.

    Args:
        agent_id: The agent's name; everything kept is kept under it.
        alert_webhook: A Slack, Discord or other address that alerts are posted to; empty for none.
        goal_description: What the agent is for; a run's own goal counts more.
        calibration_runs: Clean runs until the agent's baseline counts; 30 by default.
        db_path: The SQLite file, or an address `postgresql://…`; empty for a file in Steadyhelm's own folder.
        loop_window: Recent calls that count for a loop; None remembers the whole run.
        loop_max_repeats: Repetitions from which it is a loop; None for three in a row.
        similarity_threshold: Similarity below which an output is off the goal; None learns it.
        spike_multiplier: Standard deviations above the mean that are a spike; None compares quantiles.
        min_alert_severity: The lowest severity that is alerted; `MED` by default.
        alert_cooldown: Seconds between alerts of this agent and one detector; 60 by default.
        absolute_token_limit: Tokens a run may spend; None for no limit. By default a run that spends more
            than 50,000 is noticed, and nothing is done about it.
        absolute_duration_limit_ms: Milliseconds a run may take; None for no limit. 300,000 by default, as
            above.
        mode: `observe` (the default), `guide` or `enforce`.
        version: The agent's version; a new one learns its own baseline.
        durability: `fast`, or `durable` to have each event on disk before it is answered.
        payloads: What is kept of arguments and results: `none`, `hashes`, `redacted` or `full`.
        sample_rate: The share of runs that is watched.
        remind_every: Steps after which the model is reminded of goal and plan; 0 for never, None leaves it
            to the settings.
        budget: What each run may spend, and the agent in a day, such as
            `Budget(steps=50, daily_cost_usd=20)`.
        detectors: Options by detector, such as `{"goal_drift": {"enabled": False}}`.
        settings: Any other setting by its name, such as `{"policy.ask_threshold": 0.8}`; an argument of its
            own counts more.
        judge: A model that judges what rules cannot: `"openai:MODEL"`, `"anthropic:MODEL"`, an `OpenAIJudge`
            or `AnthropicJudge` with a client of yours, or a function that takes a `Question`. None leaves it
            to the settings, where it is off.
        sinks: Further sinks that receive every record.
        config: A settings file, instead of the one that would be found.
        make_detectors: Returns fresh detectors for each run, instead of those that are installed.
        clock: Returns the time, in seconds.
    """

    _has_warned_unused = False

    def __init__(
        self,
        agent_id: str,
        alert_webhook: str | None = None,
        goal_description: str | UnsetType = UNSET,
        calibration_runs: int | UnsetType = UNSET,
        db_path: str | Path | None = None,
        loop_window: int | UnsetType | None = UNSET,
        loop_max_repeats: int | UnsetType | None = UNSET,
        similarity_threshold: float | UnsetType | None = UNSET,
        spike_multiplier: float | UnsetType | None = UNSET,
        min_alert_severity: str | UnsetType = UNSET,
        alert_cooldown: float | UnsetType = UNSET,
        absolute_token_limit: int | UnsetType | None = UNSET,
        absolute_duration_limit_ms: float | UnsetType | None = UNSET,
        *,
        mode: str | UnsetType = UNSET,
        version: str | UnsetType = UNSET,
        durability: str | UnsetType = UNSET,
        payloads: str | UnsetType = UNSET,
        sample_rate: float | UnsetType = UNSET,
        remind_every: int | None = None,
        budget: Budget | None = None,
        detectors: dict[str, dict[str, Any]] | None = None,
        settings: Mapping[str, Any] | None = None,
        judge: Any = None,
        sinks: Sequence[Sink] = (),
        config: str | Path | None = None,
        make_detectors: Callable[[], Sequence[Detector]] | None = None,
        clock: Callable[[], float] = time.time,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, DriftMonitor)
        check_arguments(agent_id, goal_description, make_detectors, clock)
        named = {
            "mode": mode,
            "durability": durability,
            "payloads": payloads,
            "sample_rate": sample_rate,
            "version": version,
            "calibration_runs": calibration_runs,
            "alerts.min_severity": min_alert_severity,
            "alerts.cooldown_s": alert_cooldown,
            "alerts.webhook": alert_webhook,
            "guidance.remind_every": remind_every,
            "judge": judge if isinstance(judge, str) else None,
            "db": read_path("db_path", db_path),
        }
        limits = {
            "absolute_token_limit": absolute_token_limit,
            "absolute_duration_limit_ms": absolute_duration_limit_ms,
        }
        options = merge_detector_options(
            detectors,
            action_loop={"max_repeats": loop_max_repeats, "window": loop_window},
            goal_drift={"similarity_threshold": similarity_threshold, "goal": goal_description},
            resource_spike={**limits, "spike_multiplier": spike_multiplier},
        )
        loaded = load_settings(settings, named, budget, options, config)
        self._assemble(agent_id, loaded, goal_description, read_sinks(sinks), make_detectors, judge, clock)

    def _assemble(
        self,
        agent_id: str,
        settings: Settings,
        goal: str | UnsetType,
        sinks: Sequence[Sink],
        make_detectors: Callable[[], Sequence[Detector]] | None,
        judge: Any,
        clock: Callable[[], float],
    ) -> None:
        """Build every part from the settings, and start."""
        self.settings = settings
        read_data_files()
        health = Health()
        store = try_open_store(settings)
        own_judge = None if isinstance(judge, str) else judge
        worker = make_judge_worker(settings, own_judge, store=store, health=health, clock=clock)
        self._alert_worker = build_alert_worker(settings, store, health) if store is not None else None
        kept = self._make_store_sink(settings, store) if store is not None else _MissingStore(health)
        log = IncidentLog(
            str(settings.database) if settings.db else "", public_url=settings.server_public_url
        )
        sinks = [log, *sinks, *try_make_otel_sinks(settings, health)]
        control = RunControl(
            agent_id,
            make_detectors=make_detectors or make_detector_factory(settings, health),
            dispatch=_make_dispatch(settings, [kept, *sinks], health),
            capture=Capture(make_redactor(settings), settings.payloads),
            health=health,
            store=store,
            mode=settings.mode,
            goal=goal or "",
            version=settings.version,
            calibration_runs=settings.calibration_runs,
            tools=parse_declarations(settings.tools),
            steering=make_steering(settings),
            keeper=make_keeper(settings, health),
            price=try_make_price(settings, health),
            sample_rate=settings.sample_rate,
            most_live=settings.most_live_runs,
            disabled=settings.disabled,
            on_failure=settings.on_failure,
            judge=None if settings.disabled else worker,
            clock=clock,
        )
        super().__init__(control)
        for sink in sinks:
            # A sink that wants findings on the agent's own thread says so by having this method.
            attach = getattr(sink, "attach", None)
            if attach is not None:
                attach(self)
        if self._alert_worker is not None:
            self._alert_worker.start()
        _close_at_exit(self)
        _warn_of_many_open()

    def wrap(self, agent: Any, **options: Any) -> Any:
        """Return the agent, watched: use it as before.

        Objects of the frameworks in `docs/integrations` are watched at every model call and tool call, any
        other object with a method such as `invoke` or `run` by what goes in and what comes out.
        `ask` is a function that puts a question to the user, or the name of the framework's own way to ask;
        further options are the framework's own.
        Raises SettingsError for what cannot be watched.
        """
        if is_a(agent, WatchedObject) and getattr(agent, "_watched_by", None) is self:
            if options:
                raise SettingsError(
                    f"This agent is watched already: give {', '.join(options)} the first time."
                )
            return agent
        ask = options.get("ask")
        if ask is not None and not is_a(ask, str):  # a framework's own way to ask has a name
            require_function("ask", ask)
        if instead := describe_bypass(agent):
            raise SettingsError(f"wrap() got a {type(agent).__name__}. {instead}")
        inside = agent.__dict__.get("_agent", agent) if is_a(agent, WatchedObject) else agent
        adapter = choose_adapter(agent, inside, self.health) or GenericAdapter
        return self._mark(adapter(self, agent, **options))

    def _mark(self, watched: Any) -> Any:
        """Mark a watched object, so that wrapping it again returns it."""
        if is_a(watched, WatchedObject):
            watched._watched_by = self  # noqa: SLF001 - its own names begin so
            watched.call_if_unused(self._warn_unused)
        return watched

    def _warn_unused(self) -> None:
        """Log, once, that an object was wrapped and what came of it was not used."""
        if not self._has_warned_unused:
            self._has_warned_unused = True
            logger.warning(
                "monitor.wrap() returns what is watched, and what it returned was dropped unused: calls of "
                "the object itself are not watched. Write agent = monitor.wrap(agent)."
            )

    def tool(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        kind: str = "",
        ignore: Sequence[str] = (),
        append_guidance: bool = False,
    ) -> Any:
        """Decorate a function: every call of it is recorded as a tool call.

        `kind` says what the tool does where that cannot be guessed (`poll`, `read`, `write`,
        `idempotent`), `ignore` which arguments do not make it another call.
        With `append_guidance`, guidance for the model is added to a result that is text.
        """
        if function is None:
            return functools.partial(
                self.tool, name=name, kind=kind, ignore=ignore, append_guidance=append_guidance
            )
        if kind or ignore:
            declaration = ToolDeclaration(kind=kind, ignore=read_ignored("ignore", ignore))
            self.declare(name or find_name(function), declaration)
        return watch_function(
            self, function, action_type=TOOL_CALL, name=name, append_guidance=append_guidance
        )

    def model(self, function: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
        """Decorate a function: every call of it is recorded as a model call."""
        if function is None:
            return functools.partial(self.model, name=name)
        return watch_function(self, function, action_type=LLM_REQUEST, name=name)

    def close(self, timeout_s: float = 2.0) -> FlushResult:
        """Suspend live runs, write what is queued and stop sending alerts, within the time given."""
        if self._alert_worker is not None:
            # What the last batch calls for should still go out: written first, then sent.
            self.suspend_all()
            self.flush(timeout_s)
            self._alert_worker.close(to_timeout(timeout_s))
        return super().close(timeout_s)

    def after_fork(self) -> None:
        """Start afresh in a child process: every thread, queue and connection is made anew."""
        super().after_fork()
        if self._alert_worker is not None:
            self._alert_worker.after_fork()

    def _make_store_sink(self, settings: Settings, store: Store) -> StoreSink:
        wake = self._alert_worker.wake if self._alert_worker is not None else None
        return make_store_sink(settings, store, on_baseline=self.use_baseline, on_alert=wake)


class _MissingStore(Sink):
    """Counts every event as lost, in place of a store that cannot be opened."""

    name = "missing store"

    def __init__(self, health: Health) -> None:
        self._health = health

    def write(self, records: Sequence[Record]) -> None:
        """Count the events of a batch."""
        events = sum(isinstance(record, RecordedEvent) for record in records)
        if events:
            self._health.lose("store cannot be opened", events)


def _make_dispatch(settings: Settings, sinks: Sequence[Sink], health: Health) -> Dispatch:
    return Dispatch(
        sinks,
        health=health,
        cap=settings.queue_cap,
        durable=settings.durability == "durable",
        journal_bytes=int(settings.journal_cap_mb * 1e6),
        durable_timeout_s=settings.durable_timeout_s,
    )


def _close_at_exit(monitor: DriftMonitor) -> None:
    reference = weakref.ref(monitor)

    def at_exit() -> None:
        alive = reference()
        if alive is not None:
            alive.close()

    atexit.register(at_exit)


def _warn_of_many_open() -> None:
    """Log how many monitors are open, once for each so many: who forgets them runs out of files."""
    count = sum(thread.name == WRITER_NAME for thread in threading.enumerate())
    if count and count % _MANY_OPEN == 0 and count not in _counts_logged:
        _counts_logged.add(count)
        logger.warning(
            "%d monitors are open in this process, each with a thread and open files. "
            "Keep one monitor for each agent, or close those that are not used any more.",
            count,
        )
