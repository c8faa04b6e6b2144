"""What is asked of a model in Agent Framework, edited and read, and what is asked of the user."""

from typing import Any

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.agent_framework.messages import args_of, hosted_in, reply_of, wanted_by
from steadyhelm.adapters.agent_framework.runs import Live
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.errors import MissingExtraError

try:
    from agent_framework import ChatContext, Content, FunctionInvocationContext, Message
except ImportError as exc:
    raise MissingExtraError("Agent Framework adapter", extra="agent-framework") from exc


def ask(context: ChatContext, live: Live, key: str) -> None:
    """A model is about to be asked: the request gets what there is to say; raises to stop."""
    run = live.run
    if run.stopped is None:
        with run.boundary.guard("request"):
            live.tell_calls_made_elsewhere(context.messages)
            # Where the provider keeps the conversation, a request is only what is new in it.
            is_kept_there = bool((context.options or {}).get("conversation_id"))
            state = None if is_kept_there else ConversationEdits.state(context.messages)
            instruction = run.before_model(key=key, state=state)
            live.asking.add(key)
            if is_kept_there:
                _add_words(context, instruction, run)
            else:
                _edit(context, live, instruction)
    if run.stopped is not None:
        live.asking.clear()
        raise run.stopped


def replied(live: Live, key: str, response: Any) -> None:
    """A model has answered, or somebody in its place; telemetry may have a stream tell that twice."""
    if key not in live.asking:
        return
    live.asking.discard(key)
    reply = ModelReply()
    with live.run.boundary.guard("model's reply"):
        if response is not None:
            reply = reply_of(response)
            live.wanted.update(wanted_by(response))
    live.run.after_model(reply, key=key)
    with live.run.boundary.guard("hosted calls"):
        for call in hosted_in(response) if response is not None else ():
            live.run.record_call(*call)


def failed(live: Live, key: str, error: BaseException) -> None:
    """A model could not answer."""
    live.asking.discard(key)
    live.run.after_model(key=key, error=error)


def is_closing_calls(context: ChatContext, run: AgentRun) -> bool:
    """After a stop the framework tells a provider that keeps conversations how their open calls ended."""
    is_last = (context.options or {}).get("tool_choice") == "none"
    return run.stopped is not None and is_last and all(it.role == "tool" for it in context.messages)


def approval(context: FunctionInvocationContext, call_id: str, question: str) -> Any:
    """A request to the user to approve a call, with our question as its reason."""
    occurrence = context.metadata.get("function_call_occurrence_id")
    args = args_of(context.arguments)
    call = Content.from_function_call(call_id, context.function.name, arguments=args, id=occurrence)
    return Content.from_function_approval_request(
        id=occurrence or call_id, function_call=call, additional_properties={"reason": question}
    )


def _edit(context: ChatContext, live: Live, instruction: Instruction) -> None:
    if instruction.verdict in {"guide", "rollback"}:
        live.edits.setdefault(live.agent_id, ConversationEdits()).add(instruction, len(context.messages))
    edits = live.edits.get(live.agent_id)
    if edits is None:
        return
    edited = edits.apply(context.messages, _words)
    if [id(it) for it in edited] != [id(it) for it in context.messages]:
        context.messages = edited


def _add_words(context: ChatContext, instruction: Instruction, run: AgentRun) -> None:
    if instruction.verdict == "rollback":
        run.report_not_carried_out("the model's provider keeps the conversation")
    if instruction.text:
        context.messages = [*context.messages, _words(instruction.text)]


def _words(words: str) -> Any:
    return Message("user", [words])
