"""Make sessions: each with fresh detectors and with what is known about the agent so far."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.decisions import Mode, Verdict
from steadyhelm.declarations import ToolDeclaration, add_kinds
from steadyhelm.detector import Detector
from steadyhelm.engine.agent_knowledge import Reference, SuspendedRun
from steadyhelm.engine.health import Health
from steadyhelm.engine.session import Session
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo
from steadyhelm.judging.questioner import Questioner
from steadyhelm.logs import logger
from steadyhelm.policy.response_levels import VERDICTS


class SessionFactory:
    """Makes the sessions of one agent's runs."""

    def __init__(
        self,
        *,
        make_detectors: Callable[[], Sequence[Detector]],
        health: Health,
        mode: Mode = "observe",
        tools: Mapping[str, ToolDeclaration] | None = None,
        steering: Steering | None = None,
        make_questioner: Callable[[], Questioner] | None = None,
    ) -> None:
        self._make_detectors = make_detectors
        self._health = health
        self._mode: Mode = mode
        self.tools = dict(tools or {})
        self.steering = steering or Steering()
        self._make_questioner = make_questioner

    def begin(
        self,
        info: RunInfo,
        reference: Reference | None,
        state: bytes | None = None,
        *,
        can: Collection[Verdict] = VERDICTS,
        budget: AdaptiveBudget | None = None,
    ) -> Session:
        """Return a session for this run, restored from a saved state where there is one.

        Without a `reference` it is compared with nothing.
        """
        profile = reference.profile if reference is not None else None
        session = Session(
            info,
            self._make_detectors(),
            reference.baseline if reference is not None else BaselineStats(agent_id=info.agent_id),
            mode=self._mode,
            can=can,
            steering=self.steering,
            budget=budget or self.steering.make_budget(info, profile),
            thresholds=reference.thresholds if reference is not None else None,
            tools=self.tools if reference is None else add_kinds(self.tools, reference.tools),
            health=self._health,
            questioner=None if self._make_questioner is None else self._make_questioner(),
        )
        if state is not None:
            try:
                session.restore(state)
            except FormatError as exc:
                self._health.count("saved session of another version")
                logger.info("%s The run continues without its memory.", exc)
        return session

    def resume(
        self,
        info: RunInfo,
        suspended: SuspendedRun,
        reference: Reference | None,
        *,
        can: Collection[Verdict] = VERDICTS,
    ) -> Session | None:
        """Return the session of a suspended run; None when its state cannot be read."""
        kept = suspended.run
        info = structs.replace(
            info,
            goal=info.goal or kept.goal,
            started_at=kept.started_at,
            parent_run_id=info.parent_run_id or kept.parent_run_id,
            task_type=info.task_type or kept.task_type,
        )
        session = self.begin(info, reference, suspended.state, can=can)
        session.drift.budget.skip_pause()
        # Without its memory it would number its events from 0 again, over those already stored.
        return session if session.next_seq or not suspended.events else None
