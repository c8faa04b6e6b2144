"""What a session remembers of its run beside the memory of its detectors: saved and restored as one."""

from typing import Final

import msgspec
from msgspec import Struct, field

from steadyhelm.engine.drift_state import SavedDriftState
from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.judged_events import SavedJudging
from steadyhelm.engine.totals import SeenPlaces, Totals
from steadyhelm.errors import FormatError
from steadyhelm.events import TraceEvent
from steadyhelm.fatigue import Fatigue, Trust
from steadyhelm.goals.plan_tracker import PlanTracker
from steadyhelm.goals.tracker import GoalTracker
from steadyhelm.goals.work_signals import find_written_path

STATE_VERSION: Final = 4
_CLEAN_KEPT: Final = 16
_FILES_KEPT: Final = 500
_MAX_PATH_CHARS: Final = 1_000

# A refused call stays refused until something else happens; then it may be tried again.
REFUSED: Final = "refused"
LIFTED: Final = "lifted"


class SavedSession(Struct):
    """The format of a saved session."""

    version: int
    totals: Totals
    incidents: IncidentTracker
    detectors: dict[str, bytes]
    fatigue: Fatigue
    trust: Trust
    drift: SavedDriftState
    goal: GoalTracker
    refusal: str = ""
    clean: list[int] = field(default_factory=list)
    epoch: str = ""
    plan: PlanTracker = field(default_factory=PlanTracker)
    written: dict[str, int] = field(default_factory=dict)
    judging: SavedJudging = field(default_factory=SavedJudging)
    places: SeenPlaces = field(default_factory=SeenPlaces)
    reasons: dict[str, str | None] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


def decode_session(state: bytes, run_id: str) -> SavedSession:
    """Return a saved session. Raises FormatError when it cannot be read or has another version."""
    try:
        saved = msgspec.msgpack.decode(state, type=SavedSession)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FormatError(f"The saved session of run {run_id!r} cannot be read: {exc}.") from exc
    if saved.version != STATE_VERSION:
        raise FormatError(f"The saved session of run {run_id!r} has version {saved.version}.")
    return saved


class RunMemory(Struct):
    """The totals of a run, its incidents, goal and plan, and the points it can be rolled back to.

    `refusal` says whether the latest refused call stays refused. `clean` are the places of checkpoints that
    were taken while nothing was wrong, `written` the files that calls have written since the first of them,
    by the place of the first write.
    """

    totals: Totals = field(default_factory=Totals)
    incidents: IncidentTracker = field(default_factory=IncidentTracker)
    fatigue: Fatigue = field(default_factory=Fatigue)
    trust: Trust = field(default_factory=Trust)
    goal: GoalTracker = field(default_factory=GoalTracker)
    plan: PlanTracker = field(default_factory=PlanTracker)
    places: SeenPlaces = field(default_factory=SeenPlaces)
    refusal: str = ""
    clean: list[int] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)

    def restore(self, saved: SavedSession) -> None:
        """Remember what was saved instead."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(saved, name))

    def follow_goal(self, event: TraceEvent) -> None:
        """Update goal and plan by an event; with another task, the plan is another one too."""
        changes = self.goal.changes
        self.goal.observe(event)
        if self.goal.changes != changes:
            self.plan.forget()
        self.plan.observe(event)

    def note_checkpoint(self, seq: int) -> None:
        """Note that a checkpoint was taken while nothing was wrong."""
        self.clean.append(seq)
        del self.clean[1:-_CLEAN_KEPT]  # the first stays: it is from before everything

    def can_roll_back(self, seq: int) -> bool:
        """Return whether there is a checkpoint from before the first evidence of the open incidents.

        Where none is open, one from before this place will do.
        """
        since = self.incidents.first_evidence_seq()
        return any(taken <= (seq if since is None else since) for taken in self.clean)

    def note_written_file(self, event: TraceEvent) -> None:
        """Note which file a call writes, from the first checkpoint on: a rollback may remove it."""
        path = find_written_path(event.input_data)
        if path is not None and len(path) <= _MAX_PATH_CHARS and len(self.written) < _FILES_KEPT:
            self.written.setdefault(path, event.seq)

    def estimate_repeated_calls(self, then: Totals) -> int:
        """Return about how many calls lie between a checkpoint and where things went wrong."""
        since, now = self.incidents.first_evidence_seq(), self.totals
        if since is None or now.events <= then.events:
            return 0
        share = (now.tool_calls - then.tool_calls) / (now.events - then.events)
        return round(max(0, since - then.last_seq - 1) * share)
