"""Records that all coding agents' hooks share: a step of a session, and the response to it."""

from collections.abc import Mapping
from typing import Any, Final, Literal
from zlib import crc32

from msgspec import Struct

from steadyhelm.decisions import Verdict
from steadyhelm.fingerprints import encode_canonical

StepKind = Literal["prompt", "notice", "before_tool", "after_tool", "after_batch", "reply", "end", "other"]

SUBAGENT: Final = "/subagent"
"""The ending of the name under which the runs of sub-agents are stored."""
_MAX_ID_CHARACTERS: Final = 120
_MAX_NUMBER: Final = 1e300
_DURATION_KEYS: Final = frozenset({"durationMs", "duration_ms", "durationSeconds", "totalDurationMs"})
_EDIT_KEYS: Final = frozenset({"originalFile", "structuredPatch"})


class BatchCall(Struct, frozen=True, kw_only=True):
    """One of the calls of a reply, with the result the model received."""

    call_id: str
    tool: str
    args: Any
    told: str


class HookStep(Struct, frozen=True, kw_only=True):
    """One hook event of a coding agent.

    A `prompt` is the user's; a `notice` takes its place but was written by the program.
    `part` names the sub-agent it is about, empty for the agent itself.
    `calls` are all the calls of a reply, those that never ran among them.
    `call_id` joins the events before and after a call.
    `once` is equal when the same notice comes a second time, empty when that cannot be known.
    `turn` is the agent's own id of the user's turn, where it has one.
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

    def get_agent(self, agent: str) -> str:
        """Return under which name its run is stored: the coding agent's, or that of its sub-agents."""
        return agent + SUBAGENT if self.part else agent


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The response to a step: guidance for the model in `words`, one line for the user in `note`."""

    verdict: Verdict = "proceed"
    words: str = ""
    note: str = ""


NOTHING: Final = HookAnswer()


def get_text(payload: Mapping[str, Any], *keys: str) -> str:
    """Return the first of these fields that is a text; empty when none is."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def get_id(payload: Mapping[str, Any], *keys: str) -> str:
    """Return the first of these fields that is an id, as a short valid text; empty when none is."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value).encode("utf-8", "replace").decode()[:_MAX_ID_CHARACTERS]
    return ""


def get_number(payload: Mapping[str, Any], *keys: str) -> float:
    """Return the first of these fields that is a finite number from 0 up; 0 when none is."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MAX_NUMBER:
            return float(value)
    return 0.0


def compute_mark(*parts: object) -> str:
    """Return a short checksum of these parts: equal parts, equal checksum.

    >>> compute_mark("Read", {"b": 1, "a": 2}) == compute_mark("Read", {"a": 2, "b": 1})
    True
    """
    return f"{crc32(b'|'.join(encode_canonical(part) for part in parts)):08x}"


def simplify_result(value: Any) -> Any:
    """Return a tool's response as the model received it: without durations and the original file.

    >>> simplify_result({"stdout": "3 failed", "stderr": "", "interrupted": False})
    '3 failed'
    >>> simplify_result({"filePath": "a.py", "originalFile": "...", "structuredPatch": []})
    'edited a.py'
    >>> simplify_result([{"type": "text", "text": "3"}])
    '3'
    """
    if isinstance(value, list) and value and all(_is_text_part(part) for part in value):
        return "\n".join(part["text"] for part in value)
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("stdout"), str):
        return "\n".join(part for part in (value["stdout"], get_text(value, "stderr")) if part)
    if _EDIT_KEYS & value.keys():
        return f"edited {get_text(value, 'filePath', 'file_path')}"
    return {key: inner for key, inner in value.items() if key not in _DURATION_KEYS}


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _find_exit_code(value: dict[str, Any]) -> int:
    """Return the exit code in a response or in its metadata; 0 when there is none."""
    inner = value.get("metadata")
    codes = (inner if isinstance(inner, dict) else {}, value)
    return next((int(it[key]) for it in codes for key in ("exit_code", "exitCode") if _has_code(it, key)), 0)


def find_failure(value: Any) -> str | None:
    """Return the error in a tool's response; None when there is none.

    >>> find_failure({"output": "no such file", "metadata": {"exit_code": 2}})
    'exit code 2: no such file'
    """
    if not isinstance(value, dict):
        return None
    code = _find_exit_code(value)
    if code:
        return format_exit(code, get_text(value, "output", "stderr", "stdout", "aggregated_output"))
    error = value.get("error")
    if isinstance(error, dict):
        return get_text(error, "message", "type") or "error"
    if isinstance(error, str) and error:
        return error
    return "error" if value.get("is_error") is True else None


def format_exit(code: int, result: Any) -> str:
    """Return the error of a command that ended with this exit code."""
    return f"exit code {code}: {result}" if isinstance(result, str) and result else f"exit code {code}"


def _has_code(value: Mapping[str, Any], key: str) -> bool:
    return isinstance(value.get(key), int) and not isinstance(value.get(key), bool)
