"""How alike two results or two texts are, and what differs between them.

Words that vary between otherwise equal results are identifiers, with or without digits; a number that rises
or falls, a word of state and a step of a process are progress.
"""

import functools
import re
from itertools import pairwise
from typing import Final, NamedTuple

from steadyhelm.noise import mask_noise

_MAX_VARYING_SHARE: Final = 0.25
_MAX_VARYING_WORDS: Final = 10
_MAX_VARYING_NAMES: Final = 2
_MIN_CONSTANT_WORDS: Final = 6
_MIN_WORDS_BESIDE_OPAQUE: Final = 2
_MIN_OPAQUE_CHARS: Final = 8
_MAX_LOOK_AHEAD: Final = 4
_MIN_ID_DIGITS: Final = 4
_MAX_COMPARED_WORDS: Final = 160
_MAX_NAME_CHARS: Final = 60
_SAME_NAME_SHARE: Final = 0.65

TOKEN: Final = re.compile(r"[^\s\"',;:()\[\]{}<>=|?&]+")
_NUMBER: Final = re.compile(r"[-+$#]?\d+(?:[.,]\d+)*(?:%|[a-zA-Z]{0,2})\.?\Z")
_SHARE_OF_WHOLE: Final = re.compile(r"\d{1,6}/\d{1,6}\Z")
"""A count beside its total, such as 3/25: it says how far something is."""
_IDENTIFIER: Final = re.compile(r"[\d_]|\w\.\w\w")
_DIGIT_BETWEEN_LETTERS: Final = re.compile(r"[a-zA-Z]\d+[a-zA-Z]|\d[a-zA-Z]+\d")
"""Letters and digits in turn, as in random text: `3edc1f`, not `invoice-2024`."""

