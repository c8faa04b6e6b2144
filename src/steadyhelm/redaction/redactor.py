"""Replace secrets in data and texts, after a first look that most events pass unread."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from steadyhelm.errors import SettingsError
from steadyhelm.fingerprints import MAX_CHARS, encode_canonical
from steadyhelm.lexicons import LexiconEntry, load_lexicon
from steadyhelm.redaction.addresses import KEY_HINTS, find_private_keys, find_url_credentials
from steadyhelm.redaction.assignments import NameFinder, find_assigned, find_basic_credentials
from steadyhelm.redaction.commands import (
    find_command_secrets,
    load_command_hints,
    load_command_names,
    may_have_secret_argument,
)
from steadyhelm.redaction.foreign_names import find_foreign_assigned, may_have_foreign_name
from steadyhelm.redaction.hint_index import HintIndex, search_hint
from steadyhelm.redaction.hints import drop_longer, find_words
from steadyhelm.redaction.names import words_of
from steadyhelm.redaction.presentation import (
    restore_prefixes,
    strip_encoded_signs,
    strip_prefixes,
    strip_signs,
)
from steadyhelm.redaction.structures import StructureRedactor
from steadyhelm.redaction.tokens import (
    SecretSpan,
    find_random_text,
    find_tokens,
    may_have_random_text,
    to_bytes,
)

_PLAIN_WORD: Final = re.compile(r"[a-z0-9_.-]+\Z")
_JSON_BEGINS: Final = frozenset("{[")
_HARMLESS_KEPT: Final = 256
_MAX_KEPT_BYTES: Final = 4096
_DIGEST_BYTES: Final = 16
_KEY_HINTS: Final = ('"kty"', *KEY_HINTS, "LS0tLS1CRUdJTi")


class Redactor:
    """Replace secrets in data and texts.

    Args:
        key_words: Further words; a field whose name contains one is redacted.
        patterns: Further regular expressions; what they match is redacted.
    """

    def __init__(self, *, key_words: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        further = tuple(word.lower() for word in key_words)
        if "" in further:
            raise SettingsError(
                "redaction.keys must be words, got an empty one: it would redact every field."
            )
        self._custom = [_compile_pattern(pattern) for pattern in patterns]
        self._names = NameFinder(further)
        self._words = drop_longer((words_of("stems") | load_command_hints()).union(further, ["basic "]))
        self._command_words = self._words & (_load_command_words() | frozenset(further))
        self._hints = HintIndex(self._words | _load_shape_literals())
        self._structures = StructureRedactor(self._names, self._redact_all)
        # Agents read the same things again and again. What may hold a secret is not kept.
        self._harmless: set[bytes] = set()
        self._plain_texts: set[str] = set()
        # A word that JSON escapes cannot be searched for in the encoded bytes.
        self._always_search = bool(self._custom) or not all(_PLAIN_WORD.match(word) for word in further)

    def may_contain_secret(self, encoded: bytes) -> bool:
        """Return whether canonical JSON may contain a secret. Never misses one; may be True without one."""
        # Of a long one, such as a system prompt, the hash is kept.
        is_long = len(encoded) > _MAX_KEPT_BYTES
        key = blake2b(encoded, digest_size=_DIGEST_BYTES).digest() if is_long else encoded
        if key in self._harmless:
            return False
        if self._always_search or self._is_suspicious(encoded):
            return True
        if len(self._harmless) >= _HARMLESS_KEPT:
            self._harmless.clear()
        self._harmless.add(key)
        return False

    def _is_suspicious(self, encoded: bytes) -> bool:
        has_escapes = b"\\u" in encoded
        if has_escapes or b"&" in encoded:
            encoded = strip_encoded_signs(encoded)
        if may_have_random_text(encoded):
            return True
        text = encoded.decode("latin-1")  # one character a byte; what is not ASCII does not matter here
        return (
            self._has_confirmed_hint(text, encoded)
            or any(find_tokens(text, encoded))
            or any(find_url_credentials(text, is_gate=True))
            or may_have_foreign_name(encoded, has_escapes=has_escapes)
        )

    def _has_confirmed_hint(self, text: str, encoded: bytes) -> bool:
        """Return whether a hint is a name or a command that a secret may follow, or part of a shape."""
        lowered = encoded.lower()
        found = self._hints.find(lowered)
        if not found:
            return False
        commands = load_command_names()
        has_basic = False
        for word in find_words(encoded, lowered, *map(search_hint, found & self._words)):
            if self._names.may_name_secret(text, word):
                return True
            if word.text in commands and may_have_secret_argument(text, word):
                return True
            has_basic = has_basic or word.text.lower() == "basic"
        if has_basic and any(find_basic_credentials(text)):
            return True
        shapes = found & _load_shape_literals()
        return bool(shapes) and _may_have_shape(text, shapes)

    def redact(self, value: Any, encoded: bytes) -> tuple[Any, bytes]:
        """Return the value and its canonical JSON without secrets; both unchanged when there are none."""
        if not encoded or not self.may_contain_secret(encoded):
            return value, encoded
        plain = msgspec.json.decode(encoded)
        redacted, clean = self.redact_suspicious(plain, encoded)
        return (value, encoded) if redacted is plain else (redacted, clean)

    def redact_suspicious(self, plain: Any, encoded: bytes) -> tuple[Any, bytes]:
        """Return plain data and its canonical JSON without secrets; the first look was taken already."""
        redacted = self._structures.redact(plain) if encoded else plain
        return (plain, encoded) if redacted is plain else (redacted, encode_canonical(redacted))

    def redact_text(self, text: str) -> str:
        """Return a text without secrets.

        >>> Redactor().redact_text("curl https://ann:hunter2@example.org")
        'curl https://[redacted: URL credentials]@example.org'
        """
        # A long text is cut where it is encoded.
        if len(text) <= MAX_CHARS and not self.may_contain_secret(encode_canonical(text)):
            return text
        return self._redact_all(text)

    def _redact_all(self, text: str, *, is_id: bool = False) -> str:
        if text in self._plain_texts:
            return text
        redacted = self._redact_shown(text, is_id=is_id)
        # For an id fewer rules hold: what stays in one may be redacted elsewhere.
        if redacted is text and not is_id and len(text) <= _MAX_KEPT_BYTES:
            if len(self._plain_texts) >= _HARMLESS_KEPT:
                self._plain_texts.clear()
            self._plain_texts.add(text)
        return redacted

    def _redact_shown(self, text: str, *, is_id: bool) -> str:
        shown = strip_signs(text)
        redacted = self._redact_json(self._redact_lines(shown, is_id=is_id))
        if redacted == shown:
            return text
        if shown is text:
            return redacted
        with_signs = self._redact_lines(text, is_id=is_id)
        return with_signs if strip_signs(with_signs) == redacted else redacted

    def _redact_json(self, text: str) -> str:
        """Return a text that is JSON without what is secret by its place in the data."""
        if text[:1] not in _JSON_BEGINS:
            return text
        try:
            plain = msgspec.json.decode(text)
            redacted = self._structures.redact(plain)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return text
        return text if redacted == plain else msgspec.json.encode(redacted).decode()

    def _redact_lines(self, text: str, *, is_id: bool = False) -> str:
        found = self._hints.find(to_bytes(text).lower())
        plain = strip_prefixes(text) if found else text
        redacted = self._redact_plain(plain, found, is_id=is_id)
        return redacted if plain is text else restore_prefixes(redacted, plain, text)

    def _redact_plain(self, text: str, found: set[str], *, is_id: bool = False) -> str:
        shapes = found & _load_shape_literals()
        if shapes:
            text = _replace(text, find_private_keys(text))
            text = _replace(text, sorted(_find_plain_shapes(text, shapes)))
        text = _replace(text, find_tokens(text))
        text = _replace(text, sorted(find_url_credentials(text)))
        words = found & self._words
        if words:
            if not words.isdisjoint(self._command_words):
                text = _replace(text, find_command_secrets(text))
            text = _replace(text, find_assigned(text, self._names, *map(search_hint, words)))
            text = _replace(text, find_basic_credentials(text))
        text = _replace(text, find_foreign_assigned(text))
        for pattern in self._custom:
            text = pattern.sub("[redacted: custom rule]", text)
        return text if is_id else _replace(text, find_random_text(text))


@cache
def _load_command_words() -> frozenset[str]:
    """Return the hints that the name of a command contains; without one of them no command is in a text."""
    names = [name.lower() for name in load_command_names()]
    words = words_of("stems") | load_command_hints()
    return frozenset(word for word in words if any(word.rstrip("|,") in name for name in names))


@cache
def _load_shape_literals() -> frozenset[str]:
    """Return texts in small letters; without one of them no plain shape and no key is in a text."""
    shapes = load_lexicon("steadyhelm.redaction", "plain_shapes").entries.values()
    literals = {literal.lower() for entry in shapes for literal in entry.literals}
    return drop_longer(literals.union(map(str.lower, _KEY_HINTS)))


@cache
def _load_shapes() -> tuple[tuple[str, LexiconEntry, frozenset[str]], ...]:
    """Return the plain shapes by name, each with the texts of which it needs one."""
    return tuple(
        (name, entry, _select_needed(entry))
        for name, entry in load_lexicon("steadyhelm.redaction", "plain_shapes").entries.items()
    )


def _select_needed(entry: LexiconEntry) -> frozenset[str]:
    needed = {it for it in _load_shape_literals() if any(it in literal.lower() for literal in entry.literals)}
    return frozenset(needed) if entry.literals else _load_shape_literals()


def _may_have_shape(text: str, found: Collection[str]) -> bool:
    return any(_find_plain_shapes(text, found)) or any(hint in text for hint in _KEY_HINTS)


def _replace(text: str, spans: Iterable[SecretSpan]) -> str:
    """Return the text with markers in place of the spans, which are in order; of two that overlap one."""
    parts: list[str] = []
    at = 0
    for start, end, rule in spans:
        if start >= at:
            parts += text[at:start], f"[redacted: {rule}]"
            at = end
    return "".join((*parts, text[at:])) if parts else text


def _find_plain_shapes(text: str, found: Collection[str]) -> Iterator[SecretSpan]:
    """Yield the secrets that are known by a text inside them, of one rule after the other.

    `found` are those of `_load_shape_literals` that are in the text.
    """
    for name, entry, needed in _load_shapes():
        if not needed.isdisjoint(found) and entry.can_match(text):
            yield from (
                SecretSpan(*match.span(match.lastindex or 0), name) for match in entry.regex.finditer(text)
            )


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as exc:
        raise SettingsError(
            f"redaction.patterns must be regular expressions, got {pattern!r}: {exc}."
        ) from exc
