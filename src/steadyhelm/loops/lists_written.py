"""A plan or a list written again and again, with nothing done in between.

The number of a version, the order of the items and a status that goes to and fro make it no other list. An
item that becomes done for the first time does, and so does an item that was not there before.
"""

import functools
import re
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from steadyhelm.loops.call_arguments import find_command, find_path
from steadyhelm.loops.content_words import list_content_words
from steadyhelm.loops.loop_detector import (
    MAX_EVIDENCE_IDS,
    SCORE_WITHOUT_RESULTS,
    LoopMatch,
    hash_text,
)
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import mask_numbers

WRITINGS_OF_LOOP: Final = 4

_MIN_ITEMS: Final = 2
_MAX_ITEMS: Final = 200
_MAX_CHARS: Final = 8000
_MAX_ARGUMENT_BYTES: Final = 2048
_MIN_LENGTH_DIFFERENCE: Final = 40
_MAX_KEPT: Final = 12
_MAX_STATES: Final = 200
_MAX_DEPTH: Final = 6

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WRITING: Final = frozenset(
    {"create", "draft", "make", "overwrite", "propose", "put", "refine", "revise", "rewrite", "save", "set",
     "store", "update", "write"}
)  # fmt: skip
_SENDING: Final = frozenset({"email", "mail", "message", "notify", "post", "send", "sms"})
_LABEL: Final = r"(?:v|ver|version|rev|revision|draft|iteration|attempt|try|plan|outline|todo|roadmap|agenda)"
_VERSION: Final = re.compile(rf"(?<![a-z]){_LABEL}[ ._#:-]{{0,2}}\d{{1,4}}(?:\.\d{{1,4}}){{0,2}}(?![\w%])")
_STAMP: Final = re.compile(
    r"\W{0,4}(?:last )?(?:updated?|modified|changed|date|as of|generated|timestamp|saved|version|revision)\b"
    r"[^a-z]{0,60}\Z"
)
_MARK: Final = re.compile(r"\s*(?:[-*+#>]+\s+|\d{1,3}[.)]\s+|[a-z][.)]\s+)*(?:\[([ xX~/-]?)\]\s*)?")
_WORDS: Final = re.compile(r"\w+")
_DONE: Final = frozenset({"done", "complete", "completed", "closed", "finished", "true", "x", "yes", "100"})
_TEXT_FIELDS: Final = (
    "content", "title", "step", "text", "task", "name", "description", "item", "label", "summary", "subject",
)  # fmt: skip
_IDLE_FIELDS: Final = frozenset(
    {"activeform", "comment", "date", "draft", "explanation", "id", "index", "iteration", "justification",
     "no", "note", "number", "order", "position", "rank", "rationale", "reason", "reasoning", "rev",
     "revision", "thought", "timestamp", "updated", "updated_at", "v", "version"}
)  # fmt: skip


class ReadList(Struct):
    """What a call writes: what and where, the items, and how each of them stands."""

    target: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    states: list[tuple[str, str]] = field(default_factory=list)

    @property
    def signature(self) -> int:
        """A checksum of target and items, in whatever order."""
        return hash_text("\n".join([*sorted(self.target), "", *sorted(self.items)]))


class FirstWriting(Struct, frozen=True):
    """The first call that may write a list, read only when another follows at once."""

    arguments: bytes
    event_id: str


