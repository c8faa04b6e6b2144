"""Edit a conversation that its framework keeps as it was: add guidance, and leave parts out.

Where a framework lets us change each request but keeps the conversation itself, guidance must be added to
every later request at the same place, and what was rolled back must be left out of every later request.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from steadyhelm.adapter import Instruction


class _Edit(Struct):
    """A text in place of the messages from `start` up to `end`, by the framework's own count."""

    start: int
    end: int
    text: str


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
        """Add guidance or a rollback to a conversation that has this many messages now."""
        if instruction.verdict == "guide" and instruction.text:
            self._edits.append(_Edit(length, length, instruction.text))
        elif instruction.verdict == "rollback" and instruction.checkpoint is not None:
            start = min(int(instruction.checkpoint.label or 0), length)
            self._edits = [edit for edit in self._edits if edit.start < start]
            self._edits.append(_Edit(start, length, instruction.text))

    def apply(self, messages: Sequence[Any], make_message: Callable[[str], Any]) -> list[Any]:
        """Return the conversation for the model; `make_message` turns a text into a message."""
        if len(messages) < self._longest:
            # The conversation was made shorter: places in it mean nothing any more.
            self._edits.clear()
        self._longest = len(messages)
        edited: list[Any] = []
        done = 0
        for edit in self._edits:
            edited += messages[done : edit.start]
            if edit.text:
                edited.append(make_message(edit.text))
            done = max(done, edit.end)
        return [*edited, *messages[done:]]

    @staticmethod
    def state(messages: Sequence[Any]) -> str:
        """Return the name of the state of a conversation, for a checkpoint."""
        return str(len(messages))
