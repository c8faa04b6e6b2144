"""Many runs of one agent, watched and steered: what a host may ask, and what it tells about its answers.

A guest in the agent's process: nothing here raises into it, blocks it, or changes its objects.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.checkpoint import Checkpoint, FileContent
from steadyhelm.decisions import PROCEED, UNDECIDED, BudgetDecision, BudgetState, Decision, Hook, Verdict
from steadyhelm.engine.listeners import Callback, HookCallback
from steadyhelm.engine.recorder import Recorder
from steadyhelm.engine.runs import LiveRun
from steadyhelm.errors import RunStopped
from steadyhelm.events import (
    BUDGET_DECIDED,
    BUDGET_GRANTED,
    CALL_REFUSED,
    CHECKPOINT_TAKEN,
    EXTENSION_REQUESTED,
    NOT_CARRIED_OUT,
    PROGRESS,
    ROLLED_BACK,
    STATE_TRANSITION,
    RunInfo,
)
from steadyhelm.findings import DriftEvent, Severity

_REFUSED: BudgetDecision = BudgetDecision(approved=False, reason="The run has no budget.")


class Monitor(Recorder):
    """Watches and steers the runs of one agent. `steadyhelm.DriftMonitor` chooses its parts for you."""

    # --- before the act --------------------------------------------------------------------------

    def before_tool(
        self, name: str, args: Any = None, *, run_id: str | None = None, started_seq: int | None = None
    ) -> Decision:
        """Whether a call shall be made: proceed, guide, deny or ask. A question, not an event.

        `started_seq` is how many events the agent had seen when it asked for the call, where that is known.
        """
        live = self._asked_about(run_id)
        if live is None:
            return UNDECIDED if self._is_lost(run_id) else PROCEED
        try:
            with live.lock:
                return live.session.foresee(self._call(live, name, args, started_seq))
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("before_tool", exc)
            return UNDECIDED

    def call_refused(
        self,
        name: str,
        *,
        reason: str = "",
        decision: Decision | None = None,
        call_id: str | None = None,
        run_id: str | None = None,
    ) -> Decision:
        """Say that a call was refused, as `before_tool` asked with this decision: it is not progress.

        It is kept and judged like any answer, and lifts after any other call, or when the user speaks.
        """
        told = {"tool": name, "reason": reason}
        if isinstance(decision, Decision):
            told = {"tool": name, "reason": reason or decision.guidance, "action": decision.action.value}
        return self._told(CALL_REFUSED, told, run_id=run_id, call_id=call_id)

    def not_carried_out(self, reason: str, *, run_id: str | None = None) -> Decision:
        """Say that the latest answer could not be carried out: then it is not judged either."""
        return self._told(NOT_CARRIED_OUT, {"reason": reason}, run_id=run_id)

    def progress(self, value: float, *, stuck: float | None = None, run_id: str | None = None) -> Decision:
        """Say how far the task is, and how stuck it is, both 0 to 1, for instance by a `GoalTree`.

        What is told counts more than what is inferred from the steps.
        """
        return self._told(PROGRESS, {"value": value, "stuck": stuck}, run_id=run_id)

    # --- budgets ---------------------------------------------------------------------------------

    def budget(self, run_id: str | None = None) -> BudgetState | None:
        """What a run may still spend; None when it has no budget."""
        live = self._asked_about(run_id)
        if live is None:
            return None
        with live.lock:
            return live.session.drift.budget_state()

    def request_extension(
        self,
        justification: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Ask for a little more than the budget allows; the rules decide, and the decision is kept."""
        asked = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        return self._more(EXTENSION_REQUESTED, {"justification": justification, **asked}, run_id)

    def grant(
        self,
        reason: str,
        *,
        steps: int = 0,
        tokens: int = 0,
        cost_usd: float = 0.0,
        wall_s: float = 0.0,
        run_id: str | None = None,
    ) -> BudgetDecision:
        """Give a run more because the user says so, for instance when they were asked: no rule applies."""
        given = {"steps": steps, "tokens": tokens, "cost_usd": cost_usd, "wall_s": wall_s}
        return self._more(BUDGET_GRANTED, {"reason": reason, **given}, run_id)

    # --- checkpoints -----------------------------------------------------------------------------

    def checkpoint(
        self,
        *,
        turn: int | None = None,
        conversation_history: Sequence[Any] = (),
        goal_tree: dict[str, Any] | None = None,
        state_files: dict[str, FileContent] | None = None,
        file_modes: dict[str, int] | None = None,
        label: str = "",
        run_id: str | None = None,
    ) -> Checkpoint | None:
        """Keep how things stand, to return to; None when nothing keeps checkpoints or it could not be kept.

        Our own memory of the run goes with it. One taken while something is wrong is never returned to.
        """
        live = self._asked_about(run_id)
        if live is None or self.keeper is None:
            return None
        try:
            with live.lock:
                session = live.session
                seq = session.next_seq - 1
                taken = Checkpoint(
                    checkpoint_id=f"{session.run.run_id}.{seq}",
                    agent_id=self.agent_id,
                    run_id=session.run.run_id,
                    turn=session.drift.turn if turn is None else turn,
                    seq=seq,
                    taken_at=self._clock(),
                    conversation_history=list(conversation_history),
                    goal_tree=goal_tree,
                    state_files=dict(state_files or {}),
                    file_modes=dict(file_modes or {}),
                    session_state=session.state(),
                    label=label,
                    in_incident=session.is_drifting,
                )
            kept = self.keeper.keep(taken)
            if not kept.kept:
                return None
            self._told(CHECKPOINT_TAKEN, {"seq": seq, "label": label}, run_id=taken.run_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("checkpoint", exc)
            return None
        return structs.replace(taken, reduced=kept.reduced)

    def get_last_checkpoint(self, run_id: str | None = None) -> Checkpoint | None:
        """The checkpoint a run would return to: the newest from before anything went wrong."""
        live = self._asked_about(run_id)
        if live is None or self.keeper is None:
            return None
        try:
            with live.lock:
                run, since = live.session.run, live.session.drifting_since
            return self.keeper.get_last_checkpoint(run.run_id, agent_id=self.agent_id, before_seq=since)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("get_last_checkpoint", exc)
            return None

    def roll_back(self, run_id: str | None = None) -> Checkpoint | None:
        """Go back to the last good checkpoint; gives it, for the caller to restore its own part from.

        What was spent stays spent, and incidents stay known; None when there is no checkpoint to return to.
        """
        found = self.get_last_checkpoint(run_id)
        live = self._asked_about(run_id)
        if found is None or live is None or self.keeper is None:
            return None
        try:
            with live.lock:
                live.session.roll_back(found.session_state)
            self.keeper.drop(found.run_id, agent_id=self.agent_id, after_seq=found.seq)
            self._told(ROLLED_BACK, {"seq": found.seq, "turn": found.turn}, run_id=found.run_id)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self.health.swallowed("roll_back", exc)
            return None
        return found

    # --- for whoever stands between an agent and us ----------------------------------------------

    @property
    def current_run(self) -> str | None:
        """The run that the code now running belongs to."""
        return self._runs.current()

    @contextmanager
    def within(self, run_id: str) -> Iterator[None]:
        """The code in this block belongs to that run; it neither begins nor ends here."""
        with self._runs.within(run_id):
            yield

    def seen(self, run_id: str) -> int:
        """How many events of a run were taken in so far."""
        live = self._runs.get(run_id)
        return live.session.next_seq if live is not None else 0

    def takes_part(self, run_id: str, who: object, can: Collection[Verdict]) -> None:
        """Somebody takes part in a run who can do only this; until they leave, no more is asked for."""
        self._runs.takes_part(run_id, who, frozenset(can))

    def leaves(self, run_id: str, who: object) -> None:
        """They take no part any more."""
        self._runs.leaves(run_id, who)

    def stop_before_next(self, stop: RunStopped) -> None:
        """A run is to be stopped, and cannot be now: the next step finds out by `waiting_stop`."""
        live = self._runs.get(stop.run_id)
        if live is not None:
            live.stop = stop

    def waiting_stop(self) -> RunStopped | None:
        """The stop that waits for the current run's next step."""
        live = self._runs.get(self._runs.current() or "")
        return live.stop if live is not None else None

    @property
    def fails_closed(self) -> bool:
        """Whether a step that we failed to judge shall not pass: never but in mode `enforce`."""
        return self._on_failure == "closed" and self.mode == "enforce"

    # --- who wants to know -----------------------------------------------------------------------

    def on_drift(self, callback: Callback, *, min_severity: str = "MED") -> Callback:
        """Call this with every finding of at least that severity, before `record_event` returns.

        It runs on the agent's own thread: keep it short; what it raises is counted, and the agent goes on.
        """
        self._listeners.add(callback, Severity(min_severity))
        return callback

    def on_response(self, hook: Hook, callback: HookCallback) -> HookCallback:
        """Call this with the decision that asks to `force_checkpoint` or to `switch_model`."""
        self._listeners.add_hook(hook, callback)
        return callback

    # --- what is known ---------------------------------------------------------------------------

    def get_recent_alerts(
        self, hours: float = 24, limit: int = 50, *, min_severity: str = "MED"
    ) -> list[DriftEvent]:
        """The findings of the last hours, newest first."""
        if self.store is None:
            return []
        self.flush()
        since = self._clock() - hours * 3600
        least = Severity(min_severity)
        return self.store.get_drift_events(self.agent_id, severity=least, since=since, limit=limit)

    def get_baseline(self, *, version: str | None = None, task_type: str = "") -> BaselineStats:
        """What is normal for this agent, as far as it is learnt."""
        return self._sessions.baseline(self._version if version is None else version, task_type)

    def status(self) -> dict[str, Any]:
        """How the monitor is doing: what it has learnt, what it cannot check, what it lost."""
        session = self._sessions.begin(
            RunInfo(agent_id=self.agent_id, run_id="", goal=self._goal, version=self._version)
        )
        return {
            "agent_id": self.agent_id,
            "mode": self.mode,
            "disabled": self.disabled,
            "baseline": session.baseline.progress,
            "not_checked": session.not_checked,
            "live_runs": len(self._runs),
            "queued": self._dispatch.waiting,
            "losses": self.health.totals(),
        }

    def not_checked(self, run_id: str | None = None) -> dict[str, str]:
        """The detectors that could not look in this run, and why."""
        live = self._runs.get(run_id or self._runs.current() or "")
        return live.session.not_checked if live is not None else {}

    # --- inside ----------------------------------------------------------------------------------

    def _asked_about(self, run_id: str | None) -> LiveRun | None:
        if self.disabled or not (run_id is None or isinstance(run_id, str)):
            return None
        live = self._runs.get(run_id or self._runs.current() or "")
        return live if live is not None and live.watched else None

    def _is_lost(self, run_id: str | None) -> bool:
        """Whether a run should be live and is not: it could not be begun."""
        if self.disabled or not isinstance(run_id, str):
            return False
        return self._runs.get(run_id) is None and not self._runs.has_ended(run_id)

    def _more(self, name: str, metadata: dict[str, Any], run_id: str | None) -> BudgetDecision:
        """Ask for more, or give it, and say what came of just that."""
        live = self._asked_about(run_id)
        if live is None or self.budget(run_id) is None:
            return _REFUSED
        drift = live.session.drift
        with live.lock:
            drift.last_extension = None
        self._told(name, metadata, run_id=run_id)
        with live.lock:
            decision = drift.last_extension or _REFUSED
        said = {"approved": decision.approved, "reason": decision.reason}
        self._told(BUDGET_DECIDED, said, run_id=run_id)
        return decision

    def _told(
        self, name: str, metadata: dict[str, Any], *, run_id: str | None, call_id: str | None = None
    ) -> Decision:
        live = self._asked_about(run_id)
        # What a caller tells happened with the step before: a host with a clock of its own must not be late.
        at = live.session.last_at if live is not None else 0.0
        return self.record_event(
            STATE_TRANSITION,
            name,
            run_id=run_id,
            timestamp=at or None,
            metadata={key: _plain(value) for key, value in metadata.items()},
            call_id=call_id,
        )


def _plain(value: Any) -> Any:
    """A text without half characters; anything else as it is."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
