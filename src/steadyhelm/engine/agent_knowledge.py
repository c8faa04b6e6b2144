"""What is known about one agent, in memory: a run starts without waiting for the store.

The writer's thread reads it when a monitor is built, and again when something was written.
"""

import re
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, Self

import msgspec
from msgspec import Struct, field, structs

from steadyhelm.baselines import BaselineStats, Trend
from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import TaskProfile
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.errors import StoreError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.forks import ForkSafeLock
from steadyhelm.incidents import Incident, Threshold, Thresholds
from steadyhelm.lazy_properties import lazy_property
from steadyhelm.logs import logger
from steadyhelm.people import ToolMark
from steadyhelm.sink import PinnedBaseline
from steadyhelm.store import Store
from steadyhelm.store_rows import StoredRun
from steadyhelm.windows import may_alarm_next

INCIDENTS_KEPT: Final = 200
"""Some kilobytes each, in memory for as long as the monitor is there."""
INCIDENTS_EVERY_S: Final = 5.0
"""How often incidents are read again, unless a flush asks for them: those of this process are known."""
_SUSPENDED_KEPT: Final = 10_000
_LATEST_KEPT: Final = 100
_DIGEST_BYTES: Final = 16
_NEWS_SHARE: Final = 0.05
_NUMBER_BEHIND_ID: Final = re.compile(r"~\d+\Z")

# Shared by all monitors of the process: what one has suspended just now, another may resume.
_suspended_in_process: Final[BoundedDict[tuple[str, str], None]] = BoundedDict(_SUSPENDED_KEPT)
_suspended_lock: Final = ForkSafeLock()

BaselineKey = tuple[str, str]
"""Version and task type."""


class Reference(Struct, frozen=True, dict=True):
    """What the events of a run are compared with: chosen once for a run, so that it can be judged again.

    `thresholds` are what people marked as false alarms, `profile` is what tasks of the run's type have
    taken, where budgets follow that, `tools` the kinds of tools that were declared on the page.
    """

    baseline: BaselineStats
    thresholds: Thresholds
    profile: TaskProfile | None = None
    tools: dict[str, str] = field(default_factory=dict)

    @lazy_property
    def content(self) -> bytes:
        """The reference, encoded."""
        return msgspec.msgpack.encode(self)

    @lazy_property
    def digest(self) -> str:
        """The hash of the content."""
        return blake2b(self.content, digest_size=_DIGEST_BYTES).hexdigest()

    def pin(self, run: RunInfo, seq: int) -> PinnedBaseline:
        """Return the record that a run is compared with this from an event on."""
        return PinnedBaseline(run.agent_id, run.run_id, seq, self.digest, self.content)

    @classmethod
    def decode(cls, pinned: PinnedBaseline | None) -> Self | None:
        """Return what was pinned; None when there is nothing, or it cannot be read."""
        if pinned is None:
            return None
        try:
            return msgspec.msgpack.decode(pinned.content, type=cls, strict=False)
        except msgspec.MsgspecError:
            return None


class SuspendedRun(NamedTuple):
    """What is needed to resume a run. Without a `reference` nothing was pinned yet."""

    run: RunInfo | StoredRun
    events: int
    state: bytes
    reference: Reference | None


