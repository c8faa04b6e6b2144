"""What must begin anew in a forked child: locks may be held there by threads that do not exist."""

import os
import weakref
from typing import Final, Protocol


class Forked(Protocol):
    """Something that has to be told."""

    def after_fork(self) -> None:
        """In a child process: begin anew."""
        ...


_told: Final["weakref.WeakSet[Forked]"] = weakref.WeakSet()


def tell_after_fork(what: Forked) -> None:
    """Call `after_fork` in every child process, as long as somebody else holds on to it."""
    _told.add(what)


def _in_child() -> None:
    for alive in list(_told):
        alive.after_fork()


if hasattr(os, "register_at_fork"):
    # Once for all: what is registered here can never be taken back.
    os.register_at_fork(after_in_child=_in_child)
