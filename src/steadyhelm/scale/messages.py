"""The messages of a stream: one event of a run each, as JSON, keyed by the run's id."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from steadyhelm.bounded import BoundedDict
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo, RunSummary, TraceEvent
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.sink import Record, RecordedEvent, Sink

_MOST_RUNS: Final = 10_000
"""Runs whose goal and version a sink has at hand; the oldest one is sent without them."""


class EventMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event with the run it belongs to, or the end of the run.

    `entries` is how many entries the run has where that was recorded; 0 counts its events.
    """

    run: RunInfo
    event: TraceEvent | None = None
    ended_at: float | None = None
    entries: int = 0

    @property
    def at(self) -> float:
        """The time of the event, or of the run's end."""
        return self.event.timestamp if self.event is not None else self.ended_at or 0.0


_decoder = msgspec.json.Decoder(EventMessage)


def encode_event(run: RunInfo, event: TraceEvent, *, entries: int = 0) -> bytes:
    """Return the message of an event; send it with the run's id as its key."""
    return msgspec.json.encode(EventMessage(run=run, event=event, entries=entries))


def encode_end(run: RunInfo, at: float) -> bytes:
    """Return the message that a run has ended."""
    return msgspec.json.encode(EventMessage(run=run, ended_at=at))


class MessageSink(Sink):
    """Sends what an agent records as messages, each event with its payload reduced and redacted.

    A batch that fails is tried again: messages may come twice, which the stream tells apart.

    Args:
        send: Called with the key and the value of each message. Raises when it cannot be sent.
        flush: Called at the end of each batch: waits until all of it was sent, and raises when it was not.
    """

    name = "messages"

    def __init__(
        self, send: Callable[[str, bytes], object], flush: Callable[[], object] = lambda: None
    ) -> None:
        self._send = send
        self._flush = flush
        self._runs: BoundedDict[tuple[str, str], RunInfo] = BoundedDict(_MOST_RUNS)

    def write(self, records: Sequence[Record]) -> None:
        """Send the events and the ends of runs in a batch."""
        for record in records:
            if isinstance(record, RunInfo):
                self._runs[record.agent_id, record.run_id] = record
            elif isinstance(record, RecordedEvent):
                run = self._find_run(record.event.agent_id, record.event.run_id)
                self._send(run.run_id, encode_event(run, _take_payload(record)))
            elif isinstance(record, RunSummary):
                run = self._find_run(record.agent_id, record.run_id)
                self._send(run.run_id, encode_end(run, record.ended_at))
        self._flush()

    def _find_run(self, agent_id: str, run_id: str) -> RunInfo:
        """Return a run as it began; one that began elsewhere is known by its ids alone."""
        return self._runs.get((agent_id, run_id)) or RunInfo(agent_id=agent_id, run_id=run_id)


def _take_payload(recorded: RecordedEvent) -> TraceEvent:
    """Return the event with the payload that sinks may read, which is JSON already."""
    payload: dict[str, Any] = {
        "input_data": recorded.input_json,
        "output_data": recorded.output_json,
        "metadata": recorded.metadata_json,
    }
    return structs.replace(
        recorded.event, **{name: value and msgspec.Raw(value) for name, value in payload.items()}
    )


def decode_message(value: bytes | str) -> EventMessage:
    """Return the message; raises FormatError when it is none."""
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FormatError(f"A message of a stream cannot be read: {exc}.") from exc


def encode_run(run: ReadRun) -> list[bytes]:
    """Return the messages of a recorded run, in order."""
    return [encode_event(run.info, event, entries=run.entries) for event in run.events]


def join_messages(values: Iterable[bytes | str]) -> ReadRun | None:
    """Return a run of its messages, in the order of their places; None without an event.

    A message that cannot be read is named among the problems.
    """
    messages, problems = _decode_all(values)
    by_place = {it.event.seq: it for it in reversed(messages) if it.event is not None}
    if not by_place:
        return None
    ordered = [by_place[place] for place in sorted(by_place)]
    events = [it.event for it in ordered if it.event is not None]
    return ReadRun(
        info=ordered[0].run,
        events=events,
        entries=ordered[0].entries or len(events),
        line=0,
        labels=[],
        outcome="",
        meta={},
        extra={},
        problems=problems,
        unread=len(problems),
    )


def _decode_all(values: Iterable[bytes | str]) -> tuple[list[EventMessage], list[str]]:
    messages, problems = [], []
    for value in values:
        try:
            messages.append(decode_message(value))
        except FormatError as exc:
            problems.append(str(exc))
    return messages, problems