class KnowledgeStore(Protocol):
    """The part of a store that runs are compared with."""

    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """Return the baseline of an agent's version and task type; None when nothing was learnt."""
        ...

    def list_thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Return what people marked as false alarms."""
        ...

    def list_profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """Return what tasks have taken."""
        ...

    def list_tool_marks(self, agent_id: str) -> list[ToolMark]:
        """Return the kinds of tools that people declared."""
        ...


class StoredKnowledge:
    """What a store knows about one agent, read when it is asked for; each thing once.

    Args:
        agent_id: The agent.
        store: The store; None knows nothing.
        calibration_runs: Clean runs until a baseline counts.
        uses_profiles: Whether budgets follow the profiles of task types.
    """

    def __init__(
        self,
        agent_id: str,
        store: KnowledgeStore | None,
        *,
        calibration_runs: int = 30,
        uses_profiles: bool = False,
    ) -> None:
        self._agent_id = agent_id
        self._store = store
        self._calibration_runs = calibration_runs
        self._uses_profiles = uses_profiles
        self._known: dict[BaselineKey, Reference] = {}

    def get_reference(self, version: str, task_type: str) -> Reference:
        """Return what a run of this version and type is compared with."""
        known = self._known.get((version, task_type))
        if known is None:
            known = self._known[version, task_type] = self._read(version, task_type)
        return known

    def _read(self, version: str, task_type: str) -> Reference:
        stored, thresholds, profiles, tools = None, Thresholds(), {}, {}
        if self._store is not None:
            stored = self._store.get_baseline(self._agent_id, version, task_type)
            thresholds = Thresholds.combine(self._store.list_thresholds(self._agent_id))
            profiles = _read_profiles(self._store, self._agent_id) if self._uses_profiles else {}
            tools = _read_tools(self._store, self._agent_id)
        empty = _make_baseline(self._agent_id, (version, task_type), self._calibration_runs)
        return Reference(stored or empty, thresholds, profiles.get(task_type), tools)


class AgentKnowledge:
    """What the store knows about one agent, in memory.

    `refresh` runs on the writer's thread alone; everything else runs on any thread and never waits.

    Args:
        agent_id: The agent.
        store: Is read by `refresh`; None knows nothing.
        calibration_runs: Clean runs until a baseline counts.
        uses_profiles: Whether budgets follow the profiles of task types.
        daily: Is read with everything else; None where no limit is set for a day.
    """

    def __init__(
        self,
        agent_id: str,
        store: Store | None,
        *,
        calibration_runs: int = 30,
        uses_profiles: bool = False,
        daily: DailyLedger | None = None,
    ) -> None:
        self._agent_id = agent_id
        self._store = store
        self._calibration_runs = calibration_runs
        self._uses_profiles = uses_profiles
        self._daily = daily
        self.is_loaded = store is None
        self._version: object = None
        self._incidents_version: object = None
        self._incidents_due_at = 0.0
        # Every one of these is replaced as a whole, never changed: readers take no lock.
        self._baselines: dict[BaselineKey, BaselineStats] = {}
        self._in_use: dict[BaselineKey, BaselineStats] = {}
        self._thresholds = Thresholds()
        self._profiles: dict[str, TaskProfile] = {}
        self._tools: dict[str, str] = {}
        self._references: dict[BaselineKey, Reference] = {}
        self._latest: BoundedDict[BaselineKey, Reference] = BoundedDict(_LATEST_KEPT)
        self._suspended: dict[str, str] = {}
        self._stored_incidents: Sequence[Incident] = ()
        self.lock = ForkSafeLock()
        self._own_incidents: BoundedDict[str, Incident] = BoundedDict(INCIDENTS_KEPT)
        self._rises: BoundedDict[tuple[str, str, str], tuple[int, int]] = BoundedDict(_LATEST_KEPT)

    def refresh(self, *, with_incidents: bool = False) -> bool:
        """Read everything again if anything was written; False when the store cannot be read now.

        Incidents are read every few seconds, or `with_incidents` at once.
        """
        if self._store is None:
            return True
        try:
            version = self._store.get_version()
            if self._daily is not None and (version != self._version or self._daily.is_outdated()):
                self._daily.read(self._store)
            if version != self._version:
                self._load(self._store)
                self._version, self.is_loaded = version, True
            is_due = with_incidents or time.monotonic() >= self._incidents_due_at
            if is_due and version != self._incidents_version:
                self._load_incidents(self._store, version)
        except (StoreError, OSError) as exc:
            logger.debug("what is known about %s could not be read", self._agent_id, exc_info=exc)
            return False
        return True

    def get_baseline(self, version: str, task_type: str) -> BaselineStats:
        """Return the newest baseline; an empty one while nothing was learnt or read."""
        key = (version, task_type)
        return self._baselines.get(key) or _make_baseline(self._agent_id, key, self._calibration_runs)

    def use_baseline(self, baseline: BaselineStats) -> None:
        """Compare runs that start from now on with a newer baseline."""
        if baseline.agent_id == self._agent_id:
            self._set_baselines({**self._baselines, (baseline.version, baseline.task_type): baseline})

    def get_reference(self, version: str, task_type: str) -> Reference | None:
        """Return what a run that starts now is compared with; None while that is not known."""
        if not self.is_loaded:
            return None
        key, references = (version, task_type), self._references
        known = references.get(key)
        if known is None:
            baseline = self._in_use.get(key) or _make_baseline(self._agent_id, key, self._calibration_runs)
            known = Reference(baseline, self._thresholds, self._profiles.get(task_type), self._tools)
            # Live runs share what they are compared with while it stays the same.
            known = references[key] = self._latest[key] = _keep_equal(self._latest.get(key), known)
        return known

    def claim_rise(self, baseline: BaselineStats, measure: str) -> bool:
        """Return whether no other run has reported the rise that a run compared with this baseline shows.

        Runs that overlap are compared with the same runs before them: the first of them to end reports it.
        What other processes have reported is known once their runs were learnt from.
        """
        key = (baseline.version, baseline.task_type, measure)
        newest = self.get_baseline(baseline.version, baseline.task_type)
        shown, learnt = (it.trends.get(measure, Trend()).alarms for it in (baseline, newest))
        with self.lock:
            runs, claimed = self._rises.get(key, (0, -1))
            is_learnt_anew = newest.calibration_runs < runs
            if learnt > shown or (claimed >= shown and not is_learnt_anew):
                return False
            self._rises[key] = (newest.calibration_runs, shown)
        return True

    def may_be_suspended(self, run_id: str) -> bool:
        """Return whether there may be a saved state of this run."""
        if self._store is None:
            return False
        is_known = run_id in self._suspended or (self._agent_id, run_id) in _suspended_in_process
        return is_known or not self.is_loaded

    def find_suspended(self, run_id: str) -> str | None:
        """Return the stored id of a suspended run; it has a number behind it when the id was used twice."""
        return self._suspended.get(run_id)

    def add_suspended(self, run_id: str) -> None:
        """Note that this process suspended a run."""
        with _suspended_lock:
            _suspended_in_process[self._agent_id, run_id] = None

    def remove_suspended(self, run_id: str) -> None:
        """Note that a run is not suspended any more."""
        with _suspended_lock:
            _suspended_in_process.pop((self._agent_id, run_id), None)
        with self.lock:
            if run_id in self._suspended:
                self._suspended = {it: stored for it, stored in self._suspended.items() if it != run_id}

    def add_incidents(self, incidents: Sequence[Incident]) -> None:
        """Note incidents of this process, in their latest version."""
        with self.lock:
            for incident in incidents:
                self._own_incidents[incident.incident_id] = incident

    def list_incidents(self, *, since: float, severity: Severity, limit: int) -> list[Incident]:
        """Return the latest incidents of the agent, newest first; `severity` is the lowest one to return."""
        with self.lock:
            distinct = dict(self._own_incidents)
        for stored in self._stored_incidents:
            own = distinct.get(stored.incident_id)
            # What is stored may have been reviewed, unless a newer version is still on its way.
            if own is None or own.last_at <= stored.last_at:
                distinct[stored.incident_id] = stored
        found = [it for it in distinct.values() if it.last_at >= since and it.severity.rank >= severity.rank]
        found.sort(key=lambda incident: (incident.last_at, incident.opened_at), reverse=True)
        return found[: max(0, limit)]

    def _load(self, store: Store) -> None:
        agent_id = self._agent_id
        baselines = {(it.version, it.task_type): it for it in store.list_baselines(agent_id)}
        self._thresholds = Thresholds.combine(store.list_thresholds(agent_id))
        self._profiles = _read_profiles(store, agent_id) if self._uses_profiles else {}
        self._tools = _read_tools(store, agent_id)
        self._suspended = _group_by_given_id(store.list_suspended(agent_id, limit=_SUSPENDED_KEPT))
        self._set_baselines(baselines)

    def _load_incidents(self, store: Store, version: object) -> None:
        self._incidents_due_at = time.monotonic() + INCIDENTS_EVERY_S
        self._stored_incidents = stored = store.list_incidents(self._agent_id, limit=INCIDENTS_KEPT)
        self._incidents_version = version
        with self.lock:
            for incident in stored:
                own = self._own_incidents.get(incident.incident_id)
                if own is not None and own.last_at <= incident.last_at:
                    del self._own_incidents[incident.incident_id]  # one copy is enough

    def _set_baselines(self, baselines: dict[BaselineKey, BaselineStats]) -> None:
        """Replace the baselines. A little more experience alone is no reason to compare runs with another."""
        in_use = self._in_use
        self._baselines = baselines
        self._in_use = {
            key: in_use[key] if key in in_use and not _is_news(in_use[key], baseline) else baseline
            for key, baseline in baselines.items()
        }
        self._references = {}


def take_suspended(store: Store, agent_id: str, run_id: str) -> SuspendedRun | None:
    """Remove the saved state of a run from the store, and return what is needed to resume the run."""
    with store.transaction():
        state = store.take_state(agent_id, run_id)
        if state is None:
            return None
        kept = store.find_run(run_id, agent_id=agent_id)
        reference = Reference.decode(store.get_pinned_baseline(agent_id, run_id))
    return SuspendedRun(kept, kept.events, state, reference)


def _make_baseline(agent_id: str, key: BaselineKey, required_runs: int) -> BaselineStats:
    version, task_type = key
    return BaselineStats(agent_id=agent_id, version=version, task_type=task_type, required_runs=required_runs)


def _keep_equal(before: Reference | None, now: Reference) -> Reference:
    return before if before is not None and before == now else now


def _is_news(known: BaselineStats, newer: BaselineStats) -> bool:
    """Return whether a baseline differs from the one in use by more than a few further runs.

    One that is calibrated changes a little with every run: each would be stored with the run that used it.
    Where the next run may show a rise over runs, as far as either of them knows, it is compared with the
    newest: each rise is learnt once, with the run that shows it.
    """
    states = {(it.is_frozen, it.may_be_outdated) for it in (known, newer)}
    if not known.is_calibrated or len(states) > 1:
        return True
    further = newer.calibration_runs - known.calibration_runs
    if further == 0 or any(map(may_alarm_next, [*known.trends.values(), *newer.trends.values()])):
        return known != structs.replace(newer, unusual_runs=known.unusual_runs)
    return further < 0 or further >= known.calibration_runs * _NEWS_SHARE


def _read_profiles(store: KnowledgeStore, agent_id: str) -> dict[str, TaskProfile]:
    return {profile.task_type: profile for profile in store.list_profiles(agent_id)}


def _read_tools(store: KnowledgeStore, agent_id: str) -> dict[str, str]:
    return {mark.tool: mark.kind for mark in store.list_tool_marks(agent_id)}


def _group_by_given_id(stored_ids: Sequence[str]) -> dict[str, str]:
    """Return the stored ids by the ids runs may have been started with; the latest of several."""
    by_given: dict[str, str] = {}
    for stored_id in stored_ids:
        by_given.setdefault(_NUMBER_BEHIND_ID.sub("", stored_id), stored_id)
    return by_given | {stored_id: stored_id for stored_id in stored_ids}
