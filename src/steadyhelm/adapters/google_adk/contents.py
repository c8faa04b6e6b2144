"""What Google ADK's messages, replies and results say, in our words. Nothing here imports the framework."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import ModelReply
from steadyhelm.errors import RunStopped

CONFIRMATION: Final = "adk_request_confirmation"
"""The call by which the framework asks its user whether another call may be made."""

_MOST_CAUSES: Final = 32
_LOOKED_BACK: Final = 200
_CODE_WORKED: Final = "OUTCOME_OK"


class Call(NamedTuple):
    """A call that was made without the framework's tools being asked."""

    call_id: str
    name: str
    args: Any = None
    result: Any = None
    error: object = None


def text_of(content: Any) -> str:
    """What a message says; an attachment is named by its kind, a thought is not said."""
    words = []
    for part in getattr(content, "parts", None) or ():
        if part.text and not part.thought:
            words.append(part.text)
        attached = part.inline_data or part.file_data
        if attached is not None:
            words.append(f"[{attached.mime_type or 'attachment'}]")
    return "\n".join(words)


def task_in(contents: Sequence[Any]) -> str:
    """What an agent was asked last, by the conversation it is shown."""
    for content in reversed(contents):
        if content.role == "user" and not any(part.function_response for part in content.parts or ()):
            return text_of(content)
    return ""


def reply_of(response: Any) -> ModelReply:
    """A model's answer; events carry the same fields."""
    usage = response.usage_metadata
    return ModelReply(
        text=text_of(response.content),
        model=response.model_version or "",
        input_tokens=_sum(usage, "prompt_token_count", "tool_use_prompt_token_count"),
        output_tokens=_sum(usage, "candidates_token_count", "thoughts_token_count"),
    )


def refusal_in(response: Any) -> str | None:
    """Why there is no answer, where the model says so instead of failing."""
    return f"{response.error_code}: {response.error_message or ''}" if response.error_code else None


def failure_in(result: Any) -> object:
    """The error in a result: tools of the framework report one under that name instead of raising."""
    return (result.get("error") or None) if isinstance(result, dict) else None


def is_reply(event: Any) -> bool:
    """Whether an event is a model's answer, or stands for one."""
    if event.partial or event.author == "user" or event.get_function_responses():
        return False
    return bool(event.error_code) or (event.content is not None and event.content.role != "user")


def calls_in(event: Any, events: Sequence[Any], code: str = "") -> Iterator[Call]:
    """The calls whose results an event brings: of tools, of code that was run, of the model's own search.

    `code` is what was to be run, where the event before said so.
    """
    for given in event.get_function_responses():
        _, asked = _found(given.id, events)
        args = asked.args if asked is not None else None
        result = given.response
        if isinstance(result, dict) and len(result) == 1:
            result = result.get("result", result)  # the framework puts what is no dict into one
        yield Call(given.id or event.id, given.name, args, result, failure_in(result))
    for place, part in enumerate(getattr(event.content, "parts", None) or ()):
        code = part.executable_code.code if part.executable_code else code
        ran = part.code_execution_result
        if ran is not None:
            outcome = getattr(ran.outcome, "value", "")
            error = None if outcome == _CODE_WORKED else f"{outcome}: {ran.output or ''}"
            yield Call(f"{event.id}.{place}", "code_execution", {"code": code}, ran.output, error)
    queries = getattr(event.grounding_metadata, "web_search_queries", None)
    if queries:
        yield Call(f"{event.id}.search", "google_search", {"queries": list(queries)})


def code_in(event: Any) -> str:
    """The code that an event says is to be run."""
    parts = getattr(event.content, "parts", None) or ()
    return next((part.executable_code.code or "" for part in parts if part.executable_code), "")


def answers_in(content: Any) -> list[Any]:
    """The results that a user's message brings, for calls that had to wait for them."""
    return [part.function_response for part in content.parts or () if part.function_response is not None]


class Confirmed(NamedTuple):
    """What a user was asked about: a call, and the branch of the agent that wants it."""

    call_id: str
    branch: str


def confirmed_in(answer: Any, events: Sequence[Any]) -> Confirmed:
    """What a user's answer is about."""
    event, asked = _found(answer.id, events)
    about = (asked.args or {}).get("originalFunctionCall") if asked is not None else None
    call_id = str(about.get("id") or "") if isinstance(about, dict) else ""
    return Confirmed(call_id, event.branch or "" if event is not None else "")


def stop_in(error: BaseException | None) -> RunStopped | None:
    """Our stop in whatever the framework made of it, which may be an error that is its own cause."""
    behind = [error]
    for at in behind:
        if isinstance(at, RunStopped):
            return at
        inner = at.exceptions if isinstance(at, BaseExceptionGroup) else ()
        if at is not None and len(behind) < _MOST_CAUSES:
            behind += [it for it in (at.__cause__, at.__context__, *inner) if it not in behind]
    return None


def _found(call_id: str | None, events: Sequence[Any]) -> tuple[Any, Any]:
    """The event that asks for this call, and the call, as far as it is worth looking back."""
    for event in itertools.islice(reversed(events), _LOOKED_BACK):
        for call in event.get_function_calls():
            if call.id == call_id:
                return event, call
    return None, None


def _sum(usage: Any, *names: str) -> int:
    return sum(getattr(usage, name, None) or 0 for name in names)
