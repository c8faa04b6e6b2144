"""The model calls of one CrewAI run, as hooks and the event bus tell of them.

Neither tells all. A hook can act, but sees no error, nor a reply that asks for tools. The bus sees both, and
what a call took, but hears nothing of a model that somebody wrote themselves.
"""

import json
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.errors import MissingExtraError
from steadyhelm.forks import ForkSafeLock

try:
    from crewai.hooks import HookAborted
    from crewai.types.usage_metrics import UsageMetrics
    from crewai.utilities.i18n import I18N_DEFAULT
except ImportError as exc:
    raise MissingExtraError("CrewAI adapter", extra="crewai") from exc

_CALLS_KEPT: Final = 64


class _Asked(NamedTuple):
    """A model that was asked, and what it had used up until then."""

    llm: Any
    used: Any


class ModelCalls:
    """Tells a run of its model calls, and carries out what it answers.

    Args:
        run: The run.
        above: The model calls of the run that this one is in.
    """

    def __init__(self, run: AgentRun, above: "ModelCalls | None") -> None:
        self.run = run
        self.executor: Any = None
        self._above = above
        self._asked: _Asked | None = None
        self._told: deque[str] = deque(maxlen=_CALLS_KEPT)
        self._lock = ForkSafeLock()

    # --- what hooks tell -------------------------------------------------------------------------

    def before(self, context: Any) -> None:
        """The model is about to be asked."""
        self.settle()
        self._stop_if_told()
        is_own = self._is_own(context)
        if context.executor is not None:
            self.executor = context.executor
            self._hear_user(context)
        self._asked = _Asked(context.llm, _used(context.llm))
        if not is_own:
            self.run.begin_model_call()
            return
        instruction = self.run.before_model(state=_state(context.messages))
        self._stop_if_told()
        self._carry_out(instruction, context.messages)

    def after(self, context: Any) -> None:
        """The model has said something; of a model that the bus hears it is known by now."""
        asked = self._answered()
        if asked is not None:
            self._tell(asked, text=context.response or "")

    # --- what the bus tells ----------------------------------------------------------------------

    def completed(self, event: Any) -> None:
        """The model has answered."""
        asked = self._answered()
        if event.call_id in self._told:
            return
        self._told.append(event.call_id)
        used = UsageMetrics.from_provider_dict(event.usage) or (_grown(asked) if asked else None)
        self.run.after_model(_reply(_said(event), event.model, used))

    def failed(self, event: Any) -> None:
        """The model has failed, with the exception that is being handled now. A provider may say it twice."""
        self._answered()
        if event.call_id in self._told or self.run.stopped is not None:
            return
        self._told.append(event.call_id)
        self.run.after_model(_reply("", event.model, None), error=sys.exception() or event.error)

    def settle(self, error: object = None) -> None:
        """Something else happens: a model of which nobody told has asked for tools, or failed with this."""
        asked = self._answered()
        if asked is not None and self.run.stopped is None:
            self._tell(asked, error=error)

    # --- inside ----------------------------------------------------------------------------------

    def _is_own(self, context: Any) -> bool:
        """Whether an agent asks for itself; what is said to a helper, such as its memory, would be lost."""
        is_planned = getattr(context.agent, "planning_enabled", False)
        return context.executor is not None or self.executor is None or bool(is_planned)

    def _hear_user(self, context: Any) -> None:
        """A user who was shown the result has something to say: the agent begins anew with that."""
        if not getattr(context.executor, "_is_feedback_iteration", False) or context.iterations:
            return
        before, _, after = I18N_DEFAULT.slice("feedback_instructions").partition("{feedback}")
        said = str(context.messages[-1].get("content") or "")
        self.run.record_user_message(said.removeprefix(before).removesuffix(after))

    def _answered(self) -> _Asked | None:
        with self._lock:
            asked, self._asked = self._asked, None
        return asked

    def _tell(self, asked: _Asked, *, text: str = "", error: object = None) -> None:
        reply = _reply(text, getattr(asked.llm, "model", None), _grown(asked))
        self.run.after_model(reply, error=error)

    def _stop_if_told(self) -> None:
        """An aborted model call ends all of CrewAI's work: what stops a part of it stops the whole."""
        stopped = next((it.run.stopped for it in self._up() if it.run.stopped is not None), None)
        if stopped is None:
            return
        for calls in self._up():
            calls.run.stopped = calls.run.stopped or stopped
        raise HookAborted(str(stopped), source="steadyhelm")

    def _up(self) -> Iterator["ModelCalls"]:
        calls: ModelCalls | None = self
        while calls is not None:
            yield calls
            calls = calls._above  # noqa: SLF001 - one of its own

    def _carry_out(self, instruction: Instruction, messages: list[Any]) -> None:
        """The messages are the executor's own: what is said stays said, and what is cut stays away."""
        if instruction.verdict == "rollback" and instruction.checkpoint is not None:
            length = _length(instruction.checkpoint.label, messages)
            if length is None:
                self.run.report_not_carried_out("the conversation was rewritten since")
            else:
                del messages[length:]
        if instruction.verdict in {"guide", "rollback"} and instruction.text:
            messages.append({"role": "user", "content": instruction.text})


def _state(messages: list[Any]) -> str | None:
    """The name of how a conversation stands: its length, and which message is its last."""
    return f"{len(messages)} {id(messages[-1])}" if messages else None


def _length(state: str, messages: list[Any]) -> int | None:
    """How long a conversation was in that state; None when it has become another, as by a summary."""
    length = int(state.partition(" ")[0])
    return length if state == _state(messages[:length]) else None


def _said(event: Any) -> str:
    """What a model said; a reply that asks for tools says nothing."""
    if isinstance(event.response, str):
        return event.response
    return "" if event.call_type.value == "tool_call" else json.dumps(event.response, default=str)


def _reply(text: str, model: str | None, used: Any) -> ModelReply:
    tokens = (used.prompt_tokens, used.completion_tokens) if used is not None else (0, 0)
    return ModelReply(text=text, model=model or "", input_tokens=tokens[0], output_tokens=tokens[1])


def _used(llm: Any) -> Any:
    """What a model has used up so far, by its own count."""
    summary = getattr(llm, "get_token_usage_summary", None)
    return summary() if summary is not None else None


def _grown(asked: _Asked) -> Any:
    now = _used(asked.llm)
    return now.delta_since(asked.used) if now is not None and asked.used is not None else None
