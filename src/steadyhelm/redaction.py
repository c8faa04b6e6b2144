"""Replace secrets before anything is queued, stored, shown or sent.

The marker that replaces a secret names the rule that found it, never the secret.
A few substring searches come first; only a text that may contain a secret is searched with patterns.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from steadyhelm.errors import SettingsError
from steadyhelm.fingerprints import encode_canonical, to_plain_data

KEY_WORDS: Final = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key",
    "authorization", "credential", "private_key", "private-key", "privatekey", "access_key", "accesskey",
    "access-key", "cookie", "session_key",
)  # fmt: skip
"""A field whose name contains one of these (in any case) is redacted, whatever it holds."""

HARMLESS_KEYS: Final = frozenset(
    {"token_count", "tokens", "max_tokens", "total_tokens", "input_tokens", "output_tokens", "prompt_tokens",
     "completion_tokens", "tokenizer", "token_limit", "max_completion_tokens", "max_output_tokens",
     "cached_tokens", "reasoning_tokens", "next_page_token", "page_token", "next_token", "nexttoken",
     "nextpagetoken", "pagetoken", "continuation_token"}
)  # fmt: skip
"""Names that contain such a word and hold no secret."""

# The name of the rule, a text that must be present for it to be tried, and the pattern.
SECRET_PATTERNS: Final = (
    ("private key", "-----BEGIN", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)"),
    # Where a long text was cut in the middle of a key, only the key's end is left.
    ("private key", "-----END", r"(?<=characters\]…)[^-]*-----END [A-Z ]*PRIVATE KEY-----"),
    ("model provider key", "sk-", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("model provider key", "sk_", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{12,}"),
    *(("GitHub token", f"gh{kind}_", rf"\bgh{kind}_[A-Za-z0-9]{{30,}}") for kind in "pousr"),
    ("GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    ("GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("Slack token", "xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/services/[A-Za-z0-9/_-]+"),
    ("Discord webhook", "/api/webhooks/", r"/api/webhooks/\d+/[A-Za-z0-9_-]+"),
    ("AWS key id", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("AWS key id", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("Google key", "AIza", r"\bAIza[0-9A-Za-z_-]{30,}"),
    ("package index token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{32,}"),
    ("package registry token", "npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    ("model hub token", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    ("JSON web token", "eyJ", r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    ("URL credentials", "@", r"(?<=://)[^\s/:@\"'<>]*:[^\s/\"'<>]+(?=@)"),
    # Two of each, with their first letters: those are rare, and the common part, "earer ", is slow to find.
    ("bearer token", "Bearer ", r"(?<=Bearer )[A-Za-z0-9._~+/=-]{12,}"),
    ("bearer token", "bearer ", r"(?<=bearer )[A-Za-z0-9._~+/=-]{12,}"),
    ("bearer token", "Basic ", r"(?<=Basic )[A-Za-z0-9+/=]{12,}"),
    ("bearer token", "basic ", r"(?<=basic )[A-Za-z0-9+/=]{12,}"),
)  # fmt: skip

# `password = hunter2` or `"api_key": "..."` in the middle of a longer text, such as a config file;
# in quotes the value goes on to the next quote, without them to the next space.
_ASSIGNMENT: Final = re.compile(
    r"((?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth[_-]?token|access[_-]?token)[\w.-]{0,64}[\"'\\]{0,3}\s{0,4}[=:]\s{0,4}[\"'\\]{0,3})"
    r"((?<=[\"'])[^\"'\\\r\n]{4,}|[^\s\"'\\,;&]{4,})",
    re.IGNORECASE | re.ASCII,
)
_ASSIGNMENT_WORDS: Final = ("password", "passwd", "passphrase", "secret", "key", "token")

_RANDOM_TEXT_CHARS: Final = 32
_RANDOM_TEXT: Final = re.compile(rf"[A-Za-z0-9_+=-]{{{_RANDOM_TEXT_CHARS},}}")
_RANDOM_TEXT_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=-"
_ALPHABET_TO_A: Final = bytes(0x61 if byte in _RANDOM_TEXT_ALPHABET else 0x20 for byte in range(256))
_RANDOM_TEXT_PROBE: Final = b"a" * _RANDOM_TEXT_CHARS
_MIN_ENTROPY_BITS: Final = 4.2

_LOWERED_TO_ASCII: Final = ("\N{KELVIN SIGN}", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}")
"""Letters that become `k` and `i` when a name is lowered as text, but not when its bytes are."""

_PLAIN_WORD: Final = re.compile(r"[a-z0-9_. -]+\Z")

_CHARACTERS_BY_FREQUENCY: Final = " etaoinsrhldcumfp.gwyb/v-_kxjqz"
"""Characters by how common they are in agents' texts, most common first; one not listed is the rarest."""

