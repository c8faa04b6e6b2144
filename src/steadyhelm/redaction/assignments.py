"""Find what is assigned to the name of a secret, in any of the ways in which texts do that."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from steadyhelm.redaction.hints import Word, compile_search, find_words
from steadyhelm.redaction.names import Strength, judge_name, words_of
from steadyhelm.redaction.quoting import MAX_UNQUOTED_CHARS, OPERATOR, QUOTE, SPACE, Value, read_value
from steadyhelm.redaction.tokens import Span
from steadyhelm.redaction.values import (
    MIN_MIXING,
    holds_base64_pair,
    is_ordinary,
    is_plain_word,
    is_short_number,
    looks_like_password,
    looks_secret,
    measure_mixing,
)

_RULE: Final = "assigned secret"
_SEEN_BEFORE: Final = 80
_MIN_BEARER_CHARS: Final = 8
_MIN_PLAIN_TOKEN_CHARS: Final = 24
_MAX_PHRASE_WORDS: Final = 12
_MIN_PLAIN_NUMBER: Final = 6

_BLANKS: Final = r"(?:[ \t]|%20)"
_VALUE_WORD: Final = (
    r"(?:[vV]alue|val|v|content|default(?:_?[vV]alue)?|data|text|string_?[vV]alue|[Pp]arameterValue)"
)
_ASSIGN: Final = re.compile(
    rf"(?:{QUOTE}|\))?[\])]{{0,2}}{QUOTE}?[?!]?{_BLANKS}{{0,12}}"
    rf"(?::[ ]?[A-Za-z_][\w.\[\]|<>?]{{0,40}}[ ]?=(?!=)|(?P<op>{OPERATOR}))(?P<gap>{_BLANKS}{{0,12}}|\+)"
    r"(?:[|>][+-]?\d?[ \t]{0,4}(?:\r?\n|\\{1,4}n)[ \t]{1,40})?"
)
_ELEMENT: Final = re.compile(
    r"(?:[ \t][^<>\r\n]{0,100})?(?:>|&gt;|\\{1,4}u003[eE])\s{0,8}(?:<!\[CDATA\[)?(?=[^<\s])"
)
_ELEMENT_ENDS: Final = ("</", "]]>", "&lt;/", "\\u003c/", "\\u003C/", "<\\/")
_PAIR: Final = re.compile(
    rf"(?:{QUOTE}{SPACE}{{0,4}}[,;]?|[,;])?(?:</\w{{1,20}}>)?{SPACE}{{0,24}}"
    rf"(?:{QUOTE}?{_VALUE_WORD}{QUOTE}?{_BLANKS}{{0,4}}{OPERATOR}{_BLANKS}{{0,4}}|<(?:value|string|data|Value)>)"
)
_COMMA: Final = re.compile(rf"{QUOTE}{_BLANKS}{{0,4}},{SPACE}{{0,8}}(?={QUOTE})")
_FLAG: Final = re.compile(r"[ \t]{1,4}(?![-<|>&;])")
_IS: Final = re.compile(
    rf"{QUOTE}?(?:[ \t]{{1,3}}(?:for|of|to|on)[ \t]{{1,3}}(?:the )?[\w.@-]{{1,40}}(?: \w{{1,20}})?)?"
    r"[ \t]{1,3}(?:is|was|are|will be|has been set to|is now|set to|changed to|reset to|becomes)"
    r"[ \t]{0,3}(?:now[ \t])?:?[ \t]{0,3}"
)
_MAY_FOLLOW: Final = re.compile(
    r"[\"'`\\<>\])?!%&=:\uff1a]|\xef"
    r"|[ \t]{1,12}(?:[=:\"'`\\-]|%3|(?:is|was|are|will|has|set|changed|reset|becomes|for|of|to|on)\b)"
    r"|[ \t]{1,6}\S{0,60}[^\sA-Za-z.,]",
    re.ASCII,
)
"""What comes behind a name when a value may follow: a first look, which passes all that any form can read."""
_LONG_VALUE: Final = re.compile(r"[A-Za-z0-9_+/=.~$!@#%^&*-]{16}|[A-Za-z0-9+/]{6,16}=")
_SHORT_VALUE: Final = re.compile(
    r"[A-Za-z][!-~]{0,40}[0-9!@#$%^&*?~+=|]|[0-9!@#$%^&*?~+=|][!-~]{0,40}[A-Za-z]|[A-Za-z0-9+/]{8}"
)
_SEEN_AFTER: Final = 240
_GAP: Final = re.compile(rf"{SPACE}{{1,6}}")
_MULTIPART: Final = re.compile(
    rf"{QUOTE}[^\r\n\\]{{0,80}}(?:{SPACE}{{1,2}}[Cc]ontent-[^\r\n\\]{{1,80}}){{0,2}}(?:(?:\r?\n)|\\{{1,4}}r\\{{1,4}}n|\\{{1,4}}n){{2}}"
)
_LINE: Final = re.compile(r"[^\r\n\"'`\\<>]{1,4000}")
_WHOLE_LINE: Final = re.compile(r"[^\r\n\\]{1,4000}")
_DIGEST: Final = re.compile(r"(?:[^\r\n\\]|\\(?![nr])){1,4000}")
_WORD: Final = re.compile(r"[^\s\"'`\\,;<>]{3,300}")
_REST: Final = re.compile(r"[^\s\"'\\]*")
_XML_VALUE: Final = re.compile(r"[^<&\r\n\\\]]{1,400}")
_LOGIN_BEFORE: Final = re.compile(r"(?:login|machine|default|user|account)(?:\s|\\n)+\S{1,60}(?:\s|\\n)+\Z")
_CALL_BEFORE: Final = re.compile(
    r"(?:define|putenv|setenv|[sS]et\w{0,30}|put|add\w{0,20}|append|header|option|param|with\w{0,20}|environ)"
    r"\([ ]?[\"']\Z"
)
_QUOTE: Final = re.compile(QUOTE)
_SCHEME: Final = re.compile(r"([A-Za-z][\w-]{1,20})[ \t]+(\S.*)", re.DOTALL)
_SCHEMES: Final = frozenset({"bearer", "basic", "digest", "token", "apikey", "key", "negotiate"})
_BASIC: Final = re.compile(r"(?<![a-z])[Bb](?:asic|ASIC)[ \t]{1,4}([A-Za-z0-9+/]{6,2000}={0,2})")
_BASIC_WORD: Final = re.compile(r"asic|ASIC")
"""The rest of the word: a search that begins with a letter looks for it much faster than `_BASIC` does."""
_CODE_CALL: Final = re.compile(r"[A-Za-z_$][\w.$]{0,100}\Z")
_SECTION: Final = re.compile(r"(?:^|\n|\\n|\")\[[\w.: -]{1,60}\][ \t]{0,8}(?:\r|\n|\\)")


class Name(NamedTuple):
    """A name in a text that says something about what follows: where it is, and how much it says."""

    start: int
    end: int
    text: str
    strength: Strength


class NameFinder:
    """Finds the names of secrets in texts.

    Args:
        further: Words of the user's own, in small letters: a name that contains one is a secret's.
    """

    def __init__(self, further: Iterable[str] = ()) -> None:
        self._further = tuple(further)
        self._stems = compile_search(words_of("stems").union(self._further))

    def judge(self, name: str) -> Strength:
        """Return how much the name of a field says about its value."""
        lowered = name.lower()
        if any(word in lowered for word in self._further):
            return Strength.CERTAIN
        if "\N{KELVIN SIGN}" in name or "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}" in name:
            name = lowered.replace("\u0307", "")
        parts = re.findall(r"[\w.-]+", name)
        return max(map(judge_name, parts), default=Strength.NONE)

    def may_name_secret(self, text: str, word: Word) -> bool:
        """Return whether a word of encoded text is a name, and a value that is long enough may follow."""
        strength = self.judge(word.text) if self._further else judge_name(word.text)
        if not strength or _MAY_FOLLOW.match(text, word.end) is None:
            return False
        if strength is not Strength.WEAK:
            return True
        least = _LONG_VALUE if word.text.lower().endswith(("key", "keys")) else _SHORT_VALUE
        return least.search(text, word.end, word.end + _SEEN_AFTER) is not None

    def find(self, data: bytes) -> Iterator[Name]:
        """Yield the names of secrets in a text of one byte a character, in order."""
        for start, end, word in find_words(data, data.lower(), self._stems):
            strength = self.judge(word) if self._further else judge_name(word)
            if strength:
                yield Name(start, end, word, strength)


def find_assigned(text: str, finder: NameFinder) -> Iterator[Span]:
    """Yield the values that are assigned to the names of secrets, in order.

    >>> text = "export DB_PASSWORD=hunter2; echo $HOME"
    >>> [text[start:end] for start, end, _ in find_assigned(text, NameFinder())]
    ['hunter2']
    """
    at = 0
    for name in finder.find(text.encode("latin-1", "replace")):
        if name.end < at:
            continue
        for read in _FORMS:
            value = read(text, name)
            if value and value.start < value.end:
                at = _extend(text, value)
                yield Span(value.start, at, _RULE)
                break


def _extend(text: str, value: Value) -> int:
    """Return the end of a value that was read up to the limit: it goes on to the next space."""
    match = (
        _REST.match(text, value.end)
        if not value.quote and value.end - value.start >= MAX_UNQUOTED_CHARS
        else None
    )
    return match.end() if match else value.end


def find_basic_credentials(text: str) -> Iterator[Span]:
    """Yield user and password in base64 behind the word Basic."""
    if "asic " not in text and "ASIC " not in text:
        return
    at = 0
    for word in _BASIC_WORD.finditer(text):
        match = _BASIC.match(text, max(0, word.start() - 1)) if word.start() > at else None
        if match:
            at = match.end()
            if holds_base64_pair(match[1]):
                yield Span(*match.span(1), "basic credentials")


def is_secret_value(value: str, name: str, strength: Strength) -> bool:
    """Return whether the value of a field is a secret, by its name and by what it looks like."""
    if strength is Strength.CERTAIN:
        return bool(value)
    if strength is Strength.WEAK:
        return _is_weak_secret(value, name)
    return not is_ordinary(value) and not _is_small_number(value, name) and not _names_a_secret(value)


def _is_weak_secret(value: str, name: str) -> bool:
    if looks_secret(value) or holds_base64_pair(value):
        return True
    return not name.lower().endswith(("key", "keys")) and looks_like_password(value)


def _is_small_number(value: str, name: str) -> bool:
    if value.isdigit() and "tok" in name.lower():
        return len(value) < 2 * _MIN_PLAIN_NUMBER
    return is_short_number(value)


def _names_a_secret(value: str) -> bool:
    """Return whether a value is a name again: `token: access_token`."""
    is_name = value.replace("_", "").replace("-", "").replace(".", "").isalpha()
    return is_name and judge_name(value) > Strength.NONE


def _read_assigned(text: str, name: Name) -> Value | None:
    match = _ASSIGN.match(text, name.end)
    if not match:
        return None
    if name.strength is Strength.HEADER:
        return _read_header(text, match.end())
    value = read_value(text, match.end())
    if not value:
        return None
    if match["op"] is None and not value.quote:  # `password: str = get()`
        return None
    return value if _is_assigned_secret(text, name, match, value) else None


def _is_assigned_secret(text: str, name: Name, match: re.Match[str], value: Value) -> bool:
    content = text[value.start : value.end]
    if value.quote:
        return len(content.split()) <= _MAX_PHRASE_WORDS and is_secret_value(
            content, name.text, name.strength
        )
    if text[value.end : value.end + 1] in {"(", "["} and _CODE_CALL.match(content):
        return False
    if name.strength is Strength.WEAK:
        return _is_weak_secret(content, name.text)
    if is_ordinary(content, is_quoted=False) or _is_small_number(content, name.text):
        return False
    return not content.replace("_", "").isalpha() or _is_word_secret(text, name, match, value, content)


def _is_word_secret(text: str, name: Name, match: re.Match[str], value: Value, content: str) -> bool:
    """Return whether a value of letters alone is a secret, and not a variable or a word of a sentence."""
    if _names_a_secret(content) or (
        not content.islower() and measure_mixing(content) < MIN_MIXING and not content.isupper()
    ):
        return False
    following, before = text[value.end : value.end + 2], text[max(0, name.start - 2) : name.start]
    is_compact = match["op"] is not None and match[0].endswith("=") and not match["gap"]
    if is_compact:
        is_argument = before.endswith(("(", ", ")) or following[:1] in {")", ","}
        return not is_argument and "_" not in content
    if (
        following[:1] not in {"", "\n", "\r", "\\", '"', "'"}
        or "_" in content
        or len(content) < _MIN_PLAIN_NUMBER
    ):
        return False
    return match["op"] == ":" or bool(_SECTION.search(text[:2000]))


def _read_header(text: str, start: int) -> Value | None:
    """Read a header's value: to the end of its line, or to the quote that ends it."""
    quote = _QUOTE.match(text, start)
    start = quote.end() if quote else start
    pattern = _DIGEST if text[start : start + 6].lower() == "digest" else _LINE
    match = pattern.match(text, start)
    if not match:
        return None
    value = match[0].strip()
    scheme = _SCHEME.match(value)
    first = (scheme[2] if scheme else value).split()[0] if value else ""
    if is_ordinary(first) or (
        is_plain_word(first) and len(first) < _MIN_PLAIN_TOKEN_CHARS and "=" not in value
    ):
        return None
    if scheme and is_ordinary(scheme[1], is_quoted=False) and scheme[1].lower() not in _SCHEMES:
        return None
    kept = scheme.start(2) if scheme and scheme[1].isalpha() else 0
    begin = match.start() + len(match[0]) - len(match[0].lstrip()) + kept
    return Value(begin, match.start() + len(match[0].rstrip()), "")


