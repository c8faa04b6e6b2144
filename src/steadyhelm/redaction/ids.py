"""Hide tokens in the ids of runs, calls and events, so that equal ids stay equal."""

from hashlib import blake2b
from typing import Final

from steadyhelm.redaction.tokens import find_tokens

_KEY: Final = b"steadyhelm: a token in an id"
"""The key is fixed, so that every process that writes to a database, wherever it is mounted or moved to,
hides an id in the same way without asking the database first. It need not be secret: what is hashed is a
token with a known prefix, which has at least 80 random bits and cannot be found by trying."""
_HASH_BYTES: Final = 12
_MIN_TOKEN_CHARS: Final = 20


def hide_tokens(text: str) -> str:
    """Return an id with a hash in place of each token with a known prefix. Other ids stay.

    >>> hide_tokens("toolu_01A09q90qw90lq917835lq9")
    'toolu_01A09q90qw90lq917835lq9'
    >>> hide_tokens("run of ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0u")
    'run of redacted-344e33f7d0eac8a42548f78f'
    """
    if len(text) < _MIN_TOKEN_CHARS:
        return text
    parts: list[str] = []
    at = 0
    for start, end, _ in find_tokens(text):
        digest = blake2b(text[start:end].encode(), key=_KEY, digest_size=_HASH_BYTES).hexdigest()
        parts += text[at:start], f"redacted-{digest}"
        at = end
    return "".join((*parts, text[at:])) if parts else text
