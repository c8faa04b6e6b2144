import subprocess
import sys
from importlib.resources import files

import pytest

from steadyhelm.corrections.features import extract_features
from steadyhelm.corrections.model import WEIGHTS_FILE, WEIGHTS_VERSION, LinearModel, load_weights


class TestTheFile:
    def test_it_is_small(self):
        """
        The weights stay well under three hundred kilobytes.
        """
        assert len(files("steadyhelm.corrections").joinpath(WEIGHTS_FILE).read_bytes()) < 300_000

    def test_its_version(self):
        """
        The file is of the version this code reads.
        """
        assert WEIGHTS_VERSION == load_weights().version

    def test_its_numbers_are_those_we_take(self):
        """
        Every number that was learnt is still taken, and none is taken that was not learnt.
        """
        assert set(extract_features("no").numbers) == set(load_weights().reply.numbers)

    def test_nothing_of_a_label_is_among_them(self):
        """
        How a reply was annotated is never a feature.
        """
        names = " ".join(load_weights().reply.numbers)

        assert not any(word in names for word in ("confidence", "second", "drift", "label"))

    def test_no_names_are_among_the_terms(self):
        """
        The terms are plain words: no paths, numbers, addresses or handles.
        """
        assert not any(sign in term for term in load_weights().reply.terms for sign in "/@.:_0123456789")

    def test_the_decisions(self):
        """
        Both thresholds are where a decision can fall either way.
        """
        assert 0.1 < load_weights().drift_from < 0.6
        assert 0.3 < load_weights().approval_from < 3


class TestLoading:
    def test_it_is_lazy_and_needs_nothing(self):
        """
        Importing reads no weights, and classifying needs neither numpy nor scikit-learn.
        """
        program = (
            "import sys; from steadyhelm.corrections.reply_classifier import classify_user_reply as say;"
            "from steadyhelm.corrections.model import load_weights;"
            "assert 0 == load_weights.cache_info().currsize;"
            "say('no'); assert 1 == load_weights.cache_info().currsize;"
            "assert not {'numpy', 'sklearn', 'scipy'} & set(sys.modules)"
        )

        assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


class TestTheModel:
    MODEL = LinearModel(
        base="no",
        classes=("yes", "maybe"),
        intercepts=(0.0, -1.0),
        numbers={"loud": (2.0, 0.5)},
        terms={"please": (1.0, 3.0, 0.0)},
    )

    def test_shares_sum_to_one(self):
        """
        The shares of all classes sum to one.
        """
        assert pytest.approx(1) == sum(self.MODEL.predict({"loud": 1.0}, {"please": 1}).values())

    def test_a_number_moves_its_class(self):
        """
        A number moves the classes it has weights for.
        """
        quiet, loud = (self.MODEL.predict({"loud": value})["yes"] for value in (0.0, 1.0))

        assert quiet < loud

    def test_an_unknown_name(self):
        """
        What the model does not know weighs nothing.
        """
        assert self.MODEL.predict({}) == self.MODEL.predict({"new": 5.0}, {"unheard": 2})
        assert 0.0 == self.MODEL.get_weight("new", "yes")

    def test_far_out_numbers(self):
        """
        No number is too large to be shared out.
        """
        assert 1.0 == self.MODEL.predict({"loud": 1e6})["yes"]
        assert 1.0 == self.MODEL.predict({"loud": -1e6})["no"]

    def test_the_pull_of_words(self):
        """
        A known word pulls by its weight.
        """
        assert {"please": 3.0} == self.MODEL.weigh_terms_for({"please": 1}, "yes")
