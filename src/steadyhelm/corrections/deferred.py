"""Deferred correction detection: find which turns of a run the user corrected, however late.

A correction is a *delayed outcome* of the turn it is about: it scores the findings there, labels runs for the
lab and shows what went wrong.
It is never an input to a decision about that turn: no detector uses this module.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from steadyhelm.corrections.conversation import ReplyTracker
from steadyhelm.corrections.messages import MAX_REPLY_CHARS, PACKAGE, find_topics, find_words, parse_message
from steadyhelm.corrections.model import ReplyCue
from steadyhelm.corrections.reply_classifier import ReplyKind, ReplyLabel
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.lexicons import load_lexicon

MAX_DISTANCE: Final = 10
"""How many of the user's messages after a turn may still correct it."""


class AgentTurn(Struct, frozen=True, kw_only=True):
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

    `turn`, `first` and `last` are as in `AgentTurn`; `message` is the place of the message among the events.
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


class CorrectionHistory(Struct, frozen=True, kw_only=True):
    """The turns of a run, and their corrections in the order of the messages.

    `followed` is the number of the latest turn that a message of the user follows: whether later turns were
    right is not known.
    """

    turns: list[AgentTurn]
    corrections: list[DeferredCorrection]
    followed: int = -1

    @property
    def judged(self) -> list[AgentTurn]:
        """The turns that a message of the user follows."""
        return [turn for turn in self.turns if turn.number <= self.followed]

    @property
    def corrected(self) -> set[int]:
        """The numbers of the turns that were corrected."""
        return {correction.turn for correction in self.corrections}


class DelayedScore(Struct, frozen=True, kw_only=True):
    """The findings of a run, compared with what its user corrected later.

    All are numbers of turns that a message of the user follows: those with a finding are `noticed`, and
    then come those that were `corrected`, and of these the `unnoticed`.
    """

    judged: int
    noticed: list[int]
    corrected: list[int]
    unnoticed: list[int]

    @property
    def hits(self) -> int:
        """The number of turns that were noticed and corrected."""
        return len(self.corrected) - len(self.unnoticed)

    @property
    def precision(self) -> float | None:
        """The share of the noticed turns that was corrected; None without noticed turns."""
        return self.hits / len(self.noticed) if self.noticed else None

    @property
    def recall(self) -> float | None:
        """The share of the corrected turns that was noticed; None without corrected turns."""
        return self.hits / len(self.corrected) if self.corrected else None


def find_corrections(events: Iterable[TraceEvent], *, max_distance: int = MAX_DISTANCE) -> CorrectionHistory:
    """Return the turns of a run, and each correction with the turn it is about.

    Args:
        events: The run, in order.
        max_distance: How many of the user's messages after a turn may still correct it.
    """
    reader = _RunReader(max_distance)
    for place, event in enumerate(events):
        reader.record(place, event)
    return reader.build_history()


def score_findings(history: CorrectionHistory, places: Collection[int]) -> DelayedScore:
    """Compare the findings at these places of the run's events with what was corrected later.

    Leave out findings of corrections themselves: they are derived from the same messages.
    """
    judged = history.judged
    noticed = [turn.number for turn in judged if any(turn.first <= at <= turn.last for at in places)]
    corrected = sorted(history.corrected)
    return DelayedScore(
        judged=len(judged),
        noticed=noticed,
        corrected=corrected,
        unnoticed=[number for number in corrected if number not in noticed],
    )


class _RunReader:
    """Reads a run once, and keeps the content of its turns."""

    def __init__(self, max_distance: int) -> None:
        self._max_distance = max_distance
        self._tracker = ReplyTracker()
        self._turns: list[AgentTurn] = []
        self._contents: dict[int, TurnContent] = {}
        self._texts: list[str] = []
        self._last_message: int | None = None
        self._corrections: list[DeferredCorrection] = []
        self._followed = -1

    def record(self, place: int, event: TraceEvent) -> None:
        sent = self._tracker.messages
        label = self._tracker.record(event)
        if event.action_type in (TOOL_CALL, LLM_REQUEST):
            self._record_step(place, event)
        elif event.action_type == USER_MESSAGE and self._tracker.messages > sent:
            self._record_message(place, event.text, label)

    def build_history(self) -> CorrectionHistory:
        return CorrectionHistory(turns=self._turns, corrections=self._corrections, followed=self._followed)

    def _record_step(self, place: int, event: TraceEvent) -> None:
        number = self._tracker.messages
        if not self._turns or self._turns[-1].number != number:
            self._turns.append(AgentTurn(number=number, first=place, last=place, asked=self._last_message))
        else:
            current = self._turns[-1]
            self._turns[-1] = AgentTurn(number=number, first=current.first, last=place, asked=current.asked)
        self._texts += find_texts(event.input_data) if event.action_type == TOOL_CALL else [event.text]

    def _record_message(self, place: int, text: str, label: ReplyLabel | None) -> None:
        if self._turns:
            latest = self._turns[-1].number
            self._followed = latest
            if latest not in self._contents:
                self._contents[latest] = collect_content(self._texts)
            if label is not None and label.is_drift:
                self._attribute(place, text, label)
            # Messages sent while nothing was done belong to the next request.
            self._texts = [*(self._texts if self._is_unanswered() else []), text]
        else:
            self._texts.append(text)
        self._last_message = place

    def _is_unanswered(self) -> bool:
        """Return whether the latest message follows another one, with nothing done in between."""
        return self._turns[-1].number < self._tracker.messages - 1

    def _attribute(self, place: int, text: str, label: ReplyLabel) -> None:
        number = self._tracker.messages
        candidates = list(self._find_candidates(number))
        if not candidates:
            return
        match = find_turn(text, [self._contents[turn.number] for turn in candidates])
        turn = candidates[-1 - match.turns_back]
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
                by=match.evidence,
            )
        )

    def _find_candidates(self, number: int) -> Iterator[AgentTurn]:
        """Yield the turns that a message of this number may be about."""
        recent: Sequence[AgentTurn] = self._turns[-self._max_distance :]
        return (turn for turn in recent if number - turn.number <= self._max_distance)


