"""Split text into the word pieces of an uncased BERT model."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from steadyhelm.errors import FormatError

MAX_WORD_CHARS: Final = 100
"""A longer run of letters counts as unknown, as in training."""

_UNKNOWN_PIECE: Final = "[UNK]"
_START_PIECE: Final = "[CLS]"
_END_PIECE: Final = "[SEP]"
_CHARACTERS_CACHED: Final = 4096
_CJK: Final = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class WordPiece:
    """A vocabulary, and the greedy split of a text into its pieces.

    The names of special tokens have no meaning in a text: `[SEP]` is read as a bracket, a word and a
    bracket.

    >>> pieces = WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "un": 3, "##do": 4, "!": 5})
    >>> pieces.tokenize("Undo! été")
    ['un', '##do', '!', '[UNK]']
    >>> pieces.encode("Undo! été", limit=5)
    [1, 3, 4, 5, 2]
    """

    def __init__(self, vocabulary: dict[str, int]) -> None:
        missing = [token for token in (_UNKNOWN_PIECE, _START_PIECE, _END_PIECE) if token not in vocabulary]
        if missing:
            raise FormatError(
                f"The vocabulary has no {' and no '.join(missing)}: it is not that of a BERT model."
            )
        self._vocabulary = vocabulary
        self._characters = _CharacterMap()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a `vocab.txt`: one piece per line, numbered by line."""
        try:
            # Not splitlines(): some pieces are themselves characters that it would split at.
            lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise FormatError(f"The vocabulary {path} cannot be read: {exc}.") from exc
        return cls({piece: number for number, piece in enumerate(lines)})

    def __len__(self) -> int:
        return len(self._vocabulary)

    def encode(self, text: str, *, limit: int) -> list[int]:
        """Return the numbers of the text's pieces between the start and end marks, `limit` at most in all."""
        numbers = [self._vocabulary[_START_PIECE]]
        for piece in self._iter_pieces(text):
            if len(numbers) >= limit - 1:
                break
            numbers.append(self._vocabulary[piece])
        return [*numbers, self._vocabulary[_END_PIECE]]

    def tokenize(self, text: str) -> list[str]:
        """Return the text's pieces as written in the vocabulary."""
        return list(self._iter_pieces(text))

    def _iter_pieces(self, text: str) -> Iterator[str]:
        for word in self._split_words(text):
            yield from self._split_word(word)

    def _split_words(self, text: str) -> list[str]:
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        return text.translate(self._characters).split()

    def _split_word(self, word: str) -> list[str]:
        """Return the longest pieces of a word from left to right; unknown if a rest fits none."""
        if len(word) > MAX_WORD_CHARS:
            return [_UNKNOWN_PIECE]
        pieces: list[str] = []
        start = 0
        while start < len(word):
            piece = self._find_longest_piece(word, start)
            if piece is None:
                return [_UNKNOWN_PIECE]
            pieces.append(piece)
            start += len(piece) - (2 if start else 0)
        return pieces

    def _find_longest_piece(self, word: str, start: int) -> str | None:
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = mark + word[start:end]
            if piece in self._vocabulary:
                return piece
        return None


class _CharacterMap(dict[int, str]):
    """The replacement of each character of decomposed text, computed on first use.

    At most a few thousand are kept, so that a text of very many characters does not fill the memory.
    """

    def __missing__(self, code: int) -> str:
        replacement = _replace_character(chr(code))
        if len(self) < _CHARACTERS_CACHED:
            self[code] = replacement
        return replacement


def _replace_character(char: str) -> str:
    if char.isspace() and (char in "\t\n\r" or unicodedata.category(char) != "Cc"):
        return " "
    category = unicodedata.category(char)
    if category in {"Cc", "Cf", "Cs", "Co", "Mn"} or char == "\ufffd":
        return ""
    if _is_separate_token(char, category):
        return f" {char} "
    return char.lower()


def _is_separate_token(char: str, category: str) -> bool:
    # BERT counts every ASCII sign as punctuation, also those Unicode calls symbols, such as $ and +.
    if char.isascii():
        return not char.isalnum()
    return category.startswith("P") or any(ord(char) in block for block in _CJK)
