"""Build the judge that a setting or an argument names, or that a function is."""

import importlib
from collections.abc import Callable
from typing import Any, Final

from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.judge import JudgeVerdict, ModelJudge, Question
from steadyhelm.judges.clients import AnthropicJudge, OpenAIJudge, refuse_asynchronous
from steadyhelm.judging.answers import read_answer

_CLIENTS: Final[dict[str, tuple[str, type[OpenAIJudge] | type[AnthropicJudge]]]] = {
    "openai": ("OpenAI", OpenAIJudge),
    "anthropic": ("Anthropic", AnthropicJudge),
}


def build_judge(given: Any, *, timeout_s: float = 20.0) -> ModelJudge:
    """Return a judge: `openai:MODEL`, `anthropic:MODEL`, a function, or what has a method `judge`.

    Raises SettingsError for anything else.

    >>> build_judge("gpt-4o")
    Traceback (most recent call last):
    ...
    steadyhelm.errors.SettingsError: judge must be openai:MODEL or anthropic:MODEL, got 'gpt-4o'.
    """
    if isinstance(given, str):
        package, _, model = given.partition(":")
        if package not in _CLIENTS or not model:
            raise SettingsError(f"judge must be openai:MODEL or anthropic:MODEL, got {given!r}.")
        return NamedJudge(package, model, timeout_s=timeout_s)
    if not isinstance(given, type) and isinstance(given, ModelJudge):
        return given
    for package, (_, kind) in _CLIENTS.items():
        path = "chat" if package == "openai" else "messages"
        if hasattr(given, path) and not callable(given):
            raise SettingsError(
                f"A client alone does not say which model to ask: give judge={kind.__name__}(client, MODEL)."
            )
    return FunctionJudge(given)


class NamedJudge:
    """Asks a model by its name, with a client that is made from the installed package at the first question.

    Keys and addresses come from the package's own variables, such as `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    """

    def __init__(self, package: str, model: str, *, timeout_s: float) -> None:
        self.model = model
        self._package = package
        self._timeout_s = timeout_s
        self._judge: ModelJudge | None = None

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the model's answer; raises MissingExtraError without the package."""
        if self._judge is None:
            name, kind = _CLIENTS[self._package]
            try:
                client = getattr(importlib.import_module(self._package), name)()
            except ImportError as exc:
                raise MissingExtraError(f"judge {self._package}:{self.model}", extra=self._package) from exc
            self._judge = kind(client, self.model, timeout_s=self._timeout_s)
        return self._judge.judge(question)


class FunctionJudge:
    """Calls a function with each question.

    Args:
        function: Takes a `Question`. Returns a `JudgeVerdict`, its fields as a dict, or its JSON as text.

    >>> FunctionJudge("not a function")
    Traceback (most recent call last):
    ...
    steadyhelm.errors.SettingsError: A judge must be a function or have a method judge(question), got: str.
    """

    def __init__(self, function: Callable[[Question], Any]) -> None:
        if not callable(function):
            raise SettingsError(
                "A judge must be a function or have a method judge(question), "
                f"got: {type(function).__name__}."
            )
        refuse_asynchronous(function)
        self._function = function

    def judge(self, question: Question) -> JudgeVerdict:
        """Return what the function answers."""
        return read_answer(self._function(question), question)
