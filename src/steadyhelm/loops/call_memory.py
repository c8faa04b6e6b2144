"""The calls of a segment and their outcomes: the latest in full, those before them as hashes."""

import re
from typing import Final, Self
from zlib import crc32

from msgspec import Struct, field, structs

from steadyhelm.loops.deeds import find_new_ids, is_deed, opens_case
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS
from steadyhelm.loops.outcomes import CallOutcome, extract_text
from steadyhelm.loops.questions import says_same_nothing
from steadyhelm.loops.similarity import VaryingWords, is_course, mask_made_up, takes_next
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.waiting import Intervals
from steadyhelm.noise import (
    MADE_UP_CHARACTERS,
    find_volatile_parts,
    is_equal_without_noise,
    mask_noise,
    mask_numbers,
)

_MAX_CALLS: Final = 96
_MAX_OLDER_CALLS: Final = 1024
_MAX_NUMBERS: Final = 12
_MAX_PAGES: Final = 16
_MAX_PAGE_CHARS: Final = 6000
_MIN_PIECES: Final = 4
_MAX_PIECES: Final = 64
_MAX_PIECES_KEPT: Final = 192
_MAX_NEW_PIECES: Final = 2
_MAX_EARLIER_RESULTS: Final = 3
_MAX_EARLIER_CHARS: Final = 240

