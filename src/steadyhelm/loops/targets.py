"""How the targets of two calls are related: one value in two spellings, a place close by, a page of one list.

Two calls whose arguments differ need not have two targets. An address, a name, a pattern or a point of the
screen can be written in several ways, and the number of a page does not make it another list.
"""

import functools
import re
import unicodedata
from typing import Any, Final, Literal

from steadyhelm.loops.questions import Relation, read_question, relate_questions
from steadyhelm.loops.side_arguments import is_made_up_beside, list_varied, read_fields

TargetRelation = Literal["same", "page", "aside", "tag"] | Relation

NEAR_PIXELS: Final = 24

_MIN_PIXELS: Final = 64
_MAX_VALUE_CHARS: Final = 1000
_MAX_VARIED: Final = 3
_MAX_TOKEN_CHARS: Final = 64

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PLACE_NAMES: Final = frozenset(
    {"x", "y", "coordinate", "coordinates", "point", "position", "left", "top", "x1", "y1", "x2", "y2"}
)
_PAGE_WORDS: Final = frozenset(
    {"page", "pages", "pg", "offset", "cursor", "skip", "start", "after", "continuation", "next"}
)
_WORDS_BESIDE_PAGE: Final = frozenset(
    {"number", "no", "num", "index", "token", "key", "id", "at", "from", "record", "row", "result", "results"}
)
_PUTTING_WORDS: Final = frozenset(
    {"draw", "paint", "place", "put", "brush", "stroke", "plot", "dig", "build"}
)
_RANDOM_NAMES: Final = frozenset({"seed", "random_seed", "randomSeed", "rng_seed", "variation"})
_DATE: Final = re.compile(r"\d{4}-\d|\d/\d|\d:\d")

_ADDRESS: Final = re.compile(
    r"(?:https?://)?(?:www\d?\.)?(?=[\w-]+(?:\.[\w-]+)*(?:\.[a-z]{2,}|:\d))", re.ASCII
)
_IDLE_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?:ref|referrer|utm_\w+|fbclid|gclid|nocache|no_cache|amp)=[^&#]*&?"
)
_PAGE_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?:page|pg?|offset|start|cursor|skip|after|page_?(?:token|no|num(?:ber)?|index))=[^&#]*&?"
)
_PAGE_IN_PATH: Final = re.compile(r"/(?:page|p)/\d+(?=[/?#]|\Z)")
_LAST_PAGE_OF_PATH: Final = re.compile(r"/(?:index|default|home)\.(?:html?|php|aspx?)\Z")
_SEPARATORS: Final = re.compile(
    r"(?<!\d)\s+|\s+(?!\d)|[\"'`\u00b4\u2018-\u201d_;!?]+|(?<=[^\W\d])-|(?<![.:,])[.:,]+(?=\s|\Z)"
)

_SEARCHES_TEXT: Final = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep"})
_SEARCHES_NAMES: Final = frozenset({"find", "fd", "fdfind", "locate"})
_NAME_FLAGS: Final = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex"})
_FLAGS_WITH_VALUE: Final = frozenset({"-A", "-B", "-C", "-m", "-g", "-t", "-type", "-maxdepth", "--glob"})
_WILDCARDS: Final = "*.^$\\/?\"'"
_EVERYWHERE: Final = frozenset({"", ".", "/", "~", "*"})
_TOKEN: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")
_COMMAND_END: Final = re.compile(r"\s{0,9}(?:\||;|&&|\d?>).*", re.DOTALL)
_GOES_THERE: Final = re.compile(r"\s{0,9}cd [^;&|]{1,99}+&& ")


def relate_calls(one: bytes, other: bytes) -> TargetRelation:
    """Return how two calls of one tool with different canonical arguments are related.

    >>> relate_calls(b'{"url":"https://a.org/jobs"}', b'{"url":"http://www.a.org/jobs/#main"}')
    'same'
    >>> relate_calls(b'{"q":"lamp","offset":0}', b'{"q":"lamp","offset":20}')
    'page'
    >>> relate_calls(b'{"x":640,"y":407}', b'{"x":646,"y":413}')
    'same'
    >>> relate_calls(b'{"command":"grep -rn parseDue src"}', b'{"command":"rg parsedue"}')
    'same'
    >>> relate_calls(b'{"id":1042}', b'{"id":1043}')
    'number'
    """
    before, now = read_fields(one), read_fields(other)
    if before is not None and now is not None:
        varied = list_varied(before, now)
        if 0 < len(varied) <= _MAX_VARIED:
            relation = _relate_varied(varied, is_all=len(before) == 1)
            if relation is not None:
                return relation
    return relate_questions(read_question(one), read_question(other))


def _relate_varied(varied: list[tuple[str, Any, Any]], *, is_all: bool) -> TargetRelation | None:
    """Return the relation of values that differ, with the names of their arguments, if it is known.

    `is_all` says that the calls have no other arguments.
    """
    if not is_all:
        targets = [it for it in varied if not is_made_up_beside(*it)]
        if not targets:
            return "tag"
        varied = targets
    if all(_is_same_value(name, one, other) for name, one, other in varied):
        return "same"
    if all(_is_page(name, one, other) for name, one, other in varied):
        return "page"
    if all(name in _RANDOM_NAMES for name, _, _ in varied):
        return "aside"
    if len(varied) == 1 and varied[0][0] in {"command", "cmd"}:
        return _relate_commands(varied[0][1], varied[0][2])
    return None


