import msgspec
import pytest

from steadyhelm.baselines import BaselineStats, Cusum, Spread, Trend


@pytest.fixture
def learnt():
    return BaselineStats(
        agent_id="a",
        version="2",
        task_type="refund",
        calibration_runs=40,
        is_calibrated=True,
        mean_tokens_per_run=1200.5,
        common_sequences=[["read", "edit"]],
        spreads={"tokens": Spread(p50=1000.0, p95=3000.0)},
        trends={"tokens": Trend(learning=Cusum(count=40, mean=6.9, squares=2.0, total=1.5))},
        similarities=[0.1, 0.4],
        word_runs=12,
        word_counts=bytes(range(256)),
    )


class TestProgress:
    def test_learning(self):
        """
        An agent that still learns says how far it is.
        """
        assert "learning 12/30" == BaselineStats(agent_id="a", calibration_runs=12).progress

    def test_calibrated(self, learnt):
        """
        A calibrated agent says on how many runs.
        """
        assert "calibrated on 40 runs" == learnt.progress

    def test_frozen(self, learnt):
        """
        A frozen baseline says so, whether it is calibrated or not.
        """
        assert "frozen at 40 runs" == msgspec.structs.replace(learnt, is_frozen=True).progress


class TestBaselineStats:
    def test_a_new_agent_knows_nothing(self):
        """
        A new baseline needs 30 runs, has none, and is not calibrated.
        """
        new = BaselineStats(agent_id="a")

        assert (30, 0, False, []) == (
            new.required_runs,
            new.calibration_runs,
            new.is_calibrated,
            new.similarities,
        )

    def test_through_plain_data(self, learnt):
        """
        A baseline survives export and import, its bytes included.
        """
        assert learnt == BaselineStats.from_dict(learnt.to_dict())

    def test_through_json(self, learnt):
        """
        An exported baseline is JSON.
        """
        written = msgspec.json.encode(learnt.to_dict())

        assert learnt == BaselineStats.from_dict(msgspec.json.decode(written))

    def test_unknown_keys_are_ignored(self, learnt):
        """
        A baseline written by a newer version can be read.
        """
        assert learnt == BaselineStats.from_dict(learnt.to_dict() | {"colour": "blue"})

    def test_the_seeds_fields_have_their_names(self):
        """
        Every number of the first design has a field of the same name.
        """
        wanted = {
            "agent_id", "calibration_runs", "mean_tokens_per_run", "std_tokens_per_run", "mean_tools_per_run",
            "std_tools_per_run", "mean_duration_ms", "std_duration_ms", "common_sequences",
            "mean_goal_similarity", "std_goal_similarity", "is_calibrated",
        }  # fmt: skip

        assert wanted <= set(BaselineStats(agent_id="a").to_dict())
