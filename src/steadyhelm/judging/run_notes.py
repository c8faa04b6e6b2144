"""What a run keeps so that questions can be asked about it: its latest steps and words, cut short."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct, field, structs

from steadyhelm.corrections.conversation import ReplyTracker
from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import encode_arguments, encode_canonical
from steadyhelm.judging.blocks import cut_middle

STEPS_KEPT: Final = 40
NOTED_CHARS: Final = 400
MESSAGE_CHARS: Final = 1_200
_MIN_SHOWN: Final = 2


class StepNote(Struct, array_like=True, frozen=True):
    """A step, cut short: `asked` are a call's arguments, `result` what came back or what was said."""

    seq: int
    event_id: str
    action_type: str
    name: str
    asked: str = ""
    result: str = ""
    failed: bool = False


class RunNotes(Struct):
    """The latest steps of a run, the user's latest message, and what was said before it.

    `said_before` is what the agent said before that message, `asked_before` the user's message before it,
    `calls` the number of steps the agent has taken, and `is_answer` whether it had done nothing but ask
    before that message.
    """

    steps: list[StepNote] = field(default_factory=list)
    message: str = ""
    message_seq: int = -1
    said_before: str = ""
    asked_before: str = ""
    calls: int = 0
    is_answer: bool = False
    conversation: ReplyTracker = field(default_factory=ReplyTracker)

    def drop_texts(self) -> "RunNotes":
        """Return the notes without what was said and done, for a run whose text may not be stored."""
        return structs.replace(self, steps=[], message="", said_before="", asked_before="")

    def shows(self, proof: Collection[str] = ()) -> bool:
        """Return whether enough steps are noted to ask about them: two, of these where there are two."""
        noted = [it.event_id for it in self.steps]
        known = [it for it in noted if it in proof] if len(proof) > 1 else noted
        return len(known) >= min(_MIN_SHOWN, len(proof) or _MIN_SHOWN)

    def add(self, event: TraceEvent) -> ReplyLabel | None:
        """Note an event; return the label of a message of the user about work before it."""
        kind = event.action_type
        if kind == STATE_TRANSITION:
            self.conversation.record(event)
            return None
        if kind == USER_MESSAGE:
            self.said_before, self.asked_before = self.conversation.answer, self.message
            self.is_answer = self.conversation.only_asked
            self.message, self.message_seq = cut_middle(event.text, MESSAGE_CHARS), event.seq
        elif kind in {TOOL_CALL, LLM_REQUEST}:
            self.calls += 1
        else:
            return None
        self.steps.append(_note_step(event))
        if len(self.steps) > STEPS_KEPT:
            del self.steps[0]
        return self.conversation.record(event)


def _note_step(event: TraceEvent) -> StepNote:
    asked, result = "", event.text
    if event.action_type == TOOL_CALL:
        asked = encode_arguments(event)[: 4 * NOTED_CHARS].decode("utf-8", "replace")
        output = event.error or event.output_data
        result = output if isinstance(output, str) else encode_canonical(output).decode("utf-8", "replace")
    return StepNote(
        event.seq,
        event.event_id,
        event.action_type,
        event.action_name,
        cut_middle(asked, NOTED_CHARS),
        cut_middle(result, NOTED_CHARS),
        event.error is not None,
    )
