"""One action on one target again and again, after which everything is as before."""

import re
from typing import Final, Self

from msgspec import Struct

from steadyhelm.loops.call_arguments import find_command, find_path
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.side_arguments import read_fields
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.targets import is_near, puts_many, relate_calls

SAME_ACTIONS_OF_LOOP: Final = 4

_MIN_STATE_CHARS: Final = 20
_MAX_SIZE_DIFFERENCE: Final = 8
_NEAR_NUMBERS: Final = 2

_VALUE_NAMES: Final = frozenset(
    {"value", "to", "text", "state", "option", "amount", "level", "target", "choice", "selected", "content",
     "by", "clicks", "delta", "delta_x", "delta_y", "distance", "dx", "dy", "lines", "notches", "pages",
     "pixels", "px", "scroll_amount", "steps", "ticks"}
)  # fmt: skip
# A sentence that the deed was done says nothing of what it led to.
_ACKNOWLEDGES: Final = re.compile(
    r"(?:\W{0,8}|.{0,60}\b)(?:ok|okay|success\w*|done|true|accepted|added|clicked|created|entered|filled"
    r"|moved|posted|pressed|queued|saved|selected|sent|set to|submitted|tapped|typed|updated|wrote|written"
    r"|noted)\b",
    re.IGNORECASE | re.DOTALL,
)
_ACKNOWLEDGED_FIRST: Final = re.compile(
    r"\W{0,4}(?:ok|okay|done|success|clicked|tapped|pressed|typed|scrolled|selected|submitted)\b[.:;,!]\s{1,3}",
    re.IGNORECASE,
)
_SAYS_DONE: Final = re.compile(
    r"\A\W*+(?:[\w'#-]+ ){0,5}(?!(?:un|dis)\w|need|requir|protect|lock|block|fail)\w+ed\b", re.IGNORECASE
)
_MAX_SENTENCE_CHARS: Final = 80
# A picture of the screen is numbered: its number is no effect.
_SCREEN_CLOCK: Final = re.compile(
    r"\b(?:frame|tick|screenshot|shot|capture|snapshot)\W{0,3}\d+", re.IGNORECASE
)


class RetriedAction(Struct):
    """An action, and how often it was made on one target since anything else was done or seen."""

    tool: str
    arguments: bytes
    outcome: CallOutcome
    seen: str
    ids: list[str]
    count: int = 1

    @classmethod
    def follow(cls, before: Self | None, step: ToolStep) -> Self | None:
        """Return the record with this action; None for one whose result does not show its effect."""
        seen = read_state(step)
        if not seen:
            return None
        event = step.event
        now = cls(event.action_name, step.arguments, step.outcome, seen, [event.event_id])
        if before is None or before.tool != now.tool or not before.repeats(now):
            return now
        now.ids = [*before.ids, *now.ids][-MAX_EVIDENCE_IDS:]
        now.count = before.count + 1
        return now

    def repeats(self, now: Self) -> bool:
        """Return whether another action is one on the same target, with the same to be seen afterwards."""
        if abs(len(self.seen) - len(now.seen)) > _MAX_SIZE_DIFFERENCE:
            return False
        if self.seen != now.seen and not self.outcome.equals(now.outcome):
            return False
        return self.arguments == now.arguments or has_same_target(self.arguments, now.arguments)

    def match(self) -> LoopMatch | None:
        """Return the match of an action made too often."""
        if self.count < SAME_ACTIONS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="no effect",
            count=self.count,
            patience=SAME_ACTIONS_OF_LOOP,
            event_ids=tuple(self.ids),
            sequence=(self.tool,),
            message=f"{self.tool} was tried {self.count} times on one target, and nothing changed",
        )


def has_same_target(one: bytes, other: bytes) -> bool:
    """Return whether two actions have one target: the same place, or another value for the same thing.

    >>> has_same_target(b'{"label":"Country","value":"NO"}', b'{"label":"Country","value":"Norway"}')
    True
    >>> has_same_target(b'{"label":"Country","value":"NO"}', b'{"label":"Region","value":"NO"}')
    False
    """
    if relate_calls(one, other) == "same":
        return True
    before, now = read_fields(one) or {}, read_fields(other) or {}
    if len(before) < 2 or before.keys() != now.keys():  # noqa: PLR2004 - a target, and a value for it
        return False
    varied = [name for name in now if before[name] != now[name]]
    if len(varied) != 1:
        return False
    return varied[0] in _VALUE_NAMES or is_near(before[varied[0]], now[varied[0]], _NEAR_NUMBERS)


def read_state(step: ToolStep) -> str:
    """Return what a result shows of the state after an action; nothing for an acknowledgement."""
    outcome, args = step.outcome, step.event.input_data
    if not outcome.known or outcome.failed or outcome.size < _MIN_STATE_CHARS:
        return ""
    if find_command(args) is not None or find_path(args) is not None or puts_many(step.event.action_name):
        return ""
    # "clicked. Screen: ...": what follows the acknowledgement shows the state.
    alone = _ACKNOWLEDGED_FIRST.match(outcome.sample)
    state = outcome.sample if alone is None else outcome.sample[alone.end() :]
    if len(state) < _MIN_STATE_CHARS or _ACKNOWLEDGES.match(state):
        return ""
    if len(state) < _MAX_SENTENCE_CHARS and _SAYS_DONE.match(state):
        return ""
    return _SCREEN_CLOCK.sub("~", state)
