"""Reads what Pydantic AI's messages say: prompts, replies, and answers to calls that were never made here."""

from collections.abc import Iterator
from typing import Any

from steadyhelm.adapter import ModelReply
from steadyhelm.errors import MissingExtraError

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ToolFailedError, ToolRetryError, UnexpectedModelBehavior
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturn, UserPromptPart
    from pydantic_ai.tools import DeferredToolRequests, ToolDenied
except ImportError as exc:
    raise MissingExtraError("Pydantic AI adapter", extra="pydantic-ai") from exc


def words_of(content: Any) -> str:
    """A prompt in words; what is no text is named."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [item if isinstance(item, str) else getattr(item, "content", None) for item in content]
    kinds = [getattr(item, "kind", type(item).__name__) for item in content]
    return "\n".join(
        part if isinstance(part, str) else f"[{kind}]" for part, kind in zip(parts, kinds, strict=True)
    )


def last_words(messages: list[Any]) -> str:
    """What the user said last in a conversation."""
    for message in reversed(messages):
        for part in reversed(message.parts):
            if part.part_kind == "user-prompt":
                return words_of(part.content)
    return ""


def message_of(words: str) -> Any:
    """A message with these words."""
    return ModelRequest(parts=[UserPromptPart(words)])


def is_request(message: Any) -> bool:
    """Whether a message is for the model, and not from it."""
    return isinstance(message, ModelRequest)


def requests_since_reply(messages: list[Any]) -> list[Any]:
    """The requests that the model has not answered yet, first to last."""
    found = []
    for message in reversed(messages):
        if not is_request(message):
            break
        found.append(message)
    return found[::-1]


def calls_of_last_reply(messages: list[Any]) -> dict[str, Any]:
    """The calls that the model's last reply asks for, by id."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return {call.tool_call_id: call for call in message.tool_calls}
    return {}


def reply_of(response: Any, output_tools: frozenset[str]) -> ModelReply:
    """A reply; an answer that has the form of a call, for the sake of its structure, is what was said."""
    said = [response.text or ""]
    said += [call.args_as_json_str() for call in response.tool_calls if call.tool_name in output_tools]
    usage = response.usage
    return ModelReply(
        text="\n".join(text for text in said if text),
        model=response.model_name or "",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=None if usage.cost is None else float(usage.cost),
    )


def failed_attempts(response: Any) -> Iterator[tuple[ModelReply, str]]:
    """The models that were asked in vain before this reply came, and why."""
    for attempt in response.failed_attempts or ():
        usage = attempt.usage
        tokens = (usage.input_tokens, usage.output_tokens) if usage is not None else (0, 0)
        reply = ModelReply(model=attempt.model_name, input_tokens=tokens[0], output_tokens=tokens[1])
        yield reply, attempt.error or "the reply was rejected"


def result_of(value: Any) -> Any:
    """What a tool gave to the model."""
    return value.return_value if isinstance(value, ToolReturn) else value


def own_words(error: BaseException) -> BaseException:
    """What a tool itself said, where the framework made an error of its own from it."""
    made_over = isinstance(error, ToolRetryError | ToolFailedError | UnexpectedModelBehavior)
    return error.__cause__ or error if made_over else error


def answer_of(part: Any) -> str | bool:
    """What the user said about a call they refused: their words, or no."""
    return False if part.content == ToolDenied().message else str(part.content)


def can_ask(ctx: Any, output_type: Any) -> bool:
    """Whether a call that waits for a decision ends in somebody's hands."""
    found: list[Any] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(found.append)
    nobody = AbstractCapability.handle_deferred_tool_calls
    if any(type(it).handle_deferred_tool_calls is not nobody for it in found):
        return True
    output_type = output_type or getattr(ctx.agent, "output_type", None)
    several = output_type if isinstance(output_type, list | tuple) else getattr(output_type, "__args__", ())
    return output_type is DeferredToolRequests or DeferredToolRequests in several
