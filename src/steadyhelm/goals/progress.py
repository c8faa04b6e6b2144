"""Estimate the progress of a run from plan items, changed files and test results, unless it is declared."""

import math
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.events import CALL_REFUSED, PROGRESS, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import fingerprint
from steadyhelm.goals.work_signals import (
    ITEMS_KEPT,
    PlanChange,
    SuiteRun,
    find_file_change,
    find_suite_run,
    hash_text,
    is_plan_tool,
    read_plan_change,
)

PATIENCE: Final = 8
_MAX_WITHOUT_PLAN: Final = 0.8
_HALFWAY_WORK: Final = 8.0
_CHANGE_WORK: Final = 1.0
_TESTS_PASS_WORK: Final = 2.0
_FEWER_FAILURES_WORK: Final = 1.0
_NEW_RESULT_WORK: Final = 0.02
_NEW_RESULT_STILL_STEPS: Final = 0.25
_CHANGES_KEPT: Final = 64
_TESTS_KEPT: Final = 16
_PAGE_BYTES: Final = 512
_RESULTS_PER_PAGE: Final = 200
_KIND_BY_TOOL_KIND: Final = {"poll": "wait", "read": "look", "write": "work", "idempotent": "look"}


class SeenResults(Struct):
    """The results seen before, in two pages of bits: a full page becomes the older one.

    A new result is sometimes taken for an old one (less than one in ten). An old one of the last few hundred
    is never taken for new. Until the first page is full there is no older one.
    """

    page: bytearray = field(default_factory=lambda: bytearray(_PAGE_BYTES))
    older: bytearray = field(default_factory=bytearray)
    noted: int = 0

    def __post_init__(self) -> None:
        if len(self.page) != _PAGE_BYTES or len(self.older) not in {0, _PAGE_BYTES}:
            raise SettingsError(f"A page of seen results has {_PAGE_BYTES} bytes, got {len(self.page)}.")

    def add(self, key: int) -> bool:
        """Record a result and return whether it was not seen before."""
        place, bit = divmod(key % (_PAGE_BYTES * 8), 8)
        mask = 1 << bit
        if self.page[place] & mask or (self.older and self.older[place] & mask):
            return False
        if self.noted >= _RESULTS_PER_PAGE:
            self.page, self.older, self.noted = bytearray(_PAGE_BYTES), self.page, 0
        self.page[place] |= mask
        self.noted += 1
        return True


