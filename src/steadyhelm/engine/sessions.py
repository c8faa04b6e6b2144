"""Make sessions: each with fresh detectors and with what is known about the agent so far."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import Mode, TaskProfile, Verdict
from steadyhelm.declarations import ToolDeclaration
from steadyhelm.detector import Detector
from steadyhelm.engine.health import Health
from steadyhelm.engine.session import Session
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import FormatError, NotFoundError
from steadyhelm.events import RunInfo
from steadyhelm.logs import logger
from steadyhelm.policy.response_levels import VERDICTS
from steadyhelm.store import Store

_BASELINE_FRESH_S: Final = 5.0
"""How long a baseline is used before it is read again: another process may have updated it."""


class Sessions:
    """Makes the sessions of one agent's runs."""

    def __init__(
        self,
        agent_id: str,
        *,
        make_detectors: Callable[[], Sequence[Detector]],
        store: Store | None,
        health: Health,
        mode: Mode = "observe",
        calibration_runs: int = 30,
        tools: Mapping[str, ToolDeclaration] | None = None,
        steering: Steering | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._agent_id = agent_id
        self._make_detectors = make_detectors
        self._store = store
        self._health = health
        self._mode: Mode = mode
        self._calibration_runs = calibration_runs
        self.tools = dict(tools or {})
        self._steering = steering or Steering()
        self._clock = clock
        self._baselines: dict[tuple[str, str], tuple[float, BaselineStats]] = {}

    def begin(
        self,
        info: RunInfo,
        state: bytes | None = None,
        *,
        can: Collection[Verdict] = VERDICTS,
        budget: AdaptiveBudget | None = None,
    ) -> Session:
        """Return a session for this run, restored from a saved state where there is one."""
        session = Session(
            info,
            self._make_detectors(),
            self.baseline(info.version, info.task_type),
            mode=self._mode,
            can=can,
            steering=self._steering,
            budget=budget or self._steering.make_budget(info, self._profile(info.task_type)),
            thresholds=self._thresholds(),
            tools=self.tools,
            health=self._health,
        )
        if state is not None:
            try:
                session.restore(state)
            except FormatError as exc:
                self._health.count("saved session of another version")
                logger.info("%s The run continues without its memory.", exc)
        return session

    def resume(self, info: RunInfo, state: bytes, *, can: Collection[Verdict] = VERDICTS) -> Session | None:
        """Return the session of a suspended run; None when its state cannot be read."""
        if self._store is None:
            return None
        kept = self._store.find_run(info.run_id, agent_id=self._agent_id)
        info = structs.replace(
            info,
            goal=info.goal or kept.goal,
            started_at=kept.started_at,
            parent_run_id=info.parent_run_id or kept.parent_run_id,
            task_type=info.task_type or kept.task_type,
        )
        session = self.begin(info, state, can=can)
        # Without its memory it would number its events from 0 again, over those already stored.
        return session if session.next_seq or not kept.events else None

    def baseline(self, version: str, task_type: str) -> BaselineStats:
        """Return what is normal for this agent, from memory or from the store."""
        now = self._clock()
        known = self._baselines.get((version, task_type))
        if known is not None and now - known[0] < _BASELINE_FRESH_S:
            return known[1]
        stored = self._store.get_baseline(self._agent_id, version, task_type) if self._store else None
        baseline = stored or BaselineStats(
            agent_id=self._agent_id,
            version=version,
            task_type=task_type,
            required_runs=self._calibration_runs,
        )
        self._baselines[version, task_type] = (now, baseline)
        return baseline

    def use_baseline(self, baseline: BaselineStats) -> None:
        """Use a newer baseline."""
        if baseline.agent_id == self._agent_id:
            self._baselines[baseline.version, baseline.task_type] = (self._clock(), baseline)

    def is_stored(self, run_id: str) -> bool:
        """Return whether the store has a run of exactly this id."""
        if self._store is None:
            return False
        try:
            return self._store.find_run(run_id, agent_id=self._agent_id).run_id == run_id
        except NotFoundError:
            return False

    def _profile(self, task_type: str) -> TaskProfile | None:
        """Return what tasks of this type have taken so far, if budgets follow that."""
        if self._store is None or not task_type or self._steering.budget_rules is None:
            return None
        known = self._store.list_profiles(self._agent_id)
        return next((profile for profile in known if profile.task_type == task_type), None)

    def _thresholds(self) -> dict[str, float]:
        moved: dict[str, float] = {}
        for threshold in self._store.list_thresholds(self._agent_id) if self._store else ():
            moved[threshold.detector] = max(threshold.min_score, moved.get(threshold.detector, 0.0))
        return moved
