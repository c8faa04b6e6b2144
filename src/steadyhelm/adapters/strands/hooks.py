"""Watch Strands agents: every model call and tool call through their hooks, words through their model stage.

What is said to the model stands in the request only. Returning to a checkpoint cuts `agent.messages` itself,
since Strands keeps the conversation there and nowhere else.
"""

import sys
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.adapter import Capabilities, Instruction, ModelReply
from steadyhelm.adapters.strands.graphs import PARENTS, GraphHooks
from steadyhelm.adapters.strands.messages import Words, never_made, plain_answer, reply_of, text_of, value_of
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError, SettingsError

try:
    from strands import Agent
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
    from strands.middleware import ExecuteToolStage, InvokeModelStage
    from strands.multiagent.graph import Graph
    from strands.multiagent.swarm import Swarm
except ImportError as exc:
    raise MissingExtraError("Strands adapter", extra="strands") from exc

CAN: Final[Capabilities] = {
    "before_model": frozenset({"guide", "rollback", "stop"}),
    "before_tool": frozenset({"deny", "stop"}),
}
CAN_INTERRUPT: Final[Capabilities] = {**CAN, "before_tool": frozenset({"deny", "ask", "stop"})}
LAST: Final = 1000
"""After all others: what they changed is what happens, and nobody misses a turn where we raise."""

_CALL: Final = "call"

# Who watches through which hooks, so that wrapping twice is watching once.
_watching: Final[weakref.WeakKeyDictionary[Any, weakref.WeakSet[Monitor]]] = weakref.WeakKeyDictionary()


class _Invocation(Struct):
    """One run, and the calls of it that were announced, are open, or wait for the user.

    `state` is what Strands hands through the invocation: kept, so that nobody else's can have its id.
    """

    run: AgentRun
    state: Any
    told: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    asked: dict[str, Instruction] = field(default_factory=dict)


