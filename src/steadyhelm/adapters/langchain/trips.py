"""The outermost call of a graph: how it ends, and its way back to a checkpoint when it is taken back."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.langchain.eyes import Eyes, opening
from steadyhelm.adapters.langchain.messages import is_continued
from steadyhelm.adapters.langchain.scopes import Scope
from steadyhelm.adapters.langchain.steering import GraphReturn
from steadyhelm.adapters.langchain.undelivered import Unsaid

Way = Generator[tuple[str, tuple[Any, ...]], Any, None]
"""What is to be asked of the graph between two attempts: names of its methods, and what to call them with."""


class Trip:
    """One outermost call, which may set out several times: each time with what is `given` and a `config`.

    Args:
        eyes: Who sees what happens in it.
        scope: The agent that is called.
        given: Its input.
        config: Its settings.
        said: Makes a message of words.
        unsaid: Tells of words that nobody could say.
        has_breakpoints: Whether the graph may pause at nodes that were named beforehand.
    """

    def __init__(
        self,
        eyes: Eyes,
        scope: Scope,
        given: Any,
        config: Any,
        *,
        said: Callable[[str], Any],
        undelivered: Unsaid,
        has_breakpoints: bool = False,
    ) -> None:
        self.scope = scope
        self.given = given
        self.config = config
        self.has_arrived = False
        self._eyes = eyes
        self._said = said
        self._unsaid = undelivered
        self._has_breakpoints = has_breakpoints
        self._error: BaseException | None = None
        # A thread that goes on after a pause we know nothing of tells its goal when it first asks its model.
        if not (is_continued(given) and scope.can_return):
            scope.begun()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """A block of code that belongs to the agent."""
        run, before = self.scope.run, opening.get()
        opening.set((*before, (self._eyes, self.scope)))
        try:
            with run.activate() if run is not None else nullcontext():
                yield
        finally:
            opening.set(before)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """One attempt: what it raises is kept for the end."""
        self.scope.is_linked = False
        self._error = None
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - `arrive` raises it
            self._error = exc

    def way_on(self, agent: Any) -> Way:
        """What to do after an attempt: go back where that is wanted; else the call has arrived."""
        if self.scope.returning is not None and isinstance(self._error, GraphReturn | None):
            yield from self._way_back(agent)
            return
        self.has_arrived = True
        if self._error is None and self._has_breakpoints and self.scope.can_return:
            try:
                state = yield "get_state", (self._config_at({}),)
            except Exception:  # noqa: BLE001 - a checkpointer's own failure is not the agent's
                return
            self.scope.is_paused = bool(state.next)

    def arrive(self) -> None:
        """The call is over: raises what its caller shall receive, the host's own exception or our stop."""
        scope, error = self.scope, self._error
        self._eyes.agents.tree.drop(scope)
        self._unsaid.look(scope, scope.run)
        run = scope.begun()
        assert run is not None
        if scope.returning is not None:
            scope.returning = None
            run.report_not_carried_out("the agent failed before it could be taken back")
        if scope.is_paused and error is None and scope.can_return and run.stopped is None:
            self._eyes.agents.pause(scope)
            return
        left = run.finish(error)
        if left is not None and left is not error:
            raise left from error
        if error is not None:
            raise error

    def _way_back(self, agent: Any) -> Way:
        """Take the graph back to the checkpoint, with our words as the last message, and let it go on.

        Where that fails it goes on from where it is.
        """
        instruction, self.scope.returning = self.scope.returning, None
        assert instruction is not None
        self.given = None
        try:
            yield from self._taken_back(agent, instruction)
        except Exception as exc:  # noqa: BLE001 - a checkpointer's own failure is not the agent's
            if self.scope.run is not None:
                self.scope.run.report_not_carried_out(
                    f"the graph could not be taken back: {type(exc).__name__}"
                )
            self.config = self._config_at({})

    def _taken_back(self, agent: Any, instruction: Instruction) -> Way:
        label = instruction.checkpoint.label if instruction.checkpoint is not None else ""
        there = self._config_at({"checkpoint_ns": "", "checkpoint_id": label})
        state = yield "get_state", (there,)
        messages = state.values.get("messages") if isinstance(state.values, dict) else None
        if not state.values:
            raise LookupError(label)
        if messages is not None and "messages" in getattr(agent, "channels", ()):
            update = {"messages": [self._said(instruction.text)]}
            there = yield "update_state", (there, update)
        self.config = self._config_at(there["configurable"])

    def _config_at(self, place: dict[str, Any]) -> dict[str, Any]:
        """The settings of the call, at another place in its thread; a run id is good for one run only."""
        config = {key: value for key, value in (self.config or {}).items() if key != "run_id"}
        given = config.get("configurable") or {}
        thread = {key: value for key, value in given.items() if not key.startswith("checkpoint_")}
        return {**config, "configurable": {**thread, "thread_id": self.scope.thread, **place}}


def stepped(trip: Trip, parts: Iterator[Any]) -> Iterator[Any]:
    """The parts of a stream; only the agent's own steps belong to its run, not what happens in between."""
    try:
        while True:
            with trip.activate():
                try:
                    part = next(parts)
                except StopIteration:
                    return
            yield part
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()


async def stepped_async(trip: Trip, parts: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """The same, awaited."""
    try:
        while True:
            with trip.activate():
                try:
                    part = await anext(parts)
                except StopAsyncIteration:
                    return
            yield part
    finally:
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()


def walked(way: Way, agent: Any) -> None:
    """Go all steps of a way."""
    step = next(way, None)
    while step is not None:
        try:
            came = getattr(agent, step[0])(*step[1])
        except Exception as exc:  # noqa: BLE001 - the way knows what to do
            step = _on(way.throw, exc)
        else:
            step = _on(way.send, came)


async def walked_async(way: Way, agent: Any) -> None:
    """The same, awaited."""
    step = next(way, None)
    while step is not None:
        try:
            came = await getattr(agent, f"a{step[0]}")(*step[1])
        except Exception as exc:  # noqa: BLE001 - the way knows what to do
            step = _on(way.throw, exc)
        else:
            step = _on(way.send, came)


def _on(go: Callable[[Any], Any], what: Any) -> Any:
    try:
        return go(what)
    except StopIteration:
        return None
