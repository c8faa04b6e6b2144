"""Messages sent and notes saved once more: the same said to the same end, with other words around it."""

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, Self

from msgspec import Struct, field

from steadyhelm.fingerprints import encode_canonical, hash_call
from steadyhelm.loops.call_arguments import find_command, find_path
from steadyhelm.loops.content_words import content_overlap, list_content_words, names_one_thing_each
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.similarity import find_slot, list_identifiers, name_different_things
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import mask_noise, mask_numbers

SAME_NOTES_OF_LOOP: Final = 4

_MAX_KEPT: Final = 8
_MIN_WORDS: Final = 3
_MIN_WORDS_OF_MESSAGE: Final = 2
_MIN_WORDS_OF_SENTENCE: Final = 4
_MAX_TEXT_CHARS: Final = 1000
_MAX_FIELDS: Final = 40
_MAX_PAUSE_S: Final = 600
_SIMILAR_NOTE: Final = 0.6

_WORD: Final = re.compile(r"\w+")
_NAME: Final = re.compile(r"[^\W\d_a-z][^\W\d_]+")
_SENTENCE_START: Final = re.compile(r"(?:\A|[.!?:\n])[\s\"'*-]{0,9}[^\W\d_]{1,40}")
_RECIPIENT_AT_START: Final = re.compile(r"\s*(?:[#@]\S+|\S+@\S+)(?=\s)")
_WITHOUT_SPACES: Final = re.compile("[\u0e00-\u0eff\u2e80-\uabff]")
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_SENDING_WORDS: Final = frozenset(
    {"announce", "broadcast", "comment", "email", "mail", "message", "notify", "post", "remind", "reply",
     "respond", "say", "send", "sms", "speak", "tell", "tweet"}
)  # fmt: skip
_NOTE_WORDS: Final = _SENDING_WORDS | {
    "note", "notes", "memo", "memory", "memorize", "memorise", "remember", "summary", "summarize",
    "summarise", "report", "save", "store", "write", "record",
}  # fmt: skip
_KEEPING_WORDS: Final = frozenset({"append", "add", "fact", "facts", "insert", "kb", "log", "put", "upsert"})
"""What such a tool is given is often one of many of a kind: only the very same counts."""
_VERBS_OF_NOTE: Final = (_SENDING_WORDS - {"message", "email", "mail"}) | {
    "log", "memorize", "memorise", "remember", "upsert",
}  # fmt: skip
_MAKING_VERBS: Final = frozenset({"create", "leave", "make", "new", "put", "take"})
_LOOK_VERBS: Final = frozenset(
    {"check", "count", "fetch", "find", "get", "list", "load", "lookup", "query", "read", "recall",
     "retrieve", "search", "show", "view"}
)  # fmt: skip
_STORE_WORDS: Final = frozenset({"fact", "facts", "kb", "knowledge", "memories", "memory", "note", "notes"})
_TITLE_NAMES: Final = frozenset({"subject", "title", "headline", "heading"})
# What is put beside a text to file it, and does not make it another one.
_FILING_WORDS: Final = frozenset(
    {"category", "confidence", "importance", "keywords", "labels", "priority", "rating", "relevance",
     "salience", "score", "tags", "timestamp", "ts", "ttl", "urgency", "weight"}
)  # fmt: skip
# Openings, closings and announcements of what follows: they say nothing of it.
_COURTESIES: Final = list_content_words(
    """
    hello hey dear good greetings morning afternoon evening day welcome thanks thank patience waiting kind
    best warm warmest regards wishes sincerely cheers yours respectfully fyi info note notice reminder update
    remember important attention heads quick kindly ready below team everyone folks
    """
)


class Note(Struct):
    """A text that was sent or saved: to whom or what, by a checksum, and what was answered."""

    target: int
    text: str
    answer: str
    event_id: str
    at: float
    is_exact: bool
    seq: int = -1

    @classmethod
    def from_step(cls, step: ToolStep) -> Self | None:
        """Return the note that a step writes down; None for any other step, and for one that is told more."""
        event, outcome = step.event, step.outcome
        tool, args = event.action_name, event.input_data
        kind = _find_note_kind(tool, step.kind)
        if kind is None or (kind != "keeping" and find_path(args) is not None):
            return None
        if not outcome.known or outcome.failed or not outcome.is_short or find_command(args) is not None:
            return None
        is_exact = kind == "keeping"
        beside, text = _split_note(args)
        words = text.count(" ") + 1
        least = _MIN_WORDS_OF_SENTENCE if is_exact else _MIN_WORDS
        if kind == "sending" and beside:
            least = _MIN_WORDS_OF_MESSAGE
        if words < least:
            return None
        # A deed is told that it was done; a question that is put as a message has an answer of its own.
        answer = "" if step.kind == "work" else mask_numbers(mask_noise(outcome.sample))
        target = hash_call(tool, encode_canonical(beside))
        return cls(
            target, text[:_MAX_TEXT_CHARS], answer, event.event_id, event.timestamp, is_exact, event.seq
        )

    def repeats(self, other: "Note") -> bool:
        """Return whether this note says what another says."""
        if self.answer != other.answer:
            return False
        if name_different_things(list_identifiers(self.text), list_identifiers(other.text)):
            return False
        one, two = _list_words(self.text), _list_words(other.text)
        if one == two and (one or not self.is_exact):
            return not name_different_things(
                list_capitalised_names(self.text), list_capitalised_names(other.text)
            )
        if self.is_exact or content_overlap(one, two) < _SIMILAR_NOTE:
            return False
        return not name_different_things(
            list_capitalised_names(self.text), list_capitalised_names(other.text)
        )


