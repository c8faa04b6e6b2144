"""Record requests and replies of clients with the runs they belong to, and carry out what a run must do."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from msgspec import structs

from steadyhelm.adapter import Capabilities, Instruction
from steadyhelm.adapters.clients.conversations import (
    ClientConversation,
    ClientId,
    ConversationTable,
    RequestState,
)
from steadyhelm.adapters.clients.fingerprints import group_by_fingerprint
from steadyhelm.adapters.clients.translate import (
    ApiFormat,
    ClientReply,
    ReplyBuilder,
    make_model_reply,
    read_steps,
)
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.bounded import BoundedDict
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.live_runs import describe_outcome
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import RunStopped
from steadyhelm.host_objects import MISSING, has_methods, is_a, read_field
from steadyhelm.recordings.content import ContentPart

CAN: Final[Capabilities] = {"before_model": ("guide", "rollback", "stop")}
"""A host makes its calls itself: they are seen, and cannot be refused from here."""

_MAX_PENDING_REPLIES: Final = 1000
_model_call_numbers: Final = itertools.count(1)


class ClientWatcher:
    """Watches requests to models, through all clients of one kind: a conversation may use several of them.

    Args:
        monitor: The monitor that records them.
        source: The adapter's name.
        ask: A function that asks the user a question.

    `ends_failed` is whether a failed request ends its run: others wait for another try, or the client's end.
    """

    def __init__(self, monitor: Monitor, source: str, ask: Ask | None = None) -> None:
        self.monitor = monitor
        self.boundary = Boundary(monitor, source, CAN, ask=ask, encloses=False)
        self.ends_failed = False
        self.conversations = ConversationTable()
        self._pending: BoundedDict[str, Exchange] = BoundedDict(_MAX_PENDING_REPLIES)
        self._dropped: deque[Exchange] = deque()
        self._collected: deque[int] = deque()

    def open_exchange(self, api_format: ApiFormat, arguments: dict[str, Any], client: ClientId) -> "Exchange":
        """Return the exchange of a request that is about to be made."""
        self._handle_notes()
        return Exchange(self, api_format, arguments, client)

    def add_pending(self, reply_id: str, exchange: "Exchange") -> None:
        """Remember an exchange whose reply will be fetched later."""
        oldest = self._pending.put(reply_id, exchange)
        if oldest is not None:
            oldest[1].close()

    def find_pending(self, reply_id: object) -> "Exchange | None":
        """Return the exchange whose reply has this id, if it was not fetched yet."""
        return self._pending.get(reply_id) if is_a(reply_id, str) else None

    def remove_pending(self, reply_id: str) -> None:
        """Forget a pending reply: it was fetched."""
        self._pending.pop(reply_id, None)

    def note_dropped(self, exchange: "Exchange") -> None:
        """Note that the rest of a reply will not be read. Takes no lock: the garbage collector calls it."""
        self._dropped.append(exchange)

    def note_collected(self, origin_number: int) -> None:
        """Note that a client and all its copies were garbage collected. Takes no lock."""
        self._collected.append(origin_number)

    def close_client(self, origin_number: int) -> None:
        """End what failed or was left unread in a client that is closed, and in its copies."""
        self._collected.append(origin_number)
        self._handle_notes()

    def end_runs(self, client: ClientId | None = None) -> None:
        """End all runs, or those whose latest request was made with that client."""
        self._handle_notes()
        for conversation in self.conversations.list_all():
            if client is None or conversation.client_number == client.number:
                conversation.end()

    def _handle_notes(self) -> None:
        """Handle what was noted; replies first, since they refer to the origin of their client."""
        if not self._dropped and not self._collected:
            return
        with self.boundary.guard("dropped replies and clients"):
            while self._dropped:
                self._dropped.popleft().close()
            origins = {self._collected.popleft() for _ in range(len(self._collected))}
            for conversation in self.conversations.list_all() if origins else ():
                if conversation.origin_number in origins:
                    conversation.end_if_abandoned()


class ReplyFailed(Exception):  # noqa: N818 - reported in a reply, not raised by the client
    """The provider reported that it could not answer."""


class _Guidance(NamedTuple):
    """Guidance among the groups of messages of an edited conversation."""

    text: str


class Exchange:
    """One request and its reply.

    `arguments` are what the request is made with; `stopped` is set when it must not be made at all.
    """

    conversation: ClientConversation
    run: AgentRun

    def __init__(
        self, watcher: ClientWatcher, api_format: ApiFormat, arguments: dict[str, Any], client: ClientId
    ) -> None:
        self.watcher = watcher
        self.format = api_format
        self.client = client
        self.arguments = arguments
        self.stopped: RunStopped | None = None
        self.is_streaming = False
        self.is_sent = True
        value = arguments.get(api_format.messages_argument)
        self.messages = api_format.read_messages(value)
        if has_methods(value, "__next__"):
            self.arguments = {**arguments, api_format.messages_argument: self.messages}
        self.fingerprints = watcher.conversations.fingerprint(self.messages)
        self.server_state = api_format.read_server_state(arguments)
        self._key = f"client {next(_model_call_numbers)}"
        self._builder: ReplyBuilder | None = None
        self.is_finished = False
        try:
            self._begin()
        except BaseException:
            self.is_finished = True
            raise

    def guard(self, where: str) -> AbstractContextManager[None]:
        """Return a context manager that swallows our own errors, so that the host does not notice them."""
        return self.watcher.boundary.guard(where)

    @property
    def is_partly_read(self) -> bool:
        """Whether the reply is streamed and has not ended yet."""
        return self._builder is not None and not self.is_finished

    # --- the request -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Record what the request brings, and carry out what the run must do now."""
        host_run_id = self.watcher.monitor.current_run
        match = self.watcher.conversations.assign(self, host_run_id)
        conversation = self.conversation = match.conversation
        if match.interrupted is not None:
            match.interrupted.close()
        steps = [step for message in self.messages[match.known_count :] for step in read_steps(message)]
        if conversation.stopped is not None and not any(step.kind == "text" for step in steps):
            self._stop(conversation.stopped)
            return
        conversation.stopped = conversation.failed_outcome = None
        conversation.was_abandoned = False
        run = self.run = self._ensure_run(host_run_id, steps)
        self._record_steps(steps)
        instruction = run.before_model(key=self._key, state=self._save_state())
        if instruction.verdict == "stop" and run.stopped is not None:
            self._stop(run.stopped)
            run.end(run.stopped)
        elif self.server_state.id is not None:
            self._follow_on_server(instruction)
        else:
            self._follow(instruction)

    def _ensure_run(self, host_run_id: str | None, steps: list[ContentPart]) -> AgentRun:
        """Return the run of the conversation; a new one where it ended or the host has opened another."""
        conversation, previous = self.conversation, self.conversation.run
        if previous is not None and not previous.has_ended and conversation.host_run_id == host_run_id:
            return previous
        conversation.end()
        first_text = next((step for step in steps if step.kind == "text"), None)
        if first_text is not None:
            steps.remove(first_text)
            conversation.goal = first_text.words
        parent = None
        if previous is None:
            parent = self.watcher.conversations.find_parent_call(conversation.goal, conversation)
        run = self.watcher.boundary.start_run(
            conversation.goal,
            key=(conversation.number, self._key),
            parent=parent.conversation.run if parent is not None else None,
            agent=str(parent.call.name) if parent is not None else "",
            metadata={"continues_run": previous.run_id} if previous is not None else None,
        )
        conversation.run, conversation.host_run_id = run, host_run_id
        for call_id, call in conversation.open_calls.items():
            run.before_tool(call_id, str(call.name), call.args)
        return run

    def _record_steps(self, steps: Sequence[ContentPart]) -> None:
        conversation, calls = self.conversation, {}
        known_results, conversation.answered_calls = conversation.answered_calls, set()
        for step in steps:
            call_id = step.call_id or ""
            if step.kind == "call":
                calls[call_id] = step
            elif step.kind == "text":
                conversation.open_calls.clear()
                self.run.record_user_message(step.words)
            elif call_id in conversation.open_calls or call_id not in known_results:
                if conversation.open_calls.pop(call_id, None) is None:
                    call = calls.get(call_id, step)
                    self.run.before_tool(call_id, str(call.name or "tool"), call.args)
                conversation.answered_calls.add(call_id)
                self._record_result(step)

    def _record_result(self, result: ContentPart) -> None:
        value, error = (None, result.words or "failed") if result.is_error else (result.words, None)
        self.run.after_tool(result.call_id or "", value, error=error)

    def _stop(self, stopped: RunStopped) -> None:
        self.stopped = self.conversation.stopped = stopped
        self.conversation.failed_outcome = describe_outcome(stopped)
        self.conversation.open_calls.clear()
        self.conversation.exchange = None
        self.is_finished = True

    # --- instructions ----------------------------------------------------------------------------

    def _save_state(self) -> str | None:
        """Return a name for what the request is made with; None where it could not be made so again."""
        conversation = self.conversation
        if self.watcher.monitor.mode != "enforce" or self.server_state.is_lasting:
            return None
        state = RequestState(list(self.messages), self.server_state.arguments)
        if self.server_state.id is not None:
            return f"{conversation.version}:{conversation.save_state(state)}"
        label = str(len(group_by_fingerprint(self.messages, self.fingerprints)))
        if self.format.has_server_state and not conversation.states:
            conversation.save_state(state, label)
        return f"{conversation.version}:{label}"

    def _follow(self, instruction: Instruction) -> None:
        """Add guidance or roll back in a copy of the messages, now and with every request that follows."""
        conversation, groups = self.conversation, None
        if instruction.verdict in {"guide", "rollback"}:
            groups = group_by_fingerprint(self.messages, self.fingerprints)
            conversation.edits = conversation.edits or ConversationEdits()
            conversation.edits.add(self._resolve_checkpoint(instruction, str.isdigit), len(groups))
        if conversation.edits is None:
            return
        groups = groups if groups is not None else group_by_fingerprint(self.messages, self.fingerprints)
        rest = self.messages[sum(map(len, groups)) :]
        edited: list[Any] = []
        for it in [*conversation.edits.apply(groups, _Guidance), rest]:
            if is_a(it, _Guidance):
                self.format.add_guidance(edited, it.text)
            else:
                edited += it
        self.arguments = {**self.arguments, self.format.messages_argument: edited}

    def _follow_on_server(self, instruction: Instruction) -> None:
        """Do as `_follow` where the provider keeps the conversation, and with it what was added once."""
        conversation = self.conversation
        if instruction.verdict in {"guide", "rollback"}:
            conversation.undelivered = instruction
        if conversation.undelivered is None:
            return
        states, messages = conversation.states, list(self.messages)
        instruction = self._resolve_checkpoint(conversation.undelivered, states.__contains__)
        if instruction.verdict == "rollback" and instruction.checkpoint is not None:
            state, replaced = states[instruction.checkpoint.label], self.server_state.arguments
            kept = {name: value for name, value in self.arguments.items() if name not in replaced}
            self.arguments, messages = {**kept, **state.server_arguments}, list(state.messages)
        self.format.add_guidance(messages, instruction.text)
        self.arguments = {**self.arguments, self.format.messages_argument: messages}

    def _resolve_checkpoint(self, instruction: Instruction, is_known: Callable[[str], bool]) -> Instruction:
        """Return the instruction with the label of its state; only guidance where the state is not known."""
        if instruction.verdict != "rollback" or instruction.checkpoint is None:
            return instruction
        version, _, label = instruction.checkpoint.label.partition(":")
        if version == self.conversation.version and is_known(label):
            checkpoint = structs.replace(instruction.checkpoint, label=label)
            return structs.replace(instruction, checkpoint=checkpoint)
        self.run.report_failed_rollback("the state to return to is not one of the current conversation")
        return structs.replace(instruction, verdict="guide")

    # --- the reply -------------------------------------------------------------------------------

    def receive(self, reply: ClientReply) -> None:
        """Record a reply; one that is pending is awaited until it is fetched."""
        if reply.is_pending:
            self.is_streaming = True
            self._record_reply(reply)
            self.watcher.add_pending(reply.reply_id, self)
            return
        self.watcher.remove_pending(reply.reply_id)
        self._finish(reply)

    def start_stream(self) -> ReplyBuilder:
        """Return the builder that takes the pieces of the reply."""
        self.is_streaming = True
        self._builder = self.format.make_reply_builder(self.arguments)
        return self._builder

    def close(self, *, is_over: bool = False) -> None:
        """Record the reply as far as it has come; `is_over` is whether it was read to its end. Idempotent."""
        if self.is_sent:
            self._finish(self._build_reply(is_over=is_over), is_abandoned=not is_over)
        else:
            self.is_finished = True

    def fail(self, error: BaseException) -> None:
        """Record that there will be no reply. Idempotent.

        An error about a reply that was received, such as one cut at its length, holds that reply: its tokens
        were spent.
        """
        received = read_field(error, "completion")
        reply = self.format.read_reply(received) if received is not MISSING else None
        self._finish(reply or self._build_reply(), error)

    def _finish(
        self, reply: ClientReply, error: BaseException | None = None, *, is_abandoned: bool = False
    ) -> None:
        with self.watcher.conversations.lock:
            if self.is_finished:
                return
            self.is_finished = True
        conversation, run = self.conversation, self.run
        is_latest = conversation.exchange is self
        if is_latest:
            conversation.exchange = None
            conversation.was_abandoned = is_abandoned
        if reply.error is not None:
            error = ReplyFailed(reply.error)
        run.after_model(make_model_reply(reply, self.messages), key=self._key, error=error)
        if error is not None:
            conversation.failed_outcome = describe_outcome(error)
            if self.watcher.ends_failed and not conversation.is_joined:
                conversation.end()
            return
        conversation.undelivered = None
        self._record_calls(reply)
        if is_latest:
            self._record_reply(reply)
        # A run of the host's own continues, and guidance waits for the user's next turn.
        if reply.is_final and not conversation.open_calls:
            self.watcher.conversations.forget_messages(self.messages, len(self.fingerprints))
            if not conversation.is_joined:
                run.end()

    def _record_calls(self, reply: ClientReply) -> None:
        for part in reply.parts:
            call_id = part.call_id or ""
            if part.kind == "call":
                self.conversation.open_calls[call_id] = part
                self.run.before_tool(call_id, str(part.name), part.args)
            elif part.kind == "result":
                self.conversation.open_calls.pop(call_id, None)
                self._record_result(part)

    def _build_reply(self, *, is_over: bool = False) -> ClientReply:
        builder = self._builder
        if builder is not None:
            return builder.build(is_over=is_over)
        # A request that failed is known by the model it asked for.
        model = self.arguments.get("model")
        return ClientReply(model=model if is_a(model, str) else "", is_final=False)

    def _record_reply(self, reply: ClientReply) -> None:
        reply_id = "" if self.server_state.is_lasting else reply.reply_id
        self.watcher.conversations.record_reply(self.conversation, reply.messages, reply_id)