_PLACEHOLDER: Final = re.compile(
    r"^(?:\$\{?\w+\}?|<[^>]*>|\*+|x{3,}|\.{3}|null|none|true|false|undefined|\[redacted.*)$", re.IGNORECASE
)


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
        self._key_words = (*KEY_WORDS, *further)
        self._patterns = [
            (rule, probe, re.compile(pattern, re.DOTALL)) for rule, probe, pattern in SECRET_PATTERNS
        ]
        self._custom = [_compile_pattern(pattern) for pattern in patterns]
        hints = {*self._key_words, *(probe.lower() for _, probe, _ in SECRET_PATTERNS), *_LOWERED_TO_ASCII}
        self._hints = _compile_search(hints)
        # A word that JSON escapes cannot be searched for in the encoded bytes.
        self._always_search = bool(self._custom) or not all(_PLAIN_WORD.match(word) for word in further)

    def may_contain_secret(self, encoded: bytes) -> bool:
        """Return whether canonical JSON may contain a secret. Never misses one; often True without one."""
        if self._always_search or self._hints.search(encoded.lower()):
            return True
        return _RANDOM_TEXT_PROBE in encoded.translate(_ALPHABET_TO_A)

    def redact(self, value: Any, encoded: bytes) -> tuple[Any, bytes]:
        """Return the value and its canonical JSON without secrets; both unchanged when there are none."""
        if not self.may_contain_secret(encoded):
            return value, encoded
        plain = to_plain_data(value)
        cleaned = self._walk(plain)
        return (value, encoded) if cleaned == plain else (cleaned, encode_canonical(cleaned))

    def redact_text(self, text: str) -> str:
        """Return a text without secrets.

        >>> Redactor().redact_text("curl https://ann:hunter2@example.org")
        'curl https://[redacted: URL credentials]@example.org'
        """
        for rule, probe, pattern in self._patterns:
            if probe in text:
                text = pattern.sub(f"[redacted: {rule}]", text)
        lowered = text.lower()
        if any(word in lowered for word in _ASSIGNMENT_WORDS):
            text = _ASSIGNMENT.sub(_redact_value, text)
        for pattern in self._custom:
            text = pattern.sub("[redacted: custom rule]", text)
        return _RANDOM_TEXT.sub(_redact_random_text, text)

    def _walk(self, value: Any, key: str = "") -> Any:
        if self._is_secret_name(key) and value not in (None, "", True, False):
            return f"[redacted: field {self.redact_text(key)[:40]}]"
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact_text(name): self._walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._walk(item) for item in value]
        return value

    def _is_secret_name(self, key: str) -> bool:
        lowered = key.lower()
        return lowered not in HARMLESS_KEYS and any(word in lowered for word in self._key_words)


def _compile_search(words: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern that finds any of these words, fast: it starts at the rarest letter of each.

    An ordinary alternation tries every word at every second letter of a text; starting at the
    letters that are rare in texts, with the rest of the word matched around it, takes a third.
    """
    by_letter: dict[str, list[str]] = {}
    for word in sorted(words):
        at = max(range(len(word)), key=lambda i: _CHARACTERS_BY_FREQUENCY.find(word[i]) % 64)
        behind = f"(?<={re.escape(word[: at + 1])})" if at else ""
        by_letter.setdefault(word[at], []).append(behind + re.escape(word[at + 1 :]))
    alternatives = [f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in by_letter.items()]
    return re.compile("|".join(alternatives).encode())


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as exc:
        raise SettingsError(
            f"redaction.patterns must be regular expressions, got {pattern!r}: {exc}."
        ) from exc


def _redact_value(match: re.Match[str]) -> str:
    if _PLACEHOLDER.match(match[2]):
        return match[0]
    return f"{match[1]}[redacted: assigned secret]"


def _redact_random_text(match: re.Match[str]) -> str:
    """Return the marker for a long run of letters and digits that looks random; a plain hash is kept."""
    run = match[0]
    if run.isupper() or run.islower() or not any(character.isdigit() for character in run):
        return run
    counts = Counter(run).values()
    bits = -sum(n / len(run) * math.log2(n / len(run)) for n in counts)
    return "[redacted: random text]" if bits >= _MIN_ENTROPY_BITS else run
