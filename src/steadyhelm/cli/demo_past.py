"""The past of the demo's agents: runs that go well, and one of each kind of drift; and an agent at work now.

Every run goes through the real monitor, with times of its own in the last two weeks.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from steadyhelm.cli.demo_agent import GOAL, GOOD_TASKS, DemoStep, StubbornAgent, good_task

if TYPE_CHECKING:
    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.engine.live_runs import Run

_DAY_S: Final = 86_400.0
_BETWEEN_STEPS_S: Final = 0.7
_BETWEEN_RUNS_S: Final = 4.0
_COST_PER_TOKEN_USD: Final = 3e-6
_SUPPORT_TASKS: Final = 14
_RESEARCH_TASKS: Final = 30
_POLLS: Final = 9

_TOPICS: Final = (
    "battery storage prices",
    "heat pumps in old houses",
    "night trains to the north",
    "repair cafes",
    "tidal power",
    "wooden high-rises",
)
_PLACES: Final = ("Bergen", "Graz", "Lyon", "Porto", "Riga", "Turin", "Utrecht")
_SOURCES: Final = ("a cooperative", "a grid operator", "a housing fund", "a museum", "the railway")
_STIFF: Final = (
    "As an AI language model, I would like to express my sincerest and most heartfelt apologies for any "
    "inconvenience whatsoever! I truly, deeply understand how frustrating this must be! I hope this helps! "
    "Please do not hesitate to reach out at any time! Have a wonderful, amazing, fantastic day!"
)


def record_past(where: str | Path) -> int:
    """Record the past of three agents in this database; return how many runs it has."""
    before = time.time()
    return sum(
        (
            _record_all("shop-coder", where, _plan_coder(before)),
            _record_all("web-researcher", where, _plan_researcher(before)),
            _record_all("support-desk", where, _plan_support(before)),
        )
    )


Plan = Iterator[tuple[float, str, Iterator[DemoStep]]]
"""When a run starts, its goal and its steps."""


def _record_all(agent: str, where: str | Path, plan: Plan) -> int:
    from steadyhelm.budgets.limits import Budget
    from steadyhelm.cli.demo import open_monitor

    count, clock = 0, _PastClock()
    with open_monitor(agent, where, calibration_runs=10, clock=clock) as monitor:
        for started_at, goal, steps in plan:
            clock.now = started_at
            # What went before is learnt first, as it is where a day lies between two runs.
            monitor.flush()
            with monitor.run(goal=goal, budget=Budget(tokens=40_000, steps=60)) as run:
                _record_steps(run, steps, clock)
            count += 1
    return count


class _PastClock:
    """The time in a run that is long over."""

    now = 0.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


def _record_steps(run: "Run", steps: Iterator[DemoStep], clock: _PastClock) -> None:
    """Record steps in a run, each as long after the one before as it took."""
    from steadyhelm.cli.demo import describe_step

    for step in steps:
        clock.now += step.took_s
        kind, name, fields = describe_step(step, clock.now)
        run.record(kind, name, cost_usd=step.tokens * _COST_PER_TOKEN_USD if step.tokens else None, **fields)


def _plan_coder(now: float) -> Plan:
    """Good tasks over a fortnight, then an edit taken back again and again, and a test that keeps failing."""
    for number, (goal, file, edits) in enumerate(GOOD_TASKS):
        yield now - (13 - number) * _DAY_S, goal, good_task(goal, file, edits)

    def edit_back_and_forth() -> Iterator[DemoStep]:
        yield DemoStep("read_file", arguments={"path": "shop/tax.py"}, result="return price * 0.07")
        for number in range(6):
            text = "0.19" if number % 2 == 0 else "0.07"
            yield DemoStep(
                "edit_file", arguments={"path": "shop/tax.py", "text": text}, result="shop/tax.py saved"
            )
            yield DemoStep("run_tests", arguments={}, result="2 failed, 10 passed", failed=True, tokens=300)

    def fail_again() -> Iterator[DemoStep]:
        yield DemoStep(words="I run the tests.", tokens=500)
        for _ in range(11):
            yield DemoStep(
                "run_tests",
                arguments={"only": "refund"},
                result="1 failed: test_refund",
                failed=True,
                tokens=250,
            )

    yield now - 2 * _DAY_S, "Use one tax rate everywhere", edit_back_and_forth()
    yield now - 0.4 * _DAY_S, "Make refunds work for vouchers", fail_again()


def _plan_researcher(now: float) -> Plan:
    """Research that goes well, one that turns in circles, one that leaves its goal, and one that spends."""
    for number in range(_RESEARCH_TASKS):
        topic = f"{_TOPICS[number % len(_TOPICS)]} in {2014 + number}"
        yield (
            now - (13 - 12 * number / _RESEARCH_TASKS) * _DAY_S,
            f"Summarise what is known about {topic}",
            _research(topic, number),
        )
    yield now - 1.5 * _DAY_S, "Summarise what tidal power costs", _circle()
    yield now - 1.1 * _DAY_S, "Summarise what is known about night trains to the north", _stray()
    yield now - 0.3 * _DAY_S, "Summarise what is known about wooden high-rises", _spend()


def _research(topic: str, number: int) -> Iterator[DemoStep]:
    """Research a topic, and sum it up."""
    yield DemoStep("search", arguments={"query": topic}, result=f"{7 + number} results about {topic}")
    for page in range(2 + number % 3):
        text = f"Page {page} on {topic}: numbers of {2010 + number + page}, figures and a table."
        yield DemoStep("open_page", arguments={"page": f"{topic}/{page}"}, result=text, tokens=400)
    source, place = _SOURCES[number % len(_SOURCES)], _PLACES[number % len(_PLACES)]
    words = f"Summary of {topic}: what it costs, who offers it, and what {source} in {place} knows about it."
    yield DemoStep(words=words, tokens=1200 + 50 * number)


def _circle() -> Iterator[DemoStep]:
    """Go round between the same three calls."""
    for _ in range(7):
        for tool, arguments, result in (
            ("search", {"query": "tidal power costs"}, "3 results, the same as before"),
            ("open_page", {"page": "tidal/1"}, "Page 1: see page 2 for costs."),
            ("open_page", {"page": "tidal/2"}, "Page 2: see page 1 for costs."),
        ):
            yield DemoStep(tool, arguments=arguments, result=result, tokens=300)


def _stray() -> Iterator[DemoStep]:
    """Begin well, then write poems."""
    yield from _research("night trains to the north", 1)
    for number in range(9):
        words = f"Here is poem number {number} about cats, clouds and a pirate who collects teapots."
        yield DemoStep("write_poem", arguments={"number": str(number)}, result=words, tokens=200)
        yield DemoStep(words=words, tokens=300)


def _spend() -> Iterator[DemoStep]:
    """Read far more than such a task takes."""
    for number in range(14):
        text = f"Page {number}: " + f"a long table of wooden high-rises, row {number}. " * 6
        yield DemoStep("open_page", arguments={"page": f"towers/{number}"}, result=text, tokens=3600)
    yield DemoStep(words="The list of wooden high-rises is too long to read in full.", tokens=4000)


def _plan_support(now: float) -> Plan:
    """Tickets, one that waits for a payment by polling, and one answered in another manner."""

    def ticket(number: int) -> Iterator[DemoStep]:
        yield DemoStep(
            "read_ticket", arguments={"id": str(number)}, result=f"Order {number} is late.", tokens=80
        )
        yield DemoStep("look_up_order", arguments={"id": str(number)}, result=f"Order {number}: shipped.")
        words = f"Order {number} was shipped yesterday and should arrive on Friday. Its code is SX{number}."
        yield DemoStep(words=words, tokens=350 + number)

    for number in range(_SUPPORT_TASKS):
        yield now - (13.5 - number * 0.9) * _DAY_S, f"Answer ticket {number}", ticket(number)

    def poll() -> Iterator[DemoStep]:
        yield DemoStep("read_ticket", arguments={"id": "77"}, result="Did my payment arrive?", tokens=80)
        for number in range(_POLLS):
            yield DemoStep(
                "check_payment",
                arguments={"id": "77"},
                result="pending" if number < _POLLS - 1 else "paid",
                took_s=30.0,
                tokens=20,
            )
        yield DemoStep(words="Your payment has arrived.", tokens=300)

    def gush() -> Iterator[DemoStep]:
        for number in range(6):
            yield DemoStep(
                "read_ticket", arguments={"id": f"9{number}"}, result=f"Ticket 9{number}", tokens=80
            )
            yield DemoStep(words=_STIFF + " " * number, tokens=900)

    yield now - 0.8 * _DAY_S, "Answer ticket 77: wait for the payment", poll()
    yield now - 0.2 * _DAY_S, "Answer tickets 90 to 95", gush()


class LiveDemo:
    """An agent that works, loops, is reminded and recovers, again and again, on a thread of its own.

    Args:
        where: The database it records to.
    """

    def __init__(self, where: str | Path) -> None:
        self._where = where
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="steadyhelm-demo", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        from steadyhelm.cli.demo import AGENT, open_monitor

        with open_monitor(AGENT, self._where) as monitor:
            while not self._stopped.is_set():
                self._play(monitor)
                self._stopped.wait(_BETWEEN_RUNS_S)

    def _play(self, monitor: "DriftMonitor") -> None:
        from steadyhelm.cli.demo import describe_step

        agent = StubbornAgent()
        with monitor.run(goal=GOAL) as run:
            run.record("user_message", "user", input_data={"text": GOAL})
            for step in agent.steps():
                if self._stopped.wait(_BETWEEN_STEPS_S):
                    return
                kind, name, fields = describe_step(step, time.time())
                decision = run.record(kind, name, **fields)
                if decision.verdict != "proceed":
                    agent.receive(decision.guidance)
