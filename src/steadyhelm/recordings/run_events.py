"""Join a recorded run's entries into the events its session would have recorded, in that order.

An `UnfinishedStep` is what the entries said so far; other readers build events from it too.
"""

from collections import deque
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import (
    LLM_REQUEST,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    TraceEvent,
)
from steadyhelm.recordings.run_entries import EPOCH_FROM, NAME_LIMIT, Notes, RunEntry, cut_middle

_ACTION_TYPES: Final = {
    "tool_call": TOOL_CALL,
    "llm_output": LLM_REQUEST,
    "user_message": USER_MESSAGE,
    "tool_result": STATE_TRANSITION,
    "error": STATE_TRANSITION,
    "state": STATE_TRANSITION,
}
_DEFAULT_NAMES: Final = {"llm_output": "llm", "user_message": "user", "tool_call": "tool"}
_Key = tuple[str, str]
_ANY_CALL: Final = ("any", "")
_WITHOUT_ID: Final = ("without id", "")
_NOT_AWAITED: Final = ("left behind", "")


class UnfinishedStep(Struct, kw_only=True):
    """A step begun by one entry, and perhaps completed by later ones; `index` is that of the first."""

    index: int
    action_type: str
    action_name: str
    timestamp: float = 0.0
    started_seq: int | None = None
    input_data: Any = None
    output_data: Any = None
    error: str | None = None
    tokens: int = 0
    duration_ms: float = 0.0
    cost_usd: float | None = None
    call_id: str | None = None
    parent_run_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_event(self, agent_id: str, run_id: str, seq: int) -> TraceEvent:
        """Return the event at this place of its run; without a place of its own it also started there."""
        return TraceEvent(
            agent_id=agent_id,
            run_id=run_id,
            action_type=self.action_type,
            action_name=self.action_name,
            timestamp=self.timestamp,
            event_id=str(self.index),
            token_count=self.tokens,
            input_data=self.input_data,
            output_data=self.output_data,
            duration_ms=self.duration_ms,
            metadata=self.metadata or None,
            seq=seq,
            started_seq=seq if self.started_seq is None else self.started_seq,
            call_id=self.call_id,
            parent_run_id=self.parent_run_id,
            error=self.error,
            cost_usd=self.cost_usd,
        )


def wrap_text(content: Any) -> Any:
    """Return text as the data of an event; anything else as it is."""
    return {"text": content} if isinstance(content, str) else content


def join_entries(entries: list[RunEntry], run: RunInfo, notes: Notes) -> list[TraceEvent]:
    """Return the run's events in order of completion; an event's id is the index of its first entry."""
    return _EntryJoiner(entries, run, notes).build_events()


class _JoinedStep(UnfinishedStep, kw_only=True):
    """A step that may be open, and may come in chunks."""

    chunks: list[str] = field(default_factory=list)
    is_open: bool = True

    def add_entry(self, entry: RunEntry) -> None:
        """Add the cost and metadata of an entry to the step it belongs to."""
        self.tokens += entry.tokens
        # A call and its result may both carry the duration of the same thing.
        self.duration_ms = max(self.duration_ms, entry.duration_ms)
        if entry.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + entry.cost_usd
        self.call_id = self.call_id or (entry.call_id and entry.call_id[:NAME_LIMIT])
        self.parent_run_id = self.parent_run_id or entry.parent_run_id
        for key, value in entry.metadata.items():
            self.metadata.setdefault(key, value)


class _OpenCalls:
    """The calls without a result so far, found by id, by name or by age, each in constant time."""

    def __init__(self) -> None:
        self._queues: dict[_Key, deque[_JoinedStep]] = {}

    def add(self, step: _JoinedStep, call_id: str | None, *, awaited: bool) -> None:
        keys: list[_Key] = [_ANY_CALL, ("name", step.action_name)]
        keys += [("id", call_id)] if call_id else [_WITHOUT_ID, ("name without id", step.action_name)]
        if not awaited:
            keys.append(_NOT_AWAITED)
        for key in keys:
            self._queues.setdefault(key, deque()).append(step)

    def pop_oldest(self, keys: list[_Key]) -> _JoinedStep | None:
        """Close and return the oldest open call under the first key that has one."""
        for key in keys:
            queue = self._queues.get(key)
            while queue:
                step = queue.popleft()
                if step.is_open:
                    step.is_open = False
                    return step
        return None

    def has_call(self, call_id: str) -> bool:
        """Return whether any call, open or closed, had this id."""
        return ("id", call_id) in self._queues


