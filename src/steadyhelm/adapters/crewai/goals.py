"""What a crew, a task or an agent of CrewAI is meant to do, and what it is called."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

_TELLABLE: Final = (str, int, float, bool)
"""What can be put into words without asking an object of the host's for them."""


def filled(words: Any, inputs: Any) -> str:
    """A description with its inputs in their places, as CrewAI puts them there when it begins."""
    text = str(words or "")
    for name, value in inputs.items() if isinstance(inputs, Mapping) else ():
        if type(value) in _TELLABLE:
            text = text.replace(f"{{{name}}}", str(value))
    return text


def goal_of(crew: Any, inputs: Any = None) -> str:
    """What a crew is for: its description where it has one, else those of its tasks."""
    described = getattr(crew, "description", None)
    tasks = [getattr(task, "description", "") for task in getattr(crew, "tasks", ())]
    return filled(described or "\n".join(str(it) for it in tasks if it), inputs)


def first_words(kind: type) -> str:
    """What a class says about itself first."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]


def asked(messages: Any) -> str:
    """What a user says in a text or in messages: the last of theirs.

    >>> asked([{"role": "user", "content": [{"type": "text", "text": "Hi."}]}, {"role": "assistant"}])
    'Hi.'
    """
    if not isinstance(messages, list):
        return str(messages or "")
    theirs = [it.get("content") for it in messages if isinstance(it, dict) and it.get("role") == "user"]
    last = theirs[-1] if theirs else ""
    if not isinstance(last, list):
        return str(last or "")
    return "\n".join(str(part["text"]) for part in last if isinstance(part, dict) and "text" in part)


def name_of(worker: Any) -> str:
    """What a crew, a flow or an agent is called."""
    return str(getattr(worker, "role", None) or getattr(worker, "name", None) or type(worker).__name__)
