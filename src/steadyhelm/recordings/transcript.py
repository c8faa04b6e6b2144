"""One run of a transcript in the making: what was read goes in part by part, events come out complete.

All readers of transcripts share this piece: it numbers the entries, joins calls with their results,
counts what a reply cost once, and knows which calls were issued together.
"""

from collections import OrderedDict
from itertools import islice
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, RunInfo, TraceEvent
from steadyhelm.recordings.run_entries import FIELD_LIMIT, NAME_LIMIT, Notes, bounded, name_of, without_middle

GOAL_LIMIT: Final = 2000
_LOOKED_THROUGH: Final = 64


class _Step(Struct, kw_only=True):
    """An event in the making; `issued_at` is when its call was made."""

    index: int
    action_type: str
    action_name: str
    timestamp: float = 0.0
    started_seq: int | None = None
    tokens: int = 0
    input_data: Any = None
    output_data: Any = None
    error: str | None = None
    duration_ms: float = 0.0
    call_id: str | None = None
    issued_at: float | None = None
    is_out: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


class _Reply(Struct, kw_only=True):
    """What the model is saying now: its first step bears the cost, its calls are issued together."""

    key: str | None
    model: str
    started_seq: int | None = None
    first: _Step | None = None
    unspent: int = 0
    is_said: bool = False
    flags: dict[str, Any] = field(default_factory=dict)