def _read_element(text: str, name: Name) -> Value | None:
    before = text[max(0, name.start - 1) : name.start]
    if before not in {"<", ":", ";"} and not text.startswith("u003", max(0, name.start - 5)):
        return None
    match = _ELEMENT.match(text, name.end)
    value = _XML_VALUE.match(text, match.end()) if match else None
    if not value or not text.startswith(_ELEMENT_ENDS, value.end()):
        return None
    if not is_secret_value(value[0].strip(), name.text, name.strength):
        return None
    return Value(*value.span(), "<")


def _read_pair(text: str, name: Name) -> Value | None:
    match = _PAIR.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not value or not is_secret_value(text[value.start : value.end], name.text, name.strength):
        return None
    return value


def _read_second(text: str, name: Name) -> Value | None:
    """Read the value behind a name and a comma: arguments of a call, or a list of words of a command."""
    match = _COMMA.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not value:
        return None
    content = text[value.start : value.end]
    is_pair = name.text.startswith("-") or _CALL_BEFORE.search(
        text[max(0, name.start - _SEEN_BEFORE) : name.start]
    )
    if is_pair and not content.startswith("-"):
        return value if is_secret_value(content, name.text, name.strength) else None
    return (
        value
        if looks_like_password(content)
        or looks_secret(content)
        or (" " in content and name.strength is Strength.HEADER and not is_ordinary(content))
        else None
    )