# A word after one of these says how far something is, or how it stands: it is progress when it changes.
_PROGRESS_LABELS: Final = frozenset(
    """
    accuracy at completed count current currently done epoch eta failed failing finished item items iteration
    last left level line loss now offset page part passed percent phase position progress remaining result
    round row score stage state status step target task test tests title total value version
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
# A word after one of these names a thing that was started: when it varies, another one was.
_STARTED_LABELS: Final = frozenset(
    {"session", "process", "pid", "job", "container", "worker", "instance", "handle", "thread", "request"}
)
# How many people see a page, or how much its scripts say, is no progress.
_AUDIENCE: Final = re.compile(
    r"\b\d[\d.,]{0,15}+(?=(?: (?:people|users|others|guests|customers))?(?: (?:are|is|have|currently))*"
    r" (?:online|readers|viewers|viewing|views|visitors|visits|watching)\b)"
    r"|(?<=\bconsole: )\d+"
    # Where the pointer is on the screen.
    r"|\b(?:[Cc]ursor|[Mm]ouse|[Pp]ointer)(?: (?:at|position|pos))?\W{1,3}\d{1,5} ?[,x;] ?\d{1,5}\b"
)
_STATE_WORDS: Final = frozenset(
    """
    active approved available away blocked bad busy closed complete critical degraded done down empty error
    fail fast full good green healthy high idle inactive invalid live low medium new no none normal null off
    offline ok okay on online open optional orange out pass pending ready red slow success true false
    unhealthy unknown up valid warning yellow yes
    """.split()  # noqa: SIM905 - the same
)
_STATE_ENDINGS: Final = ("ing", "ed", "ion")
# Tools whose results differ because each call takes the next thing.
_TAKING_WORDS: Final = frozenset(
    """
    advance claim consume dead dequeue dlq draw generate lpop more next pop random receive roll rpop sample
    shift take
    """.split()  # noqa: SIM905 - the same
)
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class VaryingWords(NamedTuple):
    """What differs between two results that are otherwise equal: words of the later one, numbers of both.

    `growth` is how many characters longer the later words are, `is_made_up` whether a machine made up all of
    them, so that they name nothing.
    """

    labels: tuple[str, ...]
    words: tuple[str, ...]
    numbers_before: tuple[float, ...]
    numbers: tuple[float, ...]
    growth: int
    is_made_up: bool

    @property
    def names_started_thing(self) -> bool:
        """Whether nothing varies but the names of things that were started."""
        return _STARTED_LABELS.issuperset(self.labels)


def takes_next(tool: str) -> bool:
    """Return whether a tool gives another thing at each call by its nature, by the words of its name.

    >>> takes_next("next_page"), takes_next("read_page")
    (True, False)
    """
    return _takes_next(tool)


@functools.lru_cache(maxsize=256)
def _takes_next(tool: str) -> bool:
    return any(word.lower() in _TAKING_WORDS for word in _WORD_IN_NAME.findall(tool[:100]))


def find_varying_words(one: str, other: str, *, cut_at: int = 0) -> VaryingWords | None:
    """Return what differs between two results if that is nothing but identifiers, else None.

    With `cut_at` each text is two parts of a longer one, joined at that place.

    >>> body = "the ledger has forty open rows and no lock"
    >>> find_varying_words(f"node falcon: {body}", f"node heron: {body}").words
    ('heron',)
    >>> find_varying_words(f"phase build: {body}", f"phase test: {body}") is None
    True
    """
    if cut_at:
        before, after = _join_parts(one, other, cut_at)
    else:
        before, after = (TOKEN.findall(mask_noise(_AUDIENCE.sub("~", text))) for text in (one, other))
    shorter = min(len(before), len(after))
    if max(len(before), len(after)) > _MAX_COMPARED_WORDS or shorter <= _MIN_WORDS_BESIDE_OPAQUE:
        return None
    allowed = min(_MAX_VARYING_WORDS, max(1, int(shorter * _MAX_VARYING_SHARE)))
    pairs = _align(before, after, allowed)
    if pairs is None or not _is_mostly_constant(pairs, shorter):
        return None
    labels, words, numbers_before, numbers = [], [], [], []
    is_made_up = True
    for label, earlier, later in pairs:
        if not _is_identifier(label, earlier) or not _is_identifier(label, later):
            return None
        is_made_up = is_made_up and _is_opaque(earlier) and _is_opaque(later)
        labels.append(label.lower())
        words.append(later)
        if _NUMBER.match(later) and _NUMBER.match(earlier):
            numbers_before.append(_to_number(earlier))
            numbers.append(_to_number(later))
    if sum(not any(map(str.isdigit, word)) for word in words) > _MAX_VARYING_NAMES:
        return None  # other people, places and things are news
    growth = sum(len(later) - len(earlier) for _, earlier, later in pairs)
    return VaryingWords(
        tuple(labels), tuple(words), tuple(numbers_before), tuple(numbers), growth, is_made_up
    )


def _is_mostly_constant(pairs: list[tuple[str, str, str]], words: int) -> bool:
    """Return whether enough words stay beside those that vary: a few suffice beside opaque identifiers."""
    constant = words - len(pairs)
    if constant >= _MIN_CONSTANT_WORDS:
        return True
    return constant >= _MIN_WORDS_BESIDE_OPAQUE and all(
        _is_opaque(earlier) and _is_opaque(later) for _, earlier, later in pairs
    )


def mask_made_up(text: str) -> str:
    """Return a text without what a machine made up, and without counts of who sees it.

    >>> mask_made_up("session 3fa2c1d9e0, 8123 visits, 4 rows")
    'session ~, ~ visits, 4 rows'
    """
    text = _AUDIENCE.sub("~", text)
    return TOKEN.sub(lambda found: "~" if _is_opaque(found[0]) else found[0], text)


def _is_opaque(word: str) -> bool:
    """Return whether a word is an identifier that a machine made up.

    >>> _is_opaque("110f47534e7c17.6604@mx"), _is_opaque("invoice-2024"), _is_opaque("20240718")
    (True, False, False)
    """
    return len(word) >= _MIN_OPAQUE_CHARS and _DIGIT_BETWEEN_LETTERS.search(word) is not None


def _join_parts(one: str, other: str, cut_at: int) -> tuple[list[str], list[str]]:
    """Return the words of both texts without those that only one of them has at the cut.

    Where a word is longer than before, fewer words fit before the cut.
    """
    heads = [TOKEN.findall(text[:cut_at].rsplit(None, 1)[0]) for text in (one, other)]
    tails = [TOKEN.findall(text[cut_at:].split(None, 1)[-1]) for text in (one, other)]
    first, last = min(map(len, heads)), min(map(len, tails))
    before, after = (head[:first] + tail[len(tail) - last :] for head, tail in zip(heads, tails, strict=True))
    return before, after


def is_course(values: list[float]) -> bool:
    """Return whether numbers only rise or only fall, so that they count something.

    >>> is_course([1.0, 4.0, 9.0]), is_course([40012.0, 51200.0, 33017.0])
    (True, False)
    """
    rises = [later - earlier for earlier, later in pairwise(values)]
    return all(rise > 0 for rise in rises) or all(rise < 0 for rise in rises)


def _align(one: list[str], other: list[str], allowed: int) -> list[tuple[str, str, str]] | None:
    """Return the words that differ with the word before them; None when there are too many."""
    pairs: list[tuple[str, str, str]] = []
    left = right = 0
    label = ""
    while left < len(one) and right < len(other):
        if one[left] == other[right]:
            label = one[left]
            left, right = left + 1, right + 1
            continue
        step = _find_next_equal(one, other, left, right)
        if step is None:
            return None
        earlier, later = " ".join(one[left : left + step[0]]), " ".join(other[right : right + step[1]])
        pairs.append((label, earlier, later))
        if len(pairs) > allowed:
            return None
        left, right = left + step[0], right + step[1]
    rest = (one[left:], other[right:])
    if any(rest):
        pairs.append((label, " ".join(rest[0]), " ".join(rest[1])))
    return pairs if len(pairs) <= allowed and all(len(side) <= _MAX_LOOK_AHEAD for side in rest) else None


def _find_next_equal(one: list[str], other: list[str], left: int, right: int) -> tuple[int, int] | None:
    """Return how many words to skip on each side until both agree again."""
    for distance in range(2, 2 * _MAX_LOOK_AHEAD):
        for skip in range(max(1, distance - _MAX_LOOK_AHEAD), min(distance, _MAX_LOOK_AHEAD + 1)):
            ahead, behind = left + skip, right + distance - skip
            ends = ahead >= len(one) and behind >= len(other)
            if ends or (ahead < len(one) and behind < len(other) and one[ahead] == other[behind]):
                return skip, distance - skip
    return None


def _is_identifier(label: str, word: str) -> bool:
    """Return whether a word that varies behind this label only names something."""
    parts = word.lower().strip(".!").split()
    if not parts or label.lower().strip("-_.#") in _PROGRESS_LABELS:
        return False
    return all(map(_names_something, parts))


def _names_something(part: str) -> bool:
    """Return whether a word is a name: no small number, no share of a whole, and no word of state."""
    if _SHARE_OF_WHOLE.match(part):
        return False
    if _NUMBER.match(part):
        return sum(map(str.isdigit, part)) >= _MIN_ID_DIGITS and not part.endswith("%")
    if any(map(str.isdigit, part)):
        return True
    return not (part in _STATE_WORDS or part.endswith(_STATE_ENDINGS))


def _to_number(word: str) -> float:
    digits = re.sub(r"[^\d.]", "", word).strip(".")
    try:
        return float(digits)
    except ValueError:
        return 0.0


def list_identifiers(text: str) -> frozenset[str]:
    """Return the numbers, file names and other identifiers of a text.

    >>> sorted(list_identifiers("Page 7 of ledger.py calls load_rows."))
    ['7', 'ledger.py', 'load_rows']
    """
    words = (word.strip(".!`*#") for word in TOKEN.findall(text.lower()[:2000]))
    return frozenset(word for word in words if _IDENTIFIER.search(word) is not None)


def name_different_things(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether each of two texts has identifiers that the other has not.

    >>> name_different_things(frozenset("7"), frozenset("8"))
    True
    >>> name_different_things(frozenset("7"), frozenset())
    False
    """
    return not (one <= other or other <= one)


def find_slot(one: str, other: str) -> tuple[int, int] | None:
    """Return where two texts differ by one value in one place: words before it, and after it; else None.

    >>> find_slot("sales of March 2025 by region", "sales of April 2025 by region")
    (2, 3)
    >>> find_slot("how to set up retries", "retries setup guide for beginners") is None
    True
    """
    before, after = one.lower().split(), other.lower().split()
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    widths = len(before) - start - end, len(after) - start - end
    return (start, end) if max(widths) <= 2 and min(widths) >= 1 else None  # noqa: PLR2004 - a value, or a name of two words


def is_variant(one: str, other: str) -> bool:
    """Return whether two names are spellings of one: other signs, capitals, endings or folders.

    >>> is_variant("load_user", "LoadUsers"), is_variant("user-1042", "user-1043")
    (True, False)
    """
    first, second = _letters(one)[:_MAX_NAME_CHARS], _letters(other)[:_MAX_NAME_CHARS]
    shorter = min(len(first), len(second))
    if shorter >= _MIN_ID_DIGITS and _digits(one) == _digits(other):
        return _count_common_letters(first, second) >= max(_MIN_ID_DIGITS, _SAME_NAME_SHARE * shorter)
    return False


def _count_common_letters(one: str, other: str) -> int:
    """Return the length of the longest piece that two names have in common."""
    longest, ends = 0, [0] * (len(other) + 1)
    for letter in one:
        above = 0
        for place, against in enumerate(other, 1):
            above, ends[place] = ends[place], above + 1 if letter == against else 0
            longest = max(longest, ends[place])
    return longest


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))
