import pytest

from steadyhelm.loops.progress import is_short_of_target, states_unfinished


class TestUnfinished:
    @pytest.mark.parametrize(
        "text",
        [
            "6% uploaded",
            "Progress: 45%",
            "Downloading weights.bin 45%",
            "[=====>    ] 45%",
            "12 percent complete",
            "Frame 57 of 300",
            "epoch 3/10",
            "step 120/1000 loss=0.31",
            "120 MB of 900 MB",
            "Copying file 12 of 40",
            "57 of 300 files",
            "2 of 3 replicas ready",
            "3 remaining",
            "300 MB left",
            '{"progress": 0.4}',
            '{"fraction_done": 0.403}',
            '{"percentComplete": 40}',
            '{"processed": 120, "total": 500}',
        ],
    )
    def test_what_is_under_way(self, text):
        """
        A share below the whole, a count below its total and what is left say that something goes on.
        """
        assert states_unfinished(text.lower())

    @pytest.mark.parametrize(
        "text",
        [
            "100% uploaded",
            "300 of 300 frames",
            "0 remaining",
            '{"progress": 1.0}',
            "45% uploaded, cancelled",
            "rendering is stalled at 45%",
            "3 of 10 chunks failed",
        ],
    )
    def test_what_has_ended(self, text):
        """
        What is finished, cancelled or broken is not under way.
        """
        assert not states_unfinished(text.lower())

    @pytest.mark.parametrize(
        "text",
        [
            "page 2 of 5",
            "Step 2 of 4: your address",
            "3 of 10 tests failed",
            "showing 3 of 12 files",
            "coverage 83 %",
            "20% off",
            "battery charging: 40%",
            "cpu usage 45%",
            "2 attempts remaining",
            "5 seats remaining",
            "rating 3/5",
            "due on 2024/03/10",
        ],
    )
    def test_other_shares_and_counts(self, text):
        """
        A place in a list, a verdict, a measure and a stock are no work under way.
        """
        assert not states_unfinished(text.lower())


class TestTarget:
    def test_a_reading_beside_its_target(self):
        """
        A reading that differs from its target has not reached it yet.
        """
        assert is_short_of_target('{"celsius": 38, "target": 200}')
        assert is_short_of_target("38 C (target 200 C)")

    def test_no_reading(self):
        """
        A target reached, a target that is no number and a text without one are none.
        """
        assert not is_short_of_target('{"celsius": 200.0, "target": 200}')
        assert not is_short_of_target('{"target": "main", "ahead": 4}')
        assert not is_short_of_target("38 C")
