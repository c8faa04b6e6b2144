"""Hard rules are checked exactly, and never weighed."""

# ruff: noqa: RUF001 - signs that look alike are the point

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.style.profile import HardRules, Profile
from steadyhelm.style.scoring import score_reply


def broken(reply, **rules):
    score = score_reply(reply, Profile(rules=HardRules(**rules)))
    assert score.flagged == bool(score.broken)
    return [it.rule for it in score.broken]


class TestLines:
    @given(st.integers(1, 30), st.integers(1, 30))
    def test_exactly(self, lines, most):
        """
        At most N lines are N lines, not one more.
        """
        assert (["max_lines"] if lines > most else []) == broken("\n".join(["x"] * lines), max_lines=most)

    def test_blank_ends(self):
        """
        Blank lines at the ends are not counted, those between are; nothing has no lines.
        """
        assert [] == broken("\n\none\ntwo\n\n", max_lines=2)
        assert ["max_lines"] == broken("one\n\ntwo", max_lines=2)
        assert [] == broken("", max_lines=1)

    def test_in_words(self):
        """
        A broken rule says how it is broken.
        """
        (rule,) = score_reply("1\n2\n3", Profile(rules=HardRules(max_lines=2))).broken

        assert "3 lines, at most 2 are allowed" == rule.message


class TestEmoji:
    @pytest.mark.parametrize("text", ["Done ✅", "🚀", "Nice 👍🏽", "🇳🇴", "❤️", "1️⃣ first", "☀️"])
    def test_found(self, text):
        """
        What is shown as a picture is an emoji.
        """
        assert ["no_emoji"] == broken(text, no_emoji=True)

    @pytest.mark.parametrize("text", ["Done ✓", "a → b", "© 2024", "5 × 3", "❤", "`print('✅')`", "★"])
    def test_not_found(self, text):
        """
        Signs that are text are none, and what stands in code is not said.
        """
        assert [] == broken(text, no_emoji=True)

    def test_position(self):
        """
        The first one's place is told.
        """
        reply = "All of it is done. " * 100 + "✅ 🚀"
        (rule,) = score_reply(reply, Profile(rules=HardRules(no_emoji=True))).broken

        assert 1900 == rule.position

    def test_beyond_what_is_read(self):
        """
        Beyond the first 8 KiB nothing is looked for, and that is said.
        """
        score = score_reply(
            "All of it is done. " * 1000 + "✅", Profile(rules=HardRules(no_emoji=True, no_questions=True))
        )

        assert () == score.broken
        assert "no_emoji and no_questions beyond the first 8 KiB of the reply" == score.not_checked

    def test_found_before_the_end(self):
        """
        What is found in the first 8 KiB needs no more of the reply.
        """
        score = score_reply("✅ " + "All of it is done. " * 1000, Profile(rules=HardRules(no_emoji=True)))

        assert (["no_emoji"], None) == ([it.rule for it in score.broken], score.not_checked)


class TestJson:
    @pytest.mark.parametrize("text", ["{}", " [1, 2]\n", '"text"', "3", "null"])
    def test_valid(self, text):
        """
        Any JSON value will do.
        """
        assert [] == broken(text, valid_json=True)

    @pytest.mark.parametrize(
        "text", ["", "{", "{'a': 1}", "```json\n{}\n```", "{} done", "NaN", "[" * 100_000, "\ud800"]
    )
    def test_invalid(self, text):
        """
        A fence around it or a word after it makes it something else.
        """
        assert ["valid_json"] == broken(text, valid_json=True)


class TestQuestions:
    @pytest.mark.parametrize(
        "text", ["Shall I go on?", "Which one? I took the first.", "(right?)", "好吗？", "**Ready?**"]
    )
    def test_asked(self, text):
        """
        A question is a question wherever it stands.
        """
        assert ["no_questions"] == broken(text, no_questions=True)

    @pytest.mark.parametrize(
        "text", ["See http://x.org/?q=1 for it.", "`a ? b : c`", 'The user asked "why?".', "a?.b"]
    )
    def test_not_asked(self, text):
        """
        A sign in an address, in code or in a quotation asks nothing.
        """
        assert [] == broken(text, no_questions=True)


class TestLanguage:
    def test_another(self):
        """
        A reply in another language breaks the rule, and both are named.
        """
        reply = "Das ist nicht der Fehler, den wir gesucht haben, aber er ist auch nicht schön."
        (rule,) = score_reply(reply, Profile(rules=HardRules(language="en"))).broken

        assert "written in 'de' instead of 'en'" == rule.message
        assert [] == broken(reply, language="de")

    def test_too_short_to_tell(self):
        """
        A reply that is too short to tell is not judged, and that is said.
        """
        score = score_reply("Fertig.", Profile(rules=HardRules(language="en")))

        assert () == score.broken
        assert "too few words to tell whether the reply is in 'en'" == score.not_checked

    def test_two_things_unsure(self):
        """
        Everything that could not be checked is said.
        """
        rules = HardRules(no_emoji=True)
        reply = "Das ist nicht der Fehler, den wir gesucht haben. " * 300
        unsure = score_reply(reply, Profile(rules=rules)).not_checked

        assert "judged by structure only; no_emoji beyond the first 8 KiB" in unsure
