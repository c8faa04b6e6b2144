"""Recognise and wrap graphs and agents, and follow their outermost calls.

Callbacks see every model call and tool call. `SteadyhelmMiddleware` in an agent can act on them: guide the
model, deny a call, ask the user. A graph that `monitor.wrap` returns can also be taken back to a checkpoint.
"""

import copy
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Final

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.langchain.contexts import AgentContext
from steadyhelm.adapters.langchain.hooks import CallbackHandler, SteadyhelmCallbacks, get_handler, opened
from steadyhelm.adapters.langchain.steering import (
    CALLBACKS_ONLY,
    GraphReturn,
    GraphStopped,
    current_config,
    make_boundary,
    make_message,
)
from steadyhelm.adapters.langchain.translate import is_resumption
from steadyhelm.boundary.driver import Ask
from steadyhelm.boundary.entry_points import ClosingAsync, WatchedObject, pull, pull_async
from steadyhelm.decisions import Verdict
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a
from steadyhelm.logs import logger

try:
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.config import merge_configs
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.constants import START
except ImportError as exc:
    raise MissingExtraError("LangChain adapter", extra="langchain") from exc

GraphRequests = Generator[tuple[str, tuple[Any, ...]], Any, None]
"""Requests to a graph between two attempts: the name of a method and its arguments; receives the results."""

_UNNAMED_GRAPH: Final = "LangGraph"
_BREAKPOINT_OPTIONS: Final = ("interrupt_before", "interrupt_after")


