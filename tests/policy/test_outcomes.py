import pytest

from steadyhelm.policy.outcomes import WINDOW, Trial


def outcome(picture, window=WINDOW):
    """What an answer comes to; `.` is a step without the same drift, `!` one with it, `?` other drift."""
    trial = Trial(seq=0, counts="tool_call", window=window)
    for step in picture:
        judged = trial.note(returned=step == "!", other=step == "?")
        if judged is not None:
            return judged
    return None


class TestTrial:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("." * WINDOW, "worked"),
            ("." * (WINDOW - 1), None),
            ("!" + "." * WINDOW, "worked"),
            ("!!", "ignored"),
            ("!..!", "ignored"),
            ("..?", "worse"),
            ("", None),
        ],
    )
    def test_what_followed_decides(self, picture, expected):
        """
        Quiet steps mean it worked, the same drift twice that it was ignored, other drift that it did harm.
        """
        assert expected == outcome(picture)

    def test_the_last_chance(self):
        """
        The first return may have been under way already; from then on the next one counts.
        """
        trial = Trial(seq=0, counts="tool_call")
        before = trial.is_last_chance
        trial.note(returned=True)

        assert (False, True) == (before, trial.is_last_chance)

    @pytest.mark.parametrize(("started_seq", "heard"), [(None, True), (4, False), (5, False), (6, True)])
    def test_a_call_under_way_could_not_heed_it(self, started_seq, heard):
        """
        A call that was issued before the answer was given says nothing about it.
        """
        assert heard is Trial(seq=5, counts="tool_call").heard(started_seq)
