"""One process of a load: simulated agents that take turns, and what recording them took."""

import heapq
import itertools
import logging
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from msgspec import Struct

from steadyhelm.assembly import DriftMonitor
from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.lab.load.mix import LoadMix, StepSizes, draw, draw_index
from steadyhelm.sink import Record, RecordedEvent, Sink

_WORDS: Final = tuple(
    word
    for line in (
        "order parcel border carrier report table column query file test branch build error warning module",
        "import function value result customer account refund invoice ticket price index cache token session",
        "request response header field schema record update delete insert select filter sort group total",
        "average limit window queue worker thread process lock commit merge review deploy release version",
    )
    for word in line.split()
)
_CALLS_REPEATED: Final = 8
"""How far back a call may lie that an agent makes again."""
_MAX_CHARS: Final = 60_000
_AGENT_NAME_COUNT: Final = 4
"""The simulated agents share these names, as instances of one program do, and so do the processes."""
_FLUSH_S: Final = 60.0
_SAMPLE_S: Final = 1.0
_GAPS_BEFORE: Final = 20


class SimulatedAgent:
    """One agent that never stops working.

    Args:
        mix: What it does.
        random: Decides what comes next.
    """

    def __init__(self, mix: LoadMix, random: Random) -> None:
        self._mix = mix
        self._random = random
        self._kinds = list(mix.kinds)
        self._shares = [sizes.share for sizes in mix.kinds.values()]
        # Cuts of one long text: no text is made anew for each step.
        self._text = " ".join(random.choices(_WORDS, k=_MAX_CHARS // 6))

    def make_goal(self) -> str:
        """Return the goal of the next run."""
        return f"find out about the {' '.join(self._random.sample(_WORDS, 6))} and report it"

    def list_steps(self, length: int) -> Iterator[dict[str, Any]]:
        """Yield the steps of one run, as arguments of `record_event`."""
        recent: list[tuple[str, dict[str, Any]]] = []
        for _ in range(length):
            yield self._make_step(recent)

    def draw_length(self) -> int:
        """Return how many steps the next run has."""
        return max(1, round(draw(self._mix.lengths, self._random)))

    def draw_run_under_way(self) -> tuple[int, int]:
        """Return the length of the run that an agent is found in at any moment, and how many steps it is in.

        A long run is found under way more often than a short one.
        """
        longest = max(1.0, self._mix.lengths[-1])
        length = self.draw_length()
        while self._random.random() * longest >= length:
            length = self.draw_length()
        return length, self._random.randrange(length)

    def draw_gap(self) -> float:
        """Return the time to the next step, relative to the mean."""
        return draw(self._mix.gaps, self._random)

    def _choose_input(
        self, kind: str, sizes: StepSizes, recent: list[tuple[str, dict[str, Any]]]
    ) -> tuple[str, dict[str, Any]]:
        """Return the name and the input of a step: sometimes those of a recent call."""
        random, is_call = self._random, kind == TOOL_CALL
        if is_call and recent and random.random() < self._mix.repeated / sizes.share:
            return random.choice(recent)
        name = f"tool_{draw_index(self._mix.tools, random)}" if is_call else kind
        return name, {"text": self._cut(draw(sizes.input_chars, random))}

    def _make_step(self, recent: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        random, kind = self._random, self._kinds[draw_index(self._shares, self._random)]
        sizes = self._mix.kinds[kind]
        is_call = kind == TOOL_CALL
        name, given = self._choose_input(kind, sizes, recent)
        if is_call:
            recent.append((name, given))
            del recent[:-_CALLS_REPEATED]
        has_failed = is_call and random.random() < self._mix.failed / sizes.share
        return {
            "action_type": kind,
            "action_name": "model" if kind == LLM_REQUEST else name,
            "input_data": given,
            "output_data": {"text": self._cut(draw(sizes.output_chars, random))},
            "token_count": round(draw(sizes.tokens, random)),
            "error": "it failed" if has_failed else None,
        }

    def _cut(self, chars: float) -> str:
        start = self._random.randrange(_MAX_CHARS // 8)
        return self._text[start : start + int(chars)]


class WorkerPlan(Struct, frozen=True, kw_only=True):
    """What one process does."""

    database: str
    config_file: str | None
    token: str
    number: int
    agents: int
    rate: float
    seconds: float
    seed: int
    mix: LoadMix


class WorkerFigures(Struct, frozen=True, kw_only=True):
    """What one process measured.

    `past` are the steps of runs that were under way when the time began: they are stored, and not measured.
    Lags are numbers of steps by milliseconds. Memory is sampled once a second, in bytes.
    """

    past: int
    recorded: int
    runs: int
    late_s: float
    lags_ms: dict[int, int]
    cpu_s: float
    memory: list[int]
    troubles: dict[str, int]


class LagSink(Sink):
    """Measures how long after it was recorded each step is in the store: sinks come after the store."""

    name = "lag"

    def __init__(self) -> None:
        self.since = float("inf")
        """The time of the first step to measure."""
        # By milliseconds: what measures memory must not grow with every step.
        self.lags_ms: Counter[int] = Counter()

    def write(self, records: Sequence[Record]) -> None:
        """Measure the steps of a batch."""
        now = time.time()
        events = (record.event for record in records if isinstance(record, RecordedEvent))
        self.lags_ms.update(
            round((now - event.timestamp) * 1000) for event in events if event.timestamp >= self.since
        )


class _Turn(Struct, order=True):
    """The next step of one agent, by the time at which it is due."""

    due_s: float
    number: int
    steps: Any = None
    run_id: str = ""


def run_worker(plan: WorkerPlan) -> WorkerFigures:
    """Simulate agents for as long as the plan says, and store everything they recorded."""
    logging.getLogger("steadyhelm").addHandler(logging.NullHandler())
    random = Random(f"{plan.seed}/{plan.number}")  # noqa: S311 - a simulation
    lag = LagSink()
    monitors = [_open_monitor(plan, name, lag) for name in range(_AGENT_NAME_COUNT)]
    simulation = _Simulation(plan, monitors, random)
    try:
        simulation.begin_runs()
        with _MemorySamples() as memory:
            before_s, lag.since = time.process_time(), time.time()
            simulation.record()
            for monitor in monitors:
                monitor.flush(_FLUSH_S)
            cpu_s = time.process_time() - before_s
    finally:
        for monitor in monitors:
            monitor.close(_FLUSH_S)
    troubles: dict[str, int] = {}
    for monitor in monitors:
        for reason, count in monitor.health.totals().items():
            troubles[reason] = troubles.get(reason, 0) + count
    return WorkerFigures(
        past=simulation.past,
        recorded=simulation.recorded,
        runs=simulation.runs,
        late_s=simulation.late_s,
        lags_ms=dict(lag.lags_ms),
        cpu_s=cpu_s,
        memory=memory.samples,
        troubles=troubles,
    )


def list_agent_names(token: str) -> list[str]:
    """Return the names under which the agents of one load are stored."""
    return [f"load-{token}-{name}" for name in range(_AGENT_NAME_COUNT)]


def _open_monitor(plan: WorkerPlan, name: int, lag: LagSink) -> DriftMonitor:
    return DriftMonitor(
        list_agent_names(plan.token)[name],
        alert_webhook="",
        db_path=plan.database,
        config=plan.config_file,
        sinks=[lag],
    )


class _Simulation:
    """The agents of one process, which take turns.

    Args:
        plan: What the process does.
        monitors: The agents share them.
        random: Decides what the agents do.
    """

    def __init__(self, plan: WorkerPlan, monitors: Sequence[DriftMonitor], random: Random) -> None:
        self._plan = plan
        self._monitors = monitors
        self._agent = SimulatedAgent(plan.mix, random)
        self._turns: list[_Turn] = []
        self.past = self.recorded = self.runs = 0
        self.late_s = 0.0

    def begin_runs(self) -> None:
        """Bring every agent into a run that began long ago, and store it so far.

        Runs and what is kept of them are then as many and as long as at any later time: memory that grows
        is not that of runs which all began at the same moment.
        """
        for number in range(self._plan.agents):
            turn = _Turn(_draw_first_due(self._agent, self._plan.rate), number)
            length, past = self._agent.draw_run_under_way()
            self._start_run(turn, length)
            for step in itertools.islice(turn.steps, past):
                self._get_monitor(turn).record_event(run_id=turn.run_id, **step)
            self.past += past
            self._turns.append(turn)
        heapq.heapify(self._turns)
        for monitor in self._monitors:
            monitor.flush(_FLUSH_S)

    def record(self) -> None:
        """Record steps when they are due, for as long as the plan says."""
        started = time.monotonic()
        while (now := time.monotonic() - started) < self._plan.seconds:
            wait_s = self._turns[0].due_s - now
            if wait_s > 0:
                time.sleep(min(wait_s, self._plan.seconds - now))
            else:
                self.late_s = max(self.late_s, -wait_s)
                self._take_turn(self._turns[0])

    def _take_turn(self, turn: _Turn) -> None:
        if turn.steps is None:
            self._start_run(turn, self._agent.draw_length())
        step = next(turn.steps, None)
        if step is None:
            self._get_monitor(turn).end_run(turn.run_id)
            turn.steps = None
        else:
            self._get_monitor(turn).record_event(run_id=turn.run_id, **step)
            self.recorded += 1
            turn.due_s += self._agent.draw_gap() / self._plan.rate
        heapq.heapreplace(self._turns, turn)

    def _start_run(self, turn: _Turn, length: int) -> None:
        turn.steps = self._agent.list_steps(length)
        turn.run_id = f"{self._plan.token}-{self._plan.number}-{self.runs}"
        self.runs += 1
        # In a context of its own: it is no run inside another one.
        Context().run(self._get_monitor(turn).start_run, turn.run_id, self._agent.make_goal())

    def _get_monitor(self, turn: _Turn) -> DriftMonitor:
        return self._monitors[turn.number % len(self._monitors)]


def _draw_first_due(agent: SimulatedAgent, rate: float) -> float:
    """Return when an agent that began long ago makes its next step: otherwise all would begin at once."""
    due_s = -_GAPS_BEFORE / rate
    while due_s < 0:
        due_s += agent.draw_gap() / rate
    return due_s


class _MemorySamples:
    """Samples the resident memory of this process on a thread of its own, in a `with` block."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            with suppress(OSError):
                pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
                self.samples.append(pages * resource.getpagesize())
