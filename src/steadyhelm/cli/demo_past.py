"""The past of the demo's agents, with each kind of drift and what came of it; and an agent at work now.

Every run goes through the real monitor, with times of its own in the last two weeks. Some of the agents that
drift follow the first guidance, some the second, and some none.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from steadyhelm.cli.demo_agent import GOAL, GOOD_TASKS, DemoStep, Steps, StubbornAgent, iter_good_task

if TYPE_CHECKING:
    from steadyhelm.assembly import DriftMonitor
    from steadyhelm.engine.live_runs import Run

_DAY_S: Final = 86_400.0
_BETWEEN_STEPS_S: Final = 0.7
_BETWEEN_RUNS_S: Final = 4.0
_COST_PER_TOKEN_USD: Final = 3e-6
_SUPPORT_TASKS: Final = 14
_RESEARCH_TASKS: Final = 30
_MOST_ROUNDS: Final = 11

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
_STIFF_REPLY: Final = (
    "As an AI language model, I would like to express my sincerest and most heartfelt apologies for any "
    "inconvenience whatsoever! I truly, deeply understand how frustrating this must be! I hope this helps! "
    "Please do not hesitate to reach out at any time! Have a wonderful, amazing, fantastic day!"
)


def record_past(where: str | Path) -> int:
    """Record the past of three agents in this database; return how many runs it has."""
    now = time.time()
    return sum(
        (
            _record_all("shop-coder", where, _plan_coder_runs(now)),
            _record_all("web-researcher", where, _plan_researcher_runs(now)),
            _record_all("support-desk", where, _plan_support_runs(now)),
        )
    )


class _PastRun(NamedTuple):
    """A run to record: when it starts, its goal and its steps."""

    started_at: float
    goal: str
    steps: Steps


def _record_all(agent: str, where: str | Path, runs: Iterator[_PastRun]) -> int:
    from steadyhelm.budgets.limits import Budget
    from steadyhelm.cli.demo import open_monitor

    count, clock = 0, _PastClock()
    with open_monitor(agent, where, calibration_runs=10, clock=clock) as monitor:
        for started_at, goal, steps in sorted(runs, key=lambda it: it.started_at):
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


def _record_steps(run: "Run", steps: Steps, clock: _PastClock) -> None:
    """Record steps in a run, each as long after the one before as it took, and send back what is decided."""
    from steadyhelm.cli.demo import describe_step

    step = next(steps, None)
    while step is not None:
        clock.now += step.took_s
        kind, name, fields = describe_step(step, clock.now)
        cost = step.tokens * _COST_PER_TOKEN_USD if step.tokens else None
        decision = run.record(kind, name, cost_usd=cost, **fields)
        try:
            step = steps.send(decision.verdict != "proceed")
        except StopIteration:
            return


def _repeat(steps: list[DemoStep], *, rounds: int, ignored: int) -> Steps:
    """Repeat steps until guidance has come more often than it is ignored, or so many times."""
    heard = 0
    for step in steps * rounds:
        heard += yield step
        if heard > ignored:
            return


def _plan_coder_runs(now: float) -> Iterator[_PastRun]:
    """Good tasks over a fortnight; tests that keep failing, and an edit taken back again and again."""
    for number, (goal, file, edits) in enumerate(GOOD_TASKS):
        yield _PastRun(now - (13 - number) * _DAY_S, goal, iter_good_task(goal, file, edits))
    for days, what, ignored in ((4.6, "receipts", 0), (3.4, "stock levels", 1), (2.3, "invoices", 0)):
        yield _PastRun(now - days * _DAY_S, f"Make the test of {what} pass", _fail_again(what, ignored))
    yield _PastRun(now - 1.6 * _DAY_S, "Use one tax rate everywhere", _edit_back_and_forth())
    yield _PastRun(now - 0.4 * _DAY_S, "Make refunds work for vouchers", _fail_again("refunds", _MOST_ROUNDS))


def _fail_again(what: str, ignored: int) -> Steps:
    """Run a failing test again and again; once guidance is followed, look for the cause elsewhere."""
    result = f"1 failed: test of {what}"
    failing = DemoStep("run_tests", arguments={"only": what}, result=result, failed=True, tokens=250)
    yield DemoStep(words="I run the tests.", tokens=500)
    yield from _repeat([failing], rounds=_MOST_ROUNDS, ignored=ignored)
    if ignored < _MOST_ROUNDS:
        yield from _fix_fault(f"shop/{what.replace(' ', '_')}.py", what)


def _edit_back_and_forth() -> Steps:
    """Change a line back and forth; a request for a new plan is followed."""
    yield DemoStep("read_file", arguments={"path": "shop/tax.py"}, result="return price * 0.07")
    tests = DemoStep("run_tests", arguments={}, result="2 failed, 10 passed", failed=True, tokens=300)
    edits = [
        DemoStep("edit_file", arguments={"path": "shop/tax.py", "text": rate}, result="shop/tax.py saved")
        for rate in ("0.19", "0.07")
    ]
    yield from _repeat([edits[0], tests, edits[1], tests], rounds=4, ignored=1)
    yield from _fix_fault("shop/rates.py", "the tax rate")


def _fix_fault(path: str, what: str) -> Steps:
    """Find the cause in another file, correct it, and hand over."""
    yield DemoStep(words=f"The fault in {what} is elsewhere: I read {path}.", tokens=600)
    yield DemoStep("read_file", arguments={"path": path}, result=f"the part about {what}, 60 lines")
    yield DemoStep("edit_file", arguments={"path": path, "text": f"correct {what}"}, result=f"{path} saved")
    yield DemoStep("run_tests", arguments={"only": what, "file": path}, result="12 passed", tokens=250)
    yield DemoStep("run_linter", arguments={"path": path}, result="no complaints")
    yield DemoStep("show_changes", arguments={}, result=f"{path}: 2 lines changed")
    yield DemoStep("commit", arguments={"text": f"correct {what}"}, result="committed")
    yield DemoStep(words=f"Done: {what} works again, the cause was in {path}.", tokens=700)


def _plan_researcher_runs(now: float) -> Iterator[_PastRun]:
    """Research that goes well, some that turns in circles, one that leaves its goal, and one that spends."""
    for number in range(_RESEARCH_TASKS):
        topic = f"{_TOPICS[number % len(_TOPICS)]} in {2014 + number}"
        goal = f"Summarise what is known about {topic}"
        started_at = now - (13 - 12 * number / _RESEARCH_TASKS) * _DAY_S
        yield _PastRun(started_at, goal, _research(topic, number))
    for days, topic, ignored in (
        (5.2, "heat pumps", 0),
        (3.7, "repair cafes", 0),
        (2.1, "battery storage", 1),
        (1.5, "tidal power", _MOST_ROUNDS),
    ):
        yield _PastRun(
            now - days * _DAY_S, f"Summarise what {topic} cost", _repeat_three_calls(topic, ignored)
        )
    trains, towers = "night trains to the north", "wooden high-rises"
    yield _PastRun(now - 1.1 * _DAY_S, f"Summarise what is known about {trains}", _leave_goal(trains))
    yield _PastRun(now - 0.3 * _DAY_S, f"Summarise what is known about {towers}", _spend(towers))


def _research(topic: str, number: int) -> Steps:
    """Research a topic, and sum it up."""
    yield DemoStep("search", arguments={"query": topic}, result=f"{7 + number} results about {topic}")
    for page in range(2 + number * 5 % 9):
        text = f"Page {page} on {topic}: numbers of {2010 + number + page}, figures and a table."
        yield DemoStep("open_page", arguments={"page": f"{topic}/{page}"}, result=text, tokens=400)
    source, place = _SOURCES[number % len(_SOURCES)], _PLACES[number % len(_PLACES)]
    words = f"Summary of {topic}: what it costs, who offers it, and what {source} in {place} knows about it."
    yield DemoStep(words=words, tokens=1200 + 50 * number)


def _repeat_three_calls(topic: str, ignored: int) -> Steps:
    """Go round between the same three calls; once guidance is followed, ask another source."""
    calls = (
        ("search", {"query": f"{topic} costs"}, "3 results, the same as before"),
        ("open_page", {"page": f"{topic}/1"}, "Page 1: see page 2 for costs."),
        ("open_page", {"page": f"{topic}/2"}, "Page 2: see page 1 for costs."),
    )
    steps = [DemoStep(tool, arguments=given, result=result, tokens=300) for tool, given, result in calls]
    yield from _repeat(steps, rounds=7, ignored=ignored)
    if ignored < _MOST_ROUNDS:
        yield DemoStep("search", arguments={"query": f"{topic} price list"}, result="a register of prices")
        yield from _read_on(topic)


def _read_on(topic: str) -> Steps:
    """Read what had not been read about a topic, and sum it up."""
    for number, source in enumerate(_SOURCES):
        text = f"What {source} pays for {topic}: {1800 + 350 * number} a year, with a table by region."
        yield DemoStep("open_page", arguments={"page": f"{topic} by {source}"}, result=text, tokens=250)
        yield DemoStep(words=f"Known about {topic} from {source}: what it pays, by region.", tokens=150)
    words = f"Summary of {topic}: what it costs by the register, who pays it, and how that differs."
    yield DemoStep(words=words, tokens=900)


def _leave_goal(topic: str) -> Steps:
    """Begin well, then write poems; a request for a new plan brings it back."""
    yield from _research(topic, 1)
    heard = 0
    for number in range(9):
        words = f"Here is poem number {number} about cats, clouds and a pirate who collects teapots."
        heard += yield DemoStep("write_poem", arguments={"number": str(number)}, result=words, tokens=200)
        heard += yield DemoStep(words=words, tokens=300)
        if heard > 1:
            break
    yield from _read_on(topic)


def _spend(topic: str) -> Steps:
    """Read far more than such a task takes."""
    for number in range(14):
        text = f"Page {number}: " + f"a long table of {topic}, row {number}. " * 6
        yield DemoStep("open_page", arguments={"page": f"towers/{number}"}, result=text, tokens=3600)
    yield DemoStep(words=f"The list of {topic} is too long to read in full.", tokens=4000)


def _plan_support_runs(now: float) -> Iterator[_PastRun]:
    """Tickets, some that wait for a payment by polling, and some answered in another manner."""
    for number in range(_SUPPORT_TASKS):
        started_at = now - (13.5 - number * 0.9) * _DAY_S
        last = 10 * number + number * 3 % 7
        goal = f"Answer tickets {10 * number} to {last}" if number * 3 % 7 else f"Answer ticket {last}"
        yield _PastRun(started_at, goal, _answer_tickets(range(10 * number, last + 1)))
    for days, number, polls in ((9.3, 147, 4), (6.1, 157, 6), (3.3, 167, 5), (0.8, 177, 9)):
        goal = f"Answer ticket {number}: wait for the payment"
        yield _PastRun(now - days * _DAY_S, goal, _poll(str(number), polls))
    yield _PastRun(now - 0.2 * _DAY_S, "Answer tickets 190 to 199", _change_style())


def _answer_tickets(numbers: range) -> Steps:
    for number in numbers:
        ticket = {"id": str(number)}
        yield DemoStep("read_ticket", arguments=ticket, result=f"Order {number} is late.", tokens=80)
        yield DemoStep("look_up_order", arguments=ticket, result=f"Order {number}: shipped.")
        yield DemoStep(words=_write_answer(number), tokens=350 + number)


def _write_answer(number: int) -> str:
    return f"Order {number} was shipped yesterday and should arrive on Friday. Its code is SX{number}."


def _poll(ticket: str, polls: int) -> Steps:
    """Wait for a payment, which comes."""
    yield DemoStep("read_ticket", arguments={"id": ticket}, result="Did my payment arrive?", tokens=80)
    for number in range(1, polls + 1):
        result = "paid" if number == polls else "pending"
        yield DemoStep("check_payment", arguments={"id": ticket}, result=result, took_s=30.0, tokens=20)
    yield DemoStep(words=f"The payment for ticket {ticket} has arrived.", tokens=300)


def _change_style() -> Steps:
    """Answer in a manner nobody asked for, until a reminder is followed."""
    heard = 0
    for number in range(190, 200):
        ticket = {"id": str(number)}
        heard += yield DemoStep("read_ticket", arguments=ticket, result=f"Order {number} is late.", tokens=80)
        words = _write_answer(number) if heard else _STIFF_REPLY + " " * (number - 190)
        heard += yield DemoStep(words=words, tokens=420)


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
