"""One run of a Pydantic AI agent as we follow it: what its messages tell and no hook does, what is open."""

import dataclasses
from collections import OrderedDict
from typing import Any, Final

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.pydantic_ai.messages import (
    answer_of,
    calls_of_last_reply,
    failed_attempts,
    is_request,
    message_of,
    reply_of,
    requests_since_reply,
    words_of,
)
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock

_PAUSED_KEPT: Final = 1000


class Course:
    """What is to be kept of a run between two of its steps.

    `asked` are the calls the user is asked about. `told` are the calls of the last reply that we told of
    ourselves, `heard` the user's messages that we told, `output_tools` the calls that are answers.
    `cut` is a reply that was cut off: a stream tells why it ended to who reads it, not to us.
    """

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.asked: dict[str, Instruction] = {}
        self.told: set[str] = set()
        self.heard: dict[int, Any] = {}
        self._prompted = ""
        self.output_tools: frozenset[str] = frozenset()
        self.cut: tuple[Any, Any] | None = None
        self._edits: ConversationEdits | None = None
        self._early: list[tuple[str, Any, object]] = []

    # --- the model -------------------------------------------------------------------------------

    def edited(self, request: Any, instruction: Instruction) -> Any:
        """The request with what there is to say; the conversation itself stays as it is."""
        messages = request.messages
        if instruction.verdict in {"guide", "rollback"}:
            self._edits = self._edits or ConversationEdits()
            self._edits.add(instruction, len(messages))
        # A reply that its provider only paused is asked for again with just what it was asked for with.
        if self._edits is None or not is_request(messages[-1]):
            return request
        return dataclasses.replace(request, messages=self._edits.apply(messages, message_of))

    def replied(self, ctx: Any, request: Any, response: Any) -> None:
        """The model has answered: with words, with calls, or with both."""
        run, reply = self.run, ModelReply(model=request.model.model_name)
        with run.boundary.guard("reply"):
            self.catch_up(ctx)
            for asked, error in failed_attempts(response):
                run.after_model(asked, error=error)
            self.output_tools = frozenset(it.name for it in request.model_request_parameters.output_tools)
            reply = reply_of(response, self.output_tools)
        self._model_is_done(ctx, reply)
        with run.boundary.guard("calls of a reply"):
            self.told = set()
            for call, answer in response.native_tool_calls:
                run.record_call(call.tool_call_id, call.tool_name, call.args_as_dict(), answer.content)
            tools = ctx.tool_manager
            for call in response.tool_calls if tools is not None else ():
                if tools.get_tool_def(call.tool_name) is None:
                    self.never_made(call, f"There is no tool named {call.tool_name!r}.")

    def cut_off(self, error: BaseException | None = None) -> None:
        """By now it is known why a reply was cut off: by an error, or because nobody read on."""
        if self.cut is None:
            return
        (ctx, request), self.cut = self.cut, None
        reply = ModelReply(model=request.model.model_name)
        with self.run.boundary.guard("reply that was cut off"):
            last = ctx.messages[-1]
            if not is_request(last) and last.run_id == ctx.run_id:
                reply = reply_of(last, self.output_tools)
        self._model_is_done(ctx, reply, error)

    def _model_is_done(self, ctx: Any, reply: ModelReply, error: object = None) -> None:
        self.run.after_model(reply, key=str(ctx.run_step), error=error)
        while self._early:
            call_id, result, failure = self._early.pop(0)
            self.run.after_tool(call_id, result, error=failure)

    # --- tools -----------------------------------------------------------------------------------

    def before_tool(self, ctx: Any, call: Any, args: Any) -> Instruction:
        """Whether a call shall be made; the user may have said so."""
        asked = self.asked.pop(call.tool_call_id, None)
        if asked is not None and ctx.tool_call_approved:
            return self.run.apply_answer(True, asked, call.tool_call_id)
        return self.run.before_tool(call.tool_call_id, call.tool_name, args)

    def after_tool(self, call_id: str, result: Any = None, *, error: object = None) -> None:
        """What came of a call; `run_stream` makes the calls of a reply before it has read the last of it."""
        if self.run.is_asking:
            self._early.append((call_id, result, error))
        else:
            self.run.after_tool(call_id, result, error=error)

    def never_made(self, call: Any, error: object) -> None:
        """The model asked for a call that cannot be made."""
        self.told.add(call.tool_call_id)
        self.run.record_failed_call(call.tool_call_id, call.tool_name, call.args_as_dict(), error=error)

    # --- what passes by no hook ------------------------------------------------------------------

    def catch_up(self, ctx: Any) -> None:
        """Tell what came into the conversation since the last reply."""
        for request in requests_since_reply(ctx.messages):
            if request.run_id != ctx.run_id:
                continue
            answers = [part for part in request.parts if part.part_kind == "tool-return"]
            for part in answers:
                if part.tool_call_id not in self.told and part.tool_name not in self.output_tools:
                    self.told.add(part.tool_call_id)
                    self._came_back(part, calls_of_last_reply(ctx.messages))
            if not answers:
                # What stands beside a tool's answer belongs to that, whoever seems to say it.
                self._hear(ctx, request)

    def _hear(self, ctx: Any, request: Any) -> None:
        """The user's words, but for the prompt, which was told when the run began."""
        for part in request.parts:
            if part.part_kind != "user-prompt" or id(part) in self.heard:
                continue
            self.heard[id(part)] = part
            if self._prompted != ctx.run_id and part.content == ctx.prompt:
                self._prompted = ctx.run_id
            else:
                self.run.record_user_message(words_of(part.content))

    def _came_back(self, part: Any, calls: dict[str, Any]) -> None:
        """A call was answered from outside: by the user who was asked, or by whoever made it elsewhere."""
        call_id, name = part.tool_call_id, part.tool_name
        args = calls[call_id].args_as_dict() if call_id in calls else None
        asked = self.asked.pop(call_id, None)
        if part.outcome == "success":
            self.run.record_call(call_id, name, args, part.content)
        elif part.outcome == "denied" and asked is not None:
            self.run.apply_answer(answer_of(part), asked, call_id)
        else:
            self.run.record_failed_call(call_id, name, args, error=part.model_response_str())

    def nobody_answers(self) -> None:
        """A question found nobody who could answer it: the run cannot go on."""
        instruction = next(iter(self.asked.values()))
        self.run.report_not_carried_out("there was nobody to ask")
        self.run.stopped = self.run.stopped or RunStopped(
            f"Run stopped. {instruction.text}", run_id=self.run.run_id, decision=instruction.decision
        )


class Paused:
    """Runs that wait for somebody's decision about their calls, by conversation."""

    def __init__(self) -> None:
        self._courses: OrderedDict[str, Course] = OrderedDict()
        self._lock = ForkSafeLock()  # agents run in any thread

    def keep(self, conversation_id: str, course: Course) -> None:
        """A run was given back to its caller; one that waits for ever makes room."""
        with self._lock:
            self._courses[conversation_id] = course
            crowded_out = self._courses.popitem(last=False)[1] if len(self._courses) > _PAUSED_KEPT else None
        if crowded_out is not None:
            crowded_out.run.end(outcome="never went on")

    def taken_up(self, ctx: Any, monitor: Monitor) -> Course | None:
        """The run of this conversation, if one waits, and is still live."""
        with self._lock:
            course = self._courses.pop(ctx.conversation_id, None)
        if course is None or not monitor.seen(course.run.run_id):
            return None
        said = words_of(ctx.prompt)
        if said:
            course.run.record_user_message(said)
        return course
