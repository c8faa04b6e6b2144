"""Watch Strands agents: model calls and tool calls through their hooks, guidance through their model stage.

Guidance is added to the request only. A rollback cuts `agent.messages` itself, since Strands keeps the
conversation there and nowhere else.
"""

import sys
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.adapter import Capabilities, Instruction, ModelReply
from steadyhelm.adapters.strands.graph_hooks import PARENTS, GraphHooks
from steadyhelm.adapters.strands.translate import (
    GuidanceTexts,
    find_unmade_calls,
    read_answer,
    read_reply,
    read_result,
    read_text,
)
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.events import NotRun
from steadyhelm.host_objects import is_a

try:
    from strands.hooks import (
        AfterInvocationEvent,
        AfterModelCallEvent,
        AfterToolCallEvent,
        AfterToolsEvent,
        BeforeInvocationEvent,
        BeforeModelCallEvent,
        BeforeToolCallEvent,
        HookRegistry,
    )

    try:
        from strands.middleware import ExecuteToolStage, InvokeModelStage
    except ImportError:  # before 1.56 middleware was not public
        from strands._middleware import ExecuteToolStage, InvokeModelStage
except ImportError as exc:
    raise MissingExtraError("Strands adapter", extra="strands") from exc

CAN: Final[Capabilities] = {
    "before_model": frozenset({"guide", "rollback", "stop"}),
    "before_tool": frozenset({"deny", "stop"}),
}
CAN_INTERRUPT: Final[Capabilities] = {**CAN, "before_tool": frozenset({"deny", "ask", "stop"})}
LAST_ORDER: Final = 1000
"""Our hooks run after all others: we see what they changed, and none is skipped where we raise."""

_MODEL_CALL: Final = "call"

# The monitors that watch through each registry, so that wrapping twice records once.
_watching: Final[weakref.WeakKeyDictionary[Any, weakref.WeakSet[Monitor]]] = weakref.WeakKeyDictionary()


class _Invocation(Struct):
    """One run, and its calls that were announced, are open, or wait for the user.

    `interrupted` are the open calls that were left by an interrupt: their tools are called again, or never.
    `state` is the invocation state of Strands: kept alive, so that its id stays unique.
    """

    run: AgentRun
    state: Any
    announced: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)
    asked: dict[str, Instruction] = field(default_factory=dict)

    def give_up(self) -> None:
        """Let the records of calls that are still interrupted say that they were not made after all."""
        for call_id in self.interrupted:
            self.run.mark_not_run(call_id, "refused")


