import json
import os
from pathlib import Path

import pytest
from labelled_runs import run_of

from steadyhelm.lab.evaluation.accuracy import AccuracyCheck, AccuracyTarget, format_targets, main
from steadyhelm.lab.evaluation.cost import measure_cost
from steadyhelm.lab.evaluation.metrics import Estimate, estimate_share
from steadyhelm.settings import Settings

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))
with_data = pytest.mark.skipif(not DATA.is_dir(), reason="the labelled data is not here; set STEADYHELM_DATA")


class TestTarget:
    @pytest.mark.parametrize(
        ("limits", "value", "is_met"),
        [
            ({"least": 0.9}, 0.9, True),
            ({"least": 0.9}, 0.89, False),
            ({"most": 0.04}, 0.04, True),
            ({"most": 0.04}, 0.05, False),
            ({"most": 0.04}, None, False),
        ],
    )
    def test_met(self, limits, value, is_met):
        """
        The figure itself decides, and a figure that could not be measured meets nothing.
        """
        assert is_met is AccuracyTarget(data="d", what="w", measured=Estimate(value=value), **limits).is_met

    def test_text(self):
        """
        The table says what is asked, what was measured, and names what is wrong when wanted.
        """
        target = AccuracyTarget(
            data="d", what="w", least=0.9, measured=estimate_share(1, 2), wrong=["run\x1b[2J"]
        )
        assert "at least 0.9" in format_targets([target])
        assert "run\\x1b[2J" in format_targets([target], wrong=True)
        assert "run" not in format_targets([target])


class TestMain:
    def test_no_data(self, tmp_path, capsys):
        """
        Without data it says so and ends with 1.
        """
        assert 1 == main(["--data", str(tmp_path / "none")])
        assert "There is no labelled data" in capsys.readouterr().err

    @with_data
    def test_json(self, capsys):
        """
        Every target is measured, with its interval and whether it is met.
        """
        status = main(["--data", str(DATA), "--json", "--no-cost"])
        rows = json.loads(capsys.readouterr().out)
        assert 9 == len(rows)
        assert status == (0 if all(row["met"] for row in rows) else 3)

    @with_data
    def test_nothing_found_with_detectors_off(self):
        """
        Without detectors nothing is found, and nothing is flagged.
        """
        from steadyhelm.engine import registry

        off = {name: {"enabled": False} for name in registry.list_names(registry.DETECTORS)}
        targets = {
            (target.data, target.what): target
            for target in AccuracyCheck(DATA, Settings(detectors=off), samples=10).measure(cost=False)
        }
        assert 0 == targets["cases", "recall, core + hard"].measured.value
        assert 0 == targets["Claude Code", "sessions flagged"].measured.value
        assert "0 of 54 runs" == targets["OpenHands", "three equal in a row found by the third"].note


class TestCost:
    def test_figures(self):
        """
        Cost is counted per event and in references, and growth against the same events in short runs.
        """
        cost = measure_cost(Settings(), [run_of("ABCD.EFGH" * 20, run_id=str(i)) for i in range(3)])
        assert 270 == cost.long_events
        assert 0 < cost.ratio.low <= cost.ratio.value <= cost.ratio.high
        assert 0 < cost.growth.value
