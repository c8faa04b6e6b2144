"""A scripted model that ignores some guidance in a defined way.

Like a real model it knows nothing but the conversation it is shown: when that is rolled back, it forgets.
"""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Sequence
from itertools import cycle, islice

from agent_moves import Answer, Call, Message
from msgspec import Struct, structs

_LETTERS_A_TOKEN = 4


class StubbornModel(Struct, frozen=True, kw_only=True):
    """Starts well, then repeats a habit, and changes to its cure after the guidance it follows.

    Args:
        opening: Its first moves.
        habit: What it does after those, again and again.
        cure: What it does once it has heard.
        heeds: The beginning of the name of the message it obeys, such as `remind`, `replan` or `rollback`;
            `user` for a second message of the user.
        plan: What it writes when it is asked for a plan.
    """

    opening: Sequence[Call | Answer]
    habit: Sequence[Call | Answer]
    cure: Sequence[Call | Answer]
    heeds: str
    plan: str = "1. Go on as before"

    def think(self, messages: list[Message]) -> Call | Answer:
        """Return the next move, which depends on the conversation alone."""
        # Every reply pays for all that was said before it: a loop costs more the longer it lasts.
        tokens = sum(len(message["content"]) for message in messages) // _LETTERS_A_TOKEN
        if messages[-1].get("name", "").startswith("replan"):
            return Answer(says=self.plan, tokens=tokens)
        return structs.replace(self._move(messages), tokens=tokens)

    def _move(self, messages: list[Message]) -> Call | Answer:
        heard = self._heard(messages)
        if heard is not None:
            return self.cure[min(self._count_moves(messages[heard:]), len(self.cure) - 1)]
        made = self._count_moves(messages)
        if made < len(self.opening):
            return self.opening[made]
        return next(islice(cycle(self.habit), made - len(self.opening), None))

    def _heard(self, messages: list[Message]) -> int | None:
        """Return the place in the conversation of the guidance it follows."""
        if self.heeds == "user":
            places = [place for place, message in enumerate(messages) if message["role"] == "user"][1:]
        else:
            named = enumerate(message.get("name", "") for message in messages)
            places = [place for place, name in named if name.startswith(self.heeds)]
        return places[0] if places else None

    def _count_moves(self, messages: list[Message]) -> int:
        """Return the number of moves in this part of the conversation; a plan is none."""
        own = (message["content"] for message in messages if message["role"] == "assistant")
        return sum(words != self.plan for words in own)
