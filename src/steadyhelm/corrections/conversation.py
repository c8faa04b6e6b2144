"""The conversation up to the user's next message: what was asked, what was done, what was said last."""

import re
import zlib
from typing import Final

from msgspec import Struct, field

from steadyhelm.corrections.before import look_back
from steadyhelm.corrections.reading import ASSISTANT_LOOKED_AT, PROMPT_LOOKED_AT, REPLY_LOOKED_AT
from steadyhelm.corrections.replies import ReplyLabel, classify_user_reply
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent

_INTERRUPTIONS: Final = frozenset({"interrupted", "user_interrupt"})
"""How those who record runs call a user who stops the agent."""

# A mark that ends or steers a conversation, such as ###STOP### or [DONE]: no person wrote it.
_SIGNAL: Final = re.compile(r"\s*[#<\[{*=_|-]{1,4}[A-Z][A-Z_ ]{1,40}[#>\]}*=_|-]{1,4}\s*")
_LOOKED_AT: Final = 8192
_LONGEST_SIGNAL: Final = 64
_IDS_KEPT: Final = 8


class Conversation(Struct):
    """Follows one run, and labels each message of the user by what stands before it.

    `messages` counts what the user has sent; `prompt` is the latest of it, `answer` what the agent said last,
    `calls`, `errors` and `interrupted` what happened in between.
    `ids` are the latest steps of the agent: while it has done nothing since, those of the turn before.
    """

    messages: int = 0
    prompt: str = ""
    answer: str = ""
    calls: int = 0
    errors: int = 0
    interrupted: bool = False
    ids: list[str] = field(default_factory=list)
    is_answered: bool = False
    has_worked: bool = False
    said: int = 0

    @property
    def only_asked(self) -> bool:
        """Whether the agent has done nothing but ask: what is said now answers it."""
        return not self.calls and look_back(self.answer).expects_answer

    def take(self, event: TraceEvent) -> ReplyLabel | None:
        """Take in one event; what the user says about the work before it, where it is such a message."""
        kind = event.action_type
        if kind == TOOL_CALL:
            self.calls += 1
            self.errors += event.error is not None
            self._step(event)
        elif kind == LLM_REQUEST:
            self._reply(event)
        elif kind == USER_MESSAGE:
            return self._message(event.text)
        elif kind == STATE_TRANSITION and event.action_name in _INTERRUPTIONS:
            self.interrupted = True
        return None

    def _reply(self, event: TraceEvent) -> None:
        text = event.text
        if text and (words := text[-ASSISTANT_LOOKED_AT:].strip()):
            self.answer = words
        self._step(event)

    def _step(self, event: TraceEvent) -> None:
        self.has_worked = True
        if not self.is_answered:
            self.is_answered = True
            self.ids = []
        self.ids.append(event.event_id)
        if len(self.ids) > _IDS_KEPT:
            del self.ids[0]

    def _message(self, text: str) -> ReplyLabel | None:
        key = zlib.crc32(text[:_LOOKED_AT].encode("utf-8", "replace"))
        if (self.messages and key == self.said) or _SIGNAL.fullmatch(text[:_LONGEST_SIGNAL]):
            # A harness that sends the same text again, or a signal, is not a user.
            return None
        self.messages += 1
        label = self._label(text) if self.has_worked and text.strip() else None
        self.prompt, self.said = text[:PROMPT_LOOKED_AT], key
        self.calls = self.errors = 0
        self.interrupted = self.is_answered = False
        return label

    def _label(self, text: str) -> ReplyLabel:
        return classify_user_reply(
            text[:REPLY_LOOKED_AT],
            assistant_before=self.answer,
            prompt_before=self.prompt,
            interrupted=self.interrupted,
            tool_calls=self.calls,
            tool_errors=self.errors,
            turn=self.messages,
        )
