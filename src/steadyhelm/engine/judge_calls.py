"""Call a judge with a deadline, and mark what it does as no work of the agent."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any, Final

from steadyhelm.errors import SteadyhelmError

_is_judging: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("steadyhelm_judging", default=False)


is_judging: Final[Callable[[], bool]] = _is_judging.get
"""Returns whether the code now executing belongs to a judge: it is not watched."""


class DeadlineError(SteadyhelmError):
    """A call took longer than it may."""


class JudgeCalls:
    """Calls that are given up at a deadline; what runs on is counted until it ends.

    Args:
        deadline_s: Seconds that a call may take.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._abandoned: list[threading.Thread] = []

    @property
    def abandoned(self) -> int:
        """How many calls were given up and still run."""
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        return len(self._abandoned)

    def call(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns, or raise what it raises.

        Raises:
            DeadlineError: It has not returned in time.
        """
        outcome: list[Any] = []
        failure: list[BaseException] = []

        def run() -> None:
            _is_judging.set(True)
            try:
                outcome.append(function())
            except BaseException as exc:  # noqa: BLE001 - raised again by the caller, whatever it is
                failure.append(exc)

        # A context of its own: the judge works for no run.
        context = contextvars.Context()
        thread = threading.Thread(target=lambda: context.run(run), name="steadyhelm-judge-call", daemon=True)
        thread.start()
        thread.join(self._deadline_s)
        if failure:
            raise failure[0]
        if not outcome:
            self._abandoned.append(thread)
            raise DeadlineError(f"no answer within {self._deadline_s:g} seconds")
        return outcome[0]