class _EntryJoiner:
    """One pass over a run's entries."""

    def __init__(self, entries: list[RunEntry], run: RunInfo, notes: Notes) -> None:
        self._entries = entries
        self._run = run
        self._notes = notes
        self._open = _OpenCalls()
        self._seen: list[_JoinedStep] = []
        self._streams: dict[str, _JoinedStep] = {}
        self._last_result: tuple[RunEntry, _JoinedStep] | None = None
        self._now = run.started_at
        self._last_chunks = {entry.stream: entry.index for entry in entries if entry.kind == "llm_output"}
        self._find_awaited = _find_awaited(entries)
        self._has_results = any(entry.kind == "tool_result" for entry in entries)

    def _advance_to(self, t: float | None) -> None:
        """Set the time, which never goes back; `t` counts from the epoch, or from the start of the run."""
        if t is not None:
            self._now = max(self._now, t if t >= EPOCH_FROM else self._run.started_at + t)

    def build_events(self) -> list[TraceEvent]:
        for entry in self._entries:
            self._advance_to(entry.t)
            last_result, self._last_result = self._last_result, None
            if entry.kind == "tool_call":
                self._add_call(entry)
            elif entry.kind == "tool_result":
                self._add_result(entry)
            elif entry.kind == "error":
                self._add_failure(entry, last_result)
            elif entry.kind == "llm_output" and entry.stream is not None:
                self._add_chunk(entry, entry.stream)
            else:
                self._add_plain(entry)
        self._close_calls(_ANY_CALL)
        run = self._run
        return [step.to_event(run.agent_id, run.run_id, seq) for seq, step in enumerate(self._seen)]

    def _begin_step(self, entry: RunEntry) -> _JoinedStep:
        step = _JoinedStep(
            index=entry.index,
            action_type=_ACTION_TYPES[entry.kind],
            action_name=entry.name or _DEFAULT_NAMES.get(entry.kind, entry.kind),
            started_seq=len(self._seen),
            input_data=entry.args,
        )
        step.add_entry(entry)
        return step

    def _observe(self, step: _JoinedStep, entry: RunEntry | None) -> None:
        """Record a step as complete; its time is the entry's own, else the time spent so far."""
        if entry is None or entry.t is None:
            self._now += step.duration_ms / 1000
        step.is_open = False
        step.timestamp = self._now
        self._seen.append(step)

    def _add_call(self, entry: RunEntry) -> None:
        step = self._begin_step(entry)
        # `"error": false` alone means that the call has ended, unless results are entries of their own.
        ended = entry.words is not None or entry.error or (entry.error is False and not self._has_results)
        if not ended:
            self._open.add(step, entry.call_id, awaited=entry.index in self._find_awaited)
            return
        step.output_data = wrap_text(entry.words)
        step.error = _get_error_text(entry)
        self._observe(step, entry)

    def _add_result(self, entry: RunEntry) -> None:
        step = self._open.pop_oldest(self._list_keys(entry))
        if step is None:
            self._notes.remark(
                f"event {entry.index} is a result without an open call; kept as a change of state"
            )
        self._last_result = (entry, self._end_call(step, entry))

    def _add_failure(self, entry: RunEntry, last_result: tuple[RunEntry, _JoinedStep] | None) -> None:
        if last_result and _is_same_call(entry, *last_result):
            step = last_result[1]
            step.add_entry(entry)
            step.error = _get_error_text(entry, otherwise=step.output_data)
            return
        self._end_call(self._open.pop_oldest(self._list_keys(entry)), entry)

    def _end_call(self, call: _JoinedStep | None, entry: RunEntry) -> _JoinedStep:
        """End a call with the result in an entry; without a call, the entry is a step of its own."""
        if call is None:
            call = self._begin_step(entry)
        else:
            call.add_entry(entry)
        call.output_data = wrap_text(entry.words)
        call.error = _get_error_text(entry)
        self._observe(call, entry)
        return call

    def _list_keys(self, entry: RunEntry) -> list[_Key]:
        """Return where to look for the call of a result or an error, best first."""
        if entry.call_id is not None and self._open.has_call(entry.call_id):
            return [("id", entry.call_id)]
        # A call with another id does not match.
        group = "name" if entry.call_id is None else "name without id"
        keys: list[_Key] = [(group, entry.name)] if entry.name else []
        # An error with a name that no open call has belongs to no call; a result always belongs to one.
        if entry.kind == "tool_result" or entry.name is None:
            keys.append(_ANY_CALL if entry.call_id is None else _WITHOUT_ID)
        return keys

    def _add_chunk(self, entry: RunEntry, stream: str) -> None:
        step = self._streams.get(stream)
        if step is None:
            step = self._streams[stream] = self._begin_step(entry)
        else:
            spent = step.duration_ms
            step.add_entry(entry)
            step.duration_ms = spent + entry.duration_ms
        if isinstance(entry.words, str):
            step.chunks.append(entry.words)
        step.error = step.error or _get_error_text(entry)
        if entry.index == self._last_chunks[stream]:
            step.output_data = {"text": cut_middle("".join(step.chunks))} if step.chunks else None
            self._observe(step, entry)

    def _add_plain(self, entry: RunEntry) -> None:
        if entry.kind == "user_message":
            self._close_calls(_NOT_AWAITED)
        step = self._begin_step(entry)
        if entry.kind == "user_message":
            step.input_data = wrap_text(entry.words)
        else:
            step.output_data = wrap_text(entry.words)
        step.error = _get_error_text(entry)
        self._observe(step, entry)

    def _close_calls(self, key: _Key) -> None:
        while (step := self._open.pop_oldest([key])) is not None:
            self._observe(step, None)


def _find_awaited(entries: list[RunEntry]) -> set[int]:
    """Return the calls whose result is sure to come: the next entry with their id is a result or an error.

    A user message while a tool is still running does not end the call.
    """
    awaited: set[int] = set()
    next_kind: dict[str, str] = {}
    for entry in reversed(entries):
        if entry.call_id is None:
            continue
        if entry.kind == "tool_call" and next_kind.get(entry.call_id) in ("tool_result", "error"):
            awaited.add(entry.index)
        next_kind[entry.call_id] = entry.kind
    return awaited


def _is_same_call(error: RunEntry, result: RunEntry, step: _JoinedStep) -> bool:
    """Return whether an error directly after a result means that the result's call failed."""
    if error.call_id is not None and step.call_id is not None:
        return error.call_id[:NAME_LIMIT] == step.call_id
    return error.name in (result.name, step.action_name)


def _get_error_text(entry: RunEntry, otherwise: Any = None) -> str | None:
    """Return why a step failed, in words; None when it did not."""
    if isinstance(entry.error, str):
        return entry.error
    if not entry.error and entry.kind != "error":
        return None
    for words in (wrap_text(entry.words), otherwise):
        text = words.get("text") if isinstance(words, dict) else None
        if isinstance(text, str) and text.strip():
            return text
    return "error"