def _is_same_value(name: str, one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return normalize_value(one) == normalize_value(other)
    if name.lower() in _PLACE_NAMES or name.lower()[-2:] in {"_x", "_y"}:
        return is_near(one, other) and _is_pixel(one)
    return not one and not other  # an empty field that the other call left out


def is_near(one: Any, other: Any, most: float = NEAR_PIXELS) -> bool:
    """Return whether two numbers, or two points of numbers, are hardly apart.

    >>> is_near([757, 351], [754, 346]), is_near([757, 351], [757, 551])
    (True, False)
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(is_near(a, b, most) for a, b in zip(one, other, strict=True))
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    return abs(one - other) <= most


def _is_pixel(place: Any) -> bool:
    """Return whether a number or a point may be one of a screen: the cells of a board are fewer."""
    if isinstance(place, list):
        return any(map(_is_pixel, place))
    return bool(abs(place) >= _MIN_PIXELS)


@functools.lru_cache(maxsize=256)
def puts_many(tool: str) -> bool:
    """Return whether a tool puts one thing beside the other, so that two places are never one.

    >>> puts_many("draw_point"), puts_many("mouse_click")
    (True, False)
    """
    return not _PUTTING_WORDS.isdisjoint(word.lower() for word in _WORD_IN_NAME.findall(tool[:100]))


def normalize_value(text: str) -> str:
    """Return a value without what only spells it: case, accents, quotes, spaces; of an address more.

    >>> normalize_value("São Paulo") == normalize_value("sao-paulo")
    True
    >>> normalize_value("http://www.a.org/x/?ref=1#top") == normalize_value("a.org/x")
    True
    >>> normalize_value("1.5") == normalize_value("15")
    False
    """
    lowered = text[:_MAX_VALUE_CHARS].strip().lower()
    address = _ADDRESS.match(lowered)
    if address is not None and not any(map(str.isspace, lowered)):
        return _normalize_address(lowered[address.end() :])
    if not lowered.isascii():
        lowered = "".join(
            it for it in unicodedata.normalize("NFKD", lowered) if not unicodedata.combining(it)
        )
    return _SEPARATORS.sub("", lowered).removeprefix("./").rstrip("/") or lowered


def _normalize_address(rest: str) -> str:
    page, _, anchor = rest.partition("#")
    if not anchor.startswith(("/", "!")):  # else it is a page of an application
        rest = page
    if "?" in rest:
        rest = _IDLE_PARAMETER.sub("", rest).rstrip("?&")
    return _LAST_PAGE_OF_PATH.sub("", rest).rstrip("/").replace("/?", "?")


def _is_page(name: str, one: Any, other: Any) -> bool:
    """Return whether two values name other pages of one list."""
    words = [word.lower() for word in _WORD_IN_NAME.findall(name[:100])]
    if not _PAGE_WORDS.isdisjoint(words) and set(words) <= _PAGE_WORDS | _WORDS_BESIDE_PAGE:
        return _is_page_mark(one) and _is_page_mark(other)
    if not isinstance(one, str) or not isinstance(other, str) or "/" not in one:
        return False
    return _cut_page(one) == _cut_page(other)


def _is_page_mark(value: Any) -> bool:
    """Return whether a value may be the number or the token of a page, and is no date."""
    if isinstance(value, str):
        return len(value) <= _MAX_TOKEN_CHARS and " " not in value and _DATE.search(value) is None
    return value is None or isinstance(value, int)


def _cut_page(address: str) -> str:
    return _PAGE_IN_PATH.sub("", _PAGE_PARAMETER.sub("", address)).rstrip("?&/")


def _relate_commands(one: Any, other: Any) -> TargetRelation | None:
    """Return how two commands that search files are related; None where one of them is no search."""
    before, now = _read_search(one), _read_search(other)
    if before is None or now is None or not _overlap(before[1], now[1]):
        return None
    first, second = before[0].strip(_WILDCARDS).lower(), now[0].strip(_WILDCARDS).lower()
    first, second = normalize_value(first), normalize_value(second)
    if first == second:
        return "same"
    return "spelling" if min(first, second, key=len) and (first in second or second in first) else None


def _read_search(command: Any) -> tuple[str, str] | None:
    """Return what a command searches for, and where; None for a command that is no search.

    >>> _read_search("grep -rn 'parseDue' src | head -5"), _read_search('find / -iname "*pay*"')
    (('parseDue', 'src'), ('*pay*', '/'))
    """
    if not isinstance(command, str) or len(command) > _MAX_VALUE_CHARS:
        return None
    words = [max(found) for found in _TOKEN.findall(_COMMAND_END.sub("", _GOES_THERE.sub("", command)))]
    if words[:2] == ["git", "grep"]:
        del words[0]
    if not words or words[0] not in _SEARCHES_TEXT | _SEARCHES_NAMES:
        return None
    tool, rest, named, plain = words[0], iter(words[1:]), "", []
    for word in rest:
        if word in _NAME_FLAGS:
            named = named or next(rest, "")
        elif word in _FLAGS_WITH_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            plain.append(word)
    if named or not plain:
        return (named, plain[0] if plain else "") if named else None
    if tool in {"find", "locate"} and len(plain) == 1:
        return plain[0], ""
    return plain[0], plain[1] if len(plain) > 1 else ""


def _overlap(one: str, other: str) -> bool:
    """Return whether one of two places lies within the other."""
    one, other = one.removeprefix("./").rstrip("/"), other.removeprefix("./").rstrip("/")
    return one in _EVERYWHERE or other in _EVERYWHERE or one.startswith(other) or other.startswith(one)
