"""The conversations that go through clients, and which of them a request belongs to.

A request that continues where a known one ended belongs to its conversation; so does one that brings the
results of its calls, where the host has rewritten the messages before them. Any other starts a conversation.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steadyhelm.adapter import Instruction
from steadyhelm.adapters.clients.fingerprints import FingerprintCache, fingerprint_messages
from steadyhelm.adapters.clients.translate import find_last_results, find_last_turn, read_steps
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import LEFT_EARLY
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.errors import RunStopped
from steadyhelm.forks import ForkSafeLock
from steadyhelm.host_objects import is_a
from steadyhelm.recordings.content import ContentPart

if TYPE_CHECKING:
    from steadyhelm.adapters.clients.hooks import Exchange

_MAX_CONVERSATIONS: Final = 1000
_MAX_STATES: Final = 64
_MIN_CHARACTERS_CONTAINED: Final = 12
_MAX_CHARACTERS_COMPARED: Final = 8192
_client_numbers: Final = itertools.count(1)


class ClientOrigin:
    """A client and its copies, which share its connections, known by a number.

    Only they and their requests under way refer to it: a conversation that is remembered keeps the number,
    and so no client alive. `on_collected` is called with the number when the last of them was garbage
    collected, from wherever that happens.
    """

    def __init__(self, on_collected: Callable[[int], None]) -> None:
        self.number = next(_client_numbers)
        self._on_collected = on_collected

    def __del__(self) -> None:
        self._on_collected(self.number)


class ClientId(NamedTuple):
    """The client a request is made with: its origin, and a number of its own."""

    origin: ClientOrigin
    number: int


def make_client_id(origin: ClientOrigin) -> ClientId:
    """Return the id of another client of that origin."""
    return ClientId(origin, next(_client_numbers))


class RequestState(NamedTuple):
    """What a request was made with, where the provider keeps the messages before it."""

    messages: list[Any]
    server_arguments: Mapping[str, Any]


class ClientConversation:
    """One conversation: its current run, its open calls, and the keys by which its next request is found.

    `request_key` and `reply_key` are the fingerprints its latest request and reply end with, `server_key` is
    what the provider knows it by. `host_run_id` is the run the host has opened itself. `origin_number` and
    `client_number` name the client of its latest request. `failed_outcome` is the outcome of its run if that
    request was the last: keeping the error itself would keep the host's frames alive.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.rewrite_count = 0
        self.goal = ""
        self.run: AgentRun | None = None
        self.host_run_id: str | None = None
        self.origin_number = 0
        self.client_number = 0
        self.exchange: Exchange | None = None
        self.stopped: RunStopped | None = None
        self.failed_outcome: str | None = None
        self.was_abandoned = False
        self.open_calls: dict[str, ContentPart] = {}
        self.answered_calls: set[str] = set()
        self.edits: ConversationEdits | None = None
        self.undelivered: Instruction | None = None
        self.states: BoundedDict[str, RequestState] = BoundedDict(_MAX_STATES)
        self.request_key: int | None = None
        self.reply_key: int | None = None
        self.server_key: str | None = None
        self._labels = itertools.count(1)

    @property
    def version(self) -> str:
        """The prefix of its states' names; another one once its host has rewritten it and places moved."""
        return f"{self.number}.{self.rewrite_count}"

    def save_state(self, state: RequestState, label: str = "") -> str:
        """Remember what a request was made with; return the label to return to it by."""
        label = label or f"request {next(self._labels)}"
        self.states[label] = state
        return label

    @property
    def is_joined(self) -> bool:
        """Whether its run is one that the host has opened itself."""
        return self.run is not None and self.run.run_id == self.host_run_id

    def end(self) -> None:
        """End its run, if one is open."""
        run = self.run
        if run is None or run.has_ended:
            return
        if not run.boundary.monitor.count_events(run.run_id):
            run.boundary.forget(run)  # the host has ended it, or its monitor is closed
            return
        run.end(outcome=self.failed_outcome or LEFT_EARLY)  # a final reply would have ended it already

    def end_if_abandoned(self) -> None:
        """End its run if its last request failed or its reply was left unread, since its client is gone.

        Any other conversation may continue in another client.
        """
        latest = self.exchange
        if latest is not None and latest.is_partly_read:
            latest.close()
        has_no_reply = self.was_abandoned or self.failed_outcome is not None
        if has_no_reply and self.exchange is None and not self.open_calls:
            self.end()


