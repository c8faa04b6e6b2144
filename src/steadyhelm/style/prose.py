"""Extract the prose of a reply, and detect its language.

Code, quotes, tables and URLs are blanked, and every position is kept.
Accents are removed letter by letter, so that a position in the prose is the same position in the reply.
"""

import re
import string
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from steadyhelm.beyond_ascii import list_beyond_ascii
from steadyhelm.lexicons import load_lexicon

CHARS_READ: Final = 8192

_ACCENTED_BY_LETTER: Final = {
    "a": "àáâãäåāăąǎ",
    "c": "çćĉċč",
    "d": "ďđ",
    "e": "èéêëēĕėęěẽ",
    "g": "ĝğġģ",
    "h": "ĥħ",
    "i": "ìíîïĩīĭįı",
    "j": "ĵ",
    "k": "ķ",
    "l": "ĺļľŀł",
    "n": "ñńņňŉ",
    "o": "òóôõöøōŏőǒ",
    "r": "ŕŗř",
    "s": "śŝşšș",
    "t": "ţťŧț",
    "u": "ùúûüũūŭůűųǔ",
    "w": "ŵ",
    "y": "ýÿŷ",
    "z": "źżž",
}
# 'İ' is the only letter whose lower case is longer than itself.
_LETTER_BY_ACCENTED: Final = {
    accented: plain for plain, many in _ACCENTED_BY_LETTER.items() for accented in many + many.upper()
} | {
    "İ": "i",
    "\u2018": "'",
    "\u2019": "'",
    "\u02bc": "'",
    "\u00b4": "'",
}
_COMBINING_MARKS: Final = re.compile("[\u0300-\u036f]+")

_FENCED_CODE: Final = re.compile(r"^[ \t>]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE)
_INLINE_CODE: Final = re.compile(r"`[^`\n]+`|``[^\n]+?``")
_URL: Final = re.compile(r"\b(?:https?|file|ftp)://\S+")
# Quoted text is not the agent's own.
_QUOTED: Final = re.compile(r"\"[^\"\n]{1,300}\"|“[^“”\n]{1,300}”")
_TABLE_OR_QUOTE_LINE: Final = re.compile(r"^[ \t]*[|>].*$", re.MULTILINE)
_PATH_TAIL: Final = re.compile(r"/[\w./@-]*")
_PATH_CHARACTER: Final = re.compile(r"[\w.~@-]")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]*>")
_MIN_PATH_SLASHES: Final = 2

UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD_ASCII: Final = re.compile(r"[a-z]+(?:'[a-z]+)*")
_SMALL_LETTERS: Final = frozenset(string.ascii_lowercase)
_LETTERS: Final = bytes(code if chr(code) in f"{string.ascii_lowercase}'" else 32 for code in range(256))
# One set of characters first: the search skips all others quickly.
_BOUNDARY: Final = re.compile(
    "[.!?\u2026\u3002\uff01\uff1f\u0964\u061f\n]"
    "(?:(?<=[.!?\u2026])(?=[\\s\"')\\]*_\u00bb\u201d]|$)|(?<=[\u3002\uff01\uff1f\u0964\u061f])"
    r"|(?<=\n)(?=[ \t]*\n|[ \t]*(?:[-*+\u2022\u2013#]+|\d{1,3}[.)])[ \t]))"
)


class Prose(NamedTuple):
    """The prose of a reply; each position in `text` is the same position in the reply.

    `words_in_all` is an estimate for a reply that is longer than the characters read.
    `is_latin` is True when all letters are plain ones after accents are removed.
    `has_matter` is True when something was blanked: the reply contains more than prose.
    """

    text: str
    words: list[str]
    sentences: int
    words_in_all: int
    is_latin: bool
    has_matter: bool

    def find_spans(self) -> "WordSpans":
        """Return where the words are."""
        return WordSpans(self)


class WordSpans:
    """Where the words of a text are, found from left to right as far as they are asked for."""

    def __init__(self, prose: Prose) -> None:
        self._prose = prose
        self._place = 0
        self._end = 0
        matches = iter(()) if prose.is_latin else _get_word_pattern().finditer(prose.text)
        self._matches: Iterator[re.Match[str]] = matches
        self._known: dict[int, tuple[int, int]] = {}

    def take(self, place: int, count: int) -> list[tuple[int, int]]:
        """Return start and end of so many words from this one on; a later call asks for no earlier word."""
        known, places = self._known, range(place, min(place + count, len(self._prose.words)))
        for each in places:
            if each not in known:
                known[each] = self._find_next(each)
        return [known[each] for each in places]

    def _find_next(self, place: int) -> tuple[int, int]:
        """Return the span of a word behind those found so far."""
        skipped, self._place = place - self._place, place + 1
        if not self._prose.is_latin:
            return next(islice(self._matches, skipped, None)).span()
        # A plain search for the word itself: a match object for each word before it costs far more.
        words, text = self._prose.words, self._prose.text
        word = words[place]
        start = self._end
        for _ in range(words[place - skipped : place].count(word) + 1):
            start = _find_word(text, word, start)
            end = start + len(word)
            start = end
        self._end = end
        return end - len(word), end


