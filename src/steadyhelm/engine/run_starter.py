"""Start runs: a fresh session, or the session of a suspended run."""

import contextvars
import functools
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from msgspec import structs

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import Verdict
from steadyhelm.engine.checkpointing import RunCheckpoints
from steadyhelm.engine.live_runs import LiveRuns
from steadyhelm.engine.run_recorder import RunRecorder, RunServices
from steadyhelm.engine.sessions import Sessions
from steadyhelm.events import RunInfo, new_id

if TYPE_CHECKING:
    from steadyhelm.store import Store

_SUSPENDED_KEPT: Final = 100


class RunStarter:
    """Starts the runs of one monitor, suspends them and resumes them.

    Args:
        runs: The live runs.
        sessions: Makes sessions.
        services: What the runs share.
        start: Starts a run by its id and returns the id; raises nothing.
        flush: Writes what is queued, before the state of a run is read that was suspended just now.
        store: Has the states of suspended runs; None to resume none.
        checkpoints: The checkpoints of the runs.
        sample_rate: The share of runs that is recorded.
        make_id: Returns an id for a run that has none.
    """

    def __init__(
        self,
        runs: LiveRuns,
        sessions: Sessions,
        services: RunServices,
        *,
        start: Callable[..., str],
        flush: Callable[[float], object],
        store: "Store | None",
        checkpoints: RunCheckpoints,
        sample_rate: float,
        make_id: Callable[[], str],
    ) -> None:
        self._runs = runs
        self._sessions = sessions
        self._services = services
        self._start = start
        self._flush = flush
        self._store = store
        self._checkpoints = checkpoints
        self._sample_rate = sample_rate
        self._suspended: deque[str] = deque(maxlen=_SUSPENDED_KEPT)
        self.make_id = make_id

    def start(
        self,
        given_id: str | None,
        *,
        goal: str,
        metadata: dict[str, Any] | None,
        can: Collection[Verdict],
        **fields: Any,
    ) -> RunRecorder:
        """Start a run, or resume the suspended run of that id, and enter it in this context."""
        services = self._services
        info = RunInfo(
            agent_id=services.agent_id,
            run_id=given_id or "",
            goal=services.capture.text(goal),
            started_at=services.clock(),
            metadata=services.capture.plain(metadata) if metadata else None,
            epoch=new_id(),
            **fields,
        )
        state = self._load_state(info.run_id) if given_id is not None else None
        session = self._sessions.resume(info, state, can=can) if state is not None else None
        if session is None:
            info = structs.replace(info, run_id=self._choose_id(given_id))
            is_sampled = self._is_sampled(info.run_id, info.parent_run_id)
            reserve = self._reserve_budget(info.parent_run_id) if is_sampled else None
            session = self._sessions.begin(info, can=can, budget=reserve)
        elif not self._checkpoints.has_any(session.run.run_id):
            session.forget_checkpoints()
        run = session.run
        recorder = RunRecorder(session, services, is_sampled=self._is_sampled(run.run_id, run.parent_run_id))
        crowded_out = self._runs.add(run.run_id, recorder)
        self._runs.enter(run.run_id)
        if recorder.is_sampled:
            services.queue.put(run.epoch, run)
        if crowded_out is not None:
            services.health.count("live run put aside to make room")
            self.suspend(crowded_out)
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
            self._services.health.count("event after the run's end")
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
        if recorder.is_sampled:
            recorder.save()
            self._suspended.append(recorder.session.run.run_id)

    def return_budget(self, recorder: RunRecorder) -> None:
        """Return the unused budget of a run that ends to the live run around it."""
        parent_id, budget = recorder.session.run.parent_run_id, recorder.session.drift.budget
        parent = self._runs.get(parent_id) if parent_id else None
        if parent is not None and budget is not None:
            with parent.lock:
                parent.session.drift.return_reserve(budget)

    def _is_sampled(self, run_id: str, parent_run_id: str | None) -> bool:
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is not None:
            return parent.is_sampled  # a child without its parent would make no sense
        return crc32(run_id.encode("utf-8", "replace")) < self._sample_rate * 2**32

    def _reserve_budget(self, parent_run_id: str | None) -> AdaptiveBudget | None:
        parent = self._runs.get(parent_run_id) if parent_run_id else None
        if parent is None:
            return None
        with parent.lock:
            return parent.session.drift.reserve_for_child()

    def _choose_id(self, given_id: str | None) -> str:
        """Return the given id, with a number behind it when it was used before."""
        if given_id is None:
            return self.make_id()
        run_id, n = given_id, 1
        while self._runs.get(run_id) or self._runs.has_ended(run_id) or self._sessions.is_stored(run_id):
            n += 1
            run_id = f"{given_id}~{n}"
        if run_id != given_id:
            self._services.health.count("run id seen twice")
        return run_id

    def _load_state(self, run_id: str) -> bytes | None:
        if self._store is None or self._runs.get(run_id) is not None:
            return None
        if run_id in self._suspended:
            self._suspended.remove(run_id)
            self._flush(1.0)
        return self._store.take_state(self._services.agent_id, run_id)
