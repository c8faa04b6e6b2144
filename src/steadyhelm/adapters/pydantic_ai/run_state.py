"""The state of one run of a Pydantic AI agent: open questions, and what only its messages show."""

import dataclasses
from typing import Any

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.pydantic_ai.translate import (
    find_failed_attempts,
    find_last_calls,
    find_new_requests,
    is_answer,
    is_request,
    make_message,
    read_failure,
    read_outcome,
    read_prompt,
    read_refusal,
    read_reply,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import RunStopped
from steadyhelm.events import NotRun


class PydanticRunState:
    """What is kept of a run between two of its steps.

    `asked` are the calls the user is asked about. `recorded_calls` are the calls of the last reply that are
    recorded, `recorded_prompts` the user's messages that are, `output_tools` the calls that are outputs.
    `open_request` is the request whose reply is awaited or was cut off: only the reader of a stream learns
    why it ended. `is_passed_on` is whether the request has left the other capabilities for the model.
    """

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.asked: dict[str, Instruction] = {}
        self.recorded_calls: set[str] = set()
        self.recorded_prompts: dict[int, Any] = {}
        self._prompt_of_run = ""
        self.output_tools: frozenset[str] = frozenset()
        self.open_request: tuple[Any, Any] | None = None
        self.is_passed_on = False
        self._edits: ConversationEdits | None = None
        self._early_results: list[tuple[str, Any, object]] = []

    # --- the model -------------------------------------------------------------------------------

    def edit_request(self, request: Any, instruction: Instruction) -> Any:
        """Return the request with guidance and rollbacks applied; the conversation itself is not changed."""
        messages = request.messages
        if instruction.verdict in {"guide", "rollback"}:
            self._edits = self._edits or ConversationEdits()
            self._edits.add(instruction, len(messages))
        # A reply that its provider paused is requested again with the same messages.
        if self._edits is None or not is_request(messages[-1]):
            return request
        return dataclasses.replace(request, messages=self._edits.apply(messages, make_message))

    def record_reply(self, ctx: Any, request: Any, response: Any) -> None:
        """Record a reply of the model, with the calls in it that are not made here."""
        run, reply = self.run, ModelReply(model=request.model.model_name)
        with run.boundary.guard("reply"):
            self.record_new_messages(ctx)
            for asked, error in find_failed_attempts(response):
                run.after_model(asked, error=error)
            self.output_tools = frozenset(it.name for it in request.model_request_parameters.output_tools)
            reply = read_reply(response, self.output_tools)
        self._end_model_call(ctx, reply)
        with run.boundary.guard("calls of a reply"):
            self.recorded_calls = set()
            for call, answer in response.native_tool_calls:
                run.record_call(call.tool_call_id, call.tool_name, call.args_as_dict(), answer.content)
            tools = ctx.tool_manager
            # Tools that were added since the step before are only in the request.
            offered = {it.name for it in request.model_request_parameters.function_tools} | self.output_tools
            for call in response.tool_calls if tools is not None else ():
                if call.tool_name not in offered and tools.get_tool_def(call.tool_name) is None:
                    error = f"There is no tool named {call.tool_name!r}."
                    self.record_unmade_call(call, error, "no such tool")

    def record_cut_reply(self, error: BaseException | None = None) -> None:
        """Record a reply that was cut off, by an error or because it was not read to its end.

        A request that never left another capability is none.
        """
        if self.open_request is None:
            return
        ctx, request = self.open_request
        if not self.is_passed_on:
            self.open_request = None
            self.run.drop_model_call(str(ctx.run_step))
            return
        reply = ModelReply(model=request.model.model_name)
        with self.run.boundary.guard("cut reply"):
            last = ctx.messages[-1]
            if not is_request(last) and last.run_id == ctx.run_id:
                reply = read_reply(last, self.output_tools)
        self._end_model_call(ctx, reply, error)

    def record_failed_request(self, ctx: Any, request: Any, error: BaseException) -> None:
        """Record a request that failed."""
        self._end_model_call(ctx, ModelReply(model=request.model.model_name), error)

    def _end_model_call(self, ctx: Any, reply: ModelReply, error: object = None) -> None:
        self.open_request, self.is_passed_on = None, False
        self.run.after_model(reply, key=str(ctx.run_step), error=error)
        while self._early_results:
            call_id, result, failure = self._early_results.pop(0)
            self.run.after_tool(call_id, result, error=failure)

    # --- tools -----------------------------------------------------------------------------------

    def before_tool(self, ctx: Any, call: Any, args: Any) -> Instruction:
        """Return the instruction for a call, which the user may have approved."""
        asked = self.asked.pop(call.tool_call_id, None)
        if asked is not None and ctx.tool_call_approved:
            return self.run.apply_answer(True, asked, call.tool_call_id)
        return self.run.before_tool(call.tool_call_id, call.tool_name, args)

    def after_tool(
        self, call_id: str, result: Any = None, *, error: object = None, why: NotRun | None = None
    ) -> None:
        """Record a result, with the reason where it is not the tool's.

        With `run_stream` a result may come before the end of the reply: then it waits.
        """
        if why is not None:
            self.run.mark_not_run(call_id, why)
        if self.run.is_asking:
            self._early_results.append((call_id, result, error))
        else:
            self.run.after_tool(call_id, result, error=error)

    def record_unmade_call(self, call: Any, error: object, why: NotRun) -> None:
        """Record a call that cannot be made."""
        self.recorded_calls.add(call.tool_call_id)
        args = call.args_as_dict()
        self.run.record_call(call.tool_call_id, call.tool_name, args, error=error, not_run=why)

    # --- what no hook reports --------------------------------------------------------------------

    def record_new_messages(self, ctx: Any) -> None:
        """Record what was added to the conversation since the last reply."""
        for request in find_new_requests(ctx.messages):
            if request.run_id != ctx.run_id:
                continue
            answers = [part for part in request.parts if is_answer(part)]
            for part in answers:
                if part.tool_call_id not in self.recorded_calls and part.tool_name not in self.output_tools:
                    self.recorded_calls.add(part.tool_call_id)
                    self._record_outside_result(part, find_last_calls(ctx.messages))
            if not answers:
                # A user prompt beside a tool result is part of that result.
                self._record_prompts(ctx, request)

    def _record_prompts(self, ctx: Any, request: Any) -> None:
        """Record the user's messages, except the prompt that was recorded at the start of the run."""
        for part in request.parts:
            if part.part_kind != "user-prompt" or id(part) in self.recorded_prompts:
                continue
            self.recorded_prompts[id(part)] = part
            if self._prompt_of_run != ctx.run_id and part.content == ctx.prompt:
                self._prompt_of_run = ctx.run_id
            else:
                self.run.record_user_message(read_prompt(part.content))

    def _record_outside_result(self, part: Any, calls: dict[str, Any]) -> None:
        """Record a result from outside: of a call the user was asked about, or of one made elsewhere.

        The result of one made elsewhere may ask the model to try again: then the call has failed.
        """
        call_id, name = part.tool_call_id, part.tool_name
        args = calls[call_id].args_as_dict() if call_id in calls else None
        asked = self.asked.pop(call_id, None)
        outcome = read_outcome(part)
        if outcome == "success":
            self.run.record_call(call_id, name, args, part.content)
        elif outcome == "denied" and asked is not None:
            self.run.apply_answer(read_refusal(part), asked, call_id)
        else:
            why: NotRun | None = "refused" if outcome == "denied" else None
            self.run.record_call(call_id, name, args, error=read_failure(part), not_run=why)

    def stop_unanswered(self) -> None:
        """Stop the run: its question has no recipient."""
        instruction = next(iter(self.asked.values()))
        self.run.report_not_carried_out("the user could not be asked")
        self.run.stopped = self.run.stopped or RunStopped(
            f"Run stopped. {instruction.text}", run_id=self.run.run_id, decision=instruction.decision
        )
