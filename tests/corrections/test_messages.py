import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.corrections.messages import _SENTENCE_END, find_words, parse_message, take_end, take_start


class TestProse:
    @pytest.mark.parametrize(
        ("text", "prose"),
        [
            ("still red", "still red"),
            ("look:\n```\nx = wrong\n```\nthis", "look:\n \nthis"),
            ("look:\n[12:00:01] started\n$ make test", "look:"),
            ("why?\n  at parse (a.js:3)\n--- FAIL: TestIt", "why?"),
            ("why?\n+added line\n@@ -1 +1 @@", "why?"),
            ("Don\u2019t", "don't"),
        ],
    )
    def test_what_was_pasted_is_left_out(self, text, prose):
        """
        Code, logs, traces, shells and diffs are not the person's own words.
        """
        assert prose == parse_message(text).prose

    def test_what_was_pasted_is_counted(self):
        """
        Pasted lines are counted by kind, and so are lines that speak of an error.
        """
        found = parse_message('it fails\n[12:00:01] fatal: no\n  File "a.py", line 3')

        assert {"log": 1, "trace": 1, "shell": 0, "diff": 0} == found.pasted_by_kind
        assert 1 == found.error_lines
        assert 2 == found.pasted_lines

    def test_a_line_of_signs(self):
        """
        A long line of signs and digits is no sentence.
        """
        assert "" == parse_message("=-=-=-=- 0x1f 0x2e 0x3d =-=-=-=- 9987 ##").prose

    def test_the_first_sentence(self):
        """
        The first sentence ends at its mark or its line.
        """
        assert "no." == parse_message("No. Use the other one").first_sentence
        assert "no" == parse_message("No\nUse the other one").first_sentence

    @given(st.text())
    def test_any_text(self, text):
        """
        Any text can be read, and its prose is never longer than itself.
        """
        found = parse_message(text)

        assert len(found.prose) <= len(found.text)
        assert found.head.startswith(found.first_sentence[:1])


class TestWords:
    @given(st.text("aZ_9' .\né→", max_size=40))
    def test_words_are_those_of_the_pattern(self, text):
        """
        Words split at all other signs are those that the pattern of a word finds.
        """
        assert find_words(text) == re.findall(r"[^\W\d][\w']*", text)


class TestSentences:
    @given(st.text("a.!? \n\t\u2003", max_size=30))
    def test_where_sentences_end(self, text):
        """
        A sentence ends at spaces behind a sign, and at the ends of lines.
        """
        assert _SENTENCE_END.split(text) == re.split(r"(?<=[.!?])\s+|\n+", text)


class TestCutting:
    @pytest.mark.parametrize("value", [None, 3, b"bytes", ["list"]])
    def test_no_text(self, value):
        """
        What is no text is an empty one.
        """
        assert "" == take_start(value, 5) == take_end(value, 5)

    def test_both_ends(self):
        """
        A long text is cut at the end that is asked for.
        """
        assert "abc" == take_start("abcdef", 3)
        assert "def" == take_end("abcdef", 3)
