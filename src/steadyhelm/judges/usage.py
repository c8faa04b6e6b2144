"""What the clients of judges share: no waiting, one try per request, tokens used, the answer in a reply."""

import inspect
from typing import Any, NamedTuple

from msgspec import structs

from steadyhelm.errors import SettingsError
from steadyhelm.judge import JudgeVerdict, NoVerdictError, Question
from steadyhelm.judging.answers import read_answer


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


def with_one_try(client: Any, timeout_s: float) -> Any:
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
