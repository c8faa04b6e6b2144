"""The judges that come with Steadyhelm: models behind a client of the user's own, or any function."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import structs

from steadyhelm.errors import MissingExtraError, SettingsError
from steadyhelm.judge import MAX_ANSWER_TOKENS, JudgeVerdict, ModelJudge, NoVerdictError, Question
from steadyhelm.judging.answers import build_answer_schema, read_answer

_BAD_REQUEST: Final = 400
_OWN_HOST: Final = "api.openai.com"
_VERDICT_TOOL: Final = "give_verdict"


def refuse_asynchronous(function: Any) -> None:
    """Raise SettingsError for a function that must be awaited."""
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
    # The methods of the SDKs are wrapped: what is inside says whether they must be awaited.
    if any(inspect.iscoroutinefunction(inspect.unwrap(it)) for it in (function, called)):
        raise SettingsError(
            "The judge is asynchronous. It is asked on a thread of its own, which has no event loop: "
            "give a synchronous client or function, such as OpenAI() instead of AsyncOpenAI()."
        )


class TokensUsed(NamedTuple):
    """The tokens of a request and of its answer, as the server reports them; 0 where it does not."""

    input_tokens: int = 0
    output_tokens: int = 0


def disable_retries(client: Any, timeout_s: float) -> Any:
    """Return the client with this timeout and without retries, so that one call is one request."""
    change = getattr(client, "with_options", None)
    return change(max_retries=0, timeout=timeout_s) if callable(change) else client


def read_tokens(reply: Any, input_name: str, output_name: str) -> TokensUsed:
    """Return the tokens that a reply reports.

    Raises:
        NoVerdictError: It is not a reply but something that has to be awaited.
    """
    if inspect.isawaitable(reply):
        close = getattr(reply, "close", None)
        if close is not None:
            close()
        raise NoVerdictError("the client is asynchronous")
    usage = getattr(reply, "usage", None)
    return TokensUsed(*(_count(getattr(usage, name, 0)) for name in (input_name, output_name)))


def parse_reply(content: object, question: Question, tokens: TokensUsed) -> JudgeVerdict:
    """Return the verdict in what a model answered, with the tokens used; raises NoVerdictError with them."""
    try:
        verdict = read_answer("" if content is None else content, question)
    except NoVerdictError as exc:
        raise NoVerdictError(exc.reason, **tokens._asdict()) from None
    return structs.replace(verdict, **tokens._asdict(), cost_usd=None)


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


class OpenAIJudge:
    """Asks a model with a client that has `chat.completions.create`, such as `openai.OpenAI()`.

    The answer is constrained to a JSON schema. A server that refuses that is asked for JSON in plain words
    from the next question on.

    Args:
        client: The client; a synchronous one.
        model: The model's name.
        timeout_s: Seconds that one request may take.
    """

    def __init__(self, client: Any, model: str, *, timeout_s: float = 20.0) -> None:
        create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
        if not callable(create):
            raise SettingsError(
                f"OpenAIJudge needs a client with chat.completions.create, got a {type(client).__name__}."
            )
        refuse_asynchronous(create)
        self.model = model
        self._client = disable_retries(client, timeout_s)
        # Newer models of OpenAI take one name of the limit, most other servers the other.
        is_own = _OWN_HOST in str(getattr(client, "base_url", ""))
        names = ["max_completion_tokens", "max_tokens"] if is_own else ["max_tokens", "max_completion_tokens"]
        self._ways = [(name, with_schema) for with_schema in (True, False) for name in names]

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the model's answer; raises whatever the client raises."""
        limit, with_schema = self._ways[0]
        options: dict[str, Any] = {limit: MAX_ANSWER_TOKENS}
        if with_schema:
            schema = {"name": "verdict", "strict": True, "schema": build_answer_schema(question)}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        try:
            reply = self._client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": question.text}], **options
            )
        except Exception as exc:
            if getattr(exc, "status_code", None) == _BAD_REQUEST and len(self._ways) > 1:
                del self._ways[0]
                raise NoVerdictError(
                    "the server refused the form of the request; the next one is simpler"
                ) from exc
            raise
        tokens = read_tokens(reply, "prompt_tokens", "completion_tokens")
        choices = getattr(reply, "choices", None) or [None]
        return parse_reply(getattr(getattr(choices[0], "message", None), "content", None), question, tokens)


class AnthropicJudge:
    """Asks a model with a client that has `messages.create`, such as `anthropic.Anthropic()`.

    The answer is the input of a tool that the model has to call, which constrains it to a schema.

    Args:
        client: The client; a synchronous one.
        model: The model's name.
        timeout_s: Seconds that one request may take.
    """

    def __init__(self, client: Any, model: str, *, timeout_s: float = 20.0) -> None:
        create = getattr(getattr(client, "messages", None), "create", None)
        if not callable(create):
            raise SettingsError(
                f"AnthropicJudge needs a client with messages.create, got a {type(client).__name__}."
            )
        refuse_asynchronous(create)
        self.model = model
        self._client = disable_retries(client, timeout_s)

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the model's answer; raises whatever the client raises."""
        tool = {
            "name": _VERDICT_TOOL,
            "description": "Give the verdict on the question.",
            "input_schema": build_answer_schema(question),
        }
        reply = self._client.messages.create(
            model=self.model,
            max_tokens=MAX_ANSWER_TOKENS,
            messages=[{"role": "user", "content": question.text}],
            tools=[tool],
            tool_choice={"type": "tool", "name": _VERDICT_TOOL},
        )
        tokens = read_tokens(reply, "input_tokens", "output_tokens")
        blocks = getattr(reply, "content", None) or []
        answers = [
            getattr(block, "input", None) for block in blocks if getattr(block, "type", "") == "tool_use"
        ]
        texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", "") == "text"]
        return parse_reply(next(iter([*answers, *texts]), None), question, tokens)


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
