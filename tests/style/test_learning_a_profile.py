"""What good replies teach about how long a reply may be."""

import pytest

from steadyhelm.errors import SettingsError
from steadyhelm.style.fitting import MIN_REPLIES, fit_profile
from steadyhelm.style.profile_files import build_profile, decode_document, format_document, load_bundled

SHORT = [f"Step {n} is done. All tests pass on both machines." for n in range(20)]
LONG = ["The row is read, checked and format_document to the table of its day. " * n for n in range(20, 60)]


class TestFitted:
    def test_targets_follow_the_replies(self):
        """
        Short replies teach short targets, long ones long targets.
        """
        short, long = (fit_profile(replies, load_bundled("standard")).profile for replies in (SHORT, LONG))

        assert short.target_words < load_bundled("standard").target_words < long.target_words
        assert short.target_wps < long.target_wps

    def test_good_replies_pass(self):
        """
        What was flagged although it was good is not flagged by what was learnt from it.
        """
        learnt = fit_profile(LONG, load_bundled("terse"), name="mine")

        assert (len(LONG), 0) == (learnt.flagged_before, learnt.flagged)
        assert "mine" == learnt.profile.name

    def test_house_words(self):
        """
        A marker that a fifth of the good replies use is the agent's own way of speaking.
        """
        learnt = fit_profile([f"Good catch. Basically, {reply}" for reply in SHORT], load_bundled("standard"))

        assert ("basically", "good catch") == learnt.house_words
        assert "basically" not in learnt.profile.lexicons["filler"].words

    def test_a_rare_word_is_none(self):
        """
        A marker in a few good replies stays one.
        """
        assert (
            ()
            == fit_profile(
                [*SHORT, "Basically fine.", "Basically done."], load_bundled("standard")
            ).house_words
        )

    def test_too_few(self):
        """
        From a handful of replies nothing is learnt; those without prose do not count.
        """
        with pytest.raises(SettingsError, match=f"3 replies with prose are too few.*{MIN_REPLIES}"):
            fit_profile([*SHORT[:3], *["```\ncode\n```"] * 20, "", ""], load_bundled("standard"))

    def test_changes_make_the_profile(self):
        """
        The changes, written down and read again, are the profile.
        """
        learnt = fit_profile([f"Good catch. {reply}" for reply in SHORT], load_bundled("strict"), name="mine")
        document = decode_document(
            format_document({"extends": "strict", **learnt.changes}).encode(), where="it"
        )

        assert learnt.profile == build_profile(document, name="mine", where="it", lookup=load_bundled)

    @pytest.mark.parametrize("reply", ["Done.", "x", "Serialisation acknowledgement. " * 500])
    def test_extremes(self, reply):
        """
        Whatever the replies are like, the profile can be used.
        """
        assert 0 == fit_profile([reply] * MIN_REPLIES, load_bundled("terse")).flagged
