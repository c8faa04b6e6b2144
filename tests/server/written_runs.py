"""Write runs of chosen days and incidents to a store, for a clock that stands at noon."""

import time

from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.testing.store_records import an_event, an_incident

DAY_S = 86_400
NOON = (int(time.time() // DAY_S)) * DAY_S + DAY_S / 2


def write_run(store, run_id, *, days_ago=0, agent_id="agent", incident=True, **fields):
    """Write a run that began some days before noon, with an incident that goes on, that spent a dollar."""
    at = NOON - days_ago * DAY_S - 60
    event = an_event(
        0,
        agent_id=agent_id,
        run_id=run_id,
        event_id=f"{run_id}.0",
        timestamp=at,
        token_count=100,
        cost_usd=1.0,
    )
    records = [RunInfo(agent_id=agent_id, run_id=run_id, started_at=at), event]
    if incident:
        records.append(
            an_incident(
                f"i-{run_id}",
                agent_id=agent_id,
                run_id=run_id,
                opened_at=at,
                last_at=at,
                **{"severity": Severity.HIGH, "subject": "search", **fields},
            )
        )
    store.write(records)
