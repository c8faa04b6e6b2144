"""Build one run from what a transcript reader reads; return events as they complete.

All transcript readers use it: it numbers the entries, joins calls with their results, counts the cost of a
reply once, and records which calls were issued together.
"""

from collections import OrderedDict
from itertools import islice
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.recordings.run_entries import (
    FIELD_LIMIT,
    NAME_LIMIT,
    Notes,
    cut_middle,
    limit_size,
    read_name,
)
from steadyhelm.recordings.run_events import UnfinishedStep, wrap_text

GOAL_LIMIT: Final = 2000
_MAX_CALLS_SEARCHED: Final = 64


class _PendingStep(UnfinishedStep, kw_only=True):
    """A step that was not released yet; `issued_at` is when its call was made."""

    issued_at: float | None = None
    is_released: bool = False


class _ReplyState(Struct, kw_only=True):
    """The current reply: its first step carries the cost, its calls are issued together."""

    key: str | None
    model: str
    started_seq: int | None = None
    first: _PendingStep | None = None
    unspent: int = 0
    has_text: bool = False
    flags: dict[str, Any] = field(default_factory=dict)


class RunBuilder:
    """One run of a transcript that is being read.

    Entries are numbered as they are read: every text, call, result and change of state is one.
    An event's id is the number of the entry that began it, so a call has its own, not its result's.

    A model cannot reply before it has received its results: calls that are still open when a new reply
    begins, or at the end, are recorded with an unknown result, before a user message that came in the
    meantime.

    Args:
        run_id: The id of the run.
        agent_id: The agent of the run.
        line: Where in its file it begins.
        source: The format it was read from.
        parent_run_id: The run that started this one.

    >>> run = RunBuilder("r", agent_id="a", line=1, source="example")
    >>> run.add_call("ls", {"path": "."}, call_id="c1", t=10.0)
    >>> run.add_result("c1", "a.py", t=12.5)
    >>> [(event.action_name, event.duration_ms, event.text) for event in run.release_events()]
    [('ls', 2500.0, 'a.py')]
    """

    def __init__(
        self, run_id: str, *, agent_id: str, line: int, source: str, parent_run_id: str | None = None
    ) -> None:
        self.run_id = run_id
        self.agent_id = agent_id
        self.line = line
        self.parent_run_id = parent_run_id
        self.metadata: dict[str, Any] = {"source": source}
        self.version = ""
        self.notes = Notes()
        self.entries = 0
        self.large = False
        self._goal = ""
        self._started_at: float | None = None
        self._now = 0.0
        self._reply = _ReplyState(key=None, model="llm")
        self._counted: dict[str, int] = {}
        # A plain dict is slow here: it skips the entries removed from its front on each iteration.
        self._open: OrderedDict[str, _PendingStep] = OrderedDict()
        self._ready: list[_PendingStep] = []
        self._held_from: int | None = None
        self._released = 0

    @property
    def info(self) -> RunInfo:
        """The run as far as it is known."""
        return RunInfo(
            agent_id=self.agent_id,
            run_id=self.run_id,
            goal=self._goal,
            started_at=self._started_at or 0.0,
            version=self.version,
            parent_run_id=self.parent_run_id,
            metadata=dict(self.metadata),
        )

    @property
    def has_open_calls(self) -> bool:
        """Whether a call is still open."""
        return bool(self._open)

    def begin_reply(
        self, key: str | None, *, model: str | None = None, tokens: int = 0, is_alone: bool = True
    ) -> None:
        """Begin a reply, or continue it when the key is the same; its cost is counted once per key.

        Calls of earlier replies that are still open are closed, unless several replies run side by side.
        """
        if key is None or key != self._reply.key:
            self._end_reply()
            if is_alone:
                self._close_open_calls()
            self._reply = _ReplyState(key=key, model=self._reply.model, unspent=self._reply.unspent)
        self._reply.model = read_name(model, "model", self.notes) or self._reply.model
        counted = self._counted.get(key or "", 0)
        if key is not None:
            self._counted[key] = max(counted, tokens)
        self.add_tokens(tokens - counted if key is not None else tokens)

    def add_tokens(self, tokens: int) -> None:
        """Add to the cost of the reply: on its first step if that is not released, else on its next one."""
        first = self._reply.first
        if tokens <= 0:
            return
        if first is not None and not first.is_released:
            first.tokens += tokens
        else:
            self._reply.unspent += tokens

    def add_flags(self, **flags: Any) -> None:
        """Note something about the reply, such as that the model thought, on its next step."""
        self._reply.flags.update(flags)

    def add_text(
        self,
        text: str | None,
        t: float | None,
        *,
        error: str | None = None,
        duration_ms: float = 0.0,
        **metadata: Any,
    ) -> None:
        """Add text of the reply; None where it was not recorded."""
        if self._reply.has_text:
            metadata["continued"] = True
        self._reply.has_text = True
        step = self._add_reply_step(LLM_REQUEST, self._reply.model, t, metadata)
        step.output_data = wrap_text(self._limit_field(text, "text"))
        step.error = error
        step.duration_ms = duration_ms
        self._observe(step)

    def add_call(
        self, name: Any, args: Any, *, call_id: str | None = None, t: float | None = None, **metadata: Any
    ) -> None:
        """Add a tool call; its event is complete with the result."""
        tool = read_name(name, f"event {self.entries}: name", self.notes) or "tool"
        step = self._add_reply_step(TOOL_CALL, tool, t, metadata)
        step.input_data = self._limit_field(args, "args")
        step.call_id = call_id and call_id[:NAME_LIMIT]
        step.issued_at = t
        if self._reply.started_seq is None or self._reply.key is None:
            self._reply.started_seq = self._count_events()
        step.started_seq = self._reply.started_seq
        key = step.call_id or f"\0{step.index}"
        if key in self._open:
            self._close_calls([key])
        self._open[key] = step

    def add_result(
        self,
        call_id: str | None,
        words: Any,
        *,
        t: float | None = None,
        error: bool | str | None = None,
        name: str | None = None,
        **metadata: Any,
    ) -> None:
        """Add the result of a call: by its id, else by the tool's name, else for the oldest open call."""
        index = self._count_entry(t)
        call_id = call_id and call_id[:NAME_LIMIT]
        step = self._open.pop(self._find_call(call_id, name) or "", None)
        if step is None:
            self.notes.remark(f"event {index} is a result without an open call; kept as a change of state")
            step = _PendingStep(index=index, action_type=STATE_TRANSITION, action_name=name or "tool_result")
            step.call_id = call_id or None
        step.output_data = wrap_text(self._limit_field(words, "result"))
        step.error = _get_error_text(error, words)
        step.metadata.update(metadata)
        if t is not None and step.issued_at is not None:
            step.duration_ms = max(0.0, t - step.issued_at) * 1000
        self._observe(step)
        if not self._open:
            self._held_from = None

    def add_user_message(self, text: str, t: float | None, **metadata: Any) -> None:
        """Add a user message."""
        self._end_reply()
        step = self._make_step(USER_MESSAGE, "user", t, metadata)
        step.input_data = {"text": self._limit_field(text, "text")}
        self._goal = self._goal or text[:GOAL_LIMIT]
        if self._open and self._held_from is None:
            # Whether these calls are lost or still running is known only later.
            self._held_from = len(self._ready)
        self._observe(step)

    def add_state(
        self, name: str, words: Any, t: float | None, *, error: str | None = None, **metadata: Any
    ) -> None:
        """Add a change that is neither a call, a reply nor a user message."""
        step = self._make_step(STATE_TRANSITION, name, t, metadata)
        step.output_data = wrap_text(self._limit_field(words, "text"))
        step.error = error
        self._observe(step)

    def release_events(self) -> list[TraceEvent]:
        """Return the events completed since the last time, in order."""
        until = len(self._ready) if self._held_from is None else self._held_from
        steps, self._ready = self._ready[:until], self._ready[until:]
        if self._held_from is not None:
            self._held_from = 0
        events = [self._release(seq, step) for seq, step in enumerate(steps, self._released)]
        self._released += len(events)
        return events

    def end(self) -> list[TraceEvent]:
        """End the run and return the remaining events; open calls end with an unknown result."""
        self._end_reply(last=True)
        self._close_open_calls()
        return self.release_events()

    def _count_entry(self, t: float | None) -> int:
        """Return the number of a new entry, and advance the time; it never goes back."""
        if t is not None:
            self._started_at = t if self._started_at is None else self._started_at
            self._now = max(self._now, t)
        self.entries += 1
        return self.entries - 1

    def _make_step(
        self, action_type: str, name: str, t: float | None, metadata: dict[str, Any]
    ) -> _PendingStep:
        return _PendingStep(
            index=self._count_entry(t), action_type=action_type, action_name=name, metadata=metadata
        )

    def _add_reply_step(
        self, action_type: str, name: str, t: float | None, metadata: dict[str, Any]
    ) -> _PendingStep:
        """Return a new step of the reply, with the cost and flags of the reply so far."""
        reply = self._reply
        step = self._make_step(action_type, name, t, {**reply.flags, **metadata})
        step.tokens, reply.unspent, reply.flags = reply.unspent, 0, {}
        reply.first = reply.first or step
        return step

    def _observe(self, step: _PendingStep) -> None:
        step.timestamp = self._now
        self._ready.append(step)

    def _count_events(self) -> int:
        return self._released + len(self._ready)

    def _end_reply(self, *, last: bool = False) -> None:
        """Record a model call for a reply of which only cost or thoughts were written."""
        reply = self._reply
        if (reply.first is None and (reply.unspent or reply.flags)) or (last and reply.unspent):
            self._observe(self._add_reply_step(LLM_REQUEST, reply.model, None, {}))

    def _close_open_calls(self) -> None:
        self._close_calls(list(self._open))
        self._held_from = None

    def _close_calls(self, keys: list[str]) -> None:
        """Record these calls with an unknown result: before a held user message, else now."""
        place = len(self._ready) if self._held_from is None else self._held_from
        now = self._now if place == len(self._ready) else self._ready[place].timestamp
        lost = [self._open.pop(key) for key in keys]
        for step in lost:
            step.timestamp = now
        self._ready[place:place] = lost
        if self._held_from is not None:
            self._held_from += len(lost)

    def _find_call(self, call_id: str | None, name: str | None) -> str | None:
        """Return the key of the open call of a result; the search is bounded for hostile files."""
        if call_id and call_id in self._open:
            return call_id
        oldest = list(islice(self._open, _MAX_CALLS_SEARCHED))
        nameless = [key for key in oldest if key.startswith("\0")]
        # A call with another id does not match.
        keys = nameless or ([] if call_id else oldest)
        return next((key for key in keys if self._open[key].action_name == name), keys[0] if keys else None)

    def _limit_field(self, value: Any, what: str) -> Any:
        if isinstance(value, str) and len(value) <= FIELD_LIMIT:
            return value
        if not self.large and not isinstance(value, str):
            return value
        return limit_size(value, f"event {self.entries - 1}: {what}", self.notes)

    def _release(self, seq: int, step: _PendingStep) -> TraceEvent:
        step.is_released = True
        step.parent_run_id = self.parent_run_id
        return step.to_event(self.agent_id, self.run_id, seq)


def _get_error_text(error: bool | str | None, words: Any) -> str | None:
    """Return why a call failed, in words; None when it did not."""
    if isinstance(error, str) or not error:
        return error or None
    return cut_middle(words) if isinstance(words, str) and words.strip() else "error"