def _read_flag(text: str, name: Name) -> Value | None:
    match = _FLAG.match(text, name.end) if name.text.startswith("-") else None
    value = read_value(text, match.end()) if match else None
    if not value:
        return None
    content = text[value.start : value.end]
    is_secret = is_secret_value(content, name.text, name.strength) and not is_ordinary(
        content, is_quoted=bool(value.quote)
    )
    return value if is_secret else None


def _read_sentence(text: str, name: Name) -> Value | None:
    match = _IS.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not value:
        return None
    content = (
        text[value.start : value.end].rstrip(".,;:!?)") if not value.quote else text[value.start : value.end]
    )
    is_said = looks_like_password(content) or (
        value.quote and " " not in content and not is_ordinary(content)
    )
    return Value(value.start, value.start + len(content), value.quote) if is_said else None


def _read_next(text: str, name: Name) -> Value | None:
    """Read the value behind a name and a space: `login ann password x`, `PASSWORD 'x'`, `Bearer x`."""
    match = _GAP.match(text, name.end)
    if not match:
        return None
    quoted = read_value(text, match.end())
    if quoted and quoted.quote and name.strength is not Strength.WEAK and "\n" not in match[0]:
        content = text[quoted.start : quoted.end]
        return (
            quoted
            if " " not in content and not is_ordinary(content) and not _names_a_secret(content)
            else None
        )
    word = _WORD.match(text, match.end())
    if not word:
        return None
    return Value(*word.span(), "") if _is_next_secret(text, name, word[0]) else None


