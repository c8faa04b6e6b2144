"""How far a run is, told by what it does when nobody declares it: plan items, files, tests."""

import math
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.events import CALL_REFUSED, PROGRESS, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import fingerprint
from steadyhelm.goals.plan_tools import ITEMS_KEPT, PlanChange, is_plan_tool, plan_change
from steadyhelm.goals.work_signals import SuiteRun, change_in, suite_run, text_key

PATIENCE: Final = 8
_MOST_WITHOUT_PLAN: Final = 0.8
_HALFWAY: Final = 8.0
_CHANGE: Final = 1.0
_TESTS_PASS: Final = 2.0
_FEWER_FAIL: Final = 1.0
_NEWS: Final = 0.02
_NEWS_STANDS_STILL: Final = 0.25
_CHANGES_KEPT: Final = 64
_TESTS_KEPT: Final = 16
_SEEN_BYTES: Final = 512
_SEEN_PER_PAGE: Final = 200
_KINDS: Final = {"poll": "wait", "read": "look", "write": "work", "idempotent": "look"}


class Seen(Struct):
    """Which results came before, in two pages of bits: a full page becomes the older one.

    Now and then a new result is taken for an old one (less than one in ten), never the other way round within
    the last few hundred.
    """

    page: bytearray = field(default_factory=lambda: bytearray(_SEEN_BYTES))
    older: bytearray = field(default_factory=lambda: bytearray(_SEEN_BYTES))
    noted: int = 0

    def __post_init__(self) -> None:
        if len(self.page) != _SEEN_BYTES or len(self.older) != _SEEN_BYTES:
            raise SettingsError(f"A page of seen results has {_SEEN_BYTES} bytes, got {len(self.page)}.")

    def is_new(self, key: int) -> bool:
        """Whether this was not seen before; it is from now on."""
        place, bit = divmod(key % (_SEEN_BYTES * 8), 8)
        mask = 1 << bit
        if (self.page[place] | self.older[place]) & mask:
            return False
        if self.noted >= _SEEN_PER_PAGE:
            self.page, self.older, self.noted = bytearray(_SEEN_BYTES), self.page, 0
        self.page[place] |= mask
        self.noted += 1
        return True