class ParentCall(NamedTuple):
    """A call that is still open, and the conversation it was asked for in."""

    conversation: ClientConversation
    call: ContentPart


class ConversationMatch(NamedTuple):
    """The conversation of a request, how many of its messages were known, and the exchange it interrupts."""

    conversation: ClientConversation
    known_count: int
    interrupted: "Exchange | None" = None


class ConversationTable:
    """The latest conversations; when there are too many the run of the oldest is ended."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self._numbers = itertools.count(1)
        self._conversations: BoundedDict[int, ClientConversation] = BoundedDict(_MAX_CONVERSATIONS)
        self._by_key: dict[int | str, list[ClientConversation]] = {}
        self._fingerprints = FingerprintCache()

    def fingerprint(self, messages: Sequence[Any]) -> list[int]:
        """Return a fingerprint for each message of a request."""
        with self.lock:
            return self._fingerprints.fingerprint(messages)

    def forget_messages(self, messages: Sequence[Any], length: int) -> None:
        """Forget the messages of a request that had this many, and after which nothing is open."""
        with self.lock:
            self._fingerprints.forget(messages, length)

    def list_all(self) -> list[ClientConversation]:
        """Return every conversation that is remembered, the oldest first."""
        with self.lock:
            return list(self._conversations.values())

    def assign(self, exchange: "Exchange", host_run_id: str | None) -> ConversationMatch:
        """Return the conversation a request belongs to, and make this its current exchange."""
        with self.lock:
            match = self._find(exchange, host_run_id) or self._start(exchange)
            conversation = match.conversation
            self._update_keys(conversation, exchange)
            interrupted, conversation.exchange = conversation.exchange, exchange
            conversation.origin_number = exchange.client.origin.number
            conversation.client_number = exchange.client.number
            dropped = self._conversations.put(conversation.number, conversation)
            if dropped is not None:
                self._remove_keys(dropped[1])
        if dropped is not None:
            dropped[1].end()
        return match._replace(interrupted=interrupted)

    def record_reply(self, conversation: ClientConversation, messages: Sequence[Any], reply_id: str) -> None:
        """Record a reply: the next request will contain its messages, or name it."""
        with self.lock:
            if conversation.request_key is not None:
                fingerprints = fingerprint_messages(messages, conversation.request_key)
                conversation.reply_key = fingerprints[-1] if fingerprints else None
                self._add_key(conversation, conversation.reply_key)
            if reply_id:
                self._remove_key(conversation, conversation.server_key)
                conversation.server_key = reply_id
                self._add_key(conversation, reply_id)

    def find_parent_call(self, goal: str, child: ClientConversation) -> ParentCall | None:
        """Return the open call with an argument that is the beginning of a conversation, if there is one.

        Then the conversation is that of a sub-agent, which works for the call.
        """
        beginning = goal[:_MAX_CHARACTERS_COMPARED].strip()
        if not beginning:
            return None
        for other in reversed(self.list_all()):
            if other is child or other.run is None or other.run.has_ended:
                continue
            for call in list(other.open_calls.values()):
                if any(_is_contained(text, beginning) for text in _list_texts(call.args)):
                    return ParentCall(other, call)
        return None

    # --- finding ---------------------------------------------------------------------------------

    def _find(self, exchange: "Exchange", host_run_id: str | None) -> ConversationMatch | None:
        if exchange.server_state.id is not None:
            return self._find_by_server_key(exchange, host_run_id)
        by_messages = self._find_by_fingerprints(exchange, host_run_id)
        return by_messages or self._find_by_results(exchange.messages)

    def _start(self, exchange: "Exchange") -> ConversationMatch:
        known = 0 if exchange.server_state.id is not None else find_last_turn(exchange.messages)
        return ConversationMatch(ClientConversation(next(self._numbers)), known)

    def _find_by_server_key(self, exchange: "Exchange", host_run_id: str | None) -> ConversationMatch | None:
        known = self._by_key.get(exchange.server_state.id or "", ())
        candidates = [it for it in known if _can_continue(it)]
        return ConversationMatch(_choose(candidates, exchange, host_run_id), 0) if candidates else None

    def _find_by_fingerprints(
        self, exchange: "Exchange", host_run_id: str | None
    ) -> ConversationMatch | None:
        fingerprints = exchange.fingerprints
        for index in range(len(fingerprints) - 1, -1, -1):
            fingerprint = fingerprints[index]
            known = self._by_key.get(fingerprint) if fingerprint else None
            if known is None:
                continue
            # The same request once more is another conversation, unless the first one failed.
            has_more = index + 1 < len(fingerprints)
            candidates = [
                it
                for it in known
                if _can_continue(it)
                and (has_more or it.reply_key == fingerprint or it.failed_outcome is not None)
            ]
            if candidates:
                return ConversationMatch(_choose(candidates, exchange, host_run_id), index + 1)
        return None

    def _find_by_results(self, messages: Sequence[Any]) -> ConversationMatch | None:
        first = find_last_results(messages)
        steps = [step for message in messages[first:] for step in read_steps(message)]
        call_ids = {step.call_id for step in steps if step.kind == "result"}
        if not call_ids:
            return None
        candidates = [
            it
            for it in self._conversations.values()
            if call_ids <= (it.open_calls.keys() | it.answered_calls)
        ]
        if len(candidates) != 1:
            return None
        candidates[0].edits = None
        candidates[0].rewrite_count += 1
        return ConversationMatch(candidates[0], first)

    # --- keys ------------------------------------------------------------------------------------

    def _update_keys(self, conversation: ClientConversation, exchange: "Exchange") -> None:
        self._remove_keys(conversation)
        fingerprints, server_key = exchange.fingerprints, exchange.server_state.id
        conversation.request_key = (fingerprints[-1] if fingerprints and server_key is None else 0) or None
        conversation.server_key = server_key
        self._add_key(conversation, conversation.request_key)
        self._add_key(conversation, server_key)

    def _add_key(self, conversation: ClientConversation, key: int | str | None) -> None:
        if key is not None and conversation not in (known := self._by_key.setdefault(key, [])):
            known.append(conversation)

    def _remove_keys(self, conversation: ClientConversation) -> None:
        for key in (conversation.request_key, conversation.reply_key, conversation.server_key):
            self._remove_key(conversation, key)
        conversation.request_key = conversation.reply_key = conversation.server_key = None

    def _remove_key(self, conversation: ClientConversation, key: int | str | None) -> None:
        known = self._by_key.get(key) if key is not None else None
        if key is None or known is None:
            return
        if conversation in known:
            known.remove(conversation)
        if not known:
            del self._by_key[key]


def _can_continue(conversation: ClientConversation) -> bool:
    """Return whether no reply is awaited in it; one that is streamed may have been left half read."""
    latest = conversation.exchange
    return latest is None or latest.is_finished or latest.is_streaming


def _choose(
    candidates: Sequence[ClientConversation], exchange: "Exchange", host_run_id: str | None
) -> ClientConversation:
    """Return the latest conversation, before all others one of the same run of the host, then client."""
    origin = exchange.client.origin.number
    return max(
        candidates, key=lambda it: (it.host_run_id == host_run_id, it.origin_number == origin, it.number)
    )


def _list_texts(args: Any) -> list[str]:
    values = list(args.values()) if is_a(args, dict) else [args]
    return [value for value in values if is_a(value, str)]


def _is_contained(argument: str, beginning: str) -> bool:
    text = argument[:_MAX_CHARACTERS_COMPARED].strip()
    return text == beginning or (len(text) >= _MIN_CHARACTERS_CONTAINED and text in beginning)
