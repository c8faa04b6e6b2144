"""Join a recorded run's entries into the events its session would have seen, in the order it saw them."""

from collections import deque
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.recordings.run_entries import EPOCH_FROM, NAME_LIMIT, Entry, Notes, without_middle

_ACTION_TYPES: Final = {
    "tool_call": TOOL_CALL,
    "llm_output": LLM_REQUEST,
    "user_message": USER_MESSAGE,
    "tool_result": STATE_TRANSITION,
    "error": STATE_TRANSITION,
    "state": STATE_TRANSITION,
}
_NAMELESS: Final = {"llm_output": "llm", "user_message": "user", "tool_call": "tool"}

_Key = tuple[str, str]
_ANY: Final = ("any", "")
_WITHOUT_ID: Final = ("without id", "")
_LEFT_BEHIND: Final = ("left behind", "")


def join(entries: list[Entry], run: RunInfo, notes: Notes) -> list[TraceEvent]:
    """The run's events in order of completion; an event's id is the index of the entry that began it."""
    return _Joining(entries, run, notes).events()


class _Step(Struct, kw_only=True):
    """An event in the making: begun by one entry, perhaps completed by a later one."""

    index: int
    action_type: str
    action_name: str
    started_seq: int
    input_data: Any = None
    output_data: Any = None
    error: str | None = None
    tokens: int = 0
    duration_ms: float = 0.0
    cost_usd: float | None = None
    call_id: str | None = None
    parent_run_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    chunks: list[str] = field(default_factory=list)
    is_open: bool = True
    timestamp: float = 0.0

    def take(self, entry: Entry) -> None:
        """Add what an entry spent and knows to the step it belongs to."""
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
    """The calls whose result has not come, found by id, by name or by age, each in constant time."""

    def __init__(self) -> None:
        self._queues: dict[_Key, deque[_Step]] = {}

    def add(self, step: _Step, call_id: str | None, *, awaited: bool) -> None:
        keys: list[_Key] = [_ANY, ("name", step.action_name)]
        keys += [("id", call_id)] if call_id else [_WITHOUT_ID, ("name without id", step.action_name)]
        if not awaited:
            keys.append(_LEFT_BEHIND)
        for key in keys:
            self._queues.setdefault(key, deque()).append(step)

    def oldest(self, keys: list[_Key]) -> _Step | None:
        """Close and return the oldest open call under the first key that has one."""
        for key in keys:
            queue = self._queues.get(key)
            while queue:
                step = queue.popleft()
                if step.is_open:
                    step.is_open = False
                    return step
        return None

    def knows(self, call_id: str) -> bool:
        """Whether any call, open or closed, had this id."""
        return ("id", call_id) in self._queues


