"""Replace methods and functions of a framework for a whole process, and restore them.

What is replaced stays reachable by every name it was imported under: methods are replaced on their class,
functions by their code.
"""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, NamedTuple

Method = Callable[..., Any]

_TARGET_ARGUMENT: Final = "_steadyhelm_target"


class Patches:
    """The replacements that one installation made.

    `undo` restores what is still ours. Where another library has replaced our replacement it stays in place
    and only calls the original: replacements ask `is_active` at each call.
    """

    def __init__(self) -> None:
        self.is_active = True
        self._undo: list[Callable[[], None]] = []

    def replace_method(self, owner: type, name: str, make: Callable[[Method], Method]) -> None:
        """Replace a method of a class by what `make` returns for the original."""
        was_own = name in vars(owner)
        original = inspect.getattr_static(owner, name)
        replacement = functools.wraps(original)(make(original))
        setattr(owner, name, replacement)

        def restore() -> None:
            if vars(owner).get(name) is not replacement:
                return
            if was_own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        self._undo.append(restore)

    def replace_function(self, function: FunctionType, make: Callable[[Method], Method]) -> None:
        """Let a function do what `make` returns for the original; the function object stays the same."""
        before = _FunctionBody.read(function)
        target = make(before.copy_function(function))
        relay: Any = _relay_parts if inspect.isasyncgenfunction(function) else _relay
        # A function with a closure takes only code that names as many variables of it.
        code = relay.__code__.replace(
            co_name=function.__name__,
            co_qualname=function.__qualname__,
            co_freevars=function.__code__.co_freevars,
        )
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        function.__code__, function.__defaults__ = code, None
        function.__kwdefaults__ = {_TARGET_ARGUMENT: target}

        def restore() -> None:
            if function.__code__ is code:
                before.write(function)

        self._undo.append(restore)

    def on_undo(self, callback: Callable[[], None]) -> None:
        """Call a function when the patches are undone."""
        self._undo.append(callback)

    def undo(self) -> None:
        """Restore everything that is still ours, latest first. Idempotent."""
        self.is_active = False
        while self._undo:
            self._undo.pop()()


class _FunctionBody(NamedTuple):
    """What a function executes, and with which defaults."""

    code: Any
    defaults: Any
    keyword_defaults: Any
    signature: Any

    @classmethod
    def read(cls, function: FunctionType) -> "_FunctionBody":
        signature = vars(function).get("__signature__")
        return cls(function.__code__, function.__defaults__, function.__kwdefaults__, signature)

    def copy_function(self, function: FunctionType) -> FunctionType:
        copy = FunctionType(
            self.code, function.__globals__, function.__name__, self.defaults, function.__closure__
        )
        copy.__kwdefaults__, copy.__qualname__ = self.keyword_defaults, function.__qualname__
        return copy

    def write(self, function: FunctionType) -> None:
        function.__code__, function.__defaults__ = self.code, self.defaults
        function.__kwdefaults__ = self.keyword_defaults
        if self.signature is not None:
            function.__signature__ = self.signature  # type: ignore[attr-defined]
        else:
            vars(function).pop("__signature__", None)


# Their code runs with the globals of the replaced function: they use nothing but their arguments.
def _relay(*args: Any, _steadyhelm_target: Method, **kwargs: Any) -> Any:
    return _steadyhelm_target(*args, **kwargs)


async def _relay_parts(*args: Any, _steadyhelm_target: Method, **kwargs: Any) -> Any:
    parts = _steadyhelm_target(*args, **kwargs)
    try:
        async for part in parts:
            yield part
    finally:
        await parts.aclose()
