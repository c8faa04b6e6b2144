"""Start runs: a fresh session, or the session of a suspended run. Nothing here waits for the store."""

import contextvars
import functools
import sys
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from steadyhelm.bounded import BoundedDict
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.budgets.limits import Budget
from steadyhelm.decisions import Verdict
from steadyhelm.engine.agent_knowledge import AgentKnowledge, Reference, SuspendedRun, take_suspended
from steadyhelm.engine.checkpointing import RunCheckpoints
from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.judge_calls import is_judging
from steadyhelm.engine.live_runs import LiveRuns, find_live_run
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.engine.run_services import RunServices
from steadyhelm.engine.session import Session
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.errors import ForkedStoreError, StoreError
from steadyhelm.events import BUDGET_SET, RunInfo, new_id
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a
from steadyhelm.sink import SavedState

if TYPE_CHECKING:
    from steadyhelm.store import Store

_UNWRITTEN_KEPT: Final = 100
_STATE_WAIT_S: Final = 0.01
"""How long the start of a suspended run waits for its saved state: for a moment, most often."""


class RunStarter:
    """Starts the runs of one monitor, suspends them and resumes them.

    Args:
        runs: The live runs.
        sessions: Makes sessions.
        services: What the runs share.
        start: Starts a run by its id and returns the id; raises nothing.
        dispatch: Its writer's thread reads saved states.
        store: Has the states of suspended runs; None to resume none.
        knowledge: Has what runs are compared with, and which are suspended.
        checkpoints: The checkpoints of the runs.
        sample_rate: The share of runs that is recorded.
        make_id: Returns an id for a run that has none.
    """

    def __init__(
        self,
        runs: LiveRuns,
        sessions: SessionFactory,
        services: RunServices,
        *,
        start: Callable[..., str],
        dispatch: Dispatch,
        store: "Store | None",
        knowledge: AgentKnowledge,
        checkpoints: RunCheckpoints,
        sample_rate: float,
        make_id: Callable[[], str],
    ) -> None:
        self._runs = runs
        self._sessions = sessions
        self._services = services
        self._start = start
        self._dispatch = dispatch
        self._store = store
        self._knowledge = knowledge
        self._checkpoints = checkpoints
        self._sample_rate = sample_rate
        self.make_id = make_id
        self._lock = ForkSafeLock()
        self._unwritten: BoundedDict[str, tuple[int, SuspendedRun]] = BoundedDict(_UNWRITTEN_KEPT)
        self._waiting: dict[str, RunRecorder] = {}
        self.is_closing = False
        """Whether the monitor is being closed: runs that start now are judged and not stored."""

    def start(
        self,
        given_id: str | None,
        *,
        goal: str,
        metadata: dict[str, Any] | None,
        can: Collection[Verdict],
        task_type: str,
        version: str,
        parent_run_id: str | None,
        budget: Budget | None = None,
    ) -> RunRecorder:
        """Start a run, or resume the suspended run of that id, and enter it in this context."""
        services, capture = self._services, self._services.capture
        run_id = self._choose_id(given_id)
        if budget is not None and not is_a(budget, Budget):
            services.health.count("budget left out: it is no steadyhelm.Budget")
            budget = None
        if budget is not None and budget.to_daily_limits():
            services.health.count("daily limits of a run left out: give them to DriftMonitor")
        info = RunInfo(
            agent_id=services.agent_id,
            run_id=run_id,
            goal=capture.text(goal),
            started_at=services.clock(),
            version=capture.name(version),
            task_type=capture.name(task_type),
            parent_run_id=None if parent_run_id is None else capture.identify(parent_run_id),
            metadata=capture.details(metadata),
            epoch=new_id(),
        )
        is_sampled = self._is_sampled(run_id, info.parent_run_id)
        if self.is_closing:
            self._dispatch.refuse(info.epoch)
        may_resume = run_id == given_id and is_sampled and self._store is not None and not self.is_closing
        recorder = self._resume_known(info, can) if may_resume else None
        is_waiting = recorder is None and may_resume and self._knowledge.may_be_suspended(run_id)
        if recorder is None:
            recorder = self._begin(info, can, budget, is_sampled=is_sampled, is_waiting=is_waiting)
        crowded_out = self._runs.add(run_id, recorder)
        self._runs.enter(run_id)
        if is_waiting:
            self._ask_for_state(run_id, recorder)
        if budget is not None and (limits := budget.to_limits()):
            recorder.report(BUDGET_SET, limits)
        if crowded_out is not None:
            services.health.count("live run put aside to make room")
            self.suspend(crowded_out)
        return recorder

    def _begin(
        self,
        info: RunInfo,
        can: Collection[Verdict],
        budget: Budget | None,
        *,
        is_sampled: bool,
        is_waiting: bool,
    ) -> RunRecorder:
        reference = self._knowledge.get_reference(info.version, info.task_type)
        has_reserve = is_sampled and not is_waiting
        reserve = self._reserve_budget(info.parent_run_id, budget) if has_reserve else None
        session = self._sessions.begin(info, reference, can=can, budget=reserve)
        recorder = RunRecorder(session, self._services, is_sampled=is_sampled, reference=reference)
        if is_waiting:
            recorder.wait_for_state(self._dispatch)
        if is_sampled:
            recorder.announce(pin=True)
        return recorder

    def find_or_start(self, run_id: str | None, parent_run_id: str | None = None) -> RunRecorder | None:
        """Return a live run, by default that of this context; start or resume it if needed.

        Returns None for a run that has ended, and when it could not be started.
        """
        run_id = run_id if run_id is not None else self._runs.find_current()
        recorder = self._runs.get(run_id) if run_id is not None else None
        if recorder is not None:
            return recorder
        if run_id is not None and self._runs.has_ended(run_id):
            self._services.health.lose("event after the run's end")
            return None
        start = functools.partial(self._start, run_id, parent_run_id=parent_run_id)
        # A run named by its id may be anybody's; only a run without an id becomes that of the context.
        return self._runs.get(start() if run_id is None else contextvars.copy_context().run(start))

    def suspend(self, run_id: str) -> None:
        """Save a live run and remove it; `start` with its id resumes it."""
        recorder = self._runs.remove(run_id, ended=False)
        if recorder is None:
            return
        self._runs.leave(run_id)
        if not recorder.is_sampled:
            return
        state, session = recorder.save(), recorder.session
        run = session.run
        self._knowledge.add_suspended(run.run_id)
        self._checkpoints.release(run.run_id)
        if state is not None:
            saved = SuspendedRun(run, session.next_seq, state, recorder.reference)
            with self._lock:
                self._unwritten[run.run_id] = (self._dispatch.get_mark(), saved)

    # --- saved states -----------------------------------------------------------------------------

    def answer_waiting(self) -> None:
        """Read the saved states that runs wait for. Runs on the writer's thread."""
        with self._lock:
            waiting = list(self._waiting.items())
        if waiting and not self._knowledge.refresh():
            return  # a state that cannot be read now is not taken for none
        for run_id, recorder in waiting:
            if recorder.postponed is not None and not self._try_resume(run_id, recorder):
                continue  # the store cannot be read now
            if not recorder.is_live and not self._runs.has_ended(run_id):
                self._knowledge.add_suspended(run_id)  # it was suspended again while it waited
            with self._lock:
                if self._waiting.get(run_id) is recorder:
                    del self._waiting[run_id]

    def wait_for_answers(self, timeout_s: float) -> int:
        """Wait until no run waits for a saved state, or the time is up. Returns how many steps still wait."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            waiting = list(self._waiting.values())
        if waiting:
            self._dispatch.run_on_writer(self.answer_waiting)  # the writer that was asked may have ended
        for recorder in waiting:
            with recorder.lock:  # none of its records is being queued now
                postponed = recorder.postponed
            if postponed is not None:
                postponed.done.wait(max(0.0, deadline - time.monotonic()))
        return sum(len(it.postponed) for it in waiting if it.postponed is not None)

    def give_up_waiting(self) -> None:
        """Continue every run that waits for a saved state as a new run, with what it postponed."""
        with self._lock:
            waiting, self._waiting = list(self._waiting.values()), {}
        for recorder in waiting:
            if recorder.start_anew():
                self._services.health.count("run continued without its saved state: the monitor was closed")

    def after_fork(self) -> None:
        """Forget in a child process what the parent resumes and writes."""
        self.is_closing = False
        self._unwritten.clear()
        self._waiting.clear()

    def _resume_known(self, info: RunInfo, can: Collection[Verdict]) -> RunRecorder | None:
        """Resume a run whose state no other process can have taken: it is in the queue, or not read yet."""
        with self._lock:
            waiting = self._waiting.get(info.run_id)
        if waiting is not None and waiting.reopen(can):
            return waiting
        with self._lock:
            mark, suspended = self._unwritten.pop(info.run_id, (0, None))
        if suspended is None or self._dispatch.is_written(mark):
            return None
        resumed = self._make_session(info, suspended, can)
        if resumed is None:
            return None
        session, reference = resumed
        self._knowledge.remove_suspended(info.run_id)
        recorder = RunRecorder(session, self._services, reference=reference)
        recorder.announce(pin=suspended.reference is None)
        self._checkpoints.load(session)
        return recorder

    def _ask_for_state(self, run_id: str, recorder: RunRecorder) -> None:
        with self._lock:
            self._waiting[run_id] = recorder
        postponed, is_durable = recorder.postponed, self._dispatch.is_durable
        if not self._dispatch.run_on_writer(self.answer_waiting):
            recorder.start_anew()
        # The writer answers within milliseconds, unless another process holds the database. In durable mode
        # no step is stored before it has answered, however far away the database is.
        elif postponed is not None and (is_durable or self._knowledge.is_loaded) and not _is_in_event_loop():
            postponed.done.wait(self._dispatch.durable_timeout_s if is_durable else _STATE_WAIT_S)

    def _try_resume(self, run_id: str, recorder: RunRecorder) -> bool:
        """Resume a run that waits, or start it anew; False when the store cannot be read."""
        assert self._store is not None
        stored_id = self._knowledge.find_suspended(run_id)
        try:
            agent_id = self._services.agent_id
            suspended = take_suspended(self._store, agent_id, stored_id) if stored_id is not None else None
        except ForkedStoreError:
            suspended = None  # it never can be read in this process
        except (StoreError, OSError):
            return False
        self._knowledge.remove_suspended(run_id)
        info, can = recorder.session.run, recorder.session.can
        resumed = self._make_session(info, suspended, can) if suspended is not None else None
        if resumed is None or suspended is None:
            recorder.start_anew()
            return True
        session, reference = resumed
        self._checkpoints.load(session)
        if not recorder.resume(session, reference, pin=suspended.reference is None):
            # It has started anew in the meantime: the saved state stays for another time.
            run = session.run
            saved = SavedState(run.agent_id, run.run_id, suspended.state, self._services.clock())
            self._services.queue.put(run.epoch, saved)
        return True

    def _make_session(
        self, info: RunInfo, suspended: SuspendedRun, can: Collection[Verdict]
    ) -> tuple[Session, Reference | None] | None:
        """Return the session of a suspended run with what it is compared with; None for no readable state."""
        task_type = info.task_type or suspended.run.task_type
        reference = suspended.reference or self._knowledge.get_reference(info.version, task_type)
        session = self._sessions.resume(info, suspended, reference, can=can)
        return None if session is None else (session, reference)

    # --- inside -----------------------------------------------------------------------------------

    def return_budget_to_parent(self, recorder: RunRecorder) -> None:
        """Return the unused budget of a run that ends to the live run around it."""
        parent_id, budget = recorder.session.run.parent_run_id, recorder.session.drift.budget.limits
        parent = find_live_run(parent_id, self._runs) if parent_id else None
        if parent is not None and budget is not None:
            with parent.lock:
                parent.session.drift.budget.return_reserve(budget)

    def _is_sampled(self, run_id: str, parent_run_id: str | None) -> bool:
        if is_judging():
            return False  # what a judge does is no work of an agent
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is not None:
            return parent.is_sampled  # a child without its parent would make no sense
        return crc32(run_id.encode("utf-8", "replace")) < self._sample_rate * 2**32

    def _reserve_budget(self, parent_run_id: str | None, given: Budget | None) -> AdaptiveBudget | None:
        """Return a share of what the run around this one has left; None without one, or without a budget.

        The run around it may be another agent's: then the limits of this agent's runs hold too.
        """
        parent = find_live_run(parent_run_id, self._runs) if parent_run_id else None
        if parent is None or not parent.is_sampled:
            return None
        with parent.lock:
            share = parent.session.drift.budget.reserve_for_child(given)
        if share is not None and self._runs.get(parent.session.run.run_id) is not parent:
            share.set_limits(self._sessions.steering.budget)
        return share

    def _choose_id(self, given_id: str | None) -> str:
        """Return the given id, with a number behind it when this monitor has or had a run of that id."""
        if given_id is None:
            return self.make_id()
        run_id, n = given_id, 1
        while self._runs.get(run_id) or self._runs.has_ended(run_id):
            n += 1
            run_id = f"{given_id}~{n}"
        if run_id != given_id:
            self._services.health.count("run id seen twice")
        return run_id


def _is_in_event_loop() -> bool:
    """Return whether this thread runs an event loop: other tasks must not wait for one run's state."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - the other one raises
