"""What recorded runs lead to stays what it was when the digests were taken: see frozen_behaviour.py."""

import pytest

import frozen_behaviour

RUNS = 6
"""The first runs of each file; `python tests/frozen_behaviour.py check` compares all of them."""


@pytest.mark.skipif(
    not frozen_behaviour.sources(), reason="the recorded runs are not here; set STEADYHELM_DATA"
)
class TestFrozenBehaviour:
    @pytest.mark.parametrize("way", frozen_behaviour.WAYS)
    @pytest.mark.parametrize("source", frozen_behaviour.sources())
    def test_recorded_runs_lead_to_the_same(self, source, way):
        """
        Findings, incidents, actions and verdicts on a recorded run are equal to the committed digest.
        """
        kept = frozen_behaviour.expected(source, way, RUNS)

        assert kept == frozen_behaviour.take_digests(source, way, RUNS)
