"""Check that a sink fulfils its contract: run each check with a function that creates yours."""

from collections.abc import Callable
from typing import Final

from steadyhelm.events import RunInfo, RunSummary
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident
from steadyhelm.sink import Loss, Record, RecordedEvent, SavedState, Sink
from steadyhelm.testing.traces import AGENT, RUN, events

MakeSink = Callable[[], Sink]


def build_one_of_each() -> list[Record]:
    """Return a batch with one record of every kind."""
    event = events("a")[0]
    return [
        RunInfo(agent_id=AGENT, run_id=RUN, goal="a goal", started_at=event.timestamp),
        RecordedEvent.of(event),
        DriftEvent(
            agent_id=AGENT,
            run_id=RUN,
            detector="action_loop",
            kind="loop",
            severity=Severity.MED,
            score=0.5,
            message="a message",
            suggested_action="do something else",
            timestamp=event.timestamp,
            event_id=f"{event.event_id}/action_loop",
            context={"event_ids": [event.event_id]},
        ),
        Incident(
            incident_id="0123456789ab",
            agent_id=AGENT,
            run_id=RUN,
            detector="action_loop",
            kind="loop",
            severity=Severity.MED,
            peak=0.5,
            message="a message",
            suggested_action="do something else",
            opened_at=event.timestamp,
            opened_seq=0,
            last_at=event.timestamp,
            last_seq=0,
            event_ids=(event.event_id,),
        ),
        SavedState(AGENT, RUN, b"state", event.timestamp),
        RunSummary(agent_id=AGENT, run_id=RUN, started_at=event.timestamp, ended_at=event.timestamp + 1),
        Loss("queue full", 2, event.timestamp),
    ]


def check_takes_every_kind_of_record(make: MakeSink) -> None:
    """Check that a batch may hold records of any kind, also those the sink ignores."""
    sink = make()
    sink.write(build_one_of_each())
    sink.flush()
    sink.close()


def check_takes_an_empty_batch(make: MakeSink) -> None:
    """Check that a batch may be empty."""
    sink = make()
    sink.write([])
    sink.close()


def check_takes_a_batch_twice(make: MakeSink) -> None:
    """Check that a batch may be written twice: a batch that failed half-way comes again."""
    sink = make()
    sink.write(build_one_of_each())
    sink.write(build_one_of_each())
    sink.close()


def check_has_a_name(make: MakeSink) -> None:
    """Check that the sink has a name for counts and logs."""
    sink = make()
    assert isinstance(sink.name, str)
    assert sink.name
    sink.close()


SINK_CHECKS: Final[tuple[Callable[[MakeSink], None], ...]] = (
    check_takes_every_kind_of_record,
    check_takes_an_empty_batch,
    check_takes_a_batch_twice,
    check_has_a_name,
)
