"""Objects of a host that write down what we ask of them, and answer badly."""

import traceback
from typing import Any

from blocking import is_called_by_us

TOUCHED: list[str] = []
"""What our own code has asked of a spy, and where."""

ALLOWED = {"__traceback__", "__context__", "__cause__", "__suppress_context__", "with_traceback", "__notes__"}
"""What is read of an exception that is raised on: the interpreter asks for it in the name of our code."""


def write_down(name: str) -> None:
    """Keep a question that our code has asked; what a framework asks is its own."""
    if name not in ALLOWED and is_called_by_us():
        ours = [it for it in traceback.extract_stack() if "steadyhelm" in it.filename][-1:]
        TOUCHED.append(f"{name}: {ours}")


def _make_method(name: str) -> Any:
    def method(_self: Any, *_args: Any) -> Any:
        write_down(name)
        if name in {"__str__", "__repr__"}:
            return "a spy"
        raise RuntimeError(f"a spy was asked for {name}")

    return method


class Spy:
    """A result of a tool: it says it is a text, and has nothing that is asked for."""

    def __getattribute__(self, name: str) -> Any:
        write_down(name)
        if name == "__class__":
            return str
        raise AttributeError(name)

    __len__ = _make_method("__len__")
    __iter__ = _make_method("__iter__")
    __bool__ = _make_method("__bool__")
    __getitem__ = _make_method("__getitem__")
    __contains__ = _make_method("__contains__")
    __str__ = _make_method("__str__")
    __repr__ = _make_method("__repr__")
    __eq__ = _make_method("__eq__")
    __hash__ = _make_method("__hash__")


class SpyError(Exception):
    """An error of a tool, of which nothing may be asked but its text."""

    def __getattribute__(self, name: str) -> Any:
        write_down(name)
        return super().__getattribute__(name)

    def __str__(self) -> str:
        return "a spy broke"