def _find_word(text: str, word: str, start: int) -> int:
    """Return where `_WORD_ASCII` finds this word from here on; it is there."""
    place = text.find(word, start)
    while not _is_whole_word(text, place, place + len(word)):
        place = text.find(word, place + 1)
    return place


def _is_whole_word(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    is_begun = before[-1:] in _SMALL_LETTERS or (before[-1:] == "'" and before[-2:-1] in _SMALL_LETTERS)
    goes_on = after[:1] in _SMALL_LETTERS or (after[:1] == "'" and after[1:] in _SMALL_LETTERS)
    return not is_begun and not goes_on


def read_prose(reply: str) -> Prose:
    """Return the prose in the first 8 KiB of a reply.

    >>> read_prose("Café `x = 1` is *open*. Come in!").words
    ['cafe', 'is', 'open', 'come', 'in']
    """
    seen = reply[:CHARS_READ]
    bare = _blank_code(seen)
    text = _fold_text(_blank_quotes(bare))
    is_latin = text.isascii() or _get_non_latin_pattern().search(list_beyond_ascii(text)) is None
    words = _find_words(text, is_latin=is_latin)
    in_all = len(words) if len(reply) <= CHARS_READ else len(words) * len(reply) // CHARS_READ
    return Prose(text, words, _count_sentences(text, len(words)), in_all, is_latin, bare is not seen)


def fold_words(term: str) -> tuple[str, ...]:
    """Return the words of a term as they appear in prose: lower case, without accents."""
    text = _fold_text(term)
    return tuple(_find_words(text, is_latin=text.isascii()))


# Patterns with large sets of characters are compiled when a reply first needs them: few do.
@cache
def _get_non_latin_pattern() -> re.Pattern[str]:
    return re.compile(
        "[\u00aa\u00b5\u00ba\u00c0-\u1fff\u2c00-\u2dff\u3040-\udfff\uf900-\ufdff\ufe20-\uffef"
        "\U00010000-\U0001cfff\U00020000-\U0003ffff]"
    )


@cache
def _get_word_pattern() -> re.Pattern[str]:
    # In a script without spaces two characters make about one word.
    return re.compile(
        rf"[{UNSPACED}]{{1,2}}|[^\W\d_{UNSPACED}][^\W\d_{UNSPACED}\u0300-\u036f]*(?:'[^\W\d_]+)*"
    )


def _fold_text(text: str) -> str:
    if not text.isascii():
        for accented in _LETTER_BY_ACCENTED.keys() & set(list_beyond_ascii(text)):
            text = text.replace(accented, _LETTER_BY_ACCENTED[accented])
    return text.lower()


def _find_words(text: str, *, is_latin: bool) -> list[str]:
    if is_latin:
        return _find_latin_words(text)
    return [
        word if word.isascii() else _COMBINING_MARKS.sub("", word)
        for word in _get_word_pattern().findall(text)
    ]


def _find_latin_words(text: str) -> list[str]:
    """Return what `_WORD_ASCII` finds, in a third of the time."""
    words = text.encode("ascii", "replace").translate(_LETTERS).decode().split()
    if "'" not in text:
        return words
    for place in [place for place, word in enumerate(words) if "'" in word][::-1]:
        words[place : place + 1] = _WORD_ASCII.findall(words[place])
    return words


def _blank_quoted_code(text: str) -> str:
    if "```" in text or "~~~" in text:
        text = _FENCED_CODE.sub(lambda match: _blank_block(match[0]), text)
    return _INLINE_CODE.sub(_blank_match, text)


def _blank_code(seen: str) -> str:
    """Return the text with everything blanked that is not prose; the same object if there is nothing."""
    if _is_json(seen):
        return _blank_block(seen)
    text = _blank_quoted_code(seen) if "`" in seen or "~~~" in seen else seen
    if "://" in text:
        text = _URL.sub(_blank_match, text)
    if "/" in text:
        text = _blank_paths(text)
    if "<" in text:
        text = _TAG.sub(_blank_match, text)
    if "|" in text or ">" in text:
        text = _TABLE_OR_QUOTE_LINE.sub(_blank_match, text)
    return text if text != seen else seen


def _blank_quotes(text: str) -> str:
    """Return the text with text in double quotes blanked."""
    return _QUOTED.sub(_blank_match, text) if '"' in text or "“" in text else text


def _is_json(seen: str) -> bool:
    """Return whether a reply is nothing but a JSON object or list, and so has no prose."""
    bare = seen.strip()
    if bare[:1] not in {"{", "["} or bare[-1:] not in {"}", "]"}:
        return False
    try:
        msgspec.json.decode(bare.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _blank_match(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank_block(text: str) -> str:
    # An empty line separates the text before and after a block.
    return ("\n\n" + " " * len(text))[: len(text)]


def _blank_paths(text: str) -> str:
    parts, done = [], 0
    for match in _PATH_TAIL.finditer(text):
        start, end = match.span()
        # Search backwards from the slash: cheaper than a pattern tried at every character.
        while start > done and _PATH_CHARACTER.match(text, start - 1):
            start -= 1
        if _is_path(text[start:end]):
            parts += [text[done:start], " " * (end - start)]
            done = end
    return "".join((*parts, text[done:])) if parts else text


def _is_path(found: str) -> bool:
    # "read/write" and "and/or" are words; "src/app.py" and "a/b/c" are not.
    named = found.strip("./")
    return bool(named) and (
        found.count("/") >= _MIN_PATH_SLASHES
        or "." in named
        or "_" in named
        or found.startswith(("/", "~", "."))
    )


def _count_sentences(text: str, words: int) -> int:
    if not words:
        return 0
    return max(1, sum(map(_has_letter, _BOUNDARY.split(text))))


def _has_letter(text: str) -> bool:
    return text.strip()[:1].isalpha() or any(map(str.isalpha, text))


# Detect the language of a reply by its script, or by the small words that every sentence needs. Ten
# languages in Latin letters are distinguished; another one is `und`, undetermined. None means that there
# are too few words to decide.

ENGLISH: Final = "en"
UNDETERMINED: Final = "und"

_LATIN: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "tr")
_FOREIGN: Final = tuple(language for language in _LATIN if language != ENGLISH)
_SCRIPTS: Final = ("ja", "ko", "zh", "ru", "el", "ar", "he", "hi", "th")
LANGUAGES: Final = tuple(sorted((*_LATIN, *_SCRIPTS)))

_SURE_SHARE: Final = 0.2
_KNOWN_SHARE: Final = 0.12
_MIN_SMALL_WORDS: Final = 3
_MIN_WORDS: Final = 30
_FOREIGN_BELOW_SHARE: Final = 0.05
_LEAD_FACTOR: Final = 1.5
_SCRIPT_SHARE: Final = 0.3
_KANA_SHARE: Final = 0.05


def detect_language(prose: Prose) -> str | None:
    """Return the language of a reply as its two-letter code; None when there are too few words.

    >>> from steadyhelm.style.prose import read_prose
    >>> detect_language(read_prose("Das ist nicht der Fehler, den wir suchen."))
    'de'
    >>> detect_language(read_prose("Fixed parser.")) is None
    True
    """
    if not prose.is_latin:
        script = _detect_script(prose.text)
        if script is not None:
            return script
    words = prose.words
    english = _count_small_words(words, ENGLISH)
    if english >= max(_SURE_SHARE * len(words), _MIN_SMALL_WORDS):
        opening = words[:_MIN_WORDS]
        foreign = list(filter(_load_foreign_small_words().__contains__, opening))
        own = _count_small_words(opening, ENGLISH)
        if len(foreign) <= own or max(_count_by_language(foreign).values()) <= own:
            return ENGLISH
    return _detect_latin(words, english)


def _detect_latin(words: Sequence[str], english: int) -> str | None:
    found = _count_by_language(words)
    other = max(found, key=found.__getitem__)
    if found[other] >= max(_MIN_SMALL_WORDS, _KNOWN_SHARE * len(words), _LEAD_FACTOR * english):
        return other
    if english >= _MIN_SMALL_WORDS and english > found[other]:
        return ENGLISH
    if len(words) >= _MIN_WORDS and english < _FOREIGN_BELOW_SHARE * len(words):
        return UNDETERMINED
    return None


@cache
def _load_foreign_small_words() -> dict[str, tuple[str, ...]]:
    """Return the languages of each small word that is not English alone."""
    languages: dict[str, tuple[str, ...]] = {}
    for language in _FOREIGN:
        for word in load_lexicon(__package__, "small_words")[language].word_set:
            languages[word] = (*languages.get(word, ()), language)
    return languages


def _count_by_language(words: Sequence[str]) -> dict[str, int]:
    """Return how many small words of each language but English there are."""
    counts, languages = dict.fromkeys(_FOREIGN, 0), _load_foreign_small_words()
    for word in filter(languages.__contains__, words):
        for language in languages[word]:
            counts[language] += 1
    return counts


def _count_small_words(words: Sequence[str], language: str) -> int:
    small_words = load_lexicon(__package__, "small_words")[language].word_set
    return len(list(filter(small_words.__contains__, words)))


def _detect_script(text: str) -> str | None:
    letters = sum(map(str.isalpha, text))
    if not letters:
        return None
    for language, letters_of_script in load_lexicon(__package__, "scripts").entries.items():
        # Japanese uses Chinese characters too; a little kana is enough to recognise it.
        least = _KANA_SHARE if language == "ja" else _SCRIPT_SHARE
        if letters_of_script.count(text) > least * letters:
            return language
    return None
