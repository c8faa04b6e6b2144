"""Translate Google ADK messages, replies and results. Does not import the framework."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import ModelReply
from steadyhelm.errors import RunStopped
from steadyhelm.host_objects import is_a

CONFIRMATION: Final = "adk_request_confirmation"
"""The call by which the framework asks its user whether another call may be made."""

_MAX_CAUSES: Final = 32
_MAX_EVENTS_BACK: Final = 200
_CODE_SUCCESS: Final = "OUTCOME_OK"


class ReportedCall(NamedTuple):
    """A call that was made without a tool callback."""

    call_id: str
    name: str
    args: Any = None
    result: Any = None
    error: object = None


def read_text(content: Any) -> str:
    """Return the text of a message: attachments by their kind, without thoughts."""
    texts = []
    for part in getattr(content, "parts", None) or ():
        if part.text and not part.thought:
            texts.append(part.text)
        attached = part.inline_data or part.file_data
        if attached is not None:
            texts.append(f"[{attached.mime_type or 'attachment'}]")
    return "\n".join(texts)


def read_goal(contents: Sequence[Any]) -> str:
    """Return the last message of the user in a conversation."""
    for content in reversed(contents):
        if content.role == "user" and not any(part.function_response for part in content.parts or ()):
            return read_text(content)
    return ""


def read_reply(response: Any) -> ModelReply:
    """Return the reply in a response, or in an event, which has the same fields."""
    usage = response.usage_metadata
    return ModelReply(
        text=read_text(response.content),
        model=response.model_version or "",
        input_tokens=_sum(usage, "prompt_token_count", "tool_use_prompt_token_count"),
        output_tokens=_sum(usage, "candidates_token_count", "thoughts_token_count"),
    )


def find_model_error(response: Any) -> str | None:
    """Return the error of a response that reports one instead of failing."""
    return f"{response.error_code}: {response.error_message or ''}" if response.error_code else None


def find_tool_error(result: Any) -> object:
    """Return the error in a result: tools of the framework return one instead of raising."""
    return (result.get("error") or None) if is_a(result, dict) else None


def is_reply(event: Any) -> bool:
    """Return whether an event is the reply of a model, or of an agent without one."""
    if event.partial or event.author == "user" or event.get_function_responses():
        return False
    return bool(event.error_code) or (event.content is not None and event.content.role != "user")


def find_calls(event: Any, events: Sequence[Any], code: str = "") -> Iterator[ReportedCall]:
    """Yield the calls whose results an event holds: of tools, of executed code, of the model's own search.

    `code` is the code to execute, where the event before named it.
    """
    for given in event.get_function_responses():
        _, call = _find_call(given.id, events)
        args = call.args if call is not None else None
        result = given.response
        if is_a(result, dict) and len(result) == 1:
            result = result.get("result", result)  # the framework wraps what is no dict into one
        yield ReportedCall(given.id or event.id, given.name, args, result, find_tool_error(result))
    for place, part in enumerate(getattr(event.content, "parts", None) or ()):
        code = part.executable_code.code if part.executable_code else code
        execution = part.code_execution_result
        if execution is not None:
            outcome = getattr(execution.outcome, "value", "")
            error = None if outcome == _CODE_SUCCESS else f"{outcome}: {execution.output or ''}"
            yield ReportedCall(
                f"{event.id}.{place}", "code_execution", {"code": code}, execution.output, error
            )
    queries = getattr(event.grounding_metadata, "web_search_queries", None)
    if queries:
        yield ReportedCall(f"{event.id}.search", "google_search", {"queries": list(queries)})


def read_code(event: Any) -> str:
    """Return the code that an event asks to execute."""
    parts = getattr(event.content, "parts", None) or ()
    return next((part.executable_code.code or "" for part in parts if part.executable_code), "")


def find_answers(content: Any) -> list[Any]:
    """Return the answers in a user's message, to calls that wait for the user."""
    return [part.function_response for part in content.parts or () if part.function_response is not None]


class ConfirmedCall(NamedTuple):
    """The call a user was asked about, and the branch of its agent."""

    call_id: str
    branch: str


def find_confirmed_call(answer: Any, events: Sequence[Any]) -> ConfirmedCall:
    """Return the call that a user's answer is about."""
    event, call = _find_call(answer.id, events)
    about = (call.args or {}).get("originalFunctionCall") if call is not None else None
    call_id = str(about.get("id") or "") if is_a(about, dict) else ""
    return ConfirmedCall(call_id, event.branch or "" if event is not None else "")


def find_stop(error: BaseException | None) -> RunStopped | None:
    """Return the `RunStopped` behind an error of the framework, which may be its own cause."""
    causes = [error]
    for at in causes:
        if is_a(at, RunStopped):
            return at
        inner = at.exceptions if is_a(at, BaseExceptionGroup) else ()
        if at is not None and len(causes) < _MAX_CAUSES:
            causes += [it for it in (at.__cause__, at.__context__, *inner) if it not in causes]
    return None


def _find_call(call_id: str | None, events: Sequence[Any]) -> tuple[Any, Any]:
    """Return the event that requests this call, and the call, among the latest events."""
    for event in itertools.islice(reversed(events), _MAX_EVENTS_BACK):
        for call in event.get_function_calls():
            if call.id == call_id:
                return event, call
    return None, None


def _sum(usage: Any, *names: str) -> int:
    return sum(getattr(usage, name, None) or 0 for name in names)