class Progress(Struct):
    """How far a run is, 0 to 1, and how long nothing has moved.

    The best evidence is a plan: items done of all items. Between two items, and without a plan, work that
    was not done before (a file changed, a test suite with fewer failures) moves it by a part of what is left.
    The amount left is not known then, so it never passes .8. A declared value overrides all of this.
    It is its own state, and each observation costs the same however long the run is.

    Args:
        patience: Steps in which nothing moves and nothing new is seen that are still ordinary.

    >>> progress = Progress()
    >>> progress.value is None, progress.declare(0.25), progress.value
    (True, 0.25, 0.25)
    """

    patience: int = PATIENCE
    declared: float | None = None
    plan: dict[int, bool] = field(default_factory=dict)
    work: float = 0.0
    is_work_seen: bool = False
    still: float = 0.0
    steps: int = 0
    steps_since_change: int = 0
    changes: list[int] = field(default_factory=list)
    tests: dict[int, int] = field(default_factory=dict)
    results: SeenResults = field(default_factory=SeenResults)
    words: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise SettingsError(f"patience must be 1 or more steps, got {self.patience!r}.")

    @property
    def value(self) -> float | None:
        """The progress, 0 to 1; None while it is not known."""
        if self.declared is not None:
            return self.declared
        if self.plan:
            done = sum(self.plan.values())
            return (done + self._work_share) / len(self.plan) if done < len(self.plan) else 1.0
        return self._work_share if self.is_work_seen else None

    @property
    def is_known(self) -> bool:
        """Whether the progress is known."""
        return self.declared is not None or bool(self.plan) or self.is_work_seen

    @property
    def source(self) -> str:
        """The source of the value: `declared`, `plan`, `work`, or empty."""
        if self.declared is not None:
            return "declared"
        return "plan" if self.plan else "work" if self.is_work_seen else ""

    def observe(
        self,
        event: TraceEvent,
        *,
        kind: str = "",
        failed: bool | None = None,
        call: int = 0,
        result: int | None = None,
    ) -> float:
        """Record one event and return the progress it made.

        Args:
            event: The event.
            kind: The kind of step (work, look, wait, plan), if the caller knows it.
            failed: Whether it failed, if the caller knows better than the event's `error`.
            call: A number for the call without explanatory arguments; its fingerprint by default.
            result: A number for its result; its fingerprint by default.
        """
        if event.action_type == TOOL_CALL:
            if not call or result is None:
                prints = fingerprint(event)
                call, result = call or prints.call, prints.result if result is None else result
            has_failed = event.error is not None if failed is None else failed
            return self._record_call(event, kind, has_failed, call, result)
        if event.action_type == USER_MESSAGE:
            self._record_message(event.text)
        elif event.action_type == STATE_TRANSITION:
            if event.action_name == PROGRESS:
                return self.declare(_read_declared(event))
            if event.action_name == CALL_REFUSED:
                self._add_still(1.0)
        return 0.0

    def declare(self, value: Any) -> float:
        """Set the progress from outside (a caller, a goal tree) and return the gain. Ignore bad values."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
            return 0.0
        before = self.declared if self.declared is not None else 0.0
        self.declared = float(value)
        if value > before:
            self._reset_still()
        return self.declared - before

    def get_stuck_score(self) -> float | None:
        """Return how stuck the run is, 0 to 1; None before the first call.

        Steps without progress count in full, those with a new result a quarter.
        """
        if not self.steps:
            return None
        return 1.0 - self.patience / self.still if self.still > self.patience else 0.0

    @property
    def _work_share(self) -> float:
        return _MAX_WITHOUT_PLAN * self.work / (self.work + _HALFWAY_WORK)

    def _record_call(self, event: TraceEvent, kind: str, failed: bool, call: int, result: int) -> float:
        kind = kind or _KIND_BY_TOOL_KIND.get(event.tool_kind, "")
        if kind == "wait" or (event.output_data is None and event.error is None):
            return 0.0
        self.steps += 1
        planned = read_plan_change(event) if not failed and is_plan_tool(event.action_name) else None
        if planned is not None:
            return self._record_plan(planned)
        if kind == "plan":
            self._add_still(_NEW_RESULT_STILL_STEPS)
            return 0.0
        run = find_suite_run(event, failed=failed)
        gained = 0.0 if run is None else self._record_suite_run(run)
        if not gained and not failed and kind != "look":
            gained = self._measure_change(event, kind, call)
        news = self.results.add(result)
        if gained:
            self._reset_still()
            self.is_work_seen = True
            return self._add_work(gained)
        self._add_still(_NEW_RESULT_STILL_STEPS if news else 1.0)
        return (
            self._add_work(_NEW_RESULT_WORK)
            if news and not failed and (self.is_work_seen or self.plan)
            else 0.0
        )

    def _add_work(self, gained: float) -> float:
        before = self._work_share
        self.work += gained
        if self.declared is not None:
            return 0.0
        if not self.plan:
            return self._work_share - before
        return 0.0 if all(self.plan.values()) else (self._work_share - before) / len(self.plan)

    def _measure_change(self, event: TraceEvent, kind: str, call: int) -> float:
        """Return the work of a successful call. The same change again, or its reversal, counts nothing."""
        change = find_file_change(event.input_data) if kind in {"", "work"} else None
        if change is None:
            return self._record_change(call) if kind == "work" else 0.0
        if change.is_none or change.undo in self.changes:
            self._record_change(change.key)
            return 0.0
        return self._record_change(change.key)

    def _record_change(self, key: int) -> float:
        if key in self.changes:
            return 0.0
        self.changes.append(key)
        del self.changes[:-_CHANGES_KEPT]
        return _CHANGE_WORK

    def _record_suite_run(self, run: SuiteRun) -> float:
        before = self.tests.pop(run.key, None)
        self.tests[run.key] = run.failures if before is None else min(before, run.failures)
        if len(self.tests) > _TESTS_KEPT:
            del self.tests[next(iter(self.tests))]
        if before is None or run.failures >= before:
            return 0.0
        return _FEWER_FAILURES_WORK if run.failures else _TESTS_PASS_WORK

    def _record_plan(self, change: PlanChange) -> float:
        """Record a plan change and return its progress: newly done items less reopened ones."""
        before, part = self.plan, self._work_share
        after = {} if change.whole else dict(before)
        for key, done in change.items.items():
            after.pop(key, None)
            if done is not None and len(after) < ITEMS_KEPT:
                after[key] = done
        self.plan = after
        newly = sum(done and before.get(key) is False for key, done in after.items())
        reopened = (
            0 if change.whole else sum(not done and before.get(key, False) for key, done in after.items())
        )
        if newly:
            self.work = 0.0
            self._reset_still()
        else:
            self._add_still(1.0 if after == before else _NEW_RESULT_STILL_STEPS)
        if self.declared is not None or not after or newly == reopened == 0:
            return 0.0
        return (newly - reopened - (part if newly else 0.0)) / len(after)

    def _record_message(self, text: str) -> None:
        """Record a user message. It resets the stuck count, and a finished plan or declared value."""
        said = hash_text(text)
        if said == self.words:
            return
        self.words = said
        self._reset_still()
        if self.plan and all(self.plan.values()):
            self.plan, self.work, self.is_work_seen = {}, 0.0, False
        if self.declared == 1.0:
            self.declared = None

    def _reset_still(self) -> None:
        self.still, self.steps_since_change = 0.0, 0

    def _add_still(self, weight: float) -> None:
        self.still += weight
        self.steps_since_change += 1


def _read_declared(event: TraceEvent) -> float:
    """Return the value of a state change named `progress`; NaN if it has none."""
    for data in (event.output_data, event.input_data, event.metadata):
        value = data.get("value", data.get("progress")) if isinstance(data, dict) else data
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return math.nan
