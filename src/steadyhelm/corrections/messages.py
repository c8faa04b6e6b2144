"""Read the messages around a reply: the user's, without what was pasted in, and the agent's last one."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from steadyhelm.lexicons import load_lexicon

MAX_REPLY_CHARS: Final = 1_200
MAX_AGENT_CHARS: Final = 900
MAX_PROMPT_CHARS: Final = 300
"""The part of each text that is read. The model was trained on this much, so a longer part would not help."""

PACKAGE: Final = "steadyhelm.corrections"
"""Where the lexicon files of these modules are."""

_MESSAGES_CACHED: Final = 32
"""What was just parsed is needed again: a message as the prompt of the next one, an answer by two callers."""

PASTED_KINDS: Final = ("log", "trace", "shell", "diff")

_HEAD_CHARS: Final = 600
_FIRST_SENTENCE_CHARS: Final = 200
_TAIL_CHARS: Final = 400
_ANNOUNCEMENT_CHARS: Final = 160
_SHORT_LINE_CHARS: Final = 30
_MIN_PROSE_SHARE: Final = 0.6
_STEM_CHARS: Final = 6
_MIN_TOPIC_CHARS: Final = 3

_LETTERS_AND_SPACE: Final = b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_FENCE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# A space first, so that the search skips all other characters: it follows a sign, or it is a line end.
_SENTENCE_END: Final = re.compile(r"\s(?:(?<=[.!?]\s)\s*|(?<=\n)\n*)")
_WORD: Final = re.compile(r"[^\W\d][\w']*")
_NOT_AT_START: Final = "0123456789'"
_LAST_DIGIT: Final = "9"
_WORD_CHARACTERS: Final = bytes(
    code if chr(code).isalnum() or chr(code) in "_'" else 32 for code in range(128)
) + bytes(128)


class ParsedMessage(NamedTuple):
    """A user's message, in lower case.

    `prose` is what the person wrote, without fenced code and without lines that look pasted; `head` is its
    beginning.
    `topics` are the stems of its words that carry meaning.
    `pasted_lines` counts the lines that look pasted, `pasted_by_kind` those of a known kind, `error_lines`
    the lines that mention an error.
    """

    text: str
    prose: str
    head: str
    first_sentence: str
    sentence_count: int
    words: tuple[str, ...]
    topics: frozenset[str]
    line_count: int
    pasted_lines: int
    error_lines: int
    pasted_by_kind: dict[str, int]


@lru_cache(maxsize=_MESSAGES_CACHED)
def parse_message(text: str) -> ParsedMessage:
    r"""Parse a user's message that was already cut to the part that is read.

    >>> parse_message("still red:\n[12:00:01] build FAILED").prose
    'still red:'
    """
    lowered = normalize_text(text)
    lines = _FENCE.sub(" ", lowered).split("\n")
    shapes = load_lexicon(PACKAGE, "message_shape")
    patterns = {kind: shapes[f"pasted {kind}"].regex for kind in PASTED_KINDS}
    error_line = shapes["error line"]
    kinds = [[kind for kind, pattern in patterns.items() if pattern.search(line)] for line in lines]
    pasted = [bool(found) or _is_mostly_signs(line) for line, found in zip(lines, kinds, strict=True)]
    prose = "\n".join(line for line, is_pasted in zip(lines, pasted, strict=True) if not is_pasted)
    head = prose.strip()[:_HEAD_CHARS]
    sentences = [sentence for sentence in _SENTENCE_END.split(head) if sentence.strip()]
    words = tuple(find_words(prose))
    return ParsedMessage(
        text=lowered,
        prose=prose,
        head=head,
        first_sentence=sentences[0][:_FIRST_SENTENCE_CHARS] if sentences else "",
        sentence_count=len(sentences),
        words=words,
        topics=find_topics(words),
        line_count=len(lines),
        pasted_lines=sum(pasted),
        error_lines=sum(error_line.search(line) is not None for line in lines),
        pasted_by_kind={kind: sum(kind in found for found in kinds) for kind in PASTED_KINDS},
    )


class AgentMessage(NamedTuple):
    """The end of the agent's last message, in lower case, and what it expects of the user."""

    text: str
    tail: str
    asks: bool
    offers: bool
    asks_to_choose: bool
    lists_options: bool
    reports_done: bool
    announces_work: bool
    tail_topics: frozenset[str]
    all_topics: frozenset[str]

    @property
    def expects_answer(self) -> bool:
        """Whether the agent waits for an answer."""
        return self.asks or self.offers or self.asks_to_choose


