import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.findings import Severity
from steadyhelm.loops.loop_detector import LoopMatch, is_report_due


def match(count, patience=3, **fields):
    return LoopMatch(pattern="p", count=count, patience=patience, event_ids=("e",), message="m", **fields)


class TestScore:
    def test_half_at_the_end_of_patience(self):
        """
        The repetition that makes it a loop scores a half, twice as many score one.
        """
        scores = [round(match(count).score, 2) for count in range(3, 8)]

        assert [0.5, 0.67, 0.83, 1.0, 1.0] == scores

    def test_severities(self):
        """
        Three are worth a word, five are bad, six are certain.
        """
        assert ["MED", "MED", "HIGH", "CRITICAL"] == [
            Severity.from_score(match(count).score) for count in (3, 4, 5, 6)
        ]

    def test_before_that_it_is_noticed(self):
        """
        Below its patience it is noticed, not reported.
        """
        assert (0.3, 0.3) == (match(2).score, match(9, noticed_only=True).score)

    @given(st.integers(1, 100), st.integers(1, 100))
    def test_more_is_never_less(self, count, patience):
        """
        One more repetition never lowers the score, and it stays between 0 and 1.
        """
        assert 0 < match(count, patience).score <= match(count + 1, patience).score <= 1


class TestTold:
    @pytest.mark.parametrize(
        ("patience", "expected"), [(3, [3, 6, 12, 24]), (4, [4, 8, 16, 32]), (6, [6, 12, 24])]
    )
    def test_when_it_has_doubled(self, patience, expected):
        """
        A long episode is told when patience ends, and each time it has doubled.
        """
        assert expected == [count for count in range(1, 40) if is_report_due(count, patience)]