def _is_next_secret(text: str, name: Name, word: str) -> bool:
    before = text[max(0, name.start - _SEEN_BEFORE) : name.start]
    if name.text.lower().endswith("bearer"):
        return (
            len(word) >= _MIN_BEARER_CHARS
            and not is_ordinary(word, is_quoted=False)
            and (any(map(str.isdigit, word)) or measure_mixing(word) >= MIN_MIXING)
        )
    if _LOGIN_BEFORE.search(before):
        return not is_ordinary(word)
    is_line = before.endswith(("\n", "\\n", '"', "'")) or not before.strip()
    if is_line and name.text.lower() in words_of("whole names"):
        return not is_ordinary(word)
    is_next = name.strength is Strength.STRONG and text[name.end : name.end + 1] in {" ", "\t"}
    is_another_name = "=" in word or ":" in word
    return is_next and not is_another_name and (looks_like_password(word) or looks_secret(word))


def _read_multipart(text: str, name: Name) -> Value | None:
    match = _MULTIPART.match(text, name.end)
    value = _WHOLE_LINE.match(text, match.end()) if match else None
    if not value or not is_secret_value(value[0], name.text, name.strength):
        return None
    return Value(*value.span(), "")


_FORMS: Final[tuple[Callable[[str, Name], Value | None], ...]] = (
    _read_assigned, _read_element, _read_pair, _read_second,
    _read_flag, _read_sentence, _read_multipart, _read_next,
)  # fmt: skip