@lru_cache(maxsize=_MESSAGES_CACHED)
def parse_agent_message(message: str) -> AgentMessage:
    """Parse the agent's last message, already cut to the part that is read."""
    text = normalize_text(message).rstrip()
    tail = text[-_TAIL_CHARS:]
    patterns = load_lexicon(PACKAGE, "agent_message")
    topics = find_topics(find_words(text))
    return AgentMessage(
        text=text,
        tail=tail,
        asks=text.endswith("?"),
        offers=patterns["offer"].search(tail) is not None,
        asks_to_choose="?" in tail and patterns["asks to choose"].search(tail) is not None,
        lists_options=patterns["lists options"].search(text) is not None,
        reports_done=patterns["reports done"].search(text) is not None,
        announces_work=patterns["announces work"].search(tail[-_ANNOUNCEMENT_CHARS:]) is not None,
        tail_topics=topics if tail == text else find_topics(find_words(tail)),
        all_topics=topics,
    )


def normalize_text(text: str) -> str:
    """Return the text in lower case with straight apostrophes."""
    return text.lower().replace("\u2019", "'")


def take_start(text: object, limit: int) -> str:
    """Return the beginning of a text; what is not a string counts as empty."""
    return text[:limit] if isinstance(text, str) else ""


def take_end(text: object, limit: int) -> str:
    """Return the end of a text; what is not a string counts as empty."""
    return text[-limit:] if isinstance(text, str) else ""


def find_words(text: str) -> list[str]:
    """Return the words of a text in order.

    >>> find_words("it's the 2nd 'quoted' one")
    ["it's", 'the', 'nd', "quoted'", 'one']
    """
    if not text.isascii():
        return _WORD.findall(text)
    # The same words in a third of the time: only what begins with a digit or a quote is looked at again.
    runs = text.encode().translate(_WORD_CHARACTERS).decode().split()
    return [word for run in runs if (word := run if run[0] > _LAST_DIGIT else run.lstrip(_NOT_AT_START))]


def find_topics(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of the words that carry meaning.

    >>> sorted(find_topics(["please", "rename", "the", "renamed", "files"]))
    ['files', 'rename']
    """
    function_words = load_lexicon(PACKAGE, "topics")["function words"].word_set
    content = {word for word in words if len(word) >= _MIN_TOPIC_CHARS} - function_words
    return frozenset([word[:_STEM_CHARS] for word in content])


def compute_share(part: frozenset[str], whole: frozenset[str]) -> float:
    """Return which share of the second set is in the first; 0 when the second set is empty."""
    return len(part & whole) / len(whole) if whole else 0.0


def count_common_phrases(one: Sequence[str], two: Sequence[str], *, most: int) -> float:
    """Return the logarithm of how many groups of three words both texts have, and one, counted up to `most`.

    >>> count_common_phrases("add a test for it".split(), "please add a test".split(), most=20)
    0.6931471805599453
    """
    common = {*zip(one, one[1:], one[2:], strict=False)} & {*zip(two, two[1:], two[2:], strict=False)}
    return math.log1p(min(most, len(common)))


def _is_mostly_signs(line: str) -> bool:
    """Return whether a line has too many signs and digits to be a sentence."""
    if len(line) <= _SHORT_LINE_CHARS:
        return False
    if line.isascii():  # counts the same in a tenth of the time
        letters = len(line) - len(line.encode().translate(None, _LETTERS_AND_SPACE))
    else:
        letters = sum(char.isalpha() or char == " " for char in line)
    return letters < _MIN_PROSE_SHARE * len(line)
