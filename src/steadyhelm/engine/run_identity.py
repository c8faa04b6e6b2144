"""Give the records of a run the id under which it is stored: two runs may have been started with one id."""

import hashlib
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.health import Health
from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import DriftEvent
from steadyhelm.incidents import Incident
from steadyhelm.journal.frames import Entry
from steadyhelm.sink import (
    DailyGrant,
    Loss,
    PinnedBaseline,
    Record,
    RecordedEvent,
    RunKey,
    SavedState,
    StoringSink,
)

_MAX_RUNS_REMEMBERED: Final = 10_000


class RunIdentities:
    """The ids under which the runs of one writer are stored.

    Args:
        sink: Reserves the ids.
        health: Counts runs that are stored under another id than their own.
    """

    def __init__(self, sink: StoringSink, health: Health) -> None:
        self._sink = sink
        self._health = health
        self._renamed: BoundedDict[str, str] = BoundedDict(_MAX_RUNS_REMEMBERED)
        self._epochs: BoundedDict[str, None] = BoundedDict(_MAX_RUNS_REMEMBERED)

    def resolve(self, entries: Sequence[Entry]) -> list[Record]:
        """Return the records with the ids under which their runs are stored."""
        keys: dict[str, RunKey] = {}
        for epoch, record in entries:
            if epoch and epoch not in keys and not isinstance(record, Loss):
                keys[epoch] = _make_key(epoch, record)
        stored = self._sink.reserve_runs(list(keys.values())) if keys else {}
        for epoch, run_id in stored.items():
            if run_id != keys[epoch].run_id and epoch not in self._epochs:
                self._epochs[epoch] = None
                self._renamed[keys[epoch].run_id] = run_id
                self._health.count("run id seen twice")
        if not self._renamed:
            # The usual case, for which a call per record would be slow.
            return [
                record
                if type(record) is RecordedEvent and record.event.run_id == stored.get(epoch)
                else self._resolve(record, stored.get(epoch))
                for epoch, record in entries
            ]
        return [self._resolve(record, stored.get(epoch)) for epoch, record in entries]

    def _resolve(self, record: Record, run_id: str | None) -> Record:
        if isinstance(record, RecordedEvent):
            parent = self._renamed.get(record.event.parent_run_id or "") if self._renamed else None
            if parent is not None:
                record = structs.replace(record, event=structs.replace(record.event, parent_run_id=parent))
            if run_id is None or record.event.run_id == run_id:
                return record
        elif isinstance(record, RunInfo):
            parent = self._renamed.get(record.parent_run_id or "", record.parent_run_id)
            record = structs.replace(record, parent_run_id=parent)
        return record if run_id is None or isinstance(record, Loss) else rename(record, run_id)


def rename(record: Record, run_id: str) -> Record:
    """Return the record as one of the run with this id.

    Ids that are made from the run's id follow it. Incident ids are unique in a database, so they follow too.
    """
    if isinstance(record, RecordedEvent):
        event, own = record.event, record.event.run_id
        renamed = structs.replace(event, run_id=run_id, event_id=_follow(event.event_id, own, run_id))
        return structs.replace(record, event=renamed)
    if isinstance(record, Loss) or record.run_id == run_id:
        return record
    own = record.run_id
    if isinstance(record, DriftEvent):
        context = record.context
        if "event_ids" in context:
            context = {**context, "event_ids": [_follow(it, own, run_id) for it in context["event_ids"]]}
        event_id = _follow(record.event_id, own, run_id)
        return structs.replace(record, run_id=run_id, event_id=event_id, context=context)
    if isinstance(record, Incident):
        return structs.replace(
            record,
            run_id=run_id,
            incident_id=_hash(record.incident_id, run_id),
            event_ids=tuple(_follow(it, own, run_id) for it in record.event_ids),
        )
    return structs.replace(record, run_id=run_id)


def _make_key(epoch: str, record: Record) -> RunKey:
    if isinstance(record, RecordedEvent):
        event = record.event
        return RunKey(event.agent_id, event.run_id, epoch, event.timestamp)
    if isinstance(record, (RunInfo, RunSummary)):
        at = record.started_at
    elif isinstance(record, Incident):
        at = record.opened_at
    elif isinstance(record, (DriftEvent, SavedState, DailyGrant)):
        at = record.timestamp
    else:
        assert isinstance(record, PinnedBaseline)
        at = 0.0
    return RunKey(record.agent_id, record.run_id, epoch, at)


def _follow(made_id: str, own: str, run_id: str) -> str:
    return run_id + made_id[len(own) :] if made_id.startswith(own + ".") else made_id


def _hash(incident_id: str, run_id: str) -> str:
    text = f"{incident_id}\0{run_id}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
