"""The conversations that go through a client, and which of them a request belongs to.

A request that goes on where a known one ended belongs to it; so does one that brings what came of its calls,
where its host has rewritten what was before. Any other begins a conversation of its own.
"""

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.clients.items import beginning, chain, last_results, steps_of
from steadyhelm.adapters.clients.known_marks import KnownMarks
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock
from steadyhelm.recordings.content import ContentPart

if TYPE_CHECKING:
    from steadyhelm.adapters.clients.exchanges import Exchange

_KEPT: Final = 1000
_STATES_KEPT: Final = 64
_LONG_ENOUGH: Final = 12
_LOOKED_AT: Final = 8192


class State(NamedTuple):
    """What a request was made with, where the model's side holds what came before it."""

    items: list[Any]
    held: Mapping[str, Any]


class Conversation:
    """One conversation: the run it belongs to now, what is open in it, and where its next request goes on.

    `asked_at` and `answered_at` are the places its latest request and reply end at, `held_at` is what the
    model's side knows it by. `origin` and `through` are the numbers of the client of its latest request,
    `failed` is how its run ends if that was the last of it: an error itself would keep the host's frames.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.rewritten = 0
        self.goal = ""
        self.run: AgentRun | None = None
        self.home: str | None = None
        self.origin = 0
        self.through = 0
        self.under_way: Exchange | None = None
        self.stopped: RunStopped | None = None
        self.failed: str | None = None
        self.was_left = False
        self.open: dict[str, ContentPart] = {}
        self.answered: set[str] = set()
        self.edits: ConversationEdits | None = None
        self.undelivered: Instruction | None = None
        self.states: OrderedDict[str, State] = OrderedDict()
        self.asked_at: int | None = None
        self.answered_at: int | None = None
        self.held_at: str | None = None
        self._labels = itertools.count(1)

    @property
    def name(self) -> str:
        """What its states are named by: places in it mean nothing any more once its host has rewritten it."""
        return f"{self.number}.{self.rewritten}"

    def keep(self, state: State, label: str = "") -> str:
        """Remember what a request was made with; gives the name to return to it by."""
        label = label or f"held {next(self._labels)}"
        self.states[label] = state
        if len(self.states) > _STATES_KEPT:
            self.states.popitem(last=False)
        return label

    @property
    def is_joined(self) -> bool:
        """Whether its run is one that the host has opened itself."""
        return self.run is not None and self.run.run_id == self.home

    def end(self) -> None:
        """Nothing more will come of it."""
        run = self.run
        if run is None or run.has_ended:
            return
        if not run.boundary.monitor.seen(run.run_id):
            run.boundary.forget(run)  # the host has ended it, or its monitor is closed
            return
        run.end(outcome=self.failed or "left early")  # with a last reply it would have ended already

    def let_go(self) -> None:
        """Its client is no more: what failed or was left ends here, anything else may go on in another."""
        latest = self.under_way
        if latest is not None and latest.is_half_read:
            latest.leave()
        came_to_nothing = self.was_left or self.failed is not None
        if came_to_nothing and self.under_way is None and not self.open:
            self.end()


class Caller(NamedTuple):
    """A call that is still open, and the conversation it was asked for in."""

    conversation: Conversation
    call: ContentPart


class Found(NamedTuple):
    """The conversation of a request, how many of its messages were known, and what was left unfinished."""

    conversation: Conversation
    known: int
    left: "Exchange | None" = None


class Conversations:
    """The latest conversations of one client; when there are too many the oldest is ended."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self._numbers = itertools.count(1)
        self._kept: OrderedDict[int, Conversation] = OrderedDict()
        self._at: dict[int | str, list[Conversation]] = {}
        self._marks = KnownMarks()

    def marks_of(self, items: Sequence[Any]) -> list[int]:
        """A number for each message of a request: what the conversation up to it is known again by."""
        with self.lock:
            return self._marks.of(items)

    def done_with(self, items: Sequence[Any], length: int) -> None:
        """Nothing is open after this request, which had so many messages."""
        with self.lock:
            self._marks.forget(items, length)

    def all(self) -> list[Conversation]:
        """Every conversation that is remembered, the oldest first."""
        with self.lock:
            return list(self._kept.values())

    def find(self, exchange: "Exchange", home: str | None) -> Found:
        """The conversation a request belongs to; from now on it is under way with this exchange."""
        items, marks, held_at = exchange.items, exchange.marks, exchange.held.at
        with self.lock:
            if held_at is not None:
                found = self._held(held_at, home)
            else:
                found = self._continued(marks, home) or self._answering(items)
            if found is None:
                known = 0 if held_at is not None else beginning(items)
                found = Found(Conversation(next(self._numbers)), known)
            conversation = found.conversation
            self._forget_places(conversation)
            conversation.asked_at = (marks[-1] if marks and held_at is None else 0) or None
            conversation.held_at = held_at
            self._remember(conversation, conversation.asked_at)
            self._remember(conversation, held_at)
            left, conversation.under_way = conversation.under_way, exchange
            conversation.origin = exchange.through.origin.number
            conversation.through = exchange.through.number
            crowded_out = self._keep(conversation)
        if crowded_out is not None:
            crowded_out.end()
        return found._replace(left=left)

    def answered(self, conversation: Conversation, items: Sequence[Any], reply_id: str) -> None:
        """A reply has come: the next request will have it in it, or name it."""
        with self.lock:
            if conversation.asked_at is not None:
                conversation.answered_at = next(reversed(chain(items, conversation.asked_at)), None)
                self._remember(conversation, conversation.answered_at)
            if reply_id:
                self._forget_place(conversation, conversation.held_at)
                conversation.held_at = reply_id
                self._remember(conversation, reply_id)

    def caller_of(self, goal: str, besides: Conversation) -> Caller | None:
        """The open call whose arguments a conversation begins with: then it works for that call."""
        begins = goal[:_LOOKED_AT].strip()
        if not begins:
            return None
        for other in reversed(self.all()):
            if other is besides or other.run is None or other.run.has_ended:
                continue
            for call in list(other.open.values()):
                if any(_stands_in(value, begins) for value in _texts(call.args)):
                    return Caller(other, call)
        return None

    # --- inside ----------------------------------------------------------------------------------

    def _held(self, held_at: str, home: str | None) -> Found | None:
        candidates = [it for it in self._at.get(held_at, ()) if _is_free(it)]
        return Found(_best(candidates, home), 0) if candidates else None

    def _continued(self, marks: Sequence[int], home: str | None) -> Found | None:
        for place in range(len(marks) - 1, -1, -1):
            known = self._at.get(marks[place]) if marks[place] else None
            if known is None:
                continue
            # The same request once more is another conversation, unless the first came to nothing.
            goes_on = place + 1 < len(marks)
            candidates = [
                it
                for it in known
                if _is_free(it) and (goes_on or it.answered_at == marks[place] or it.failed is not None)
            ]
            if candidates:
                return Found(_best(candidates, home), place + 1)
        return None

    def _answering(self, items: Sequence[Any]) -> Found | None:
        place = last_results(items)
        came = {step.call_id for item in items[place:] for step in steps_of(item) if step.kind == "result"}
        if not came:
            return None
        candidates = [it for it in self._kept.values() if came <= (it.open.keys() | it.answered)]
        if len(candidates) != 1:
            return None
        candidates[0].edits = None
        candidates[0].rewritten += 1
        return Found(candidates[0], place)

    def _keep(self, conversation: Conversation) -> Conversation | None:
        self._kept[conversation.number] = conversation
        self._kept.move_to_end(conversation.number)
        if len(self._kept) <= _KEPT:
            return None
        _, oldest = self._kept.popitem(last=False)
        self._forget_places(oldest)
        return oldest

    def _remember(self, conversation: Conversation, place: int | str | None) -> None:
        if place is not None and conversation not in (known := self._at.setdefault(place, [])):
            known.append(conversation)

    def _forget_places(self, conversation: Conversation) -> None:
        for place in (conversation.asked_at, conversation.answered_at, conversation.held_at):
            self._forget_place(conversation, place)
        conversation.asked_at = conversation.answered_at = conversation.held_at = None

    def _forget_place(self, conversation: Conversation, place: int | str | None) -> None:
        known = self._at.get(place) if place is not None else None
        if place is None or known is None:
            return
        if conversation in known:
            known.remove(conversation)
        if not known:
            del self._at[place]


def _is_free(conversation: Conversation) -> bool:
    """Whether it can go on: nobody waits for a reply in it, though one may have been left half read."""
    latest = conversation.under_way
    return latest is None or latest.is_settled or latest.is_streaming


def _best(candidates: Sequence[Conversation], home: str | None) -> Conversation:
    """Of several that look alike, the one of the same run, and then the latest."""
    return max(candidates, key=lambda it: (it.home == home, it.number))


def _texts(args: Any) -> list[str]:
    values = list(args.values()) if isinstance(args, dict) else [args]
    return [value for value in values if isinstance(value, str)]


def _stands_in(value: str, begins: str) -> bool:
    words = value[:_LOOKED_AT].strip()
    return words == begins or (len(words) >= _LONG_ENOUGH and words in begins)