# Find the turn a message is about, by what it names and whether it points back.

_MAX_TEXT_CHARS: Final = 2048
_MAX_NAMES: Final = 2000
_MIN_COMMON_WORDS: Final = 2
_MAX_EVIDENCE: Final = 3
_MAX_NAMES_IN_WRITTEN_LINE: Final = 3

_BACKTICKED: Final = re.compile(r"`([^`\n]{2,80})`")
_CLOCK_TIME: Final = re.compile(r"\d\d:\d\d:\d\d")


class TurnContent(NamedTuple):
    """What identifies a turn: the names in it, and the stems of its other words."""

    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


class TurnMatch(NamedTuple):
    """The turn a message is about, counted back from the latest, and the words that show it."""

    turns_back: int = 0
    evidence: tuple[str, ...] = ()


LATEST_TURN: Final = TurnMatch()


def collect_content(texts: Iterable[str]) -> TurnContent:
    """Return what is named and said in the texts of a turn; the beginning and the end of each are read."""
    names: set[str] = set()
    words: set[str] = set()
    half = _MAX_TEXT_CHARS // 2
    for text in texts:
        part = text if len(text) <= _MAX_TEXT_CHARS else f"{text[:half]} {text[-half:]}"
        if len(names) < _MAX_NAMES:
            names.update(find_names(part))
            words |= find_topics(find_words(part.lower()))
    return TurnContent(frozenset(names), frozenset(words))


def find_names(text: str) -> Iterator[str]:
    """Yield every file, identifier and ticked text, folded so that a path and its last part are equal.

    >>> sorted(find_names("in src/app/main.go:12 the call to `get user` in parseArgs"))
    ['get user', 'main.go', 'parseargs']
    """
    for ticked in _BACKTICKED.findall(text):
        yield _fold_name(ticked)
    for match in load_lexicon(PACKAGE, "attribution")["name"].regex.finditer(text):
        name = _fold_name(match.group())
        if name:
            yield name


def find_texts(value: Any) -> Iterator[str]:
    """Yield the strings among a call's arguments, one level deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (part for part in value.values() if isinstance(part, str))
    elif isinstance(value, list | tuple):
        yield from (part for part in value if isinstance(part, str))


def find_turn(message: str, turns: Sequence[TurnContent]) -> TurnMatch:
    """Return the turn a message is about: the latest, unless there is evidence for an earlier one.

    Evidence is a name that an earlier turn has and the latest has not, while nothing of the latest is named
    and the message's words fit the latest turn less well, or not at all;
    or pointing back at earlier work, with a name or two words that only an earlier turn has.

    >>> turns = [collect_content(["edit parser.py"]), collect_content(["edit cache.py"])]
    >>> find_turn("parser.py is broken now", turns)
    TurnMatch(turns_back=1, evidence=('parser.py',))
    >>> find_turn("this is broken now", turns)
    TurnMatch(turns_back=0, evidence=())
    """
    if len(turns) < 2:  # noqa: PLR2004 - nothing to choose from
        return LATEST_TURN
    text = message[:MAX_REPLY_CHARS]
    parsed = parse_message(text)
    latest, topics = turns[-1], parsed.topics
    points_back = load_lexicon(PACKAGE, "attribution")["points back"].search(parsed.prose) is not None
    names = frozenset(name for name in _find_written_names(text) if name in parsed.prose)
    if points_back or not names & latest.names:
        match = _find_best_turn(names - latest.names, [turn.names for turn in turns], minimum=1)
        fit_of_latest = len(topics & latest.words)
        fits_better = len(topics & turns[-1 - match.turns_back].words) > fit_of_latest
        if match.turns_back and (points_back or not fit_of_latest or fits_better):
            return match
    if not points_back:
        return LATEST_TURN
    return _find_best_turn(topics - latest.words, [turn.words for turn in turns], minimum=_MIN_COMMON_WORDS)


def _find_written_names(message: str) -> Iterator[str]:
    """Yield the names in the lines that a person wrote: one with a clock or many names in it was pasted."""
    for line in message.splitlines():
        names = list(find_names(line))
        if len(names) <= _MAX_NAMES_IN_WRITTEN_LINE and not _CLOCK_TIME.search(line):
            yield from names


def _find_best_turn(wanted: frozenset[str], turns: Sequence[frozenset[str]], *, minimum: int) -> TurnMatch:
    """Return the earlier turn that has most of what is wanted; of several the latest."""
    best = LATEST_TURN
    for turns_back, known in enumerate(reversed(turns)):
        common = wanted & known
        if turns_back and len(common) >= minimum and len(common) > len(best.evidence):
            best = TurnMatch(turns_back, tuple(sorted(common)))
    return best._replace(evidence=best.evidence[:_MAX_EVIDENCE])


def _fold_name(name: str) -> str:
    return name.strip().rstrip("/.").rpartition("/")[2].lower()
