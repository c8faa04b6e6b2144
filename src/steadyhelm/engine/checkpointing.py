"""Take checkpoints of live runs, and roll runs back to them."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper, FileContent
from steadyhelm.engine.run_recorder import RunRecorder, RunServices
from steadyhelm.events import CHECKPOINT_TAKEN, ROLLED_BACK


class RunCheckpoints:
    """The checkpoints of one monitor's live runs. Methods raise nothing: a keeper that fails is counted.

    Args:
        keeper: Keeps the checkpoints; None to keep none.
        services: What the runs share.
    """

    def __init__(self, keeper: CheckpointKeeper | None, services: RunServices) -> None:
        self.keeper = keeper
        self._services = services

    def take(
        self,
        run: RunRecorder | None,
        *,
        turn: int | None = None,
        conversation_history: Sequence[Any] = (),
        goal_tree: dict[str, Any] | None = None,
        state_files: dict[str, FileContent] | None = None,
        file_modes: dict[str, int] | None = None,
        label: str = "",
    ) -> Checkpoint | None:
        """Take a checkpoint; None when it could not be kept."""
        if run is None or self.keeper is None:
            return None
        try:
            history, files, modes = (
                list(conversation_history),
                dict(state_files or {}),
                dict(file_modes or {}),
            )
            with run.lock:
                session = run.session
                taken = Checkpoint(
                    checkpoint_id=f"{session.run.run_id}.{session.next_seq - 1}",
                    agent_id=self._services.agent_id,
                    run_id=session.run.run_id,
                    turn=session.drift.turn if turn is None else turn,
                    seq=session.next_seq - 1,
                    taken_at=self._services.clock(),
                    conversation_history=history,
                    goal_tree=goal_tree,
                    state_files=files,
                    file_modes=modes,
                    session_state=session.state(),
                    label=label,
                    in_incident=session.is_drifting,
                )
            kept = self.keeper.keep(taken)
            if not kept.kept:
                return None
            run.report(CHECKPOINT_TAKEN, {"seq": taken.seq, "label": label})
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("checkpoint", exc)
            return None
        return structs.replace(taken, reduced=kept.reduced)

    def has_any(self, run_id: str) -> bool:
        """Return whether there is a checkpoint of that run."""
        if self.keeper is None:
            return False
        return self.keeper.get_last_checkpoint(run_id, agent_id=self._services.agent_id) is not None

    def find_last(self, run: RunRecorder | None) -> Checkpoint | None:
        """Return the newest checkpoint from before anything went wrong; None when there is none."""
        if run is None or self.keeper is None:
            return None
        try:
            with run.lock:
                run_id, since = run.session.run.run_id, run.session.drifting_since
            return self.keeper.get_last_checkpoint(run_id, agent_id=self._services.agent_id, before_seq=since)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("get_last_checkpoint", exc)
            return None

    def roll_back(self, run: RunRecorder | None) -> Checkpoint | None:
        """Go back to the last good checkpoint and return it; None when there is none."""
        found = self.find_last(run)
        if found is None or run is None or self.keeper is None:
            return None
        try:
            with run.lock:
                run.session.roll_back(found.session_state)
            self.keeper.drop(found.run_id, agent_id=self._services.agent_id, after_seq=found.seq)
            run.report(ROLLED_BACK, {"seq": found.seq, "turn": found.turn})
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("roll_back", exc)
            return None
        return found