class Transcript:
    """The run that a transcript tells of.

    Entries are numbered as they are read: every text, call, result and change of state is one.
    An event's id is the number of the entry that began it, so a call has its own, not its result's.

    A model cannot reply before it was given its results: calls that are still open when a new reply
    begins, or at the end, are observed with their result unknown, before a user's message that came
    in the meantime.

    Args:
        run_id: The run's name.
        agent_id: Whose run it is.
        line: Where in its file it begins.
        source: The format it was read from.
        parent_run_id: The run that started this one.

    >>> run = Transcript("r", agent_id="a", line=1, source="example")
    >>> run.call("ls", {"path": "."}, call_id="c1", t=10.0)
    >>> run.result("c1", "a.py", t=12.5)
    >>> [(event.action_name, event.duration_ms, event.text) for event in run.release()]
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
        self._reply = _Reply(key=None, model="llm")
        self._counted: dict[str, int] = {}
        # A plain dict looks again and again through the places of what was taken from its front.
        self._open: OrderedDict[str, _Step] = OrderedDict()
        self._ready: list[_Step] = []
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
    def awaits_results(self) -> bool:
        """Whether a call is still open."""
        return bool(self._open)

    def reply(
        self, key: str | None, *, model: str | None = None, tokens: int = 0, is_alone: bool = True
    ) -> None:
        """Begin a reply, or go on with it when the key is the same; its cost is counted once per key.

        Calls of earlier replies that are still open are given up, unless several work side by side.
        """
        if key is None or key != self._reply.key:
            self._settle()
            if is_alone:
                self._give_up()
            self._reply = _Reply(key=key, model=self._reply.model, unspent=self._reply.unspent)
        self._reply.model = name_of(model, "model", self.notes) or self._reply.model
        counted = self._counted.get(key or "", 0)
        if key is not None:
            self._counted[key] = max(counted, tokens)
        self.charge(tokens - counted if key is not None else tokens)

    def charge(self, tokens: int) -> None:
        """Add to what the reply cost: on its first step as long as that is here, else on its next one."""
        first = self._reply.first
        if tokens <= 0:
            return
        if first is not None and not first.is_out:
            first.tokens += tokens
        else:
            self._reply.unspent += tokens

    def flag(self, **flags: Any) -> None:
        """Say something about the reply, such as that the model thought; it stands with its next step."""
        self._reply.flags.update(flags)

    def said(
        self,
        text: str | None,
        t: float | None,
        *,
        error: str | None = None,
        duration_ms: float = 0.0,
        **metadata: Any,
    ) -> None:
        """Words of the reply; None where they were not recorded."""
        if self._reply.is_said:
            metadata["continued"] = True
        self._reply.is_said = True
        step = self._of_reply(LLM_REQUEST, self._reply.model, t, metadata)
        step.output_data = _data(self._bounded(text, "text"))
        step.error = error
        step.duration_ms = duration_ms
        self._observe(step)

    def call(
        self, name: Any, args: Any, *, call_id: str | None = None, t: float | None = None, **metadata: Any
    ) -> None:
        """A tool is called; the event comes with the result."""
        tool = name_of(name, f"event {self.entries}: name", self.notes) or "tool"
        step = self._of_reply(TOOL_CALL, tool, t, metadata)
        step.input_data = self._bounded(args, "args")
        step.call_id = call_id and call_id[:NAME_LIMIT]
        step.issued_at = t
        if self._reply.started_seq is None or self._reply.key is None:
            self._reply.started_seq = self._seen()
        step.started_seq = self._reply.started_seq
        key = step.call_id or f"\0{step.index}"
        if key in self._open:
            self._close([key])
        self._open[key] = step

    def result(
        self,
        call_id: str | None,
        words: Any,
        *,
        t: float | None = None,
        error: bool | str | None = None,
        name: str | None = None,
        **metadata: Any,
    ) -> None:
        """What came back for a call: by its id, else by the tool's name, else for the oldest open call."""
        index = self._entry(t)
        call_id = call_id and call_id[:NAME_LIMIT]
        step = self._open.pop(self._key_of(call_id, name) or "", None)
        if step is None:
            self.notes.remark(f"event {index} is a result without an open call; kept as a change of state")
            step = _Step(index=index, action_type=STATE_TRANSITION, action_name=name or "tool_result")
            step.call_id = call_id or None
        step.output_data = _data(self._bounded(words, "result"))
        step.error = _error_text(error, words)
        step.metadata.update(metadata)
        if t is not None and step.issued_at is not None:
            step.duration_ms = max(0.0, t - step.issued_at) * 1000
        self._observe(step)
        if not self._open:
            self._held_from = None

    def user(self, text: str, t: float | None, **metadata: Any) -> None:
        """A user speaks."""
        self._settle()
        step = self._step(USER_MESSAGE, "user", t, metadata)
        step.input_data = {"text": self._bounded(text, "text")}
        self._goal = self._goal or text[:GOAL_LIMIT]
        if self._open and self._held_from is None:
            # Whether these calls are lost or still at work shows only later.
            self._held_from = len(self._ready)
        self._observe(step)

    def state(
        self, name: str, words: Any, t: float | None, *, error: str | None = None, **metadata: Any
    ) -> None:
        """Something changed that is neither a call, a reply nor a user's turn."""
        step = self._step(STATE_TRANSITION, name, t, metadata)
        step.output_data = _data(self._bounded(words, "text"))
        step.error = error
        self._observe(step)

    def release(self) -> list[TraceEvent]:
        """The events that have completed since the last time, in their order."""
        until = len(self._ready) if self._held_from is None else self._held_from
        steps, self._ready = self._ready[:until], self._ready[until:]
        if self._held_from is not None:
            self._held_from = 0
        events = [self._event(seq, step) for seq, step in enumerate(steps, self._released)]
        self._released += len(events)
        return events

    def end(self) -> list[TraceEvent]:
        """Nothing more will come: what is still open ends here, its result unknown."""
        self._settle(last=True)
        self._give_up()
        return self.release()

    def _entry(self, t: float | None) -> int:
        """Number an entry, and let time go on; it never goes back."""
        if t is not None:
            self._started_at = t if self._started_at is None else self._started_at
            self._now = max(self._now, t)
        self.entries += 1
        return self.entries - 1

    def _step(self, action_type: str, name: str, t: float | None, metadata: dict[str, Any]) -> _Step:
        return _Step(index=self._entry(t), action_type=action_type, action_name=name, metadata=metadata)

    def _of_reply(self, action_type: str, name: str, t: float | None, metadata: dict[str, Any]) -> _Step:
        """A step of the reply; it takes over what the reply cost and what is known about it so far."""
        reply = self._reply
        step = self._step(action_type, name, t, {**reply.flags, **metadata})
        step.tokens, reply.unspent, reply.flags = reply.unspent, 0, {}
        reply.first = reply.first or step
        return step

    def _observe(self, step: _Step) -> None:
        step.timestamp = self._now
        self._ready.append(step)

    def _seen(self) -> int:
        return self._released + len(self._ready)

    def _settle(self, *, last: bool = False) -> None:
        """A reply of which nothing but its cost or its thoughts was written is a model call all the same."""
        reply = self._reply
        if (reply.first is None and (reply.unspent or reply.flags)) or (last and reply.unspent):
            self._observe(self._of_reply(LLM_REQUEST, reply.model, None, {}))

    def _give_up(self) -> None:
        self._close(list(self._open))
        self._held_from = None

    def _close(self, keys: list[str]) -> None:
        """Observe these calls, result unknown: before the user's message that is held, else now."""
        place = len(self._ready) if self._held_from is None else self._held_from
        now = self._now if place == len(self._ready) else self._ready[place].timestamp
        lost = [self._open.pop(key) for key in keys]
        for step in lost:
            step.timestamp = now
        self._ready[place:place] = lost
        if self._held_from is not None:
            self._held_from += len(lost)

    def _key_of(self, call_id: str | None, name: str | None) -> str | None:
        """Under which key the call of a result is open; hostile files do not make us look for long."""
        if call_id and call_id in self._open:
            return call_id
        oldest = list(islice(self._open, _LOOKED_THROUGH))
        nameless = [key for key in oldest if key.startswith("\0")]
        # A call that has another id is not meant by this one.
        keys = nameless or ([] if call_id else oldest)
        return next((key for key in keys if self._open[key].action_name == name), keys[0] if keys else None)

    def _bounded(self, value: Any, what: str) -> Any:
        if isinstance(value, str) and len(value) <= FIELD_LIMIT:
            return value
        if not self.large and not isinstance(value, str):
            return value
        return bounded(value, f"event {self.entries - 1}: {what}", self.notes)

    def _event(self, seq: int, step: _Step) -> TraceEvent:
        step.is_out = True
        return TraceEvent(
            agent_id=self.agent_id,
            run_id=self.run_id,
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
            started_seq=seq if step.started_seq is None else step.started_seq,
            call_id=step.call_id,
            parent_run_id=self.parent_run_id,
            error=step.error,
        )


def _data(words: Any) -> Any:
    return {"text": words} if isinstance(words, str) else words


def _error_text(error: bool | str | None, words: Any) -> str | None:
    """Why a call failed, in words; None when it did not."""
    if isinstance(error, str) or not error:
        return error or None
    return without_middle(words) if isinstance(words, str) and words.strip() else "error"
