"""What is prose in a reply."""

# ruff: noqa: RUF001 - signs that look alike are the point

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.style.prose import CHARS_READ, read_prose


class TestProse:
    @given(st.text(max_size=300))
    def test_positions_are_kept(self, text):
        """
        Whatever is blanked and folded, every position stays where it was.
        """
        prose = read_prose(text)

        assert len(text) == len(prose.text)
        assert len(prose.words) == len(prose.find_spans().take(0, len(prose.words) + 1))

    @given(st.text("abzé'’ .-\n1→", max_size=60))
    def test_words_are_those_of_the_pattern(self, text):
        """
        Words split at all other signs are those that the pattern of a word finds.
        """
        prose = read_prose(text)

        assert re.findall(r"[a-z]+(?:'[a-z]+)*", prose.text) == prose.words

    @given(st.text("abé' .\n→", max_size=60), st.data())
    def test_words_are_found_where_they_are(self, text, data):
        """
        Asked for from left to right, in any steps, the position of each word is where the word is.
        """
        prose = read_prose(text)
        spans, place = prose.find_spans(), 0
        while place < len(prose.words):
            count = data.draw(st.integers(1, 3))
            found = [prose.text[start:end] for start, end in spans.take(place, count)]

            assert prose.words[place : place + count] == found
            assert (
                spans.take(place, count)
                == [match.span() for match in re.finditer(r"[a-z]+(?:'[a-z]+)*", prose.text)][
                    place : place + count
                ]
            )
            place += data.draw(st.integers(0, 4)) or 1

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("Read/write and either/or.", ["read", "write", "and", "either", "or"]),
            ("See src/app/main.py, /etc/hosts or ~/x.", ["see", "or"]),
            ("Don\u2019t stop", ["don't", "stop"]),
            ("a ``b ` c`` d", ["a", "d"]),
            ("one\n```py\ntwo\n```\nthree", ["one", "three"]),
            ("one\n```py\ntwo", ["one"]),
            ("one\n~~~\ntwo\n~~~\nthree", ["one", "three"]),
            ("> quoted\nsaid", ["said"]),
            ("<b>bold</b> step-by-step", ["bold", "step", "by", "step"]),
            ('{"a": "b"}', []),
            ("{not json}", ["not", "json"]),
        ],
    )
    def test_words(self, text, words):
        """
        Words are what is said.
        """
        assert words == read_prose(text).words

    @pytest.mark.parametrize(
        ("text", "sentences"),
        [
            ("", 0),
            ("One", 1),
            ("One. Two! Three?", 3),
            ("Version 3.5 of file.py is out.", 1),
            ("Wait... what?!", 2),
            ("- one\n- two\n- three", 3),
            ("1. one\n2. two", 2),
            ("# Title\n\nText that\ngoes on.", 2),
            ("第一。第二！", 2),
            ("Before\n```\ncode\n```\nafter", 2),
        ],
    )
    def test_sentences(self, text, sentences):
        """
        A sentence ends with its sign, an item of a list with its line.
        """
        assert sentences == read_prose(text).sentences

    @pytest.mark.parametrize(
        "part",
        [
            ".",
            "/",
            "a",
            "``",
            "`a",
            "<a",
            "\n",
            "> ",
            "a/",
            " ",
            "a.",
            "|\n",
            "~~~\n",
            "é",
            "漢",
            "[[",
            "```\n",
            '"',
            "’",
            "-- ",
        ],
    )
    def test_any_run_of_signs(self, part):
        """
        A text that is one sign over and over is read like any other.
        """
        text = (part * CHARS_READ)[: CHARS_READ - 1] + "x"

        assert len(text) == len(read_prose(text).text)
