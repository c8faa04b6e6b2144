"""What a reply says in words: code, quotes, tables and addresses blanked, every position kept.

Accents are folded letter by letter, so that a place in the prose is the same place in the reply.
"""

import re
from typing import Final, NamedTuple

import msgspec

LOOKED_AT: Final = 8192

_ACCENTS: Final = {
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
# 'İ' is the one letter whose small form is longer than itself.
_PLAIN: Final = {accented: plain for plain, many in _ACCENTS.items() for accented in many + many.upper()} | {
    "İ": "i",
    "\u2018": "'",
    "\u2019": "'",
    "\u02bc": "'",
    "\u00b4": "'",
}
_ACCENTED: Final = re.compile(f"[{''.join(_PLAIN)}]")
_MARKS: Final = re.compile("[\u0300-\u036f]+")
_OTHER_LETTERS: Final = re.compile(
    "[\u00aa\u00b5\u00ba\u00c0-\u1fff\u2c00-\u2dff\u3040-\udfff\uf900-\ufdff\ufe20-\uffef"
    "\U00010000-\U0001cfff\U00020000-\U0003ffff]"
)

_FENCED: Final = re.compile(r"^[ \t>]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE)
_INLINE: Final = re.compile(r"`[^`\n]+`|``[^\n]+?``")
_ADDRESS: Final = re.compile(r"\b(?:https?|file|ftp)://\S+")
# What stands in quotes is somebody else's words.
_QUOTED: Final = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”")
_ASIDE: Final = re.compile(r"^[ \t]*[|>].*$", re.MULTILINE)
_PATH_ENDS: Final = re.compile(r"/[\w./@-]*")
_IN_A_PATH: Final = re.compile(r"[\w.~@-]")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]*>")
_SLASHES: Final = 2

UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD_ASCII: Final = re.compile(r"[a-z]+(?:'[a-z]+)*")
# In a script without spaces two characters make about one word.
_WORD_ANY: Final = re.compile(
    rf"[{UNSPACED}]{{1,2}}|[^\W\d_{UNSPACED}][^\W\d_{UNSPACED}\u0300-\u036f]*(?:'[^\W\d_]+)*"
)
_BOUNDARY: Final = re.compile(
    "[.!?\u2026](?=[\\s\"')\\]*_\u00bb\u201d]|$)|[\u3002\uff01\uff1f\u0964\u061f]"
    r"|\n(?=[ \t]*\n|[ \t]*(?:[-*+\u2022\u2013#]+|\d{1,3}[.)])[ \t])"
)


class Prose(NamedTuple):
    """A reply's words, where each position in `text` is the position in the reply.

    `words_in_all` takes the rest of a reply longer than what is looked at to be like the part seen.
    `is_latin` says that all letters are plain ones once accents are folded.
    `has_matter` says that something was blanked: there is more in the reply than words.
    """

    text: str
    words: list[str]
    sentences: int
    words_in_all: int
    is_latin: bool
    has_matter: bool

    def spans(self) -> list[tuple[int, int]]:
        """Where each word begins and ends."""
        pattern = _WORD_ASCII if self.is_latin else _WORD_ANY
        return [match.span() for match in pattern.finditer(self.text)]


def prose_of(reply: str) -> Prose:
    """The prose in the first 8 KiB of a reply.

    >>> prose_of("Café `x = 1` is *open*. Come in!").words
    ['cafe', 'is', 'open', 'come', 'in']
    """
    seen = reply[:LOOKED_AT]
    bare = _without_code(seen)
    text = _folded(_without_quotes(bare))
    is_latin = text.isascii() or _OTHER_LETTERS.search(text) is None
    words = _words_in(text, is_latin=is_latin)
    in_all = len(words) if len(reply) <= LOOKED_AT else len(words) * len(reply) // LOOKED_AT
    return Prose(text, words, _sentences(text, len(words)), in_all, is_latin, bare is not seen)


def folded(term: str) -> tuple[str, ...]:
    """The words of a term in a lexicon, as they are found in prose."""
    text = _folded(term)
    return tuple(_words_in(text, is_latin=text.isascii()))


def _folded(text: str) -> str:
    if not text.isascii():
        text = _ACCENTED.sub(lambda match: _PLAIN[match[0]], text)
    return text.lower()


def _words_in(text: str, *, is_latin: bool) -> list[str]:
    if is_latin:
        return _WORD_ASCII.findall(text)
    return [word if word.isascii() else _MARKS.sub("", word) for word in _WORD_ANY.findall(text)]


def _without_code(seen: str) -> str:
    """The text with everything blanked that is not prose; the very same text when there is nothing."""
    if _is_data(seen):
        return _blank_block(seen)
    text = seen
    if "`" in text or "~~~" in text:
        if "```" in text or "~~~" in text:
            text = _FENCED.sub(lambda match: _blank_block(match[0]), text)
        text = _INLINE.sub(_blank, text)
    if "://" in text:
        text = _ADDRESS.sub(_blank, text)
    if "/" in text:
        text = _without_paths(text)
    if "<" in text:
        text = _TAG.sub(_blank, text)
    if "|" in text or ">" in text:
        text = _ASIDE.sub(_blank, text)
    return text if text != seen else seen


def _without_quotes(text: str) -> str:
    """The text with blanks for what stands in double quotes."""
    return _QUOTED.sub(_blank, text) if '"' in text or "“" in text else text


def _is_data(seen: str) -> bool:
    """A reply that is nothing but a JSON object or list has no prose."""
    bare = seen.strip()
    if bare[:1] not in {"{", "["} or bare[-1:] not in {"}", "]"}:
        return False
    try:
        msgspec.json.decode(bare.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank_block(text: str) -> str:
    # An empty line keeps apart what stands before and after a block.
    return ("\n\n" + " " * len(text))[: len(text)]


def _without_paths(text: str) -> str:
    parts, done = [], 0
    for match in _PATH_ENDS.finditer(text):
        start, end = match.span()
        # From the slash back to the beginning: cheaper than a pattern tried at every character.
        while start > done and _IN_A_PATH.match(text, start - 1):
            start -= 1
        if _is_path(text[start:end]):
            parts += [text[done:start], " " * (end - start)]
            done = end
    return "".join((*parts, text[done:])) if parts else text


def _is_path(found: str) -> bool:
    # "read/write" and "and/or" are words; "src/app.py" and "a/b/c" are not.
    named = found.strip("./")
    return bool(named) and (
        found.count("/") >= _SLASHES or "." in named or "_" in named or found.startswith(("/", "~", "."))
    )


def _sentences(text: str, words: int) -> int:
    if not words:
        return 0
    return max(1, sum(any(map(str.isalpha, piece)) for piece in _BOUNDARY.split(text)))
