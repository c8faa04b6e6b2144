import pytest

from steadyhelm.policy.outcomes import TRIAL_STEPS, Trial


def outcome(picture, window=TRIAL_STEPS):
    """What an answer comes to; `.` is a step without the same drift, `!` one with it, `?` other drift."""
    trial = Trial(seq=0, counts="tool_call", window=window)
    for step in picture:
        judged = trial.record_step(returned=step == "!", other=step == "?")
        if judged is not None:
            return judged
    return None


class TestTrial:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("." * TRIAL_STEPS, "worked"),
            ("." * (TRIAL_STEPS - 1), None),
            ("!" + "." * TRIAL_STEPS, "worked"),
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
        trial.record_step(returned=True)

        assert (False, True) == (before, trial.is_last_chance)

    @pytest.mark.parametrize(("started_seq", "is_after"), [(None, True), (4, False), (5, False), (6, True)])
    def test_a_call_under_way_could_not_heed_it(self, started_seq, is_after):
        """
        A call that was issued before the answer was given says nothing about it.
        """
        assert is_after is Trial(seq=5, counts="tool_call").is_after(started_seq)
