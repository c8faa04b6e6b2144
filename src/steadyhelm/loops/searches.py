"""Searches in words: the same question asked again, whose results bring nothing new."""

import functools
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import TraceEvent
from steadyhelm.loops.content_words import content_overlap, list_content_words
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    SCORE_WITHOUT_RESULTS,
    LoopMatch,
    is_report_due,
    split_words,
    word_overlap,
)
from steadyhelm.loops.outcomes import extract_text
from steadyhelm.loops.questions import hash_pieces
from steadyhelm.loops.similarity import find_slot
from steadyhelm.loops.steps import ToolStep

SIMILAR_SEARCHES_OF_LOOP: Final = 4

_MAX_SEARCHES: Final = 12
_SIMILAR_WORDS: Final = 0.5
_SIMILAR_CONTENT: Final = 0.34
_STALE_SHARE: Final = 0.5
_KNOWN_SHARE: Final = 0.1
_SAME_WORDS: Final = 0.6
_MIN_SEARCH_WORDS: Final = 2
_MIN_PIECES_OF_ROTATION: Final = 2
_ALL_KNOWN_SHARE: Final = 0.9
_LOOSELY_SIMILAR_CONTENT: Final = 0.2
_MIN_CHARS_BESIDE_QUESTION: Final = 24
_MAX_SEARCH_CHARS: Final = 2048
_MAX_TERMS: Final = 12
_SEARCH_ARGUMENTS: Final = frozenset(
    {"query", "q", "search_query", "search", "question", "instruction", "keywords", "terms", "topic"}
)
# What a tool that searches by its name may call the question.
_TEXT_ARGUMENTS: Final = (
    "query",
    "q",
    "text",
    "input",
    "prompt",
    "phrase",
    "searchTerm",
    "search_term",
    "term",
    "keyword",
)
_SEARCH_WORDS: Final = ("search", "retriev", "lookup", "find")

_MAX_FOUND_CHARS: Final = 8000
# The place of something found among the others, which changes although it is the same.
_RANK: Final = re.compile(
    r"\"(?:rank|position|score|relevance|index|pos|no|nr|similarity|distance)\": ?-?[\d.]{1,20},? ?"
    r"|(?<=\n)\d{1,3}[.)] +|\A\d{1,3}[.)] +|\[\d{1,3}\] +"
)

# Each search is compared with several that follow it.
_split_search: Final = functools.lru_cache(maxsize=_MAX_SEARCHES)(split_words)
_list_content: Final = functools.lru_cache(maxsize=_MAX_SEARCHES)(list_content_words)


class SearchCall(Struct):
    """A call that asks a question in words; `is_stale` when most of its results had been seen before.

    `reported` is the count at which this question was last reported.
    """

    name: str
    question: str
    pieces: list[int]
    seq: int
    event_id: str
    is_stale: bool = False
    reported: int = 0


class SearchMemory(Struct):
    """The latest searches of this segment, and what they found."""

    searches: list[SearchCall] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        self.searches.clear()

    def may_match(self, call: TraceEvent) -> bool:
        """Return whether a call could be one search too many."""
        if len(self.searches) < SIMILAR_SEARCHES_OF_LOOP - 1:
            return False
        return find_query(call.action_name, call.input_data) is not None

    def observe(self, step: ToolStep, enough: int, *, is_foreseen: bool = False) -> LoopMatch | None:
        """Record a search, and return a match when similar ones keep finding the same.

        One that is foreseen is assumed to find what the last one found.
        """
        question = find_query(step.event.action_name, step.event.input_data)
        if question is None or step.outcome.outage:
            return None
        question = question[:_MAX_SEARCH_CHARS]
        same = [it for it in self.searches if it.question == question]
        is_too_short = len(_split_search(question.encode("utf-8", "replace"))) < _MIN_SEARCH_WORDS
        if is_too_short or (same and (is_foreseen or not step.has_seen(same[-1].seq))):
            return None
        search, similar = self._read_search(step, question, is_foreseen=is_foreseen)
        if same and search.pieces == same[-1].pieces and not same[-1].is_stale:
            return None  # the very same question with the same result: action_loop counts it
        self.searches.append(search)
        if len(self.searches) > _MAX_SEARCHES:
            del self.searches[0]
        found = _match_search(step, search, similar, enough)
        if found is None or found.noticed_only:
            return found
        # The count may skip a number, since not every search resembles all before it.
        reported = search.reported
        if not is_report_due(found.count, enough) and found.count < max(enough, 2 * reported):
            return None
        search.reported = max(reported, _find_due_count(found.count, enough))
        return found

    def _read_search(
        self, step: ToolStep, question: str, *, is_foreseen: bool
    ) -> tuple[SearchCall, list[SearchCall]]:
        """Return a search, and those before it that asked nearly the same."""
        name, event = step.event.action_name, step.event
        if is_foreseen:
            pieces = self.searches[-1].pieces if self.searches else []
        else:
            pieces = hash_pieces(_read_found(event, question)) if step.outcome.known else []
        of_tool = [it for it in self.searches if it.name == name and step.has_seen(it.seq)]
        seen = {piece for it in of_tool for piece in it.pieces}
        known = len(seen.intersection(pieces)) / max(1, len(pieces))
        finds_nothing_new = known >= _ALL_KNOWN_SHARE and len(pieces) >= _MIN_PIECES_OF_ROTATION
        similar = [it for it in of_tool if _is_similar(it.question, question, loosely=finds_nothing_new)]
        if any(it.question == question for it in similar):
            # The next page of it brings what is new, and so does what is watched.
            is_stale = known == 1 and len(pieces) >= _MIN_PIECES_OF_ROTATION
        else:
            # Where hardly a word of the question is new, a few results that are do not make it another one.
            is_stale = known >= _STALE_SHARE or (
                known >= _KNOWN_SHARE and any(_has_same_words(it.question, question) for it in similar)
            )
        reported = max((it.reported for it in similar), default=0)
        return SearchCall(name, question, pieces, event.seq, event.event_id, is_stale, reported), similar