class _Joining:
    """One pass over a run's entries."""

    def __init__(self, entries: list[Entry], run: RunInfo, notes: Notes) -> None:
        self._entries = entries
        self._run = run
        self._notes = notes
        self._open = _OpenCalls()
        self._seen: list[_Step] = []
        self._streams: dict[str, _Step] = {}
        self._last_result: tuple[Entry, _Step] | None = None
        self._now = run.started_at
        self._last_chunks = {entry.stream: entry.index for entry in entries if entry.kind == "llm_output"}
        self._awaited = _awaited(entries)
        self._has_results = any(entry.kind == "tool_result" for entry in entries)

    def events(self) -> list[TraceEvent]:
        for entry in self._entries:
            if entry.t is not None:
                self._now = max(
                    self._now, entry.t if entry.t >= EPOCH_FROM else self._run.started_at + entry.t
                )
            last_result, self._last_result = self._last_result, None
            if entry.kind == "tool_call":
                self._call(entry)
            elif entry.kind == "tool_result":
                self._result(entry)
            elif entry.kind == "error":
                self._failure(entry, last_result)
            elif entry.kind == "llm_output" and entry.stream is not None:
                self._chunk(entry, entry.stream)
            else:
                self._plain(entry)
        self._give_up_on(_ANY)
        return [self._event(seq, step) for seq, step in enumerate(self._seen)]

    def _begin(self, entry: Entry) -> _Step:
        step = _Step(
            index=entry.index,
            action_type=_ACTION_TYPES[entry.kind],
            action_name=entry.name or _NAMELESS.get(entry.kind, entry.kind),
            started_seq=len(self._seen),
            input_data=entry.args,
        )
        step.take(entry)
        return step

    def _observe(self, step: _Step, entry: Entry | None) -> None:
        """The agent has seen this step; its time is the entry's own, else what has been spent so far."""
        if entry is None or entry.t is None:
            self._now += step.duration_ms / 1000
        step.is_open = False
        step.timestamp = self._now
        self._seen.append(step)

    def _call(self, entry: Entry) -> None:
        step = self._begin(entry)
        # `"error": false` alone says that the call has ended, unless results stand in entries of their own.
        ended = entry.words is not None or entry.error or (entry.error is False and not self._has_results)
        if not ended:
            self._open.add(step, entry.call_id, awaited=entry.index in self._awaited)
            return
        step.output_data = _data(entry.words)
        step.error = _error_text(entry)
        self._observe(step, entry)

    def _result(self, entry: Entry) -> None:
        step = self._open.oldest(self._candidates(entry))
        if step is None:
            self._notes.remark(
                f"event {entry.index} is a result without an open call; kept as a change of state"
            )
        self._last_result = (entry, self._end(step, entry))

    def _failure(self, entry: Entry, last_result: tuple[Entry, _Step] | None) -> None:
        if last_result and _is_same_call(entry, *last_result):
            step = last_result[1]
            step.take(entry)
            step.error = _error_text(entry, otherwise=step.output_data)
            return
        self._end(self._open.oldest(self._candidates(entry)), entry)

    def _end(self, call: _Step | None, entry: Entry) -> _Step:
        """End a call with what an entry says came back; without a call, the entry is a step of its own."""
        if call is None:
            call = self._begin(entry)
        else:
            call.take(entry)
        call.output_data = _data(entry.words)
        call.error = _error_text(entry)
        self._observe(call, entry)
        return call

    def _candidates(self, entry: Entry) -> list[_Key]:
        """Where to look for the call that a result or an error belongs to, best first."""
        if entry.call_id is not None and self._open.knows(entry.call_id):
            return [("id", entry.call_id)]
        # A call that has another id is not meant by this one.
        group = "name" if entry.call_id is None else "name without id"
        keys: list[_Key] = [(group, entry.name)] if entry.name else []
        # An error under a name no open call has is about something else; a result is always about a call.
        if entry.kind == "tool_result" or entry.name is None:
            keys.append(_ANY if entry.call_id is None else _WITHOUT_ID)
        return keys

    def _chunk(self, entry: Entry, stream: str) -> None:
        step = self._streams.get(stream)
        if step is None:
            step = self._streams[stream] = self._begin(entry)
        else:
            spent = step.duration_ms
            step.take(entry)
            step.duration_ms = spent + entry.duration_ms
        if isinstance(entry.words, str):
            step.chunks.append(entry.words)
        step.error = step.error or _error_text(entry)
        if entry.index == self._last_chunks[stream]:
            step.output_data = {"text": without_middle("".join(step.chunks))} if step.chunks else None
            self._observe(step, entry)

    def _plain(self, entry: Entry) -> None:
        if entry.kind == "user_message":
            self._give_up_on(_LEFT_BEHIND)
        step = self._begin(entry)
        if entry.kind == "user_message":
            step.input_data = _data(entry.words)
        else:
            step.output_data = _data(entry.words)
        step.error = _error_text(entry)
        self._observe(step, entry)

    def _give_up_on(self, key: _Key) -> None:
        while (step := self._open.oldest([key])) is not None:
            self._observe(step, None)

    def _event(self, seq: int, step: _Step) -> TraceEvent:
        return TraceEvent(
            agent_id=self._run.agent_id,
            run_id=self._run.run_id,
            action_type=step.action_type,
            action_name=step.action_name,
            timestamp=step.timestamp,
            event_id=str(step.index),
            token_count=step.tokens,
            input_data=step.input_data,
            output_data=step.output_data,
            duration_ms=step.duration_ms,
            metadata=step.metadata or None,
            seq=seq,
            started_seq=step.started_seq,
            call_id=step.call_id,
            parent_run_id=step.parent_run_id,
            error=step.error,
            cost_usd=step.cost_usd,
        )


def _awaited(entries: list[Entry]) -> set[int]:
    """The calls whose result is known to come: the next entry with their id is a result or an error.

    A user who speaks while a tool still works does not end the call.
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


def _is_same_call(error: Entry, result: Entry, step: _Step) -> bool:
    """Whether an error directly after a result says that the result's call failed."""
    if error.call_id is not None and step.call_id is not None:
        return error.call_id[:NAME_LIMIT] == step.call_id
    return error.name in (result.name, step.action_name)


def _data(words: Any) -> Any:
    return {"text": words} if isinstance(words, str) else words


def _error_text(entry: Entry, otherwise: Any = None) -> str | None:
    """Why a step failed, in words; None when it did not."""
    if isinstance(entry.error, str):
        return entry.error
    if not entry.error and entry.kind != "error":
        return None
    for words in (_data(entry.words), otherwise):
        text = words.get("text") if isinstance(words, dict) else None
        if isinstance(text, str) and text.strip():
            return text
    return "error"
