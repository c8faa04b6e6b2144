"""What is put into the requests of Google ADK's agents, and taken out of them, without touching a session."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import structs

from steadyhelm.adapter import Steer
from steadyhelm.adapters.google_adk.turns import KEPT, Place
from steadyhelm.boundary.message_edits import MessageEdits
from steadyhelm.boundary.watched_run import WatchedRun


class Requests:
    """The edits of every conversation, by the place from which it is seen.

    Args:
        message: Makes a message of some words, as if the user had said them.
    """

    def __init__(self, message: Callable[[str], Any]) -> None:
        self._message = message
        self._edits: OrderedDict[Place, MessageEdits] = OrderedDict()

    def state(self, context: Any, request: Any) -> str | None:
        """How the conversation stands; None where a place in it may be another one with the next request."""
        if request.previous_interaction_id:
            return None
        if getattr(context.get_invocation_context().agent, "static_instruction", None):
            return None
        return f"{MessageEdits.state(request.contents)} {Place.of(context)}"

    def carry_out(self, run: WatchedRun, steer: Steer, context: Any, request: Any) -> None:
        """Say what there is to say, here and in all requests that follow; with nothing to say all stays."""
        if steer.verdict == "proceed" and not self._edits:
            return
        place = Place.of(context)
        edits = self._edits.get(place)
        if steer.verdict in {"guide", "rollback"}:
            edits = edits or MessageEdits()
            self._edits[place] = edits
            edits.add(_for_here(run, steer, place), len(request.contents))
            if len(self._edits) > KEPT:
                self._edits.popitem(last=False)
        if edits is not None:
            request.contents = edits.applied(request.contents, self._message)


def _for_here(run: WatchedRun, steer: Steer, place: Place) -> Steer:
    """What is to be done, by this agent's own count of messages."""
    if steer.checkpoint is None:
        return steer
    length, _, whose = steer.checkpoint.label.partition(" ")
    if whose == str(place):
        return structs.replace(steer, checkpoint=structs.replace(steer.checkpoint, label=length))
    run.could_not("the checkpoint is in another agent's view of the conversation")
    return Steer(verdict="guide", words=steer.words, decision=steer.decision)