class SteadyhelmHooks:
    """Hooks for `Agent(hooks=[...])`, and for graphs and swarms; several agents may share one.

    Args:
        monitor: The monitor that records the runs.
        ask: A function that puts a question to the user and returns the answer. "interrupt" uses an
            interrupt of Strands: the agent returns with the question, and continues when it is called with
            the answer.

    ```python
    agent = Agent(model, tools=tools, hooks=[SteadyhelmHooks(monitor)])
    ```
    """

    def __init__(self, monitor: Monitor, *, ask: Ask | Literal["interrupt"] | None = None) -> None:
        native = is_a(ask, str) and ask == "interrupt"
        asks = None if native else ask
        self._monitor = monitor
        self._boundary = Boundary(monitor, "strands", CAN_INTERRUPT if native else CAN, ask=asks)  # type: ignore[arg-type]
        self._graphs = GraphHooks(monitor, self.register_hooks)
        self._live: dict[tuple[int, int], _Invocation] = {}
        self._paused: weakref.WeakKeyDictionary[Any, _Invocation] = weakref.WeakKeyDictionary()
        self._guidance = GuidanceTexts()
        self._callbacks: dict[Any, Callable[[Any], None]] = {
            BeforeInvocationEvent: self._start,
            BeforeModelCallEvent: self._before_model,
            AfterModelCallEvent: self._after_model,
            BeforeToolCallEvent: self._before_tool,
            AfterToolCallEvent: self._after_tool,
            AfterToolsEvent: self._after_tools,
            AfterInvocationEvent: self._end,
            **self._graphs.callbacks,
        }
        self._staged: weakref.WeakSet[Any] = weakref.WeakSet()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Register with an agent, a graph or a swarm. Does nothing where this monitor watches already."""
        if self._monitor.disabled or is_watching(self._monitor, registry):
            return
        _watching[registry].add(self._monitor)
        for event, callback in self._callbacks.items():
            registry.add_callback(event, callback, order=LAST_ORDER)

    def unregister_hooks(self, registry: HookRegistry) -> None:
        """Remove what `register_hooks` added; the middleware it led to stays, and does nothing."""
        _watching.setdefault(registry, weakref.WeakSet()).discard(self._monitor)
        ours = list(self._callbacks.values())
        with self._boundary.guard("removal of hooks"):
            for entries in registry._registered_callbacks.values():  # noqa: SLF001 - Strands has no other way
                entries[:] = [it for it in entries if it.callback not in ours]

    # --- the invocation --------------------------------------------------------------------------

    def _start(self, event: BeforeInvocationEvent) -> None:
        if event.messages is None:
            return  # the deprecated `structured_output`, whose model call no hook sees
        with self._boundary.guard("invocation"):
            agent = event.agent
            if agent not in self._staged:
                self._staged.add(agent)
                _add_middleware(agent, InvokeModelStage, self._model_stage)
                _add_middleware(agent, ExecuteToolStage, self._run_inside)
            paused = self._paused.pop(agent, None)
            if paused is not None and not event.messages:
                paused.state = event.invocation_state
                self._live[_key(event)] = paused  # called with the user's answer
                return
            if paused is not None:
                paused.give_up()
                paused.run.end(outcome="left at a question")
            texts = [read_text(it) for it in event.messages if it["role"] == "user"]
            goal = next((text for text in reversed(texts) if text), "")
            run = self._boundary.start_run(goal, agent=agent.name, parent=PARENTS.get(agent))
            self._live[_key(event)] = _Invocation(run, event.invocation_state)

    def _end(self, event: AfterInvocationEvent) -> None:
        live = self._live.pop(_key(event), None)
        if live is None:
            return
        result = event.result
        if result is not None and result.stop_reason == "interrupt" and live.run.stopped is None:
            live.interrupted = set(live.open)
            self._paused[event.agent] = live
            return
        live.give_up()
        # Hooks do not receive the exception of a failed invocation, but they run while it propagates.
        error = sys.exc_info()[1] if result is None else None
        if live.run.is_asking:
            live.run.after_model(key=_MODEL_CALL, error=error)  # it was cancelled, which no hook reports
        left = live.run.finish(error)
        if left is not None and left is not error:
            self._graphs.record_stop(event.agent, left)
            raise left from error

    # --- the model -------------------------------------------------------------------------------

    def _before_model(self, event: BeforeModelCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None or event.cancel:
            return
        with self._boundary.guard("before model"):
            if live.run.stopped is None:
                messages = event.agent.messages
                instruction = live.run.before_model(
                    key=_MODEL_CALL, state=messages[-1].get("tracking_id") if messages else None
                )
                if instruction.verdict in {"guide", "rollback"}:
                    self._guidance.add(event.agent, instruction, live.run)
        if live.run.stopped is not None:
            event.cancel = str(live.run.stopped)

    def _after_model(self, event: AfterModelCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None or live.run.stopped is not None:
            return
        reply = ModelReply()
        with self._boundary.guard("model's reply"):
            reply = read_reply(event)
        live.run.after_model(reply, key=_MODEL_CALL, error=event.exception)

    def _model_stage(self, context: Any, next_fn: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """Add guidance to the request, and run it inside the agent run."""
        with self._boundary.guard("guidance"):
            context = self._guidance.apply(context)
        return self._run_inside(context, next_fn)

    # --- tools -----------------------------------------------------------------------------------

    def _before_tool(self, event: BeforeToolCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None:
            return
        use = event.tool_use
        call_id = str(use["toolUseId"])
        live.announced.add(call_id)
        if event.cancel_tool:
            why = str(event.cancel_tool)
            live.run.record_call(call_id, use["name"], use["input"], error=why, not_run="refused")
            return
        if call_id in live.open:
            live.interrupted.discard(call_id)  # it continues
            return
        instruction = live.asked.get(call_id) or self._check_call(live.run, call_id, use)
        if instruction.verdict == "ask":
            live.asked[call_id] = instruction
            answer = event.interrupt("steadyhelm", reason=instruction.text)
            instruction = live.run.apply_answer(read_answer(answer), live.asked.pop(call_id), call_id)
        if instruction.verdict == "proceed":
            live.open.add(call_id)
        else:
            event.cancel_tool = instruction.text or str(live.run.stopped)

    def _check_call(self, run: AgentRun, call_id: str, use: Any) -> Instruction:
        if run.stopped is not None:
            return Instruction(verdict="stop", text=str(run.stopped))
        return run.before_tool(call_id, use["name"], use["input"])

    def _after_tool(self, event: AfterToolCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None:
            return
        call_id = str(event.tool_use["toolUseId"])
        live.open.discard(call_id)
        value: object = None
        failed: object = event.exception
        with self._boundary.guard("tool's result"):
            value = read_result(event.result)
            if failed is None and event.result["status"] == "error":
                failed = value or "failed"
        if event.selected_tool is None:
            live.run.mark_not_run(call_id, "no such tool" if failed else "answered")
        live.run.after_tool(call_id, None if failed else value, error=failed)

    def _after_tools(self, event: AfterToolsEvent) -> None:
        """Record calls that were never made, such as of an unknown tool: only their results show them."""
        live = self._live.get(_key(event))
        if live is None:
            return
        with self._boundary.guard("unmade calls"):
            known = event.agent.tool_registry.registry
            for use, error in find_unmade_calls(event, live.announced):
                why: NotRun = "refused" if use["name"] in known else "no such tool"
                live.announced.add(use["toolUseId"])
                live.run.record_call(use["toolUseId"], use["name"], use["input"], error=error, not_run=why)
        if not live.open and not live.asked:
            live.announced.clear()  # a batch that waits for the user brings the results so far once more

    async def _run_inside(self, context: Any, next_fn: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """Execute a stage inside the agent run: an agent that starts in it is a child."""
        live = self._live.get(_key(context))
        inside = nullcontext() if live is None else live.run.activate()
        events = next_fn(context)
        try:
            while True:
                try:
                    # Step by step: what the caller does between two steps is outside the run.
                    with inside:
                        event = await anext(events)
                except StopAsyncIteration:
                    return
                yield event
        finally:
            await events.aclose()


def _add_middleware(agent: Any, stage: Any, handler: Callable[..., Any]) -> None:
    registry = agent if hasattr(agent, "add_middleware") else agent._middleware_registry  # noqa: SLF001
    registry.add_middleware(stage, handler)


def is_watching(monitor: Monitor, registry: HookRegistry) -> bool:
    """Return whether a monitor watches the owner of these hooks already."""
    return monitor in _watching.setdefault(registry, weakref.WeakSet())


def has_watcher(registry: HookRegistry) -> bool:
    """Return whether any monitor watches the owner of these hooks."""
    return bool(_watching.get(registry))


def _key(event: Any) -> tuple[int, int]:
    # The nodes of a graph share one state, and an agent may have several invocations at once.
    return id(event.agent), id(event.invocation_state)
