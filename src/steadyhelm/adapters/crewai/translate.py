"""Read goals, names, replies and requested calls from the objects and events of CrewAI."""

import inspect
import itertools
import json
from collections.abc import Mapping
from typing import Any, Final

from steadyhelm.adapter import ModelReply
from steadyhelm.host_objects import is_a

_PLAIN_TYPES: Final = (str, int, float, bool)
"""The types that can be turned into text without calling an object of the host's."""

_MAX_MESSAGES_SEARCHED: Final = 64


def fill_placeholders(text: Any, inputs: Any) -> str:
    """Return a description with its inputs in their places, as CrewAI fills it when it begins.

    >>> fill_placeholders("Write about {topic}.", {"topic": "ships"})
    'Write about ships.'
    """
    filled = str(text or "")
    for name, value in inputs.items() if is_a(inputs, Mapping) else ():
        if type(value) in _PLAIN_TYPES:
            filled = filled.replace(f"{{{name}}}", str(value))
    return filled


def read_crew_goal(crew: Any, inputs: Any = None) -> str:
    """Return the goal of a crew: its description where it has one, else those of its tasks."""
    description = getattr(crew, "description", None)
    tasks = [getattr(task, "description", "") for task in getattr(crew, "tasks", ())]
    return fill_placeholders(description or "\n".join(str(it) for it in tasks if it), inputs)


def read_class_summary(kind: type) -> str:
    """Return the first paragraph of a class docstring."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]


def read_user_text(messages: Any) -> str:
    """Return what a user says in a text or in messages: the last of theirs.

    >>> blocks = [{"type": "text", "text": "Hi."}]
    >>> read_user_text([{"role": "user", "content": blocks}, {"role": "assistant"}])
    'Hi.'
    """
    if not is_a(messages, list):
        return str(messages or "")
    theirs = [it.get("content") for it in messages if is_a(it, dict) and it.get("role") == "user"]
    last = theirs[-1] if theirs else ""
    if not is_a(last, list):
        return str(last or "")
    return "\n".join(str(part["text"]) for part in last if is_a(part, dict) and "text" in part)


def read_name(worker: Any) -> str:
    """Return the name of a crew, a flow or an agent."""
    return str(getattr(worker, "role", None) or getattr(worker, "name", None) or type(worker).__name__)


# --- model calls -------------------------------------------------------------------------------------


def read_reply_text(event: Any) -> str:
    """Return the text of a model's reply; one that only requests tools has none."""
    if is_a(event.response, str):
        return event.response
    return "" if event.call_type.value == "tool_call" else json.dumps(event.response, default=str)


def read_usage(llm: Any) -> Any:
    """Return what a model has used so far by its own count; None where it has none."""
    summary = getattr(llm, "get_token_usage_summary", None)
    return summary() if summary is not None else None


def make_reply(text: str, model: str | None, usage: Any) -> ModelReply:
    """Return a reply with the tokens of this usage; `usage` may be None."""
    tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else (0, 0)
    return ModelReply(text=text, model=model or "", input_tokens=tokens[0], output_tokens=tokens[1])


def describe_state(messages: list[Any]) -> str | None:
    """Return a name for the state of a conversation: its length, and which message is its last."""
    return f"{len(messages)} {id(messages[-1])}" if messages else None


def find_length(state: str, messages: list[Any]) -> int | None:
    """Return how long a conversation was in that state; None if it was rewritten since, as by a summary."""
    length = int(state.partition(" ")[0])
    return length if state == describe_state(messages[:length]) else None


# --- tool calls --------------------------------------------------------------------------------------


def find_requesting_message(executor: Any) -> dict[str, Any] | None:
    """Return the model's last message, if it requested calls."""
    messages = getattr(executor, "messages", None) or []
    for message in itertools.islice(reversed(messages), _MAX_MESSAGES_SEARCHED):
        if message.get("role") == "assistant":
            return message if message.get("tool_calls") else None
    return None


def parse_args(args: Any) -> Any:
    """Return the arguments of a call; a text that is no JSON is returned as its only argument.

    >>> parse_args('{"key": "a"}'), parse_args("look it up")
    ({'key': 'a'}, {'input': 'look it up'})
    """
    if not is_a(args, str):
        return args
    try:
        return json.loads(args)
    except ValueError:
        return {"input": args}
