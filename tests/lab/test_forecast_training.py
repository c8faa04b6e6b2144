import pytest

pytest.importorskip("sklearn", reason="learning needs the lab extra")

from steadyhelm.corrections.forecast import FEATURE_GROUPS, extract_forecast_features
from steadyhelm.lab.training.weights import TurnExample, learn_forecast

ASKING = ("agent ends with a question mark", "agent asks at the end")


def turns(*, of_the_corrected, of_the_others, count=40):
    """As many corrected turns as others, two of each in a session."""
    return [
        TurnExample(dict(numbers), corrected, f"session {place // 2}")
        for place in range(count)
        for corrected, numbers in ((True, of_the_corrected(place)), (False, of_the_others(place)))
    ]


def moved(found, name):
    """What a number moves the log-odds of a correction by."""
    return found.get_weight(name, "correction")


class TestDirections:
    def test_a_number_points_where_it_pointed(self):
        """
        What is more in corrected turns speaks for a correction, what is less against it.
        """
        found = learn_forecast(
            turns(
                of_the_corrected=lambda place: {"errors": place % 3 + 2.0, "questions": place % 2},
                of_the_others=lambda place: {"errors": place % 3, "questions": place % 2 + 1.0},
            )
        )

        assert moved(found, "questions") < 0 < moved(found, "errors")

    def test_a_number_that_tells_nothing(self):
        """
        A number that is the same everywhere has no voice.
        """
        found = learn_forecast(
            turns(
                of_the_corrected=lambda place: {"errors": place % 3 + 2.0, "same": 7.0},
                of_the_others=lambda place: {"errors": place % 3, "same": 7.0},
            )
        )

        assert 0 == moved(found, "same")

    def test_the_unit_does_not_matter(self):
        """
        A number counts the same in seconds and in milliseconds.
        """
        found = learn_forecast(
            turns(
                of_the_corrected=lambda place: {"s": place % 3 + 1.0, "ms": (place % 3 + 1.0) * 1000},
                of_the_others=lambda place: {"s": place % 3, "ms": (place % 3) * 1000.0},
            )
        )

        assert pytest.approx(moved(found, "s")) == 1000 * moved(found, "ms")


class TestVoices:
    def test_one_matter_has_one_voice(self):
        """
        Two numbers about one matter together count as much as one about another.
        """
        names = (*ASKING, "tool")
        found = learn_forecast(
            turns(
                of_the_corrected=lambda place: dict.fromkeys(names, place % 3 + 1.0),
                of_the_others=lambda place: dict.fromkeys(names, place % 3),
            )
        )

        assert pytest.approx(moved(found, "tool")) == sum(moved(found, name) for name in ASKING)

    def test_the_matters_are_of_numbers_we_take(self):
        """
        Every number said to be of one matter is taken, and is of that matter alone.
        """
        named = [name for group in FEATURE_GROUPS for name in group]

        assert len(named) == len(set(named) & set(extract_forecast_features()))


class TestProbabilities:
    def test_the_sum_says_how_often(self):
        """
        A number that separates nothing leaves the share of corrected turns.
        """
        found = learn_forecast(
            turns(
                of_the_corrected=lambda place: {"noise": float(place % 4)},
                of_the_others=lambda place: {"noise": float(place % 4)},
            )
        )

        assert pytest.approx(0.5, abs=0.01) == found.predict({"noise": 3.0})["correction"]
