"""Refuse what is asynchronous: a judge is asked on a thread without an event loop."""

import inspect
from typing import Any

from steadyhelm.errors import SettingsError


def refuse_asynchronous(function: Any) -> None:
    """Raise SettingsError for a function that must be awaited."""
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
    # The methods of the SDKs are wrapped: what is inside says whether they must be awaited.
    if any(inspect.iscoroutinefunction(inspect.unwrap(it)) for it in (function, called)):
        raise SettingsError(
            "The judge is asynchronous. It is asked on a thread of its own, which has no event loop: "
            "give a synchronous client or function, such as OpenAI() instead of AsyncOpenAI()."
        )