class Progress(Struct):
    """How far a run is, 0 to 1, and how long nothing has moved.

    The best evidence is a plan: items done of all items. Between two items, and without a plan, work that
    was not done before (a file changed, a test suite with fewer failures) moves it by a part of what is left;
    nobody knows how much is left then, so that it never passes .8. What was declared counts before all that.
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
    results: Seen = field(default_factory=Seen)
    words: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise SettingsError(f"patience must be 1 or more steps, got {self.patience!r}.")

    @property
    def value(self) -> float | None:
        """How far it is; None while nothing tells."""
        if self.declared is not None:
            return self.declared
        if self.plan:
            done = sum(self.plan.values())
            return (done + self._part) / len(self.plan) if done < len(self.plan) else 1.0
        return self._part if self.is_work_seen else None

    @property
    def known(self) -> bool:
        """Whether anything tells how far it is."""
        return self.declared is not None or bool(self.plan) or self.is_work_seen

    @property
    def source(self) -> str:
        """What tells it: `declared`, `plan`, `work`, or nothing."""
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
        """Take one event in; gives the progress it made.

        Args:
            event: The event.
            kind: What kind of step the call is (work, look, wait, plan), where the caller has found out.
            failed: Whether it failed, where the caller knows better than the event's `error`.
            call: A number for the call without words that only explain it; else its fingerprint is taken.
            result: A number for its result; else its fingerprint is taken.
        """
        if event.action_type == TOOL_CALL:
            if not call or result is None:
                prints = fingerprint(event)
                call, result = call or prints.call, prints.result if result is None else result
            has_failed = event.error is not None if failed is None else failed
            return self._call(event, kind, has_failed, call, result)
        if event.action_type == USER_MESSAGE:
            self._message(event.text)
        elif event.action_type == STATE_TRANSITION:
            if event.action_name == PROGRESS:
                return self.declare(_declared(event))
            if event.action_name == CALL_REFUSED:
                self._stood_still(1.0)
        return 0.0

    def declare(self, value: Any) -> float:
        """Somebody who knows says how far it is: a caller, a goal tree. What is no share is passed over."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
            return 0.0
        before = self.declared if self.declared is not None else 0.0
        self.declared = float(value)
        if value > before:
            self._moved()
        return self.declared - before

    def get_stuck_score(self) -> float | None:
        """How stuck the run is, 0 to 1; None before the first call.

        Steps in which nothing moved count in full, those that brought news a quarter.
        """
        if not self.steps:
            return None
        return 1.0 - self.patience / self.still if self.still > self.patience else 0.0

    @property
    def _part(self) -> float:
        return _MOST_WITHOUT_PLAN * self.work / (self.work + _HALFWAY)

    def _call(self, event: TraceEvent, kind: str, failed: bool, call: int, result: int) -> float:
        kind = kind or _KINDS.get(event.tool_kind, "")
        if kind == "wait" or (event.output_data is None and event.error is None):
            return 0.0
        self.steps += 1
        planned = plan_change(event) if not failed and is_plan_tool(event.action_name) else None
        if planned is not None:
            return self._planned(planned)
        if kind == "plan":
            self._stood_still(_NEWS_STANDS_STILL)
            return 0.0
        run = suite_run(event, failed=failed)
        gained = 0.0 if run is None else self._tested(run)
        if not gained and not failed and kind != "look":
            gained = self._worked(event, kind, call)
        news = self.results.is_new(result)
        if gained:
            self._moved()
            self.is_work_seen = True
            return self._add(gained)
        self._stood_still(_NEWS_STANDS_STILL if news else 1.0)
        return self._add(_NEWS) if news and not failed and (self.is_work_seen or self.plan) else 0.0

    def _add(self, gained: float) -> float:
        before = self._part
        self.work += gained
        if self.declared is not None:
            return 0.0
        if not self.plan:
            return self._part - before
        return 0.0 if all(self.plan.values()) else (self._part - before) / len(self.plan)

    def _worked(self, event: TraceEvent, kind: str, call: int) -> float:
        """What a call that succeeded has changed: the same change again is none, nor is taking one back."""
        change = change_in(event.input_data) if kind in {"", "work"} else None
        if change is None:
            return self._noted(call) if kind == "work" else 0.0
        if change.is_none or change.undo in self.changes:
            self._noted(change.key)
            return 0.0
        return self._noted(change.key)

    def _noted(self, key: int) -> float:
        if key in self.changes:
            return 0.0
        self.changes.append(key)
        del self.changes[:-_CHANGES_KEPT]
        return _CHANGE

    def _tested(self, run: SuiteRun) -> float:
        before = self.tests.pop(run.key, None)
        self.tests[run.key] = run.failures if before is None else min(before, run.failures)
        if len(self.tests) > _TESTS_KEPT:
            del self.tests[next(iter(self.tests))]
        if before is None or run.failures >= before:
            return 0.0
        return _FEWER_FAIL if run.failures else _TESTS_PASS

    def _planned(self, change: PlanChange) -> float:
        """Items newly done are progress; a list written anew is none, an item opened again its opposite."""
        before, part = self.plan, self._part
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
            self._moved()
        else:
            self._stood_still(1.0 if after == before else _NEWS_STANDS_STILL)
        if self.declared is not None or not after or newly == reopened == 0:
            return 0.0
        return (newly - reopened - (part if newly else 0.0)) / len(after)

    def _message(self, text: str) -> None:
        """A user's new words open a new stretch; a finished plan says nothing about what they ask next."""
        said = text_key(text)
        if said == self.words:
            return
        self.words = said
        self._moved()
        if self.plan and all(self.plan.values()):
            self.plan, self.work, self.is_work_seen = {}, 0.0, False
        if self.declared == 1.0:
            self.declared = None

    def _moved(self) -> None:
        self.still, self.steps_since_change = 0.0, 0

    def _stood_still(self, weight: float) -> None:
        self.still += weight
        self.steps_since_change += 1


def _declared(event: TraceEvent) -> float:
    """The share a change of state named `progress` tells, wherever it stands; none at all is NaN."""
    for data in (event.output_data, event.input_data, event.metadata):
        told = data.get("value", data.get("progress")) if isinstance(data, dict) else data
        if isinstance(told, (int, float)) and not isinstance(told, bool):
            return float(told)
    return math.nan
