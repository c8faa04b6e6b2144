"""Join model calls that no span encloses: each is a trace of its own, but its messages continue another's.

A client that is called in a loop, without a span around the loop, makes one trace for each request. The next
request begins with the messages of the one before it, followed by its reply.
"""

from typing import Any, Final, NamedTuple

from steadyhelm.bounded import BoundedDict
from steadyhelm.recordings.content import get_content, get_role, iter_calls, iter_parts
from steadyhelm.recordings.spans.steps import SpanStep

_MAX_OPEN: Final = 10_000
_Key = tuple[int, str, tuple[str, ...]]


class Continued(NamedTuple):
    """The run that a model call continues; `is_prompted` is whether the user has said something since."""

    run_id: str
    is_prompted: bool


class FlatConversations:
    """The conversations that wait for the results of calls, known by their messages so far.

    A reply without calls ends its conversation: what the user says next is another run.
    """

    def __init__(self) -> None:
        self._open: BoundedDict[_Key, str] = BoundedDict(_MAX_OPEN)
        self._calls: BoundedDict[str, str] = BoundedDict(_MAX_OPEN)

    def find(self, step: SpanStep) -> Continued | None:
        """Return the run that a model call continues, and forget where it stood; None for a new one."""
        keys = _list_keys(step.inputs)
        for place, key in reversed(keys):
            run_id = self._open.pop(key, None)
            if run_id is not None:
                since = step.inputs[place + 1 :]
                return Continued(run_id, any(get_role(message) == "user" for message in since))
        return None

    def find_call(self, step: SpanStep) -> str | None:
        """Return the run that asked for this tool call."""
        return self._calls.get(step.call_id) if step.call_id is not None else None

    def note(self, step: SpanStep, run_id: str) -> bool:
        """Remember where a run stands after this model call; return whether it waits for results."""
        calls = [call for message in step.outputs for call in iter_calls(message)]
        if not calls:
            return False
        for call in calls:
            if call.call_id:
                self._calls[call.call_id] = run_id
        reply = [_make_signature(message) for message in step.outputs]
        said, ids = "".join(words for words, _ in reply), tuple(it for _, calls in reply for it in calls)
        self._open[_hash_messages(step.inputs), said, ids] = run_id
        return True


def _list_keys(inputs: list[dict[str, Any]]) -> list[tuple[int, _Key]]:
    """Return for each reply among the messages its place and the key of the conversation up to it."""
    keys, latest = [], 0
    for place, message in enumerate(inputs):
        words, calls = _make_signature(message)
        role = get_role(message)
        if role == "assistant":
            keys.append((place, (latest, words, calls)))
        latest = hash((latest, role, words, calls))
    return keys


def _hash_messages(messages: list[dict[str, Any]]) -> int:
    latest = 0
    for message in messages:
        latest = hash((latest, get_role(message), *_make_signature(message)))
    return latest


def _make_signature(message: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return what a message says, and the ids of its calls or results."""
    parts = list(iter_parts(get_content(message)))
    words = [part.words for part in parts if part.kind == "text" and isinstance(part.words, str)]
    results = [part.call_id or "" for part in parts if part.kind == "result"]
    calls = [call.call_id or str(call.name) for call in iter_calls(message)]
    return "".join(words).strip(), (*calls, *results)
