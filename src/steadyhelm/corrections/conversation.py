"""Follow a conversation up to the user's next message: what was asked, what was done, what was said last."""

import re
import zlib
from typing import Final

from msgspec import Struct, field

from steadyhelm.corrections.features import extract_features
from steadyhelm.corrections.messages import (
    MAX_AGENT_CHARS,
    MAX_PROMPT_CHARS,
    MAX_REPLY_CHARS,
    parse_agent_message,
)
from steadyhelm.corrections.model import CorrectionWeights, load_weights
from steadyhelm.corrections.reply_classifier import ReplyLabel, label_reply
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent

_INTERRUPTIONS: Final = frozenset({"interrupted", "user_interrupt"})
"""The names that recorders use for a user who stops the agent."""

# A mark that ends or steers a conversation, such as ###STOP### or [DONE]: no person wrote it.
_SIGNAL: Final = re.compile(r"\s{0,64}[#<\[{*=_|-]{1,4}[A-Z][A-Z_ ]{1,40}[#>\]}*=_|-]{1,4}\s{0,64}")
_MAX_HASHED_CHARS: Final = 8192
_MAX_SIGNAL_CHARS: Final = 64
_MAX_STEP_IDS: Final = 8


class ReplyTracker(Struct):
    """The state of one conversation; labels each message of the user by what came before it.

    `messages` counts what the user has sent; `prompt` is the latest of it, `answer` what the agent said last,
    `calls`, `errors` and `interrupted` what happened in between.
    `ids` are the latest steps of the agent: while it has done nothing since, those of the turn before.
    `said` is a hash of the latest message, `takes_up` whether that is about the same thing as the one before.
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
    takes_up: bool = False

    @property
    def only_asked(self) -> bool:
        """Whether the agent has done nothing but ask, so that the next message answers it."""
        return not self.calls and parse_agent_message(self.answer).expects_answer

    def record(self, event: TraceEvent, weights: CorrectionWeights | None = None) -> ReplyLabel | None:
        """Record one event. Returns the label of a message of the user about work before it.

        The label has cues only when it is a correction. Without `weights` it is by those of this package.
        """
        kind = event.action_type
        if kind == TOOL_CALL:
            self.calls += 1
            self.errors += event.error is not None
            self._record_step(event)
        elif kind == LLM_REQUEST:
            self._record_answer(event)
        elif kind == USER_MESSAGE:
            return self._record_message(event.text, weights)
        elif kind == STATE_TRANSITION and event.action_name in _INTERRUPTIONS:
            self.interrupted = True
        return None

    def _record_answer(self, event: TraceEvent) -> None:
        text = event.text
        if text and (words := text[-MAX_AGENT_CHARS:].strip()):
            self.answer = words
        self._record_step(event)

    def _record_step(self, event: TraceEvent) -> None:
        self.has_worked = True
        if not self.is_answered:
            self.is_answered = True
            self.ids = []
        self.ids.append(event.event_id)
        if len(self.ids) > _MAX_STEP_IDS:
            del self.ids[0]

    def _record_message(self, text: str, weights: CorrectionWeights | None) -> ReplyLabel | None:
        key = zlib.crc32(text[:_MAX_HASHED_CHARS].encode("utf-8", "replace"))
        if (self.messages and key == self.said) or _SIGNAL.fullmatch(text[:_MAX_SIGNAL_CHARS]):
            # A harness that sends the same text again, or a signal, is not a user.
            return None
        self.messages += 1
        label = self._classify(text, weights) if self.has_worked and text.strip() else None
        self.prompt, self.said = text[:MAX_PROMPT_CHARS], key
        self.calls = self.errors = 0
        self.interrupted = self.is_answered = False
        return label

    def _classify(self, text: str, weights: CorrectionWeights | None) -> ReplyLabel:
        features = extract_features(
            text[:MAX_REPLY_CHARS],
            assistant_before=self.answer,
            prompt_before=self.prompt,
            interrupted=self.interrupted,
            tool_calls=self.calls,
            tool_errors=self.errors,
            turn=self.messages,
        )
        self.takes_up = features.takes_up_prompt
        return label_reply(features, weights or load_weights(), explain_corrections_only=True)
