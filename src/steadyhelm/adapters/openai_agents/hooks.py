"""Watch one run of the OpenAI Agents SDK through run hooks, an input filter and an error formatter."""

import dataclasses
import inspect
from copy import deepcopy
from typing import Any, Final

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.openai_agents.calls import SDKCalls
from steadyhelm.adapters.openai_agents.translate import (
    count_failed_attempts,
    find_calls,
    find_results,
    has_matching_results,
    read_text,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError, RunStopped
from steadyhelm.host_objects import is_a

try:
    from agents import AgentsException, Handoff, RunConfig, RunHooks
    from agents.models import get_default_model
    from agents.tool_context import ToolContext
except ImportError as exc:
    raise MissingExtraError("OpenAI Agents SDK adapter", extra="openai-agents") from exc

_FAILED_ATTEMPT: Final = "failed attempt"
_REPEATED: Final = "The request failed, and the SDK repeated it."
_SERVER_STATE_OPTIONS: Final = ("conversation_id", "previous_response_id", "auto_previous_response_id")


class NestedRunStopped(RunStopped, AgentsException):
    """Stop a run inside a run.

    The SDK wraps what a tool raises unless it is an error of its own; this one is, so it reaches the caller.
    """

    @classmethod
    def from_stop(cls, stopped: RunStopped) -> "NestedRunStopped":
        """Return the same stop, to be raised through the outer run."""
        same = cls(str(stopped), run_id=stopped.run_id, decision=stopped.decision)
        same.__cause__ = stopped
        return same


class SteadyhelmRunHooks(RunHooks):
    """Record one run, and carry out what is decided about it.

    The host's own hooks, input filter and error formatter are called from ours.

    Args:
        run: The run.
        outer: The hooks of the run inside which it began.
    """

    def __init__(self, run: AgentRun, outer: "SteadyhelmRunHooks | None" = None) -> None:
        self.run = run
        self.calls = SDKCalls(run)
        self._guard = run.boundary.guard
        self._outer = outer
        self._edits: ConversationEdits | None = None
        self._is_model_called = False

    @property
    def is_nested(self) -> bool:
        """Whether the run began inside another run."""
        return self._outer is not None

    def add_to_options(self, options: dict[str, Any], given: Any) -> dict[str, Any]:
        """Return the host's options for a run with this input, with our hooks around the host's."""
        config = options.get("run_config")
        settings = config if is_a(config, dict) else vars(config) if config is not None else {}
        self._host_hooks = options.get("hooks") or RunHooks()
        self._host_filter = _unwrap(settings.get("call_model_input_filter"), "_host_filter")
        self._host_formatter = _unwrap(settings.get("tool_error_formatter"), "_host_formatter")
        self._model = settings.get("model")
        self._is_server_side = any(
            options.get(it) or getattr(given, f"_{it}", None) for it in _SERVER_STATE_OPTIONS
        )
        self._context = options.get("context")
        ours = {"call_model_input_filter": self.filter_input, "tool_error_formatter": self.format_error}
        if is_a(config, RunConfig):
            return {**options, "hooks": self, "run_config": dataclasses.replace(config, **ours)}
        # A dict: a runner closes the model provider only where it made the settings itself.
        return {**options, "hooks": self, "run_config": {**(config or {}), **ours}}

    def settle(self, result: Any, error: BaseException | None) -> list[str]:
        """Settle the calls of a finished run. Returns the ids of those that wait for approval."""
        ended = result if error is None else getattr(error, "run_data", None)
        self.calls.settle(find_results(item.raw_item for item in getattr(ended, "new_items", ())))
        if error is None:
            waiting = [str(item.call_id) for item in getattr(result, "interruptions", ())]
            if waiting:
                return waiting
        else:
            self._record_failure(error)
        self.calls.end_run()
        return []

    def _record_failure(self, error: BaseException) -> None:
        """Record the step that made the run fail."""
        if self._outer is not None and is_a(self._context, ToolContext):
            self._outer.calls.errors[self._context.tool_call_id] = self.run.stopped or error
        if self._is_model_called:
            self.run.after_model(error=error)
        else:
            self.calls.record_run_failure(error)

    def _raise_if_stopped(self) -> None:
        if self.run.stopped is not None:
            raise NestedRunStopped.from_stop(self.run.stopped) if self.is_nested else self.run.stopped

    # --- the model -------------------------------------------------------------------------------

    async def filter_input(self, data: Any) -> Any:
        """Return the input of a model call with guidance and rollbacks applied."""
        with self._guard("model's input"):
            items = data.model_data.input
            self.calls.end_turn(find_results(items) if self.calls else {})
            edited = self._edit(items)
            if edited is not items:
                model_data = dataclasses.replace(data.model_data, input=edited)
                data = dataclasses.replace(data, model_data=model_data)
        self._raise_if_stopped()
        if self._host_filter is None:
            return data.model_data
        return await _await_if_needed(self._host_filter(data))

    def _edit(self, items: list[Any]) -> list[Any]:
        instruction = self.run.before_model(
            state=None if self._is_server_side else ConversationEdits.state(items)
        )
        if self._is_server_side:
            # The server keeps the conversation: guidance is added once, and a rollback is not possible.
            return [*items, _make_message(instruction.text)] if instruction.verdict == "guide" else items
        if instruction.verdict == "rollback" and not self._can_roll_back(instruction, items):
            self.run.report_failed_rollback("the conversation is no longer the one it was")
            instruction = Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
        if instruction.verdict in {"guide", "rollback"}:
            self._edits = self._edits or ConversationEdits()
            self._edits.add(instruction, len(items))
        return items if self._edits is None else self._edits.apply(items, _make_message)

    def _can_roll_back(self, instruction: Instruction, items: list[Any]) -> bool:
        """Return whether every call keeps its result: a filter may have changed the conversation."""
        tried = deepcopy(self._edits) if self._edits is not None else ConversationEdits()
        tried.add(instruction, len(items))
        return has_matching_results(tried.apply(items, _make_message))

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Note the start of a model call."""
        self._is_model_called = True
        await self._host_hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Record a reply, and decide about its calls, none of which has been made yet."""
        self._is_model_called = False
        with self._guard("model's reply"):
            reply = self._read_reply(agent, response)
            for _ in range(count_failed_attempts(response.usage)):
                self.run.begin_model_call(key=_FAILED_ATTEMPT)
                self.run.after_model(ModelReply(model=reply.model), key=_FAILED_ATTEMPT, error=_REPEATED)
            self.run.after_model(reply)
        await self._host_hooks.on_llm_end(context, agent, response)
        with self._guard("requested calls"):
            self.calls.decide(find_calls(response.output, _list_handoff_tools(agent)), context, agent)
        self._raise_if_stopped()

    def _read_reply(self, agent: Any, response: Any) -> ModelReply:
        model = self._model or agent.model or get_default_model()
        return ModelReply(
            text=read_text(response.output),
            model=model if is_a(model, str) else str(getattr(model, "model", "")),
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
        )

    # --- tools -----------------------------------------------------------------------------------

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note the start of a tool call."""
        with self._guard("tool start"):
            if is_a(context, ToolContext):
                self.calls.start(context.tool_call_id)
        await self._host_hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Record the result of a tool call; that of a shell or a computer comes with the next request."""
        with self._guard("tool end"):
            if is_a(context, ToolContext):
                self.calls.end(context, tool, result)
        await self._host_hooks.on_tool_end(context, agent, tool, result)

    async def format_error(self, args: Any) -> str | None:
        """Record a call that failed, was rejected, or has no tool. Returns the host's text for the model."""
        with self._guard("tool error"):
            self.calls.fail(args)
        return None if self._host_formatter is None else await _await_if_needed(self._host_formatter(args))

    # --- agents ----------------------------------------------------------------------------------

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record a hand-off to another agent; the run stays the same."""
        with self._guard("handoff"):
            self.run.record_state("handoff", **{"from": from_agent.name, "to": to_agent.name})
        await self._host_hooks.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Call the host's hook."""
        await self._host_hooks.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Call the host's hook."""
        await self._host_hooks.on_agent_end(context, agent, output)


def _list_handoff_tools(agent: Any) -> list[str]:
    return [it.tool_name if is_a(it, Handoff) else Handoff.default_tool_name(it) for it in agent.handoffs]


def _unwrap(function: Any, name: str) -> Any:
    """Return the host's own function: an agent as a tool inherits settings that hold ours."""
    watch = getattr(function, "__self__", None)
    return getattr(watch, name) if is_a(watch, SteadyhelmRunHooks) else function


def _make_message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
