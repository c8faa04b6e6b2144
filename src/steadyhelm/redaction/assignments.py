"""Find what is assigned to the name of a secret, in any of the ways in which texts do that."""

import re
from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Final

from steadyhelm.redaction.foreign_names import is_foreign_name
from steadyhelm.redaction.forms import FORMS
from steadyhelm.redaction.groups import find_group
from steadyhelm.redaction.hints import Word, compile_search, find_words
from steadyhelm.redaction.named_values import Name
from steadyhelm.redaction.names import CURSORS, Strength, judge_name, words_of
from steadyhelm.redaction.quoting import MAX_UNQUOTED_CHARS, QUOTE, Value
from steadyhelm.redaction.tokens import SecretSpan
from steadyhelm.redaction.values import holds_base64_pair

_RULE: Final = "assigned secret"
_MAY_FOLLOW: Final = re.compile(
    r"(?![ ]{1,4}&&[ ])(?:[\"'`\\<>\])?!%&=:*|\uff1a]|\[\d{0,4}\]|\xef|\xe2"
    r"|[ \t]{1,40}(?:[=:\"'`\\|<>?*(.-]|\xe2|%3|(?:is|was|are|were|will|has|have|had|might|may"
    r"|should|must|we|I|you|they|d|set|changed|reset|updated|becomes|equals|for|FOR|of|to|on|in|at|as|As|k|ke|do|na"
    r"|pro|till|zum|zur|der|des|del|della|van|voor|til|av|od|ist|lautet|est|es|er|jest|je|or|di|de|do|da|dla|para|pour|du"
    r"|string|String|PROGMEM)\b)"
    r"|[ \t]{1,6}\S{0,60}[^\sA-Za-z.,]"
    r"|\((?:[A-Z]\w{2,30}(?:::\w{1,20})?\()?[^()]{0,80}[\"'`]|\{[ ]?\\{0,8}[\"'`]"
    r"|\\{0,8}[`\"\]]?,[\w\s,`\"\\\[\]]{0,200}\)\s{0,4}(?:VALUES|values)|[,;][\w ,;.-]{0,120}\\{1,8}[nr]"
    r"|[,;][ ]{0,8}(?:<<)?\\{0,8}(?:[\"']|(?:[vV]al|content|default|data|text)))",
    re.ASCII,
)
"""What comes behind a name when a value may follow: a first look, which passes all that any form can read."""
_SAID_BEFORE: Final = re.compile(
    r"[0-9!-/][\w!-/]{0,40}[`\"']?\\{0,4}[`\"']?[ ](?:as|is)(?: the| my| your| our| a)?(?: \w{1,12})?[ ]\Z"
)
_SEEN_BEFORE: Final = 80
_LONG_VALUE: Final = re.compile(r"[A-Za-z0-9_+/=.~$!@#%^&*-]{16}|[A-Za-z0-9+/]{6,16}=")
_SHORT_VALUE: Final = re.compile(
    r"[A-Za-z][!-~]{0,40}[0-9!@#$%^&*?~+=|]|[0-9!@#$%^&*?~+=|][!-~]{0,40}[A-Za-z]|[A-Za-z0-9+/]{8}|[0-9]{4}"
    r"|(?:[a-z]{3,12}[-_.]){3}"
)
_SEEN_AFTER: Final = 240
_RESOURCE_BEFORE: Final = re.compile(r"\b(?:arn|urn):[\w:-]{1,70}:\Z")
"""The beginning of the name of a resource, such as a secret of AWS: its parts are joined by colons."""
_CHANGED: Final = re.compile(r"\\{0,4}([\"'`])[ ](?:->|to)[ ]\\{0,4}\1([^\"'`\\\r\n]{1,400})")
"""The new value behind the old one, in the plan of a change or in a sentence."""
_IN_MARKER: Final = re.compile(r"\[redacted: [^\]]{0,60}\Z")
_REST: Final = re.compile(r"[^\s\"'\\]*")
_BASIC: Final = re.compile(
    rf"(?<![a-z])[Bb](?:asic|ASIC)(?:[ \t]{{1,4}}(?:=[ ]{{0,4}}{QUOTE})?|={QUOTE})"
    r"([A-Za-z0-9+/]{6,2000}={0,2})"
)
_BASIC_WORD: Final = re.compile(r"asic|ASIC")
"""The rest of the word: a search that begins with a letter looks for it much faster than `_BASIC` does."""
_WORD_BEFORE: Final = re.compile(r"(?:(?<=\\[nrt])|(?<![A-Za-z\\]))([A-Za-z]{2,20})[ ]\Z")
_VERSIONED: Final = re.compile(r"[-=@:]v?\d{1,4}(?:\.\d{1,4}){1,3}\Z")
"""The end of the name of a package with its version: `PyJWT-2.9.0`."""
_CARD_CODES: Final = ("cvv", "cvv2", "cvc", "cvc2", "csc")
_JOINED: Final = frozenset({"key", "keys", "token", "tokens"})
"""Words that say more with the word in front of them: `API key`, `next token`."""


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
        if is_foreign_name(name):
            return Strength.STRONG
        parts = re.findall(r"[\w.-]+", name)
        return max(map(judge_name, parts), default=Strength.NONE)

    def may_name_secret(self, text: str, word: Word) -> bool:
        """Return whether a word of encoded text is a name, and a value that is long enough may follow."""
        strength = self._judge_word(text[max(0, word.start - _SEEN_BEFORE) : word.start], word.text)
        if not strength:
            return False
        if _MAY_FOLLOW.match(text, word.end) is None:
            return _SAID_BEFORE.search(text[max(0, word.start - _SEEN_BEFORE) : word.start]) is not None
        if strength is not Strength.WEAK:
            return True
        if word.text.lower().endswith(_CARD_CODES):
            return True
        least = _LONG_VALUE if word.text.lower().endswith(("key", "keys")) else _SHORT_VALUE
        return least.search(text, word.end, word.end + _SEEN_AFTER) is not None

    def find(self, data: bytes, *searches: re.Pattern[bytes]) -> Iterator[Name]:
        """Yield the names of secrets in a text of one byte a character, in order.

        `searches` find the words that are in this text; without them it is searched for all words.
        """
        for start, end, word in find_words(data, data.lower(), *(searches or (self._stems,))):
            before = data[max(0, start - _SEEN_BEFORE) : start].decode("latin-1")
            strength = self._judge_word(before, word)
            if strength:
                yield Name(start, end, word, strength)

    def _judge_word(self, before: str, word: str) -> Strength:
        joined = _WORD_BEFORE.search(before) if word.lower() in _JOINED else None
        name = f"{joined[1]}_{word}" if joined else word
        strength = self.judge(name) if self._further else judge_name(name)
        if strength and _VERSIONED.search(name):
            return Strength.NONE
        if joined and not strength and word.lower() == "token" and joined[1].lower() not in CURSORS:
            return Strength.WEAK  # `new token`, but also `stop token`
        return strength


