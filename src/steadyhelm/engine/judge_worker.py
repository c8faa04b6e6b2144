"""Ask a judge on a thread of its own: nothing here waits on, or raises into, the thread of the agent.

What it may use in one run and in one day is limited: the worst case is reserved before it is asked. The day
is shared by all processes through the store: what all have reserved is read and the reservation written in
one transaction, so that two processes together use up a limit exactly.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from msgspec import structs

from steadyhelm.bounded import BoundedDict
from steadyhelm.budgets.daily import DailyLimits
from steadyhelm.engine.health import Health
from steadyhelm.engine.judge_calls import DeadlineError, JudgeCalls
from steadyhelm.errors import StoreError
from steadyhelm.events import new_id
from steadyhelm.forks import ReentrantEvent
from steadyhelm.judge import (
    FIXED_WEIGHT,
    MAX_ANSWER_TOKENS,
    NO_VERDICT,
    JudgedReport,
    JudgeVerdict,
    ModelJudge,
    NoVerdictError,
    Question,
)
from steadyhelm.judging.answers import addresses_judge, read_answer
from steadyhelm.judging.usage import JudgeAmounts, JudgeLimits
from steadyhelm.sink import DailyGrant
from steadyhelm.store import JUDGE_ACCOUNT, Store
from steadyhelm.store_rows import AgentSpending

JudgePrice = Callable[[str, int, int], float | None]
"""Returns the cost of a call from the model, its input and its output tokens; None where it is not known."""
NOT_ASKED: Final = "question for the judge not asked"
NO_USABLE_VERDICT: Final = "no verdict of the judge"
LATE_VERDICT: Final = "verdict of the judge after the end of its run"
STAYS_RESERVED: Final = "worst case of a judge's answer stays reserved"
_MAX_WAITING: Final = 64
_ANSWERS_KEPT: Final = 512
_REQUEST_TOKENS: Final = 400
"""What a request uses at most beside the bytes of the question: roles, schema, tool."""
_MAX_ABANDONED: Final = 2
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0
_IDLE_S: Final = 60.0
_MAX_REASON_CHARS: Final = 120
_NO_ANSWER: Final = JudgeVerdict(label=NO_VERDICT, confidence=0.0)


class JudgedRecorder(Protocol):
    """The run that a question is about."""

    @property
    def is_live(self) -> bool:
        """False once the run has ended or is suspended."""
        ...

    def record_judged(self, report: JudgedReport) -> bool:
        """Record an answer; return whether the run could still take it."""
        ...

    def get_judge_spending(self) -> JudgeAmounts:
        """Return what judges have used for this run."""
        ...

    def get_judge_weight(self) -> float:
        """Return how far verdicts are trusted in this run."""
        ...


class _Asked(NamedTuple):
    recorder: JudgedRecorder
    question: Question


class JudgeWorker:
    """Asks one judge, one question at a time.

    Args:
        judge: The judge.
        health: Counts what was not asked and which answers were none.
        daily: What may be used in a day.
        run_limits: What may be used in one run.
        deadline_s: Seconds after which a call is given up.
        weight: How far verdicts are trusted in runs that begin now, 0 to 1.
        price: Returns the cost of a call; None where no price is known.
        clock: Returns seconds that only grow.
    """

    def __init__(
        self,
        judge: ModelJudge,
        *,
        health: Health,
        daily: "DailyAccount",
        run_limits: JudgeLimits,
        deadline_s: float = 20.0,
        weight: float = FIXED_WEIGHT,
        price: JudgePrice | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._judge = judge
        self._health = health
        self._daily = daily
        self._run_limits = run_limits
        self._deadline_s = deadline_s
        self.weight = weight
        self._price = price
        self._clock = clock
        self._is_closed = False
        self._known: BoundedDict[str, JudgeVerdict] = BoundedDict(_ANSWERS_KEPT)
        self.after_fork()

    def after_fork(self) -> None:
        """Start afresh in a child process: what waits is the parent's to ask."""
        self._waiting: deque[_Asked] = deque()
        self._signal = ReentrantEvent()
        self._may_start = deque([True])  # whoever takes it starts the thread
        self._calls = JudgeCalls(self._deadline_s)
        self._failures = 0
        self._paused_until = 0.0

    def ask(self, recorder: JudgedRecorder, questions: Sequence[Question]) -> None:
        """Have questions answered later. Returns at once and never raises."""
        for question in questions:
            if self._is_closed or len(self._waiting) >= _MAX_WAITING:
                self._health.count(NOT_ASKED)
            else:
                self._waiting.append(_Asked(recorder, question))
        self._start()
        self._signal.set()

    def close(self) -> None:
        """Ask nothing any more. Waits for nothing: a call under way ends without a record."""
        self._is_closed = True
        self._signal.set()

    def _start(self) -> None:
        """Start the thread, unless it is started."""
        if self._is_closed or not self._may_start:
            return
        try:
            self._may_start.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            # Not `Thread.start`, which waits until the thread runs.
            threading._start_new_thread(self._run, ())  # type: ignore[attr-defined]  # noqa: SLF001
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            self._may_start.append(True)
            self._health.count(NOT_ASKED)

    def _run(self) -> None:
        signal = self._signal
        while not self._is_closed and signal is self._signal:
            signal.clear()
            self.answer_waiting()
            signal.wait(_IDLE_S)

    def answer_waiting(self) -> int:
        """Answer every question that waits, on this thread; return how many were recorded."""
        answered = 0
        while self._waiting and not self._is_closed:
            asked = self._waiting.popleft()
            try:
                answered += self._answer(asked)
            except BaseException as exc:  # noqa: BLE001 - whatever it is, the next question is asked
                self._health.swallow("judge", exc)
        return answered

    def _answer(self, asked: _Asked) -> bool:
        """Answer one question and record the answer; return whether the run took it."""
        question, recorder = asked.question, asked.recorder
        if not recorder.is_live:
            self._health.count(NOT_ASKED)
            return False
        report = structs.replace(self._build_report(question, recorder), weight=recorder.get_judge_weight())
        if recorder.record_judged(report):
            return True
        self._health.count(LATE_VERDICT)
        return False

    def _build_report(self, question: Question, recorder: JudgedRecorder) -> JudgedReport:
        known = self._known.get(question.question_id)
        if known is not None:
            return self._report(question, known, asked=False, reason="an equal question was answered before")
        worst = self._estimate(question)
        reason = self._explain_refusal(recorder, worst)
        if reason:
            self._health.count(NOT_ASKED)
            return self._report(question, _NO_ANSWER, reason=reason, asked=False)
        return self._ask_judge(question, worst)

    def _estimate(self, question: Question) -> JudgeAmounts:
        """Return what a question can use at most: no token is shorter than a byte."""
        tokens = len(question.text.encode("utf-8", "replace")) + _REQUEST_TOKENS
        cost = self._look_up_price(tokens, MAX_ANSWER_TOKENS)
        return JudgeAmounts(1, tokens + MAX_ANSWER_TOKENS, cost or 0.0)

    def _explain_refusal(self, recorder: JudgedRecorder, worst: JudgeAmounts) -> str:
        """Return why a question may not be asked; empty when it may, and then the worst case is reserved."""
        if self._clock() < self._paused_until or self._calls.abandoned >= _MAX_ABANDONED:
            return "the judge is paused after failures"
        passed = self._run_limits.find_passed(recorder.get_judge_spending().add(worst))
        if passed:
            return f"the limit of {passed} of the run is reached"
        return self._daily.reserve(worst)

    def _ask_judge(self, question: Question, worst: JudgeAmounts) -> JudgedReport:
        used = worst
        try:
            answer = self._calls.call(lambda: self._judge.judge(question))
            verdict = read_answer(answer, question)
        except NoVerdictError as exc:
            self._failures = 0
            used = self._measure(exc.input_tokens, exc.output_tokens, None, worst)
            return self._report_none(question, used, exc.reason)
        except BaseException as exc:  # noqa: BLE001 - a judge may fail in any way
            self._note_failure()
            reason = str(exc) if isinstance(exc, DeadlineError) else f"the judge failed: {type(exc).__name__}"
            return self._report_none(question, used, reason)
        else:
            self._failures = 0
            used = self._measure(verdict.input_tokens, verdict.output_tokens, verdict.cost_usd, worst)
            self._known[question.question_id] = verdict
            cost = used.cost_usd if used.cost_usd or verdict.cost_usd is not None else None
            return self._report(question, structs.replace(verdict, cost_usd=cost))
        finally:
            self._settle(worst, used)

    def _measure(
        self, input_tokens: int, output_tokens: int, cost_usd: float | None, worst: JudgeAmounts
    ) -> JudgeAmounts:
        """Return what an answer used; what is not known is the worst case."""
        tokens = input_tokens + output_tokens
        if not tokens:
            return structs.replace(worst, cost_usd=worst.cost_usd if cost_usd is None else cost_usd)
        cost = self._look_up_price(input_tokens, output_tokens) if cost_usd is None else cost_usd
        return JudgeAmounts(1, tokens, worst.cost_usd if cost is None else cost)

    def _settle(self, reserved: JudgeAmounts, used: JudgeAmounts) -> None:
        try:
            self._daily.settle(reserved, used)
        except StoreError:
            self._health.count(STAYS_RESERVED)

    def _look_up_price(self, input_tokens: int, output_tokens: int) -> float | None:
        model: Any = getattr(self._judge, "model", None)
        if self._price is None or type(model) is not str:
            return None
        return self._price(model, input_tokens, output_tokens)

    def _note_failure(self) -> None:
        """Ask nobody for a while, longer after each failure in a row."""
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._paused_until = self._clock() + pause_s

    def _report(
        self, question: Question, verdict: JudgeVerdict, *, asked: bool = True, reason: str = ""
    ) -> JudgedReport:
        if not asked:
            verdict = structs.replace(verdict, input_tokens=0, output_tokens=0, cost_usd=None)
        return JudgedReport.build(
            question,
            verdict,
            reason=reason,
            asked=asked,
            addressed=addresses_judge(question),
        )

    def _report_none(self, question: Question, used: JudgeAmounts, reason: str) -> JudgedReport:
        self._health.count(NO_USABLE_VERDICT)
        cost = used.cost_usd or None
        verdict = structs.replace(_NO_ANSWER, input_tokens=used.tokens, cost_usd=cost)
        return self._report(question, verdict, reason=reason[:_MAX_REASON_CHARS])


