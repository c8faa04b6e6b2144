"""One run of an agent of the OpenAI Agents SDK, seen by hooks, an input filter and an error formatter."""

import dataclasses
import inspect
from copy import deepcopy
from typing import Any, Final

from agents import AgentsException, Handoff, RunConfig, RunHooks
from agents.models import get_default_model
from agents.tool_context import ToolContext

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.openai_agents.calls import Calls
from steadyhelm.adapters.openai_agents.items import asked_in, is_whole, results_in, words_in
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.errors import RunStopped

_SERVER_KEEPS: Final = ("conversation_id", "previous_response_id", "auto_previous_response_id")


class NestedRunStopped(RunStopped, AgentsException):
    """A run inside a run was stopped.

    The SDK wraps what a tool raises, unless it is an error of its own: this is one, and reaches the caller.
    """

    @classmethod
    def of(cls, stopped: RunStopped) -> "NestedRunStopped":
        """The same stop, on its way through the outer run."""
        same = cls(str(stopped), run_id=stopped.run_id, decision=stopped.decision)
        same.__cause__ = stopped
        return same


class RunWatch(RunHooks):
    """What the SDK tells about one run, handed on, and what there is to do about it, done.

    The host's own hooks, input filter and error formatter go on working: ours stand around them.

    Args:
        run: The run.
        outer: The run inside of which it began.
    """

    def __init__(self, run: AgentRun, outer: "RunWatch | None" = None) -> None:
        self.run = run
        self.calls = Calls(run)
        self._guarded = run.boundary.guard
        self._outer = outer
        self._edits: ConversationEdits | None = None
        self._is_asking = False

    @property
    def is_nested(self) -> bool:
        """Whether it began inside another run."""
        return self._outer is not None

    def joined(self, options: dict[str, Any], given: Any) -> dict[str, Any]:
        """The host's options for a run that is given this, with ours around what is its own."""
        config = options.get("run_config")
        settings = config if isinstance(config, dict) else vars(config) if config is not None else {}
        self._theirs = options.get("hooks") or RunHooks()
        self._their_filter = _their_own(settings.get("call_model_input_filter"), "_their_filter")
        self._their_formatter = _their_own(settings.get("tool_error_formatter"), "_their_formatter")
        self._model = settings.get("model")
        self._server_keeps = any(options.get(it) or getattr(given, f"_{it}", None) for it in _SERVER_KEEPS)
        self._context = options.get("context")
        ours = {"call_model_input_filter": self.given, "tool_error_formatter": self.failed}
        if isinstance(config, RunConfig):
            return {**options, "hooks": self, "run_config": dataclasses.replace(config, **ours)}
        # A dict, since a runner closes the model provider only where it made the settings itself.
        return {**options, "hooks": self, "run_config": {**(config or {}), **ours}}

    def leave(self, result: Any, error: BaseException | None) -> list[str]:
        """The SDK is done with this run; gives the ids of the calls that wait for somebody's approval."""
        if error is None:
            self.calls.settle(results_in(item.raw_item for item in getattr(result, "new_items", ())))
            waiting = [str(item.call_id) for item in getattr(result, "interruptions", ())]
            if waiting:
                return waiting
        else:
            self._failed_with(error)
        self.calls.run_over()
        return []

    def _failed_with(self, error: BaseException) -> None:
        """The step that made the run fail is told of too."""
        if self._outer is not None and isinstance(self._context, ToolContext):
            self._outer.calls.errors[self._context.tool_call_id] = self.run.stopped or error
        if self._is_asking:
            self.run.after_model(error=error)
        else:
            self.calls.failed_with(error)

    def _stop_if_told(self) -> None:
        if self.run.stopped is not None:
            raise NestedRunStopped.of(self.run.stopped) if self.is_nested else self.run.stopped

    # --- the model -------------------------------------------------------------------------------

    async def given(self, data: Any) -> Any:
        """What the model is about to be given: with what there is to say, without what was taken back."""
        with self._guarded("model's input"):
            items = data.model_data.input
            self.calls.turn_over(results_in(items) if self.calls else {})
            edited = self._edited(items)
            if edited is not items:
                model_data = dataclasses.replace(data.model_data, input=edited)
                data = dataclasses.replace(data, model_data=model_data)
        self._stop_if_told()
        if self._their_filter is None:
            return data.model_data
        return await _awaited(self._their_filter(data))

    def _edited(self, items: list[Any]) -> list[Any]:
        instruction = self.run.before_model(
            state=None if self._server_keeps else ConversationEdits.state(items)
        )
        if self._server_keeps:
            # The server keeps what it was given: words go in once, and nothing can be taken out.
            return [*items, _message(instruction.text)] if instruction.verdict == "guide" else items
        if instruction.verdict == "rollback" and not self._can_return(instruction, items):
            self.run.report_not_carried_out("the conversation is no longer the one it was")
            instruction = Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
        if instruction.verdict in {"guide", "rollback"}:
            self._edits = self._edits or ConversationEdits()
            self._edits.add(instruction, len(items))
        return items if self._edits is None else self._edits.apply(items, _message)

    def _can_return(self, instruction: Instruction, items: list[Any]) -> bool:
        """Whether every call keeps its result: a filter may have made another conversation of it."""
        tried = deepcopy(self._edits) if self._edits is not None else ConversationEdits()
        tried.add(instruction, len(items))
        return is_whole(tried.apply(items, _message))

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """The model is asked."""
        self._is_asking = True
        await self._theirs.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """The model has answered; none of the calls it asks for has been made yet."""
        self._is_asking = False
        with self._guarded("model's answer"):
            self.run.after_model(self._reply(agent, response))
        await self._theirs.on_llm_end(context, agent, response)
        with self._guarded("calls asked for"):
            self.calls.decide(asked_in(response.output, _handoffs(agent)), context, agent)
        self._stop_if_told()

    def _reply(self, agent: Any, response: Any) -> ModelReply:
        model = self._model or agent.model or get_default_model()
        return ModelReply(
            text=words_in(response.output),
            model=model if isinstance(model, str) else str(getattr(model, "model", "")),
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
        )

    # --- tools -----------------------------------------------------------------------------------

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """A call is made."""
        with self._guarded("tool start"):
            if isinstance(context, ToolContext):
                self.calls.starts(context.tool_call_id)
        await self._theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """A call has come back; what came of a shell or a computer stands in the next request."""
        with self._guarded("tool end"):
            if isinstance(context, ToolContext):
                self.calls.ends(context, tool, result)
        await self._theirs.on_tool_end(context, agent, tool, result)

    async def failed(self, args: Any) -> str | None:
        """A call failed, was rejected, or asks for a tool that is not there."""
        with self._guarded("tool error"):
            self.calls.fails(args)
        return None if self._their_formatter is None else await _awaited(self._their_formatter(args))

    # --- agents ----------------------------------------------------------------------------------

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Another agent takes over; the run is the same."""
        with self._guarded("handoff"):
            self.run.record_state("handoff", **{"from": from_agent.name, "to": to_agent.name})
        await self._theirs.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """An agent begins."""
        await self._theirs.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """An agent gives its answer."""
        await self._theirs.on_agent_end(context, agent, output)


def _handoffs(agent: Any) -> list[str]:
    return [
        it.tool_name if isinstance(it, Handoff) else Handoff.default_tool_name(it) for it in agent.handoffs
    ]


def _their_own(function: Any, name: str) -> Any:
    """The host's own function: an agent as a tool inherits settings that have ours around it."""
    watch = getattr(function, "__self__", None)
    return getattr(watch, name) if isinstance(watch, RunWatch) else function


def _message(words: str) -> dict[str, str]:
    return {"role": "user", "content": words}


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
