"""Words put into a conversation, and stretches taken out of it, while its framework keeps it as it was.

Where a framework lets us change what the model is asked with, but keeps the conversation itself, what was
said once must be said again with every request, at the same place; what was taken back must stay away.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from steadyhelm.adapter import Instruction


class _Edit(Struct):
    """From `at` up to `until`, by the framework's own count of messages, stand these words."""

    at: int
    until: int
    words: str


class ConversationEdits:
    """The edits of one conversation.

    >>> edits = ConversationEdits()
    >>> edits.add(Instruction(verdict="guide", text="Look up."), 2)
    >>> edits.apply(["hello", "hi", "more"], str.upper)
    ['hello', 'hi', 'LOOK UP.', 'more']
    """

    def __init__(self) -> None:
        self._edits: list[_Edit] = []
        self._longest = 0

    def add(self, instruction: Instruction, length: int) -> None:
        """Carry out words or a return, in a conversation that has this many messages now."""
        if instruction.verdict == "guide" and instruction.text:
            self._edits.append(_Edit(length, length, instruction.text))
        elif instruction.verdict == "rollback" and instruction.checkpoint is not None:
            at = min(int(instruction.checkpoint.label or 0), length)
            self._edits = [edit for edit in self._edits if edit.at < at]
            self._edits.append(_Edit(at, length, instruction.text))

    def apply(self, messages: Sequence[Any], message: Callable[[str], Any]) -> list[Any]:
        """The conversation as the model shall see it; `message` makes one of some words."""
        if len(messages) < self._longest:
            # Somebody made the conversation shorter: places in it do not mean anything any more.
            self._edits.clear()
        self._longest = len(messages)
        edited: list[Any] = []
        done = 0
        for edit in self._edits:
            edited += messages[done : edit.at]
            if edit.words:
                edited.append(message(edit.words))
            done = max(done, edit.until)
        return [*edited, *messages[done:]]

    @staticmethod
    def state(messages: Sequence[Any]) -> str:
        """The name of how a conversation stands, to return to."""
        return str(len(messages))