class WrittenLists(Struct):
    """The lists written since anything else was done, as checksums, and how often one brought nothing new.

    `states` are checksums of each item with each way it has stood. `place` is the tool and its answer,
    `length` that of its latest arguments.
    """

    place: tuple[str, str] = ("", "")
    length: int = 0
    first: FirstWriting | None = None
    written: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    count: int = 0

    def clear(self) -> None:
        """Forget everything: something else was done, or the user spoke."""
        self.first = None
        if self.written:
            self.written, self.states, self.ids = [], [], []
            self.count = 0

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when a list is written again."""
        is_list = writes_list(step)
        if not (is_list or self.written or self.first):
            return None
        if not is_list:
            if not self._only_looks_at_list(step):
                self.clear()
            return None
        place = step.event.action_name, step.outcome.sample
        arguments = step.arguments
        if (self.written or self.first) and not (
            _is_like_length(len(arguments), self.length) and _is_same_place(place, self.place)
        ):
            self.clear()
        self.place, self.length = place, len(arguments)
        if len(arguments) >= _MAX_ARGUMENT_BYTES:
            self.clear()  # they are cut off there: a list is shorter than a document
            return None
        if not self.written and self.first is None:
            self.first = FirstWriting(arguments, step.event.event_id)
            return None
        if self.first is not None:
            first, self.first = self.first, None
            self._record(_decode(first.arguments), first.event_id)
        return self._match(step)

    def _match(self, step: ToolStep) -> LoopMatch | None:
        if not self._record(step.event.input_data, step.event.event_id) or self.count < WRITINGS_OF_LOOP:
            return None
        return LoopMatch(
            pattern="rewritten list",
            count=self.count,
            patience=WRITINGS_OF_LOOP,
            event_ids=tuple(self.ids),
            message=f"{step.event.action_name} wrote the same items {self.count} times, "
            "with nothing done in between",
            most=1.0 if step.outcome.known else SCORE_WITHOUT_RESULTS,
        )

    def _only_looks_at_list(self, step: ToolStep) -> bool:
        """Return whether a step only reads what was written, which the answer of the writing may name."""
        if step.kind in {"plan", "wait"}:
            return True
        path = find_path(step.event.input_data)
        return step.kind == "look" and path is not None and path.rsplit("/", 1)[-1] in self.place[1]

    def _record(self, arguments: Any, event_id: str) -> bool:
        """Record what was written, and return whether it brought nothing new."""
        read = _read_list(arguments)
        if read is None:
            self.clear()
            return False
        signature, states = read.signature, [hash_text(f"{item}\n{state}") for item, state in read.states]
        done = [hash_text(f"{item}\n{state}") for item, state in read.states if state in _DONE]
        if signature not in self.written or any(it not in self.states for it in done):
            self.count, self.ids = 0, []  # another item, or something became done
        is_news = self.count > 0 and any(it not in self.states for it in states)
        self.written = [*dict.fromkeys([*self.written, signature])][-_MAX_KEPT:]
        self.states = [*dict.fromkeys([*self.states, *states])][-_MAX_STATES:]
        if is_news:
            return False
        self.ids = [*self.ids, event_id][-MAX_EVIDENCE_IDS:]
        self.count += 1
        return self.count > 1


def _decode(arguments: bytes) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return None  # nested too deeply


def _is_like_length(one: int, other: int) -> bool:
    """Return whether two texts may hold the same items: most that do not differ in length already."""
    return abs(one - other) <= _MIN_LENGTH_DIFFERENCE + min(one, other) // 8


def _is_same_place(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether two calls are of one tool, and were answered the same but for numbers."""
    return one[0] == other[0] and (one[1] == other[1] or mask_numbers(one[1]) == mask_numbers(other[1]))


def writes_list(step: ToolStep) -> bool:
    """Return whether a call may write a plan or a list, and succeeded."""
    if step.kind == "wait":
        return False
    if step.kind != "plan" and not _writes(step.event.action_name):
        command = find_command(step.event.input_data) if step.kind == "work" else None
        if command is None or "<<" not in command:
            return False
    return not step.outcome.failed and step.outcome.is_short


@functools.lru_cache(maxsize=256)
def _writes(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_WRITING) and words.isdisjoint(_SENDING)


def _read_list(arguments: Any) -> ReadList | None:
    """Return the list that a call writes, None when it writes none."""
    read = ReadList()
    _read_value("", arguments, read, 0)
    return read if _MIN_ITEMS <= len(read.items) <= _MAX_ITEMS else None


def _read_value(name: str, value: Any, read: ReadList, depth: int) -> None:
    """Add what a value holds: of texts in lists and lines of a text the items, of others the target."""
    # Beside a list an id or a day says whose list it is; within it they number the items.
    if depth > _MAX_DEPTH or (depth > 1 and name.lower() in _IDLE_FIELDS):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _read_value(str(key), inner, read, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _read_element(name, inner, read, depth + 1)
    elif isinstance(value, str) and "\n" in value:
        for line in value[:_MAX_CHARS].lower().splitlines():
            _add_item(line, read)
    else:
        read.target.append(f"{name}={_mask_version(str(value)[:_MAX_CHARS].lower())}")


def _read_element(name: str, element: Any, read: ReadList, depth: int) -> None:
    if isinstance(element, str):
        _add_item(element[:_MAX_CHARS].lower(), read)
        return
    if not isinstance(element, dict):
        _read_value(name, element, read, depth)
        return
    text = next((element[it] for it in _TEXT_FIELDS if isinstance(element.get(it), str)), None)
    item = None if text is None else _add_item(text[:_MAX_CHARS].lower(), read)
    for key, value in element.items():
        if isinstance(value, dict | list):
            _read_value(str(key), value, read, depth + 1)
        elif item is not None and value is not text and str(key).lower() not in _IDLE_FIELDS:
            read.states.append((item, str(value)[:_MAX_CHARS].lower()))


def _add_item(line: str, read: ReadList) -> str | None:
    """Add a line as an item, without its number and its mark; None for an empty one."""
    mark = _MARK.match(line)
    text = _mask_version(line[mark.end() :] if mark else line)
    if _STAMP.match(text):
        return None
    item = " ".join(sorted(list_content_words(text))) or " ".join(_WORDS.findall(text))
    if not item:
        return None
    read.items.append(item)
    if mark and mark[1] is not None:
        read.states.append((item, mark[1].lower().strip()))
    return item


def _mask_version(text: str) -> str:
    """Return a text in lower case without the number of its version.

    >>> _mask_version("plans/Capture-v3.md"), _mask_version("Revision 12"), _mask_version("page_3.md")
    ('plans/capture-~.md', '~', 'page_3.md')

    A folder with a version holds another thing.
    """
    folder, slash, name = text.lower().rpartition("/")
    if slash and " " not in folder:
        return folder + slash + _VERSION.sub("~", name)
    return _VERSION.sub("~", text.lower())