class LangChainAdapter(WatchedObject):
    """A proxy for a graph, an agent or another runnable: each call of it is a run that is watched.

    A graph with a checkpointer can be taken back, where a call names its thread.

    Args:
        monitor: The monitor that watches.
        agent: What is called.
        ask: A function that puts a question to the user and returns the answer.
        warns: Whether it is logged when guidance is wanted and could not be delivered.
    """

    # These call `invoke` and its kin, so what they return is watched too.
    batch = Runnable.batch
    abatch = Runnable.abatch
    batch_as_completed = Runnable.batch_as_completed
    abatch_as_completed = Runnable.abatch_as_completed
    bind = Runnable.bind
    with_retry = Runnable.with_retry
    with_fallbacks = Runnable.with_fallbacks
    pipe = Runnable.pipe
    __or__ = Runnable.__or__
    __ror__ = Runnable.__ror__
    EVENT_STREAMS: ClassVar[tuple[str, ...]] = ("stream_events", "astream_events", "astream_log")

    def __init__(self, monitor: Monitor, agent: Any, *, ask: Ask | None = None, warns: bool = True) -> None:
        super().__init__(agent)
        self._monitor = self._watched_by = monitor
        self._ask = ask
        self._handler = get_handler(monitor)
        self._has_checkpoints = is_a(getattr(agent, "checkpointer", None), BaseCheckpointSaver)
        back: list[Verdict] = ["rollback"] if self._has_checkpoints else []
        self._boundary = make_boundary(monitor, {**CALLBACKS_ONLY, "before_model": ["stop", *back]}, ask)
        self._inner_boundary = make_boundary(monitor, CALLBACKS_ONLY, ask)
        self._has_warned = False
        if warns and monitor.mode != "observe" and hasattr(agent, "nodes") and not _is_guided(agent):
            logger.warning(
                "Steadyhelm can watch and stop %s, but not guide it: add SteadyhelmMiddleware(monitor) to "
                "create_agent(middleware=[...]), or call steadyhelm.install() before the agent is made.",
                getattr(agent, "name", "") or type(agent).__name__,
            )

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Return whether it is a graph, an agent or another runnable."""
        return is_a(agent, Runnable)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LangChainAdapter":
        """Return a copy of the agent, watched by the same monitor."""
        return LangChainAdapter(self._monitor, copy.deepcopy(self._agent, memo), ask=self._ask, warns=False)

    def with_config(self, config: Any = None, **kwargs: Any) -> "LangChainAdapter":
        """Return the agent with other settings, watched too."""
        self.note_use()
        agent = self._agent.with_config(config, **kwargs)
        return LangChainAdapter(self._monitor, agent, ask=self._ask, warns=False)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Call the agent."""
        call = self._open_call(input, config, kwargs)
        while True:
            result = None
            with call.attempt(), call.activate():
                result = self._agent.invoke(call.given, call.config, **kwargs)
            send_requests(call.prepare_next(self._agent), self._agent)
            if call.is_over:
                self._finish(call)
                return result

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Call the agent and await the result."""
        call = self._open_call(input, config, kwargs)
        while True:
            result = None
            with call.attempt(), call.activate():
                result = await self._agent.ainvoke(call.given, call.config, **kwargs)
            await send_requests_async(call.prepare_next(self._agent), self._agent)
            if call.is_over:
                self._finish(call)
                return result

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Call the agent and yield its output part by part."""
        call = self._open_call(input, config, kwargs)
        while True:
            with call.attempt():
                yield from pull(call.activate, self._agent.stream(call.given, call.config, **kwargs))
            send_requests(call.prepare_next(self._agent), self._agent)
            if call.is_over:
                self._finish(call)
                return

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Call the agent and yield its output part by part, awaited."""
        call = self._open_call(input, config, kwargs)
        while True:
            with call.attempt():
                parts = self._agent.astream(call.given, call.config, **kwargs)
                async with ClosingAsync(pull_async(call.activate, parts)) as pulled:
                    async for part in pulled:
                        yield part
            await send_requests_async(call.prepare_next(self._agent), self._agent)
            if call.is_over:
                self._finish(call)
                return

    def __getattr__(self, attribute: str) -> Any:
        value = super().__getattr__(attribute)
        return self._add_callbacks(value) if attribute in self.EVENT_STREAMS else value

    def _add_callbacks(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method with our callbacks: streams of events report their own end."""

        def call_watched(input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
            config = merge_configs(config, {"callbacks": [SteadyhelmCallbacks(self._monitor)]})
            return method(input, config, **kwargs)

        return call_watched

    def _open_call(self, given: Any, config: Any, kwargs: Mapping[str, Any]) -> "GraphCall":
        self.note_use()
        thread_id = _read_thread_id(config) or _read_thread_id(getattr(self._agent, "config", None))
        # Inside another graph it is that one's checkpoints that count.
        can_roll_back = self._has_checkpoints and thread_id is not None and not current_config()
        context = self._handler.contexts.resume(thread_id, given)
        if context is None:
            name = str(getattr(self._agent, "name", "") or "")
            name = "" if name == _UNNAMED_GRAPH else name
            boundary = self._boundary if can_roll_back else self._inner_boundary
            above = self._handler.find_current()
            parent = above.context if above is not None else None
            context = AgentContext(boundary, given=given, name=name, parent=parent)
        context.inner_boundary, context.thread_id, context.is_wrapped = self._inner_boundary, thread_id, True
        context.can_roll_back = can_roll_back
        breakpoints = [
            kwargs.get(name) or getattr(self._agent, f"{name}_nodes", ()) for name in _BREAKPOINT_OPTIONS
        ]
        return GraphCall(self._handler, context, given, config, has_breakpoints=any(breakpoints))

    def _finish(self, call: "GraphCall") -> None:
        self._has_warned = self._has_warned or warn_undeliverable_guidance(self._agent, call.context)
        call.finish()


Runnable.register(LangChainAdapter)


class GraphCall:
    """One outermost call of a graph, made in one attempt or, when it is taken back, in several.

    Args:
        handler: The callback handler that records what happens in it.
        context: The agent that is called.
        given: The input of the next attempt.
        config: The settings of the next attempt.
        has_breakpoints: Whether the graph may pause at nodes that were named beforehand.
    """

    def __init__(
        self,
        handler: CallbackHandler,
        context: AgentContext,
        given: Any,
        config: Any,
        *,
        has_breakpoints: bool = False,
    ) -> None:
        self.context = context
        self.given = given
        self.config = config
        self.is_over = False
        self._handler = handler
        self._has_breakpoints = has_breakpoints
        self._error: BaseException | None = None
        # A thread that resumes after a pause we know nothing of has its goal in its first model call.
        if not (is_resumption(given) and context.can_roll_back):
            context.ensure_run()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Open a block of code that belongs to the agent."""
        run, before = self.context.run, opened.get()
        opened.set((*before, (self._handler, self.context)))
        self.context.is_entered = run is not None
        try:
            with run.activate() if run is not None else nullcontext():
                yield
        finally:
            self.context.is_entered = False
            opened.set(before)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Open a block for one attempt: what it raises is kept for `finish`."""
        self.context.is_attached = False
        self._error = None
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - `finish` raises it
            self._error = exc

    def prepare_next(self, agent: Any) -> GraphRequests:
        """Prepare another attempt where the graph is to be taken back; otherwise the call is over."""
        if self.context.rollback is not None and isinstance(self._error, GraphReturn | None):
            yield from self._roll_back(agent)
            return
        self.is_over = True
        if self._error is None and self._has_breakpoints and self.context.can_roll_back:
            try:
                state = yield "get_state", (self._config_at({}),)
            except Exception:  # noqa: BLE001 - a checkpointer's own failure is not the agent's
                return
            self.context.is_paused = bool(state.next)

    def finish(self) -> None:
        """End or pause the run; raise what the caller receives: the host's own exception or our stop."""
        context, error = self.context, self._error
        self._handler.contexts.remove_all(context)
        run = context.ensure_run()
        assert run is not None
        if context.rollback is not None:
            context.rollback = None
            run.report_not_carried_out("the agent failed before it could be taken back")
        if context.is_paused and error is None and context.can_roll_back and run.stopped is None:
            self._handler.contexts.pause(context)
            return
        if context.is_ended and error is None:
            run.end()
            return
        raised = run.finish(error)
        if raised is not None and raised is not error:
            # What we left the graph by says nothing more than the stop itself.
            raise raised from (None if isinstance(error, GraphStopped) else error)
        if error is not None:
            raise error

    def _roll_back(self, agent: Any) -> GraphRequests:
        """Take the graph back to the checkpoint, with our guidance as the last message.

        Where that fails the next attempt goes on from where the graph is.
        """
        instruction, self.context.rollback = self.context.rollback, None
        assert instruction is not None
        self.given = None
        try:
            yield from self._return_to_checkpoint(agent, instruction)
        except Exception as exc:  # noqa: BLE001 - a checkpointer's own failure is not the agent's
            if self.context.run is not None:
                self.context.run.report_failed_rollback(
                    f"the graph could not be taken back: {type(exc).__name__}"
                )
            self.config = self._config_at({})

    def _return_to_checkpoint(self, agent: Any, instruction: Instruction) -> GraphRequests:
        label = instruction.checkpoint.label if instruction.checkpoint is not None else ""
        config = self._config_at({"checkpoint_ns": "", "checkpoint_id": label})
        state = yield "get_state", (config,)
        messages = state.values.get("messages") if is_a(state.values, dict) else None
        if not state.values:
            raise LookupError(label)
        if messages is not None and "messages" in getattr(agent, "channels", ()):
            update = {"messages": [make_message(instruction.text)]}
            before = (yield "get_state", (state.parent_config,)) if state.parent_config else None
            config = yield "update_state", (config, update, _find_last_node(agent, before))
        self.config = self._config_at(config["configurable"])

    def _config_at(self, place: dict[str, Any]) -> dict[str, Any]:
        """Return the settings at another place in the thread; a run id is good for one attempt only."""
        config = {key: value for key, value in (self.config or {}).items() if key != "run_id"}
        given = config.get("configurable") or {}
        thread = {key: value for key, value in given.items() if not key.startswith("checkpoint_")}
        return {**config, "configurable": {**thread, "thread_id": self.context.thread_id, **place}}


def send_requests(requests: GraphRequests, agent: Any) -> None:
    """Send each request to the graph, and its result or exception back."""
    request = next(requests, None)
    while request is not None:
        try:
            result = getattr(agent, request[0])(*request[1])
        except Exception as exc:  # noqa: BLE001 - the generator handles it
            request = _resume(requests.throw, exc)
        else:
            request = _resume(requests.send, result)


async def send_requests_async(requests: GraphRequests, agent: Any) -> None:
    """Do as `send_requests` by the graph's awaited methods."""
    request = next(requests, None)
    while request is not None:
        try:
            result = await getattr(agent, f"a{request[0]}")(*request[1])
        except Exception as exc:  # noqa: BLE001 - the generator handles it
            request = _resume(requests.throw, exc)
        else:
            request = _resume(requests.send, result)


def _is_guided(graph: Any) -> bool:
    if "steadyhelm.adapters.langchain.middleware" not in sys.modules:
        return False  # nobody has made one, and LangGraph alone has no middleware
    from steadyhelm.adapters.langchain.middleware import is_guided  # noqa: PLC0415

    try:
        return is_guided(graph.nodes)
    except Exception:  # noqa: BLE001 - a guess about private parts must not reach the agent
        return True


def is_graph_call_attempt() -> bool:
    """Return whether the call of a graph that is made now is the attempt of a `GraphCall`."""
    before = opened.get()
    return bool(before) and not before[-1][1].is_attached


def warn_undeliverable_guidance(agent: Any, context: AgentContext) -> bool:
    """Log a warning if there was guidance and no middleware to deliver it; return whether it was logged."""
    if context.guided_graphs or context.run is None or not context.run.undelivered:
        return False
    logger.warning(
        "Steadyhelm had guidance for the model of %s and no way to deliver it: "
        "add SteadyhelmMiddleware(monitor) to create_agent(middleware=[...]). "
        "Without it Steadyhelm can stop a graph, but not guide it.",
        getattr(agent, "name", "") or type(agent).__name__,
    )
    return True


def _resume(step: Callable[[Any], Any], value: Any) -> Any:
    try:
        return step(value)
    except StopIteration:
        return None


def _find_last_node(agent: Any, before: Any) -> str | None:
    """Return the node that a checkpoint comes from, by the state before it; None where it is not one node.

    Where nothing is named, older versions take the node before for it, and the graph would go on elsewhere.
    """
    ran = set(before.next) if before is not None else set()
    return ran.pop() if len(ran) == 1 and ran <= set(getattr(agent, "nodes", ())) - {START} else None


def _read_thread_id(config: Any) -> Any:
    configurable = config.get("configurable") if is_a(config, Mapping) else None
    return configurable.get("thread_id") if is_a(configurable, Mapping) else None
