"""Translate Pydantic AI messages: prompts, replies, results, and answers to deferred calls."""

from collections.abc import Iterator
from typing import Any

from steadyhelm.adapter import ModelReply
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ToolFailedError, ToolRetryError, UnexpectedModelBehavior
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturn, UserPromptPart
    from pydantic_ai.tools import DeferredToolRequests, ToolDenied
except ImportError as exc:
    raise MissingExtraError("Pydantic AI adapter", extra="pydantic-ai") from exc


def read_prompt(content: Any) -> str:
    """Return the text of a prompt; other content is shown by its kind."""
    if content is None or is_a(content, str):
        return content or ""
    parts = [item if is_a(item, str) else getattr(item, "content", None) for item in content]
    kinds = [getattr(item, "kind", type(item).__name__) for item in content]
    return "\n".join(
        part if is_a(part, str) else f"[{kind}]" for part, kind in zip(parts, kinds, strict=True)
    )


def read_last_prompt(messages: list[Any]) -> str:
    """Return the last prompt of the user in a conversation."""
    for message in reversed(messages):
        for part in reversed(message.parts):
            if part.part_kind == "user-prompt":
                return read_prompt(part.content)
    return ""


def make_message(text: str) -> Any:
    """Return a message with this text, for the model."""
    return ModelRequest(parts=[UserPromptPart(text)])


def is_request(message: Any) -> bool:
    """Return whether a message is for the model, not from it."""
    return is_a(message, ModelRequest)


def find_new_requests(messages: list[Any]) -> list[Any]:
    """Return the requests since the last reply of the model, in order."""
    found = []
    for message in reversed(messages):
        if not is_request(message):
            break
        found.append(message)
    return found[::-1]


def find_last_calls(messages: list[Any]) -> dict[str, Any]:
    """Return the calls of the model's last reply, by id."""
    for message in reversed(messages):
        if is_a(message, ModelResponse):
            return {call.tool_call_id: call for call in message.tool_calls}
    return {}


def read_reply(response: Any, output_tools: frozenset[str]) -> ModelReply:
    """Return a reply; a structured output, which has the form of a call, counts as its text."""
    texts = [response.text or ""]
    texts += [call.args_as_json_str() for call in response.tool_calls if call.tool_name in output_tools]
    usage = response.usage
    cost = getattr(usage, "cost", None)
    return ModelReply(
        text="\n".join(text for text in texts if text),
        model=response.model_name or "",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=None if cost is None else float(cost),
    )


def find_failed_attempts(response: Any) -> Iterator[tuple[ModelReply, str]]:
    """Yield the model calls that failed before this reply, each with its error."""
    for attempt in getattr(response, "failed_attempts", None) or ():
        usage = attempt.usage
        tokens = (usage.input_tokens, usage.output_tokens) if usage is not None else (0, 0)
        reply = ModelReply(model=attempt.model_name, input_tokens=tokens[0], output_tokens=tokens[1])
        yield reply, attempt.error or "the reply was rejected"


def read_result(value: Any) -> Any:
    """Return the value of a tool result."""
    return value.return_value if is_a(value, ToolReturn) else value


def find_tool_error(error: BaseException) -> BaseException:
    """Return the error a tool raised, where the framework wrapped it in one of its own."""
    is_wrapped = is_a(error, (ToolRetryError, ToolFailedError, UnexpectedModelBehavior))
    return error.__cause__ or error if is_wrapped else error


def is_answer(part: Any) -> bool:
    """Return whether a part of a request answers a call: with a result, or by asking for another attempt."""
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and bool(part.tool_name))


def read_outcome(part: Any) -> str:
    """Return what came of a call that this part answers."""
    return str(part.outcome) if part.part_kind == "tool-return" else "failed"


def read_failure(part: Any) -> str:
    """Return what the model is told of a call that failed or was refused."""
    is_result = part.part_kind == "tool-return"
    return str(part.model_response_str() if is_result else part.model_response())


def read_refusal(part: Any) -> str | bool:
    """Return the user's answer about a refused call: a text, or False."""
    return False if part.content == ToolDenied().message else str(part.content)


def can_ask(ctx: Any, output_type: Any) -> bool:
    """Return whether the caller or a capability decides about a deferred call."""
    found: list[Any] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(found.append)
    default = AbstractCapability.handle_deferred_tool_calls
    if any(type(it).handle_deferred_tool_calls is not default for it in found):
        return True
    output_type = output_type or getattr(ctx.agent, "output_type", None)
    several = output_type if is_a(output_type, (list, tuple)) else getattr(output_type, "__args__", ())
    return output_type is DeferredToolRequests or DeferredToolRequests in several