def find_assigned(text: str, finder: NameFinder, *searches: re.Pattern[bytes]) -> Iterator[SecretSpan]:
    """Yield the values that are assigned to the names of secrets, in order.

    >>> text = "export DB_PASSWORD=hunter2; echo $HOME"
    >>> [text[start:end] for start, end, _ in find_assigned(text, NameFinder())]
    ['hunter2']
    """
    at = 0
    ahead: list[tuple[int, int]] = []  # in order; between two values of a group there may be other names
    for name in finder.find(text.encode("latin-1", "replace"), *searches):
        while ahead and ahead[0][0] <= name.start:
            start, end = ahead.pop(0)
            if start >= at:
                at = end
                yield SecretSpan(start, at, _RULE)
        if name.end < at or _IN_MARKER.search(text[max(0, name.start - _SEEN_BEFORE) : name.start]):
            continue
        for value in _read_values(text, name):
            is_done = text.startswith("[redacted", value.end)  # the rest of it by another rule
            if at <= value.start < value.end and not is_done:
                insort(ahead, (value.start, _extend(text, value)))
    for start, end in ahead:
        if start >= at:
            at = end
            yield SecretSpan(start, at, _RULE)


def _read_values(text: str, name: Name) -> Iterable[Value]:
    """Return the value of the first form that fits, or else those of a group."""
    before = text[max(0, name.start - _SEEN_BEFORE) : name.start]
    if before.endswith(":") and _RESOURCE_BEFORE.search(before):
        return ()
    for read in FORMS:
        value = read(text, name)
        if value and value.start < value.end:
            changed = _CHANGED.match(text, value.end) if value.quote else None
            return (value, Value(*changed.span(2), "")) if changed else (value,)
    return find_group(text, name)


def _extend(text: str, value: Value) -> int:
    """Return the end of a value that was read up to the limit: it goes on to the next space."""
    match = (
        _REST.match(text, value.end)
        if not value.quote and value.end - value.start >= MAX_UNQUOTED_CHARS
        else None
    )
    return match.end() if match else value.end


def find_basic_credentials(text: str) -> Iterator[SecretSpan]:
    """Yield user and password in base64 behind the word Basic."""
    if not any(word in text for word in ("asic ", "ASIC ", "asic=", "ASIC=")):
        return
    at = 0
    for word in _BASIC_WORD.finditer(text):
        match = _BASIC.match(text, max(0, word.start() - 1)) if word.start() > at else None
        if match:
            at = match.end()
            if holds_base64_pair(match[1]):
                yield SecretSpan(*match.span(1), "basic credentials")
