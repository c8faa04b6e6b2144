"""Take checkpoints of live runs, and roll runs back to them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from steadyhelm.checkpoint import BEFORE_ANY_EVENT, Checkpoint, CheckpointKeeper, FileContent
from steadyhelm.engine.run_memory import decode_session
from steadyhelm.engine.run_recorder import RunRecorder
from steadyhelm.engine.run_services import RunServices
from steadyhelm.engine.session import Session
from steadyhelm.errors import FormatError
from steadyhelm.events import CHECKPOINT_TAKEN, ROLLED_BACK


class RunCheckpoints:
    """The checkpoints of one monitor's live runs. Methods raise nothing: a keeper that fails is counted.

    A keeper that waits for a disk is used on the writer's thread; what the agent may return to is in memory.

    Args:
        keeper: Keeps the checkpoints; None to keep none.
        services: What the runs share.
        run_on_writer: Runs a job on the writer's thread soon; False when there is none any more.
    """

    def __init__(
        self,
        keeper: CheckpointKeeper | None,
        services: RunServices,
        run_on_writer: Callable[[Callable[[], None]], bool],
    ) -> None:
        self._services = services
        self._run_on_writer = run_on_writer
        self.keeper = keeper

    @property
    def keeper(self) -> CheckpointKeeper | None:
        """What keeps checkpoints; None to keep none."""
        return self._keeper

    @keeper.setter
    def keeper(self, keeper: CheckpointKeeper | None) -> None:
        self._keeper = keeper
        self._recent = keeper.make_recent() if keeper is not None else None

    @property
    def _at_hand(self) -> CheckpointKeeper | None:
        """The keeper that never waits."""
        return self._recent or self._keeper

    def load(self, session: Session) -> None:
        """Let a run that is resumed return to the checkpoints it has."""
        run_id = session.run.run_id
        if self._recent is not None:
            self._run_on_writer(functools.partial(self._read_recent, run_id, session.run.epoch))
        elif self._keeper is None or self._find_newest(self._keeper, run_id) is None:
            session.forget_checkpoints()

    def release(self, run_id: str) -> None:
        """Release the memory of a run that is not live any more."""
        if self._recent is not None:
            self._run_on_writer(functools.partial(self._drop, self._recent, run_id))

    def end(self, run_id: str) -> None:
        """Release the memory of a run that has ended: nothing returns to it any more."""
        self.release(run_id)
        if self._keeper is not None and self._keeper.ends_with_process:
            self._drop(self._keeper, run_id)

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
        keeper = self._at_hand
        if run is None or keeper is None:
            return None
        try:
            history, files, modes = (
                list(conversation_history),
                dict(state_files or {}),
                dict(file_modes or {}),
            )
            with run.lock:
                if run.postponed is not None:
                    self._services.health.count("checkpoint not taken: the saved state was not read yet")
                    return None
                session = run.session
                taken = Checkpoint(
                    # Another run of the same id, in another process, has checkpoints of its own.
                    checkpoint_id=f"{session.run.run_id}.{session.next_seq - 1}.{session.run.epoch}",
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
            kept = keeper.keep(taken)
            if not kept.kept:
                return None
            if self._recent is not None:
                self._run_on_writer(functools.partial(self._write, taken.run_id, taken.checkpoint_id))
            run.report(CHECKPOINT_TAKEN, {"seq": taken.seq, "label": label})
        except BaseException as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("checkpoint", exc)
            return None
        return structs.replace(taken, reduced=kept.reduced)

    def find_last(self, run: RunRecorder | None) -> Checkpoint | None:
        """Return the newest checkpoint from before anything went wrong; None when there is none."""
        keeper = self._at_hand
        if run is None or keeper is None or run.postponed is not None:
            return None
        try:
            with run.lock:
                run_id, since = run.session.run.run_id, run.session.drifting_since
            return self._find_newest(keeper, run_id, before_seq=since)
        except BaseException as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("get_last_checkpoint", exc)
            return None

    def list_written_files(self, run: RunRecorder | None, since: Checkpoint | None) -> list[str]:
        """Return the files that calls of a run have written first since a checkpoint, or since any."""
        if run is None:
            return []
        with run.lock:
            return run.session.list_written_files(
                since.seq if type(since) is Checkpoint else BEFORE_ANY_EVENT
            )

    def roll_back(self, run: RunRecorder | None) -> Checkpoint | None:
        """Go back to the last good checkpoint and return it; None when there is none."""
        found, keeper = self.find_last(run), self._at_hand
        if found is None or run is None or keeper is None:
            return None
        try:
            with run.lock:
                run.session.roll_back(found.session_state)
            keeper.drop(found.run_id, agent_id=self._services.agent_id, after_seq=found.seq)
            if self._recent is not None and self._keeper is not None:
                self._run_on_writer(functools.partial(self._drop, self._keeper, found.run_id, found.seq))
            run.report(ROLLED_BACK, {"seq": found.seq, "turn": found.turn})
        except BaseException as exc:  # noqa: BLE001 - the agent must not notice
            self._services.health.swallow("roll_back", exc)
            return None
        return found

    # --- on the writer's thread -------------------------------------------------------------------

    def _write(self, run_id: str, checkpoint_id: str) -> None:
        """Copy a checkpoint from memory to the keeper."""
        if self._recent is None or self._keeper is None:
            return
        for checkpoint in self._recent.list_checkpoints(run_id, agent_id=self._services.agent_id):
            if checkpoint.checkpoint_id == checkpoint_id:
                self._keeper.keep(checkpoint)
                return

    def _read_recent(self, run_id: str, epoch: str) -> None:
        """Copy the checkpoints of a run from the keeper to memory, without those of others of its id."""
        if self._recent is None or self._keeper is None:
            return
        for checkpoint in reversed(self._keeper.list_checkpoints(run_id, agent_id=self._services.agent_id)):
            if _read_epoch(checkpoint) in {"", epoch}:
                self._recent.keep(checkpoint)

    def _drop(self, keeper: CheckpointKeeper, run_id: str, after_seq: int | None = None) -> None:
        keeper.drop(run_id, agent_id=self._services.agent_id, after_seq=after_seq)

    def _find_newest(
        self, keeper: CheckpointKeeper, run_id: str, *, before_seq: int | None = None
    ) -> Checkpoint | None:
        return keeper.get_last_checkpoint(run_id, agent_id=self._services.agent_id, before_seq=before_seq)


def _read_epoch(checkpoint: Checkpoint) -> str:
    """Return the epoch of the run that a checkpoint is of; empty where it is not known."""
    try:
        return decode_session(checkpoint.session_state, checkpoint.run_id).epoch
    except FormatError:
        return ""
