import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.embedders.wordpiece import MAX_WORD_CHARS, WordPiece
from steadyhelm.errors import FormatError

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] un ##do ##ing the cafe ab cd ! $ [ ] sep 東 京 \u2019 ##s x ##x"
PIECES = VOCABULARY.split()
WORDPIECE = WordPiece({piece: number for number, piece in enumerate(PIECES)})


class TestWords:
    def test_lower_case(self):
        """
        Capitals and small letters are the same.
        """
        assert ["the", "cafe"] == WORDPIECE.tokenize("The CAFE")

    @pytest.mark.parametrize("text", ["café", "cafe\u0301", "CAFÉ"])
    def test_accents(self, text):
        """
        An accent is dropped, whichever way it was written.
        """
        assert ["cafe"] == WORDPIECE.tokenize(text)

    def test_last_sigma(self):
        """
        Each letter is lowered by itself: a sigma that ends a word gets no form of its own.
        """
        pieces = WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "σισυφοσ": 3})

        assert ["σισυφοσ"] == pieces.tokenize("ΣΙΣΥΦΟΣ")

    @pytest.mark.parametrize("gap", [" ", "\n", "\t\r", "\u00a0", "\u2028", "\u3000"])
    def test_white_space(self, gap):
        """
        Any white space parts two words.
        """
        assert ["ab", "cd"] == WORDPIECE.tokenize(f"ab{gap}cd")

    @pytest.mark.parametrize(
        "invisible", ["\x00", "\x07", "\x0b", "\x1c", "\x85", "\u200b", "\ufeff", "\ufffd"]
    )
    def test_invisible_characters(self, invisible):
        """
        Control and formatting characters vanish, and the word stays whole.
        """
        assert ["the"] == WORDPIECE.tokenize(f"t{invisible}he")

    def test_signs_stand_alone(self):
        """
        Every ASCII sign and every Unicode punctuation mark is a word of its own.
        """
        assert ["ab", "$", "cd", "!", "!", "\u2019", "[UNK]"] == WORDPIECE.tokenize("ab$cd!!\u2019^")

    def test_ideographs_stand_alone(self):
        """
        Chinese characters are words of their own: their texts have no spaces.
        """
        assert ["ab", "東", "京", "cd"] == WORDPIECE.tokenize("ab東京cd")

    def test_special_names_are_text(self):
        """
        A text cannot smuggle in a special token by writing its name.
        """
        assert ["[", "sep", "]"] == WORDPIECE.tokenize("[SEP]")


class TestPieces:
    def test_longest_match(self):
        """
        A word is cut into the longest pieces from its start on.
        """
        assert ["un", "##do", "##ing"] == WORDPIECE.tokenize("undoing")

    def test_rest_that_fits_nothing(self):
        """
        One rest that no piece fits makes the whole word unknown.
        """
        assert ["[UNK]", "the"] == WORDPIECE.tokenize("undoq the")

    def test_longest_word(self):
        """
        A word of a hundred letters is cut, one of a hundred and one is unknown.
        """
        assert ["x"] + ["##x"] * (MAX_WORD_CHARS - 1) == WORDPIECE.tokenize("x" * MAX_WORD_CHARS)
        assert ["[UNK]"] == WORDPIECE.tokenize("x" * (MAX_WORD_CHARS + 1))

    def test_ids(self):
        """
        Pieces go to the model by number, between the marks of start and end.
        """
        assert [2, 4, 5, 7, 3] == WORDPIECE.encode("undo the", limit=9)

    def test_limit(self):
        """
        A long text is cut so that its end mark still fits.
        """
        assert [2, 7, 7, 3] == WORDPIECE.encode("the " * 50, limit=4)

    @pytest.mark.parametrize("text", ["", "  \n", "\u200b"])
    def test_no_words(self, text):
        """
        A text without words is its two marks alone.
        """
        assert [2, 3] == WORDPIECE.encode(text, limit=9)

    @given(st.text(st.characters(), max_size=300), st.integers(2, 20))
    def test_any_text(self, text, limit):
        """
        Any text at all, lone surrogates too, becomes known numbers within the limit.
        """
        numbers = WORDPIECE.encode(text, limit=limit)

        assert len(numbers) <= limit
        assert (2, 3) == (numbers[0], numbers[-1])
        assert all(0 <= number < len(PIECES) for number in numbers)

    def test_bounded_memory(self):
        """
        A text made of every character there is leaves only a few thousand remembered.
        """
        pieces = WordPiece({piece: number for number, piece in enumerate(PIECES)})
        pieces.tokenize("".join(map(chr, range(0x20000))))

        assert len(pieces._characters) <= 4096


class TestVocabulary:
    def test_read(self, tmp_path):
        """
        A line's number is its piece's; only line feeds end a line.
        """
        path = tmp_path / "vocab.txt"
        path.write_text("[UNK]\n[CLS]\n[SEP]\n\u2028\nthe\n", encoding="utf-8", newline="")

        assert [1, 4, 2] == WordPiece.read(path).encode("the", limit=9)

    def test_not_there(self, tmp_path):
        """
        A vocabulary that is not there is named.
        """
        with pytest.raises(FormatError, match=r"vocab\.txt cannot be read"):
            WordPiece.read(tmp_path / "vocab.txt")

    def test_not_text(self, tmp_path):
        """
        A vocabulary that is not UTF-8 is refused.
        """
        path = tmp_path / "vocab.txt"
        path.write_bytes(b"\xff\xfe\x00")

        with pytest.raises(FormatError, match="cannot be read"):
            WordPiece.read(path)

    def test_not_bert(self):
        """
        A vocabulary without the marks is refused with their names.
        """
        with pytest.raises(FormatError, match=r"no \[CLS\] and no \[SEP\]"):
            WordPiece({"[UNK]": 0})
