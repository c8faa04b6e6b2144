"""What is put into the requests of Google ADK's agents, and taken out of them, without touching a session."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import structs

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.google_adk.turns import KEPT, HookPoint
from steadyhelm.boundary.agent_run import AgentRun
from steadyhelm.boundary.conversation_edits import ConversationEdits


class Requests:
    """The edits of every conversation, by the place from which it is seen.

    Args:
        message: Makes a message of some words, as if the user had said them.
    """

    def __init__(self, message: Callable[[str], Any]) -> None:
        self._message = message
        self._edits: OrderedDict[HookPoint, ConversationEdits] = OrderedDict()

    def state(self, context: Any, request: Any) -> str | None:
        """How the conversation stands; None where a place in it may be another one with the next request."""
        if request.previous_interaction_id:
            return None
        if getattr(context.get_invocation_context().agent, "static_instruction", None):
            return None
        return f"{ConversationEdits.state(request.contents)} {HookPoint.of(context)}"

    def carry_out(self, run: AgentRun, instruction: Instruction, context: Any, request: Any) -> None:
        """Say what there is to say, here and in all requests that follow; with nothing to say all stays."""
        if instruction.verdict == "proceed" and not self._edits:
            return
        place = HookPoint.of(context)
        edits = self._edits.get(place)
        if instruction.verdict in {"guide", "rollback"}:
            edits = edits or ConversationEdits()
            self._edits[place] = edits
            edits.add(_for_here(run, instruction, place), len(request.contents))
            if len(self._edits) > KEPT:
                self._edits.popitem(last=False)
        if edits is not None:
            request.contents = edits.apply(request.contents, self._message)


def _for_here(run: AgentRun, instruction: Instruction, place: HookPoint) -> Instruction:
    """What is to be done, by this agent's own count of messages."""
    if instruction.checkpoint is None:
        return instruction
    length, _, whose = instruction.checkpoint.label.partition(" ")
    if whose == str(place):
        return structs.replace(instruction, checkpoint=structs.replace(instruction.checkpoint, label=length))
    run.report_not_carried_out("the checkpoint is in another agent's view of the conversation")
    return Instruction(verdict="guide", text=instruction.text, decision=instruction.decision)