class DailyAccount:
    """What judges have used today, over all runs, agents and processes of one store.

    Args:
        limits: What may be used in one day.
        store: Where it is shared; None counts in this process alone.
        clock: Returns the time.
        utc_offset_h: How many hours the day begins before that of UTC.
    """

    def __init__(
        self,
        limits: JudgeLimits,
        store: Store | None,
        clock: Callable[[], float],
        *,
        utc_offset_h: float = 0.0,
    ) -> None:
        self._limits = limits
        self._store = store
        self._clock = clock
        self._days = DailyLimits(utc_offset_h=utc_offset_h)
        self._date = ""
        self._used = JudgeAmounts()

    def reserve(self, amounts: JudgeAmounts) -> str:
        """Reserve what a question may use at most; return why it may not be asked, empty when it may."""
        try:
            passed = self._reserve(amounts)
        except StoreError:
            return "the database could not be reached to share the limit of the day"
        return f"the limit of {passed} of the day is reached" if passed else ""

    def _reserve(self, amounts: JudgeAmounts) -> str:
        """Reserve amounts unless that passes a limit; return that limit, empty for none."""
        now, store = self._clock(), self._store
        if store is None:
            passed = self._limits.find_passed(self.read().add(amounts))
            if not passed:
                self._count(amounts, now)
            return passed
        grant = _make_grant(amounts, now)  # outside: a transaction that is tried again reserves once

        def reserve_once() -> str:
            store.lock_agents([JUDGE_ACCOUNT])
            passed = self._limits.find_passed(self.read().add(amounts))
            if not passed:
                store.write([grant])
            return passed

        return store.run_transaction(reserve_once)

    def settle(self, reserved: JudgeAmounts, used: JudgeAmounts) -> None:
        """Return what was reserved and not used; raises StoreError, and then it stays reserved."""
        if used != reserved:
            self._write(used.add(reserved, -1))

    def read(self) -> JudgeAmounts:
        """Return what is used and reserved today; raises StoreError."""
        day = self._days.find_day(self._clock())
        if self._store is None:
            return self._used if day.date == self._date else JudgeAmounts()
        return read_daily_use(self._store, since=day.start, until=day.end)

    def _write(self, amounts: JudgeAmounts) -> None:
        now = self._clock()
        if self._store is not None:
            self._store.write([_make_grant(amounts, now)])
        else:
            self._count(amounts, now)

    def _count(self, amounts: JudgeAmounts, now: float) -> None:
        date = self._days.find_day(now).date
        self._used = amounts if date != self._date else self._used.add(amounts)
        self._date = date


def _make_grant(amounts: JudgeAmounts, at: float) -> DailyGrant:
    used = (amounts.calls, amounts.tokens, amounts.cost_usd)
    return DailyGrant(JUDGE_ACCOUNT, "", new_id(), at, *used, "judge")


def read_daily_use(store: Store, *, since: float, until: float) -> JudgeAmounts:
    """Return what judges have used from one time to another; raises StoreError."""
    found = store.list_spending(since=since, until=until, agent_id=JUDGE_ACCOUNT)
    total = found[0] if found else AgentSpending(agent_id=JUDGE_ACCOUNT)
    return JudgeAmounts(total.granted_steps, total.granted_tokens, total.granted_cost_usd)