_UNSEEN_TAG: Final = re.compile(r"<(?:script|link|meta|style|img|svg|noscript)\b[^<>]*>", re.IGNORECASE)
_PIECE_END: Final = re.compile(r"[<>\n]+|(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


class RotatingPage(Struct):
    """What has been seen on a page that one call returned several times, of which a hint may rotate.

    `latest` are the pieces of the latest page, `known` the hashes of all so far, with and without numbers.
    `has_rotated` is whether a sentence replaced another one, `has_returned` whether one came back.
    """

    latest: list[str]
    known: list[int]
    has_rotated: bool = False
    has_returned: bool = False

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the record of a page; None for a text of a few sentences, and for a long one."""
        pieces = _split_page(text)
        return cls(pieces, _hash_pieces(pieces)) if _MIN_PIECES <= len(pieces) <= _MAX_PIECES else None

    def replace(self, text: str) -> tuple[str, ...] | None:
        """Record the page as it is now, and return what replaced another sentence; None where more is new.

        A sentence that shares a word with the one it replaces, or differs from a known one in its numbers,
        has changed: that is news.
        """
        pieces = _split_page(text)
        if len(pieces) != len(self.latest):
            return None  # a list that grows or shrinks
        gone = [it for it in self.latest if it not in pieces]
        come = [it for it in pieces if it not in self.latest]
        new = [it for it in come if not set(_hash_pieces([it])) <= set(self.known)]
        is_other = len(come) != len(gone) or len(come) > _MAX_NEW_PIECES
        if is_other or any(self._is_news(it, gone) for it in new):
            return None
        self.has_rotated |= bool(come)
        self.has_returned |= bool(come) and not new
        self.latest, self.known = pieces, [*self.known, *_hash_pieces(new)][-_MAX_PIECES_KEPT:]
        return tuple(come)

    def _is_news(self, piece: str, gone: list[str]) -> bool:
        if crc32(mask_numbers(piece).encode("utf-8", "replace")) in self.known:
            return True
        words = set(_WORD.findall(piece.lower()))
        return len(words) < 2 or any(words.intersection(_WORD.findall(it.lower())) for it in gone)  # noqa: PLR2004 - a value


class EarlierResult(Struct, frozen=True, array_like=True):
    """A result that a call had before its latest one: its beginning, its hash, its count and one event.

    `letters` is a checksum of its letters, which noise hardly changes.
    """

    sample: str
    letters: int
    raw: int
    count: int
    first_id: str

    def equals(self, outcome: CallOutcome, letters: int) -> bool:
        """Return whether a result is this one, noise aside; most others differ in their letters."""
        if self.letters != letters:
            return False
        sample = outcome.sample[:_MAX_EARLIER_CHARS]
        return self.sample == sample or is_equal_without_noise(self.sample, sample)


class RepeatedCall(Struct):
    """A call made before in this segment, its outcome, and how often it was made.

    `numbers` are those that varied in otherwise equal results, `news` how many new results the segment had
    when it was last made. `is_deed` says that it did the same again and only got another number for it.
    `earlier` are the results it had before, which may return; `item_words` is a checksum of the words that
    its result shares with the latest new result before it, `opened_by` the tool that gave that.
    """

    outcome: CallOutcome
    last_seq: int
    last_step: int
    ids: list[str]
    times: Intervals
    news: int = 0
    count: int = 1
    in_a_row: int = 1
    numbers: tuple[tuple[float, ...], ...] = ()
    page: RotatingPage | None = None
    is_deed: bool = False
    earlier: tuple[EarlierResult, ...] = ()
    item_words: int = 0
    opened_by: str = ""

    @classmethod
    def start(cls, step: ToolStep, step_number: int, news: int, busy_s: float) -> Self:
        """Return the record of a call made for the first time, or with a new result."""
        event = step.event
        times = Intervals(event.timestamp, event.timestamp, busy_s)
        return cls(step.outcome, event.seq, step_number, [event.event_id], times, news)

    def find_difference(self, step: ToolStep) -> tuple[str, ...] | None:
        """Return what differs between its result and this one if that is nothing but noise, else None."""
        seen, outcome = self.outcome, step.outcome
        if seen.raw == outcome.raw and seen.known == outcome.known:
            return ()
        if seen.known != outcome.known:
            return None
        if seen.equals(outcome):
            return find_volatile_parts(outcome.sample)
        if takes_next(step.event.action_name) and not opens_case(step.event.action_name):
            return None
        varying = self._find_number_of_deed(step) or self._find_varying(step)
        if varying is None and self.page is not None and not outcome.failed:
            return self.page.replace(extract_text(step.event.output_data))
        return varying

    def start_again(self, step: ToolStep, step_number: int, news: int, busy_s: float) -> Self:
        """Return the record of the same call with a new result, in which a sentence may rotate."""
        record = self.start(step, step_number, news, busy_s)
        if step.kind == "look" and not step.outcome.failed and not step.outcome.is_short:
            record.page = RotatingPage.read(extract_text(step.event.output_data))
        record.earlier = (self._to_earlier(), *self.earlier)[:_MAX_EARLIER_RESULTS]
        return record

    def find_return(self, step: ToolStep, step_number: int, news: int, busy_s: float) -> Self | None:
        """Return the record of an earlier result of this call that has come back; None for a new result.

        A reading that goes up and down has not come back, nor has what is drawn or taken at each call.
        """
        outcome = step.outcome
        if not self.earlier or not outcome.known or step.kind == "wait" or takes_next(step.event.action_name):
            return None
        letters = _hash_letters(outcome)
        found = next((it for it in self.earlier if it.equals(outcome, letters)), None)
        if found is None or (step.kind == "look" and _is_other_number(self.outcome, outcome)):
            return None
        record = self.start(step, step_number, news, busy_s)
        # Under the hash of the first time it is the same step in a cycle.
        record.outcome = structs.replace(outcome, raw=found.raw)
        record.count, record.ids = found.count + 1, [found.first_id, *record.ids]
        others = (it for it in self.earlier if it is not found)
        record.earlier = (self._to_earlier(), *others)[:_MAX_EARLIER_RESULTS]
        return record

    def _to_earlier(self) -> EarlierResult:
        outcome = self.outcome
        sample = outcome.sample[:_MAX_EARLIER_CHARS]
        return EarlierResult(sample, _hash_letters(outcome), outcome.raw, self.count, self.ids[0])

    def _find_number_of_deed(self, step: ToolStep) -> tuple[str, ...] | None:
        made = find_new_ids(self.outcome.sample, step.outcome.sample) if is_deed(step) else None
        self.is_deed = self.is_deed or made is not None
        return made

    def _find_varying(self, step: ToolStep) -> tuple[str, ...] | None:
        seen, outcome = self.outcome, step.outcome
        if step.kind == "wait" and seen.equals_but_age(outcome):
            return ()
        varying = seen.find_varying_words(outcome)
        if varying is None:
            is_same = (
                step.kind != "wait" and outcome.is_short and says_same_nothing(seen.sample, outcome.sample)
            )
            return (outcome.sample,) if is_same else None
        if step.kind == "wait" and not (varying.names_started_thing or varying.is_made_up):
            return None
        return self._record_varying(varying)

    def _record_varying(self, varying: VaryingWords) -> tuple[str, ...]:
        if varying.numbers:
            rows = self.numbers or (varying.numbers_before,)
            self.numbers = (*rows, varying.numbers)[-_MAX_NUMBERS:]
        return varying.words[:5]

    @property
    def has_course(self) -> bool:
        """Whether a number in its results only rose or only fell so far: then it may count something.

        A sentence that has replaced others and never came back may be news as well.
        """
        if self.page is not None and self.page.has_rotated and not self.page.has_returned:
            return True
        width = min(map(len, self.numbers), default=0)
        return any(is_course([row[column] for row in self.numbers]) for column in range(width))

    def add(self, step: ToolStep, step_number: int, news: int, busy_s: float) -> None:
        """Count the same call with the same result once more."""
        event = step.event
        self.count += 1
        steps_between = step_number - self.last_step - 1
        self.in_a_row = self.in_a_row + 1 if steps_between == 0 else 1
        self.last_seq, self.last_step, self.news = event.seq, step_number, news
        self.times.record(event.timestamp, busy_s, steps_between)
        self.ids = [*self.ids, event.event_id][-MAX_EVIDENCE_IDS:]


class OlderCall(Struct, array_like=True):
    """What is left of a call made long ago: the hash of its result, its count and one event."""

    raw: int
    count: int
    first_id: str
    seq: int
    step: int
    at: float


class CallMemory(Struct):
    """The calls of a segment, by their number: the latest in full, the others as hashes."""

    latest: dict[int, RepeatedCall] = field(default_factory=dict)
    older: dict[int, OlderCall] = field(default_factory=dict)

    def get(self, call_key: int) -> RepeatedCall | None:
        """Return the record of a call, None when it was not made in this segment."""
        seen = self.latest.get(call_key)
        if seen is None and self.older:
            old = self.older.pop(call_key, None)
            if old is not None:
                seen = self._revive(old)
                self._keep(call_key, seen)
        return seen

    def keep(self, call_key: int, record: RepeatedCall) -> None:
        """Keep a record as the latest; the one not used for longest is reduced to its hash."""
        self.latest.pop(call_key, None)
        self._keep(call_key, record)

    def clear(self) -> None:
        """Forget everything."""
        self.latest.clear()
        self.older.clear()

    def peek(self, call_key: int) -> RepeatedCall | None:
        """Return the record of a recent call. Changes no state."""
        return self.latest.get(call_key)

    def reduce_to(self, call_key: int) -> "CallMemory":
        """Return a memory that holds this call alone."""
        seen = self.latest.get(call_key)
        return CallMemory() if seen is None else CallMemory({call_key: seen})

    def _keep(self, call_key: int, record: RepeatedCall) -> None:
        latest, older = self.latest, self.older
        latest[call_key] = record
        if record.page is not None:
            with_page = [it for it in latest.values() if it.page is not None]
            for one in with_page[:-_MAX_PAGES]:
                one.page = None
        if len(latest) > _MAX_CALLS:
            key = next(iter(latest))
            old = latest.pop(key)
            if old.outcome.known:
                times = old.times
                older[key] = OlderCall(
                    old.outcome.raw, old.count, old.ids[0], old.last_seq, old.last_step, times.first_at
                )
            if len(older) > _MAX_OLDER_CALLS:
                del older[next(iter(older))]

    @staticmethod
    def _revive(old: OlderCall) -> RepeatedCall:
        outcome = CallOutcome(old.raw, "", 0, known=True, failed=False, outage=False)
        times = Intervals(old.at, old.at)
        return RepeatedCall(outcome, old.seq, old.step, [old.first_id], times, count=old.count)


def _hash_letters(outcome: CallOutcome) -> int:
    """Return a checksum of the letters of a result that are in no number, time or identifier."""
    return crc32(outcome.sample.encode("utf-8", "replace").translate(None, MADE_UP_CHARACTERS))


def _is_other_number(one: CallOutcome, other: CallOutcome) -> bool:
    """Return whether two results differ in nothing but numbers."""
    return mask_numbers(mask_noise(one.sample)) == mask_numbers(mask_noise(other.sample))


def _split_page(text: str) -> list[str]:
    if len(text) > _MAX_PAGE_CHARS:
        return []
    masked = mask_made_up(mask_noise(_UNSEEN_TAG.sub("", text)))
    return [piece for it in _PIECE_END.split(masked) if _WORD.search(piece := it.strip())][: _MAX_PIECES + 1]


def _hash_pieces(pieces: list[str]) -> list[int]:
    texts = (text for piece in pieces for text in {piece, mask_numbers(piece)})
    return [crc32(text.encode("utf-8", "replace")) for text in texts]