class SteadyhelmHooks:
    """Hooks for `Agent(hooks=[...])`, and for graphs and swarms; several agents may share one.

    Args:
        monitor: Who watches.
        ask: Puts a question to the user and gives the answer. "interrupt" asks by an interrupt of Strands:
            the agent returns with the question, and goes on when it is called with the answer.

    ```python
    agent = Agent(model, tools=tools, hooks=[SteadyhelmHooks(monitor)])
    ```
    """

    def __init__(self, monitor: Monitor, *, ask: Ask | Literal["interrupt"] | None = None) -> None:
        native = isinstance(ask, str) and ask == "interrupt"
        asks = None if native else ask
        self._monitor = monitor
        self._boundary = Boundary(monitor, "strands", CAN_INTERRUPT if native else CAN, ask=asks)  # type: ignore[arg-type]
        self._graphs = GraphHooks(monitor, self.register_hooks)
        self._live: dict[tuple[int, int], _Invocation] = {}
        self._paused: weakref.WeakKeyDictionary[Any, _Invocation] = weakref.WeakKeyDictionary()
        self._words = Words()
        self._staged: weakref.WeakSet[Any] = weakref.WeakSet()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Watch whoever these hooks belong to."""
        if self._monitor.disabled or is_watching(self._monitor, registry):
            return
        _watching[registry].add(self._monitor)
        callbacks: dict[Any, Callable[[Any], None]] = {
            BeforeInvocationEvent: self._begins,
            BeforeModelCallEvent: self._before_model,
            AfterModelCallEvent: self._after_model,
            BeforeToolCallEvent: self._before_tool,
            AfterToolCallEvent: self._after_tool,
            AfterToolsEvent: self._after_tools,
            AfterInvocationEvent: self._ends,
            **self._graphs.callbacks,
        }
        for event, callback in callbacks.items():
            registry.add_callback(event, callback, order=LAST)

    # --- the invocation --------------------------------------------------------------------------

    def _begins(self, event: BeforeInvocationEvent) -> None:
        if event.messages is None:
            return  # the deprecated `structured_output`, whose model call no hook sees
        with self._boundary.guard("invocation"):
            agent = event.agent
            if agent not in self._staged:
                self._staged.add(agent)
                agent.add_middleware(InvokeModelStage, self._model_stage)
                agent.add_middleware(ExecuteToolStage, self._inside)
            paused = self._paused.pop(agent, None)
            if paused is not None and not event.messages:
                paused.state = event.invocation_state
                self._live[_key(event)] = paused  # it is called with the user's answer
                return
            if paused is not None:
                paused.run.end(outcome="left at a question")
            said = [text_of(it) for it in event.messages if it["role"] == "user"]
            goal = next((text for text in reversed(said) if text), "")
            run = self._boundary.start_run(goal, agent=agent.name, parent=PARENTS.get(agent))
            self._live[_key(event)] = _Invocation(run, event.invocation_state)

    def _ends(self, event: AfterInvocationEvent) -> None:
        live = self._live.pop(_key(event), None)
        if live is None:
            return
        result = event.result
        if result is not None and result.stop_reason == "interrupt" and live.run.stopped is None:
            self._paused[event.agent] = live
            return
        # Hooks are not told how an invocation failed; they run while its exception is on its way.
        error = sys.exc_info()[1] if result is None else None
        left = live.run.finish(error)
        if left is not None and left is not error:
            self._graphs.node_stopped(event.agent, left)
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
                    key=_CALL, state=messages[-1].get("tracking_id") if messages else None
                )
                if instruction.verdict in {"guide", "rollback"}:
                    self._words.say(event.agent, instruction, live.run)
        if live.run.stopped is not None:
            event.cancel = str(live.run.stopped)

    def _after_model(self, event: AfterModelCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None or live.run.stopped is not None:
            return
        reply = ModelReply()
        with self._boundary.guard("model's reply"):
            reply = reply_of(event)
        live.run.after_model(reply, key=_CALL, error=event.exception)

    def _model_stage(self, context: Any, next_fn: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """The request, with what was said so far; it belongs to the run while it is under way."""
        with self._boundary.guard("words for the model"):
            context = self._words.said_in(context)
        return self._inside(context, next_fn)

    # --- tools -----------------------------------------------------------------------------------

    def _before_tool(self, event: BeforeToolCallEvent) -> None:
        live = self._live.get(_key(event))
        if live is None:
            return
        use = event.tool_use
        call_id = str(use["toolUseId"])
        live.told.add(call_id)
        if event.cancel_tool:
            live.run.record_failed_call(call_id, use["name"], use["input"], error=str(event.cancel_tool))
            return
        if call_id in live.open:
            return  # it was interrupted, and goes on
        instruction = live.asked.get(call_id) or self._steer(live.run, call_id, use)
        if instruction.verdict == "ask":
            live.asked[call_id] = instruction
            answer = event.interrupt("steadyhelm", reason=instruction.text)
            instruction = live.run.apply_answer(plain_answer(answer), live.asked.pop(call_id), call_id)
        if instruction.verdict == "proceed":
            live.open.add(call_id)
        else:
            event.cancel_tool = instruction.text or str(live.run.stopped)

    def _steer(self, run: AgentRun, call_id: str, use: Any) -> Instruction:
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
            value = value_of(event.result)
            if failed is None and event.result["status"] == "error":
                failed = value or "failed"
        live.run.after_tool(call_id, None if failed else value, error=failed)

    def _after_tools(self, event: AfterToolsEvent) -> None:
        """Calls that were never made, such as by a name no tool can have, are told by their results only."""
        live = self._live.get(_key(event))
        if live is None:
            return
        with self._boundary.guard("calls never made"):
            for use, error in never_made(event, live.told):
                live.told.add(use["toolUseId"])
                live.run.record_failed_call(use["toolUseId"], use["name"], use["input"], error=error)
        if not live.open and not live.asked:
            live.told.clear()  # of a batch that waits for the user, the results so far come once more

    async def _inside(self, context: Any, next_fn: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """What is under way belongs to the run: an agent that begins inside is its child."""
        live = self._live.get(_key(context))
        events = next_fn(context)
        try:
            while True:
                try:
                    if live is None:
                        event = await anext(events)
                    else:
                        # Step by step: what the caller does between two of them is not the agent's.
                        with live.run.activate():
                            event = await anext(events)
                except StopAsyncIteration:
                    return
                yield event
        finally:
            await events.aclose()


class StrandsAdapter:
    """What `monitor.wrap` gives for an agent, a graph or a swarm: the same object, with hooks of ours."""

    @staticmethod
    def can_wrap(agent: Any) -> bool:
        """Whether it is an agent, a graph or a swarm of Strands."""
        return issubclass(type(agent), Agent | Graph | Swarm)

    def __new__(cls, monitor: Monitor, agent: Any, **options: Any) -> Any:  # noqa: D102
        hooks = SteadyhelmHooks(monitor, **options)
        if options and is_watching(monitor, agent.hooks):
            raise SettingsError(
                f"wrap() got {', '.join(options)} for an agent that this monitor watches already. "
                "Give it where the agent is watched first, to SteadyhelmHooks or to wrap()."
            )
        hooks.register_hooks(agent.hooks)
        return agent


def is_watching(monitor: Monitor, registry: HookRegistry) -> bool:
    """Whether a monitor watches whoever these hooks belong to."""
    return monitor in _watching.setdefault(registry, weakref.WeakSet())


def _key(event: Any) -> tuple[int, int]:
    # The nodes of a graph share one state, and an agent may be told to work on several things at once.
    return id(event.agent), id(event.invocation_state)