class NoteMemory(Struct):
    """The latest notes to one target, with nothing done between them."""

    notes: list[Note] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        if self.notes:
            self.notes.clear()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when it writes down the same once more."""
        note = Note.from_step(step)
        if note is None:
            if self.notes and not _looks_at_notes(step):
                self.clear()
            return None
        if self.notes and (
            self.notes[-1].target != note.target or note.at - self.notes[-1].at > _MAX_PAUSE_S
        ):
            self.clear()  # something else, or a reminder after a while
        similar = [it for it in self.notes if step.has_seen(it.seq) and it.repeats(note)]
        self.notes = [*self.notes, note][-_MAX_KEPT:]
        count = len(similar) + 1
        if count < SAME_NOTES_OF_LOOP or _is_batch([*(it.text for it in similar), note.text]):
            return None
        tool = step.event.action_name
        return LoopMatch(
            pattern="reworded note",
            count=count,
            patience=SAME_NOTES_OF_LOOP,
            event_ids=(*(it.event_id for it in similar), note.event_id)[-MAX_EVIDENCE_IDS:],
            message=f"{tool} was given nearly the same {count} times, with nothing done in between",
        )


@functools.lru_cache(maxsize=256)
def _find_note_kind(tool: str, step_kind: str) -> str | None:
    """Return whether a tool sends, notes or keeps what it is given, by its name; None when it does not."""
    if step_kind not in {"work", "look"}:
        return None
    order = [word.lower() for word in _WORD_IN_NAME.findall(tool[:100])]
    words = frozenset(order)
    if step_kind == "look":
        if not order or order[0] in _LOOK_VERBS:
            return None
        if words.isdisjoint(_VERBS_OF_NOTE) and order[0] not in _MAKING_VERBS:
            return None
    if words & _SENDING_WORDS:
        return "sending"
    if words & _NOTE_WORDS:
        return "noting"
    return "keeping" if words & _KEEPING_WORDS else None


def _split_note(args: Any) -> tuple[list[tuple[str, Any]], str]:
    """Return what stands beside the text of a note, and the text with its title."""
    if isinstance(args, str):
        found = _RECIPIENT_AT_START.match(args)
        return ([("", found[0].strip())], args[found.end() :]) if found else ([], args)
    if not isinstance(args, dict):
        return [], ""
    fields = list(_iterate_fields("", args))[:_MAX_FIELDS]
    titles = [value for name, value in fields if name in _TITLE_NAMES and isinstance(value, str)]
    rest = [(name, value) for name, value in fields if name not in _TITLE_NAMES]
    texts = [value for _, value in rest if isinstance(value, str)]
    if not texts:
        return [], ""
    body = max(texts, key=lambda it: (" " in it.strip(), len(it)))
    return [it for it in rest if it[1] is not body], "\n".join([*titles, body])


def _iterate_fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            if isinstance(key, str) and not _is_filing(key):
                yield from _iterate_fields(key, one)
    elif isinstance(value, list):
        for one in value:
            yield from _iterate_fields(name, one)
    else:
        yield name, value


@functools.lru_cache(maxsize=256)
def _is_filing(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return bool(words) and words <= _FILING_WORDS


def _looks_at_notes(step: ToolStep) -> bool:
    """Return whether a step only looks at what has been saved."""
    if step.kind != "look":
        return False
    words = {word.lower() for word in _WORD_IN_NAME.findall(step.event.action_name[:100])}
    return not words.isdisjoint(_STORE_WORDS)


@functools.lru_cache(maxsize=16)
def _list_words(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a note is about, without courtesies.

    A script without spaces has no words to take stems of: there whole phrases are compared.
    """
    if not text.isascii() and _WITHOUT_SPACES.search(text) is not None:
        return frozenset(_WORD.findall(text))
    return list_content_words(text) - _COURTESIES


@functools.lru_cache(maxsize=16)
def list_capitalised_names(text: str) -> frozenset[str]:
    """Return the names in a text: words with a capital that begin no sentence.

    >>> sorted(list_capitalised_names("Dear Xenia, the parcel from Oslo is late. Please wait."))
    ['oslo', 'xenia']
    """
    inside = _SENTENCE_START.sub(" ", text)
    names = frozenset(found.lower() for found in _NAME.findall(inside))
    return frozenset(it for it in names if not list_content_words(it) <= _COURTESIES)


def _is_batch(texts: list[str]) -> bool:
    """Return whether these texts are about one thing each, in one frame."""
    if names_one_thing_each([*map(_list_words, texts)]):
        return True
    last = texts[-1]
    replaced = [
        it for it in texts[:-1] if _list_words(it) != _list_words(last) and find_slot(it, last) is not None
    ]
    return 2 * len(replaced) >= len(texts)
