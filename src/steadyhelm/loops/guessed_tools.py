"""One attempt through one tool after another, each of which fails with the same error."""

import re
from typing import Final

from msgspec import Struct, field

from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.outcomes import hash_error
from steadyhelm.loops.steps import ToolStep

GUESSED_TOOLS_OF_LOOP: Final = 4

_MAX_ERROR_CHARS: Final = 480
_NO_SUCH_TOOL: Final = re.compile(
    r"\b(?:no such|unknown|undefined|invalid|unrecogni[sz]ed|nonexistent) (?:tool|function|method|action)\b"
    r"|\b(?:tool|function|method|action)\b.{0,60}(?:not found|not exist|n[o']t exist|unknown"
    r"|is not (?:a|available|known|defined|registered|supported))"
    r"|\bnot a (?:valid|known|registered|recogni[sz]ed|supported) (?:tool|function|method|action)\b"
    r"|\bno (?:tool|function|method|action) (?:named|called|with)\b",
    re.IGNORECASE | re.DOTALL,
)


class GuessedTools(Struct):
    """The tools through which one thing was tried in a row, with one error each time.

    `text` is the latest error, `arguments` are those of all calls; where the error says that there is no such
    tool they may differ.
    """

    text: str = ""
    arguments: bytes = b""
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    last_seq: int = -1

    def clear(self) -> None:
        """Forget everything."""
        if self.names:
            self.names, self.ids = [], []

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a call that failed, and return a match when the same failed through other tools before."""
        event = step.event
        text, name = step.outcome.sample[:_MAX_ERROR_CHARS], event.action_name
        if self.names and (name != self.names[-1]) and not self._is_same_attempt(step, text):
            self.clear()
        if self.names and (name in self.names or not step.has_seen(self.last_seq)):
            return None
        self.text, self.arguments, self.last_seq = text.replace(name, "~"), step.arguments, event.seq
        self.names.append(name)
        self.ids = [*self.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        del self.names[:-MAX_EVIDENCE_IDS]
        count = len(self.names)
        if count < GUESSED_TOOLS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="same error",
            count=count,
            patience=GUESSED_TOOLS_OF_LOOP,
            event_ids=tuple(self.ids),
            message=f"{count} tools in a row gave the same error, {event.action_name} the last of them",
        )

    def _is_same_attempt(self, step: ToolStep, text: str) -> bool:
        """Return whether a call of another tool failed as the last one did, for the same reason."""
        if step.arguments != self.arguments and not is_unknown_tool(text):
            return False
        return hash_error(text.replace(step.event.action_name, "~")) == hash_error(self.text)


def is_unknown_tool(text: str) -> bool:
    """Return whether a result says that there is no tool of the name that was called.

    >>> is_unknown_tool('Tool "sms" not found.'), is_unknown_tool("the page was not found")
    (True, False)
    """
    return _NO_SUCH_TOOL.search(text[:_MAX_ERROR_CHARS]) is not None
