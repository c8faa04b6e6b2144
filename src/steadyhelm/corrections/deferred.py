"""Deferred correction detection: which turns of a run the user corrected, however late.

A correction is a *delayed outcome* of the turn it is about: it scores what was noticed there, labels runs
for the lab and tells people what went wrong.
It is never an input to a decision about that turn: nothing here is read by a detector.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.corrections.attribution import Traces, about, texts_in, traces_of
from steadyhelm.corrections.conversation import Conversation
from steadyhelm.corrections.grounds import ReplyCue
from steadyhelm.corrections.replies import ReplyKind, ReplyLabel
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent

REACH: Final = 10
"""How many of the user's messages after a turn may still correct it."""


class Turn(Struct, frozen=True, kw_only=True):
    """What the agent did between two messages of the user.

    `number` counts the user's messages up to it: 0 for an agent that began by itself.
    `first` and `last` are the places of its steps among the run's events, `asked` that of the message
    before them.
    """

    number: int
    first: int
    last: int
    asked: int | None = None


class DeferredCorrection(Struct, frozen=True, kw_only=True):
    """A turn, and a later message that corrects it.

    `turn`, `first` and `last` are as in `Turn`; `message` is the place of the message among the events.
    `distance` counts the user's messages from the turn to this one: 1 is the very next.
    `by` is what ties the message to a turn that is not the one just before it.
    """

    turn: int
    first: int
    last: int
    message: int
    kind: ReplyKind
    probability: float
    distance: int
    cues: list[ReplyCue]
    by: tuple[str, ...] = ()


class Course(Struct, frozen=True, kw_only=True):
    """A run as a conversation: its turns, and the corrections of them in the order they came.

    `followed` is the number of the latest turn that a message of the user follows: what came of later
    turns nobody knows.
    """

    turns: list[Turn]
    corrections: list[DeferredCorrection]
    followed: int = -1

    @property
    def judged(self) -> list[Turn]:
        """The turns the user has had a say about."""
        return [turn for turn in self.turns if turn.number <= self.followed]

    @property
    def corrected(self) -> set[int]:
        """The numbers of the turns that were corrected."""
        return {correction.turn for correction in self.corrections}


class DelayedScore(Struct, frozen=True, kw_only=True):
    """What was noticed in a run, held against what its user corrected later.

    All are numbers of turns the user had a say about: those where something was `noticed`, those that were
    `corrected`, and of these the `unnoticed`.
    """

    judged: int
    noticed: list[int]
    corrected: list[int]
    unnoticed: list[int]

    @property
    def hits(self) -> int:
        """Turns that were noticed and corrected."""
        return len(self.corrected) - len(self.unnoticed)

    @property
    def precision(self) -> float | None:
        """Of the turns where something was noticed, the share that was corrected; None without any."""
        return self.hits / len(self.noticed) if self.noticed else None

    @property
    def recall(self) -> float | None:
        """Of the turns that were corrected, the share where something was noticed; None without any."""
        return self.hits / len(self.corrected) if self.corrected else None


def course_of(events: Iterable[TraceEvent], *, reach: int = REACH) -> Course:
    """Read a run's events in order, and attribute each correction to the turn it is about.

    Args:
        events: The run, in order.
        reach: How many of the user's messages after a turn may still correct it.
    """
    reader = _Reader(reach)
    for place, event in enumerate(events):
        reader.take(place, event)
    return reader.course()


def deferred_corrections(events: Iterable[TraceEvent], *, reach: int = REACH) -> list[DeferredCorrection]:
    """The corrections of a run's turns alone."""
    return course_of(events, reach=reach).corrections


def held_against(course: Course, places: Collection[int]) -> DelayedScore:
    """What was noticed at these places of the run's events, against what was corrected later.

    Leave out findings of corrections themselves: they are read off the same messages.
    """
    judged = course.judged
    noticed = [turn.number for turn in judged if any(turn.first <= at <= turn.last for at in places)]
    corrected = sorted(course.corrected)
    return DelayedScore(
        judged=len(judged),
        noticed=noticed,
        corrected=corrected,
        unnoticed=[number for number in corrected if number not in noticed],
    )


class _Reader:
    """Goes through a run once; keeps what the turns within reach are known by."""

    def __init__(self, reach: int) -> None:
        self._reach = reach
        self._conversation = Conversation()
        self._turns: list[Turn] = []
        self._traces: dict[int, Traces] = {}
        self._texts: list[str] = []
        self._asked: int | None = None
        self._corrections: list[DeferredCorrection] = []
        self._followed = -1

    def take(self, place: int, event: TraceEvent) -> None:
        sent = self._conversation.messages
        label = self._conversation.take(event)
        if event.action_type in (TOOL_CALL, LLM_REQUEST):
            self._step(place, event)
        elif event.action_type == USER_MESSAGE and self._conversation.messages > sent:
            self._message(place, event.text, label)

    def course(self) -> Course:
        return Course(turns=self._turns, corrections=self._corrections, followed=self._followed)

    def _step(self, place: int, event: TraceEvent) -> None:
        number = self._conversation.messages
        if not self._turns or self._turns[-1].number != number:
            self._turns.append(Turn(number=number, first=place, last=place, asked=self._asked))
        else:
            begun = self._turns[-1]
            self._turns[-1] = Turn(number=number, first=begun.first, last=place, asked=begun.asked)
        self._texts += texts_in(event.input_data) if event.action_type == TOOL_CALL else [event.text]

    def _message(self, place: int, text: str, label: ReplyLabel | None) -> None:
        if self._turns:
            latest = self._turns[-1].number
            self._followed = latest
            if latest not in self._traces:
                self._traces[latest] = traces_of(self._texts)
            if label is not None and label.is_drift:
                self._attribute(place, text, label)
            # Words said while nothing was done belong to the next request.
            self._texts = [*(self._texts if self._is_unanswered() else []), text]
        else:
            self._texts.append(text)
        self._asked = place

    def _is_unanswered(self) -> bool:
        """Whether the message just taken follows another one, with nothing done in between."""
        return self._turns[-1].number < self._conversation.messages - 1

    def _attribute(self, place: int, text: str, label: ReplyLabel) -> None:
        number = self._conversation.messages
        within = list(self._within(number))
        if not within:
            return
        found = about(text, [self._traces[turn.number] for turn in within])
        turn = within[-1 - found.back]
        self._corrections.append(
            DeferredCorrection(
                turn=turn.number,
                first=turn.first,
                last=turn.last,
                message=place,
                kind=label.primary,
                probability=label.drift,
                distance=number - turn.number,
                cues=label.cues,
                by=found.by,
            )
        )

    def _within(self, number: int) -> Iterator[Turn]:
        """The turns that a message of this number can still be about."""
        recent: Sequence[Turn] = self._turns[-self._reach :]
        return (turn for turn in recent if number - turn.number <= self._reach)
