"""What every coding agent's hook tells in the end: one step of one session; and what we say to it."""

from collections.abc import Mapping
from typing import Any, Final, Literal
from zlib import crc32

from msgspec import Struct

from steadyhelm.decisions import Verdict
from steadyhelm.fingerprints import encode_canonical

StepKind = Literal["prompt", "notice", "before_tool", "after_tool", "after_batch", "reply", "end", "other"]

_LONGEST_ID: Final = 120
_DURATIONS: Final = frozenset({"durationMs", "duration_ms", "durationSeconds", "totalDurationMs"})
_EDITED: Final = frozenset({"originalFile", "structuredPatch"})


class BatchCall(Struct, frozen=True, kw_only=True):
    """One of the calls that a reply asked for, with what the model was told came of it."""

    call_id: str
    tool: str
    args: Any
    told: str


class HookStep(Struct, frozen=True, kw_only=True):
    """One notice of a coding agent.

    A `prompt` is the user's; a `notice` stands in the user's place, and the program wrote it.
    `part` names the sub-agent it is about, empty for the agent itself.
    `calls` are all the calls of a reply, those that never ran among them.
    `call_id` joins what is said before a call with what is said after it.
    `once` is the same when the same notice comes a second time, empty when that cannot be told.
    `turn` is what the agent calls the user's turn it belongs to, where it says so.
    """

    kind: StepKind
    event: str
    session_id: str
    part: str = ""
    text: str = ""
    tool: str = ""
    args: Any = None
    result: Any = None
    error: str | None = None
    calls: tuple[BatchCall, ...] = ()
    call_id: str = ""
    once: str = ""
    turn: str = ""
    duration_ms: float = 0.0
    transcript: str = ""

    @property
    def run_id(self) -> str:
        """The run it belongs to: the session's, or the sub-agent's inside it."""
        return f"{self.session_id}/{self.part}" if self.part else self.session_id


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What to say to a step: to the model in `words`, to the user in one line, `note`."""

    verdict: Verdict = "proceed"
    words: str = ""
    note: str = ""


NOTHING: Final = HookAnswer()


def text_of(payload: Mapping[str, Any], *keys: str) -> str:
    """The first of these fields that holds a text; empty when none does."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def id_of(payload: Mapping[str, Any], *keys: str) -> str:
    """An id as a short text without half characters, whatever stands there."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value).encode("utf-8", "replace").decode()[:_LONGEST_ID]
    return ""


def number_of(payload: Mapping[str, Any], *keys: str) -> float:
    """The first of these fields that holds a number that makes sense; 0 when none does."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return float(value)
    return 0.0


def mark_of(*parts: object) -> str:
    """A short mark of what these parts say: equal parts, equal mark.

    >>> mark_of("Read", {"b": 1, "a": 2}) == mark_of("Read", {"a": 2, "b": 1})
    True
    """
    return f"{crc32(b'|'.join(encode_canonical(part) for part in parts)):08x}"


def result_of(value: Any) -> Any:
    """A tool's response as what the model saw of it: without the time it took and the file as it was.

    >>> result_of({"stdout": "3 failed", "stderr": "", "interrupted": False})
    '3 failed'
    >>> result_of({"filePath": "a.py", "originalFile": "...", "structuredPatch": []})
    'edited a.py'
    >>> result_of([{"type": "text", "text": "3"}])
    '3'
    """
    if isinstance(value, list) and value and all(_is_words(part) for part in value):
        return "\n".join(part["text"] for part in value)
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("stdout"), str):
        return "\n".join(part for part in (value["stdout"], text_of(value, "stderr")) if part)
    if _EDITED & value.keys():
        return f"edited {text_of(value, 'filePath', 'file_path')}"
    return {key: inner for key, inner in value.items() if key not in _DURATIONS}


def _is_words(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def failure_of(value: Any) -> str | None:
    """What a tool's response says went wrong; None when it says nothing of the kind.

    >>> failure_of({"output": "no such file", "metadata": {"exit_code": 2}})
    'exit code 2: no such file'
    """
    if not isinstance(value, dict):
        return None
    inner = value.get("metadata")
    codes = (inner if isinstance(inner, dict) else {}, value)
    code = next((int(it[key]) for it in codes for key in ("exit_code", "exitCode") if _is_code(it, key)), 0)
    if code:
        said = text_of(value, "output", "stderr", "stdout", "aggregated_output")
        return f"exit code {code}: {said}" if said else f"exit code {code}"
    error = value.get("error")
    if isinstance(error, dict):
        return text_of(error, "message", "type") or "error"
    if isinstance(error, str) and error:
        return error
    return "error" if value.get("is_error") is True else None


def _is_code(value: Mapping[str, Any], key: str) -> bool:
    return isinstance(value.get(key), int) and not isinstance(value.get(key), bool)