def _read_found(event: TraceEvent, question: str) -> str:
    """Return what a search found, without the question, which many a result repeats."""
    text = _RANK.sub("", extract_text(event.output_data)[:_MAX_FOUND_CHARS])
    rest = text.replace(question, "")
    # A result that is hardly more than the question is an answer of its own.
    return rest if len(rest) >= _MIN_CHARS_BESIDE_QUESTION else text


def _find_due_count(count: int, enough: int) -> int:
    """Return the latest count up to this one at which a report was due.

    >>> [_find_due_count(count, 4) for count in (4, 7, 8)]
    [4, 4, 8]
    """
    while 2 * enough <= count:
        enough *= 2
    return enough


def _match_search(
    step: ToolStep, search: SearchCall, similar: list[SearchCall], enough: int
) -> LoopMatch | None:
    if not search.pieces:
        return _match_without_results(step, similar, search.question, enough)
    if not search.is_stale or _is_parametrised(similar, search.question):
        return None
    stale = [it for it in similar if it.is_stale or it is similar[0]]
    ids = (*(it.event_id for it in stale), search.event_id)
    return _build_match(
        search.name, ids, enough, "asked nearly the same {count} times, and found nothing new"
    )


def find_query(tool: str, arguments: Any) -> str | None:
    """Return the query in words that a call searches with; None when it searches for nothing."""
    if not isinstance(arguments, dict):
        return arguments if isinstance(arguments, str) and _is_search(tool) else None
    if _SEARCH_ARGUMENTS.isdisjoint(arguments):
        return _find_nested_text(arguments) if _is_search(tool) else None
    for name, value in arguments.items():
        if name in _SEARCH_ARGUMENTS:
            if isinstance(value, str):
                return value
            if isinstance(value, list):
                return _join_terms(value)
            if isinstance(value, dict):  # {"q": {"text": ...}}
                return _find_searched_text(value)
    return None


def _join_terms(terms: list[Any]) -> str | None:
    """Return the words of a list of them as one query; None for anything else."""
    texts = [it for it in terms[:_MAX_TERMS] if isinstance(it, str)]
    return " ".join(texts) if texts and len(texts) == len(terms[:_MAX_TERMS]) else None


@functools.lru_cache(maxsize=256)
def _is_search(tool: str) -> bool:
    lowered = tool[:100].lower()
    return any(word in lowered for word in _SEARCH_WORDS)


def _find_nested_text(arguments: dict[str, Any]) -> str | None:
    """Return what is searched for by arguments that may lie one level further in."""
    inside = (it for it in arguments.values() if isinstance(it, dict))
    return next((it for it in map(_find_searched_text, (arguments, *inside)) if it is not None), None)


def _find_searched_text(arguments: dict[str, Any]) -> str | None:
    for name in _TEXT_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return _join_terms(value)
    return None


def _is_similar(one: str, other: str, *, loosely: bool) -> bool:
    """Return whether two questions ask nearly the same; `loosely` where the results say so as well."""
    words = _split_search(one.encode("utf-8", "replace")), _split_search(other.encode("utf-8", "replace"))
    if word_overlap(*words) >= _SIMILAR_WORDS:
        return True
    least = _LOOSELY_SIMILAR_CONTENT if loosely else _SIMILAR_CONTENT
    return content_overlap(_list_content(one), _list_content(other)) >= least


def _has_same_words(one: str, other: str) -> bool:
    words = _split_search(one.encode("utf-8", "replace")), _split_search(other.encode("utf-8", "replace"))
    return word_overlap(*words) >= _SAME_WORDS


def _is_parametrised(similar: list[SearchCall], question: str) -> bool:
    """Return whether these questions differ by a value in one place: a batch, not a rewording."""
    words = _list_content(question)
    # The same words in another order ask for nothing else, also where but two of them changed places.
    slots = [find_slot(it.question, question) for it in similar if _list_content(it.question) != words]
    known = [slot for slot in slots if slot is not None]
    return bool(known) and 2 * max(map(known.count, known)) > len(similar)


def _match_without_results(
    step: ToolStep, similar: list[SearchCall], question: str, enough: int
) -> LoopMatch | None:
    """Match searches without known results: the same words again are a loop, others are noticed."""
    words = _split_search(question.encode("utf-8", "replace"))
    same = [it for it in similar if _split_search(it.question.encode("utf-8", "replace")) == words]
    found = same if len(same) + 1 >= enough else similar
    ids = (*(it.event_id for it in found), step.event.event_id)
    message = "asked nearly the same {count} times, results not seen"
    match = _build_match(step.event.action_name, ids, enough, message)
    if match is None or found is same:
        return match
    if not is_report_due(match.count, enough):
        return None
    return LoopMatch(
        pattern=match.pattern,
        count=match.count,
        patience=match.patience,
        event_ids=match.event_ids,
        message=match.message,
        noticed_only=True,
    )


def _build_match(name: str, ids: tuple[str, ...], enough: int, message: str) -> LoopMatch | None:
    count = len(ids)
    if count < enough:
        return None
    return LoopMatch(
        pattern="reworded search",
        count=count,
        patience=enough,
        event_ids=ids[-MAX_EVIDENCE_IDS:],
        message=f"{name} was {message.format(count=count)}",
        most=SCORE_WITHOUT_RESULTS if "not seen" in message else 1.0,
    )
