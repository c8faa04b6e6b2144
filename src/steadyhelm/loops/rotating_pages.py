"""Pages in which a sentence rotates: a hint or an advertisement that changes each time, and comes back."""

import re
from typing import Final, Self
from zlib import crc32

from msgspec import Struct

from steadyhelm.loops.similarity import mask_made_up
from steadyhelm.noise import mask_noise, mask_numbers

_MAX_CHARS: Final = 6000
_MIN_PIECES: Final = 4
_MAX_PIECES: Final = 64
_MAX_KEPT: Final = 96
_MAX_NEW: Final = 2

_UNSEEN_TAG: Final = re.compile(r"<(?:script|link|meta|style|img|svg|noscript)\b[^>]*>", re.IGNORECASE)
_PIECE_END: Final = re.compile(r"[<>\n]+|(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


class RotatingPage(Struct):
    """What has been seen on a page that one call returned several times.

    `latest` are the pieces of the latest page, `known` the hashes of all so far, with and without numbers.
    `has_rotated` is whether a sentence replaced another one, `has_returned` whether one came back.
    """

    latest: list[str]
    known: list[int]
    has_rotated: bool = False
    has_returned: bool = False

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the record of a page, None for a text of a few sentences."""
        pieces = _split(text)
        return cls(pieces, _hash(pieces)) if _MIN_PIECES <= len(pieces) <= _MAX_PIECES else None

    def replace(self, text: str) -> tuple[str, ...] | None:
        """Record the page as it is now, and return what replaced another sentence; None where more is new.

        A sentence that shares a word with the one it replaces, or differs from a known one in its numbers,
        has changed: that is news.
        """
        pieces = _split(text)
        gone = [it for it in self.latest if it not in pieces]
        come = [it for it in pieces if it not in self.latest]
        new = [it for it in come if not set(_hash([it])) <= set(self.known)]
        if len(come) > min(_MAX_NEW, len(gone)) or any(self._is_news(it, gone) for it in new):
            return None
        self.has_rotated |= bool(come)
        self.has_returned |= bool(come) and not new
        self.latest, self.known = pieces, [*self.known, *_hash(new)][-_MAX_KEPT:]
        return tuple(come)

    def _is_news(self, piece: str, gone: list[str]) -> bool:
        if crc32(mask_numbers(piece).encode()) in self.known:
            return True
        words = set(_WORD.findall(piece.lower()))
        return len(words) < 2 or any(words.intersection(_WORD.findall(it.lower())) for it in gone)  # noqa: PLR2004 - a value


def _split(text: str) -> list[str]:
    masked = mask_made_up(mask_noise(_UNSEEN_TAG.sub("", text[:_MAX_CHARS])))
    return [piece for it in _PIECE_END.split(masked) if _WORD.search(piece := it.strip())][: _MAX_PIECES + 1]


def _hash(pieces: list[str]) -> list[int]:
    texts = (text for piece in pieces for text in {piece, mask_numbers(piece)})
    return [crc32(text.encode("utf-8", "replace")) for text in texts]
