"""Watch any object from outside, by the method that runs it."""

import contextvars
import functools
import time
from contextlib import AbstractContextManager
from typing import Any, Final

from steadyhelm.adapters.frameworks import describe_frameworks
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject
from steadyhelm.boundary.results import count_tokens, find_text, get_attribute
from steadyhelm.boundary.special_methods import CALL
from steadyhelm.boundary.watched_functions import find_verdicts, make_stop
from steadyhelm.engine.live_runs import describe_outcome, find_outer_run_id
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped, SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION
from steadyhelm.host_objects import is_a

ENTRY_POINTS: Final = ("invoke", "ainvoke", "stream", "astream", "run", "arun", "kickoff", "kickoff_async")


class GenericAdapter(WatchedObject):
    """A proxy for an object, watched at the method that runs it, such as `invoke`, `run` or `kickoff`.

    Each call becomes a run with the input as its goal, an event when it starts and one when it ends. So does
    a call of the object itself, where it can be called.
    Everything else about the object stays as it is: other attributes are passed through.
    """

    ENTRY_POINTS = (*ENTRY_POINTS, CALL)

    @classmethod
    def can_wrap(cls, agent: Any) -> bool:
        """Return whether the object has one of the methods in `ENTRY_POINTS`."""
        return any(callable(get_attribute(agent, method)) for method in ENTRY_POINTS)

    def __init__(self, monitor: Monitor, agent: Any, **options: Any) -> None:
        if not self.can_wrap(agent):
            raise SettingsError(
                f"wrap() got a {type(agent).__name__}, which has no method {', '.join(ENTRY_POINTS)}. "
                "Use the @monitor.tool and @monitor.model decorators, or monitor.record_event(). "
                f"Watched at every step are: {describe_frameworks()}."
            )
        if options:
            raise SettingsError(
                f"wrap() takes no {', '.join(options)} for a {type(agent).__name__}: "
                "it is watched from outside only, and its model cannot be guided."
            )
        super().__init__(agent)
        self._monitor = monitor

    def open(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WatchedCall:
        """Return the watched call, which is a run."""
        run = _ObjectRun(self._monitor, method, args, kwargs)
        return WatchedCall(activate=run.activate, finish=run.finish, args=args, kwargs=kwargs)


class _ObjectRun:
    """The run that one call of a watched object is."""

    def __init__(self, monitor: Monitor, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._monitor = monitor
        self._began_s = time.perf_counter()
        given = args[0] if args else kwargs.get("input", kwargs.get("inputs"))
        goal = find_text(given)
        start = functools.partial(monitor.start_run, goal=goal if str.__len__(goal) else None)
        self._run_id = contextvars.copy_context().run(start, parent_run_id=find_outer_run_id())
        monitor.record_event(
            LLM_REQUEST,
            f"agent_{method.strip('_')}",
            run_id=self._run_id,
            input_data=given if is_a(given, dict) else {"input": given},
        )

    def activate(self) -> AbstractContextManager[None]:
        """Open a block of code that belongs to the run."""
        return self._monitor.within(self._run_id)

    def finish(self, result: Any, error: BaseException | None) -> BaseException | None:
        """Record the result and end the run; return the exception that the caller receives, if any."""
        if error is not None:
            self._fail(error)
            return error
        text = find_text(result)
        decision = self._monitor.record_event(
            LLM_REQUEST,
            "agent_complete",
            run_id=self._run_id,
            output_data={"text": text} if str.__len__(text) else result,
            token_count=count_tokens(result),
            duration_ms=(time.perf_counter() - self._began_s) * 1000,
            can=find_verdicts(self._monitor),
        )
        stop = make_stop(decision, self._monitor)
        self._monitor.end_run(self._run_id, outcome=describe_outcome(stop))
        return stop

    def _fail(self, error: BaseException) -> None:
        if not is_a(error, (RunStopped, GeneratorExit)):
            self._monitor.record_event(
                STATE_TRANSITION,
                "agent_error",
                run_id=self._run_id,
                error=error,
                duration_ms=(time.perf_counter() - self._began_s) * 1000,
            )
        self._monitor.end_run(self._run_id, outcome=describe_outcome(error))
