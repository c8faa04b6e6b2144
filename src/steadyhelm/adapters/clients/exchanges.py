"""One request of a client and its reply, told to the run it belongs to, and steered on its way out."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.adapters.clients.conversations import Conversation, State
from steadyhelm.adapters.clients.dialect import Answer, Dialect, Gathering
from steadyhelm.adapters.clients.items import characters, grouped, steps_of
from steadyhelm.adapters.clients.origins import Through
from steadyhelm.boundary.conversation_edits import ConversationEdits
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.live_runs import describe_outcome
from steadyhelm.errors import RunStopped
from steadyhelm.recordings.content import ContentPart

if TYPE_CHECKING:
    from steadyhelm.adapters.clients.watch import ClientWatch

_CHARACTERS_A_TOKEN: Final = 4
_keys: Final = itertools.count(1)


class ReplyFailed(Exception):  # noqa: N818 - the model's side says so, in a reply that came in order
    """The model's side could not answer."""


class _Words(NamedTuple):
    text: str


class Exchange:
    """One request and its reply.

    `arguments` are what the request is made with, `stopped` is set when it shall not be made at all.
    """

    conversation: Conversation
    run: AgentRun

    def __init__(
        self, watch: "ClientWatch", dialect: Dialect, arguments: dict[str, Any], through: Through
    ) -> None:
        self.watch = watch
        self.dialect = dialect
        self.through = through
        self.arguments = arguments
        self.stopped: RunStopped | None = None
        self.is_streaming = False
        self.is_sent = True
        given = arguments.get(dialect.field)
        self.items = dialect.items(given)
        if hasattr(given, "__next__"):
            self.arguments = {**arguments, dialect.field: self.items}
        self.marks = watch.conversations.marks_of(self.items)
        self.held = dialect.held_by(arguments)
        self._key = f"client {next(_keys)}"
        self._gathering: Gathering | None = None
        self.is_settled = False
        try:
            self._begin()
        except BaseException:
            self.is_settled = True
            raise

    def guard(self, where: str) -> AbstractContextManager[None]:
        """What fails in here is our fault, and the host must not notice."""
        return self.watch.boundary.guard(where)

    @property
    def is_half_read(self) -> bool:
        """Whether the reply has begun to come in pieces, and the last is still to come."""
        return self._gathering is not None and not self.is_settled

    # --- the request -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Tell what the request brings, and take what there is to do."""
        home = self.watch.monitor.current_run
        found = self.watch.conversations.find(self, home)
        conversation = self.conversation = found.conversation
        if found.left is not None:
            found.left.leave()
        steps = [step for item in self.items[found.known :] for step in steps_of(item)]
        if conversation.stopped is not None and not any(step.kind == "text" for step in steps):
            self._stop(conversation.stopped)
            return
        conversation.stopped = conversation.failed = None
        conversation.was_left = False
        run = self.run = self._watched(home, steps)
        self._tell(steps)
        instruction = run.before_model(key=self._key, state=self._state())
        if instruction.verdict == "stop" and run.stopped is not None:
            self._stop(run.stopped)
            run.end(run.stopped)
        elif self.held.at is not None:
            self._steer_held(instruction)
        else:
            self._steer(instruction)

    def _watched(self, home: str | None, steps: list[ContentPart]) -> AgentRun:
        """The run of this conversation; where it has ended, or the host has opened another, a new one."""
        conversation, before = self.conversation, self.conversation.run
        if before is not None and not before.has_ended and conversation.home == home:
            return before
        conversation.end()
        first = next((step for step in steps if step.kind == "text"), None)
        if first is not None:
            steps.remove(first)
            conversation.goal = first.words
        caller = None
        if before is None:
            caller = self.watch.conversations.caller_of(conversation.goal, conversation)
        run = self.watch.boundary.start_run(
            conversation.goal,
            key=(conversation.number, self._key),
            parent=caller.conversation.run if caller is not None else None,
            agent=str(caller.call.name) if caller is not None else "",
            metadata={"goes_on_from": before.run_id} if before is not None else None,
        )
        conversation.run, conversation.home = run, home
        for call_id, call in conversation.open.items():
            run.before_tool(call_id, str(call.name), call.args)
        return run

    def _tell(self, steps: Sequence[ContentPart]) -> None:
        conversation, asked = self.conversation, {}
        before, conversation.answered = conversation.answered, set()
        for step in steps:
            call_id = step.call_id or ""
            if step.kind == "call":
                asked[call_id] = step
            elif step.kind == "text":
                conversation.open.clear()
                self.run.record_user_message(step.words)
            elif call_id in conversation.open or call_id not in before:
                if conversation.open.pop(call_id, None) is None:
                    call = asked.get(call_id, step)
                    self.run.before_tool(call_id, str(call.name or "tool"), call.args)
                conversation.answered.add(call_id)
                self._came_back(step)

    def _came_back(self, result: ContentPart) -> None:
        value, error = (None, result.words or "failed") if result.is_error else (result.words, None)
        self.run.after_tool(result.call_id or "", value, error=error)

    def _stop(self, stopped: RunStopped) -> None:
        self.stopped = self.conversation.stopped = stopped
        self.conversation.failed = describe_outcome(stopped)
        self.conversation.open.clear()
        self.conversation.under_way = None
        self.is_settled = True

    # --- what there is to say ---------------------------------------------------------------------

    def _state(self) -> str | None:
        """A name for what the request is made with, where it could be made so again."""
        conversation = self.conversation
        if self.watch.monitor.mode != "enforce" or self.held.lasts:
            return None
        made = State(list(self.items), self.held.arguments)
        if self.held.at is not None:
            return f"{conversation.name}:{conversation.keep(made)}"
        label = str(len(grouped(self.items, self.marks)))
        if self.dialect.can_hold and not conversation.states:
            conversation.keep(made, label)
        return f"{conversation.name}:{label}"

    def _steer(self, instruction: Instruction) -> None:
        """Say it, or go back, in a copy of the messages, and again with every request that follows."""
        conversation, groups = self.conversation, None
        if instruction.verdict in {"guide", "rollback"}:
            groups = grouped(self.items, self.marks)
            conversation.edits = conversation.edits or ConversationEdits()
            conversation.edits.add(self._understood(instruction, str.isdigit), len(groups))
        if conversation.edits is None:
            return
        groups = groups if groups is not None else grouped(self.items, self.marks)
        behind = self.items[sum(map(len, groups)) :]
        edited: list[Any] = []
        for it in [*conversation.edits.apply(groups, _Words), behind]:
            if isinstance(it, _Words):
                self.dialect.place(edited, it.text)
            else:
                edited += it
        self.arguments = {**self.arguments, self.dialect.field: edited}

    def _steer_held(self, instruction: Instruction) -> None:
        """The same where the model's side holds the conversation: what it is told once it keeps."""
        conversation = self.conversation
        if instruction.verdict in {"guide", "rollback"}:
            conversation.undelivered = instruction
        if conversation.undelivered is None:
            return
        states, items = conversation.states, list(self.items)
        instruction = self._understood(conversation.undelivered, states.__contains__)
        if instruction.verdict == "rollback" and instruction.checkpoint is not None:
            state = states[instruction.checkpoint.label]
            kept = {name: it for name, it in self.arguments.items() if name not in self.held.arguments}
            self.arguments, items = {**kept, **state.held}, list(state.items)
        self.dialect.place(items, instruction.text)
        self.arguments = {**self.arguments, self.dialect.field: items}

    def _understood(self, instruction: Instruction, knows: Callable[[str], bool]) -> Instruction:
        """The steer with the state's name as this conversation knows it; only words where it does not."""
        if instruction.verdict != "rollback" or instruction.checkpoint is None:
            return instruction
        name, _, label = instruction.checkpoint.label.partition(":")
        if name == self.conversation.name and knows(label):
            return structs.replace(
                instruction, checkpoint=structs.replace(instruction.checkpoint, label=label)
            )
        self.run.report_not_carried_out("the state to return to is not one of this conversation as it stands")
        return structs.replace(instruction, verdict="guide")

    # --- the reply -------------------------------------------------------------------------------

    def took(self, answer: Answer) -> None:
        """The reply is there, or its promise."""
        if answer.is_waiting:
            self.is_streaming = True
            self._answered(answer)
            self.watch.wait_for(answer.reply_id, self)
            return
        self.watch.has_come(answer.reply_id)
        self._settle(answer)

    def stream(self) -> Gathering:
        """The reply comes in pieces, for this to take."""
        self.is_streaming = True
        self._gathering = self.dialect.gathering(self.arguments)
        return self._gathering

    def leave(self, *, is_over: bool = False) -> None:
        """Nobody waits for the rest of the reply, or it is over; a request that was never sent has none."""
        if self.is_sent:
            self._settle(self._so_far(is_over=is_over), is_left=not is_over)
        else:
            self.is_settled = True

    def fail(self, error: BaseException) -> None:
        """There will be no reply."""
        self._settle(self._so_far(), error)

    def _settle(self, answer: Answer, error: BaseException | None = None, *, is_left: bool = False) -> None:
        with self.watch.conversations.lock:
            if self.is_settled:
                return
            self.is_settled = True
        conversation, run = self.conversation, self.run
        is_latest = conversation.under_way is self
        if is_latest:
            conversation.under_way = None
            conversation.was_left = is_left
        if answer.error is not None:
            error = ReplyFailed(answer.error)
        run.after_model(self._reply(answer), key=self._key, error=error)
        if error is not None:
            conversation.failed = describe_outcome(error)
            return
        conversation.undelivered = None
        self._note_calls(answer)
        if is_latest:
            self._answered(answer)
        # A run of the host's own goes on, and what there is to say waits for the user's next turn.
        if answer.is_final and not conversation.open:
            self.watch.conversations.done_with(self.items, len(self.marks))
            if not conversation.is_joined:
                run.end()

    def _note_calls(self, answer: Answer) -> None:
        for part in answer.parts:
            call_id = part.call_id or ""
            if part.kind == "call":
                self.conversation.open[call_id] = part
                self.run.before_tool(call_id, str(part.name), part.args)
            elif part.kind == "result":
                self.conversation.open.pop(call_id, None)
                self._came_back(part)

    def _so_far(self, *, is_over: bool = False) -> Answer:
        gathering = self._gathering
        return gathering.answer(is_over=is_over) if gathering is not None else Answer(is_final=False)

    def _answered(self, answer: Answer) -> None:
        reply_id = "" if self.held.lasts else answer.reply_id
        self.watch.conversations.answered(self.conversation, answer.items, reply_id)

    def _reply(self, answer: Answer) -> ModelReply:
        asked, came = answer.input_tokens, answer.output_tokens
        if not (asked or came) and (answer.text or answer.parts):
            # A stream tells no usage unless it is asked to: a quarter of the characters is near enough.
            asked = characters(self.items) // _CHARACTERS_A_TOKEN
            came = (
                len(answer.text) + sum(len(str(part.args)) for part in answer.parts)
            ) // _CHARACTERS_A_TOKEN
        return ModelReply(text=answer.text, model=answer.model, input_tokens=asked, output_tokens=came)
