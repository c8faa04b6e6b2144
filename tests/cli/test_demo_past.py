"""The past that the demo fills its store with, and the agent that works while it is shown."""

import time
from contextlib import closing

import pytest

from steadyhelm.cli.demo_past import LiveDemo, record_past
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """The store of the demo."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    record_past(path)
    with closing(SQLiteStore(path, read_only=True)) as store:
        yield store


class TestThePast:
    def test_it_is_mixed(self, past):
        """Three agents have healthy runs, loops of several kinds, goal drift, a spike and another style."""
        found = {(it.agent_id, it.kind) for it in past.list_incidents(limit=100)}
        assert {
            ("shop-coder", "loop"),
            ("web-researcher", "loop"),
            ("web-researcher", "goal"),
            ("web-researcher", "resource"),
            ("support-desk", "style"),
        } <= found
        assert 3 == len(past.list_agents())

    def test_polling_is_no_incident(self, past):
        """Waiting for a payment is not reported."""
        waiting = {run.run_id for run in past.list_runs(limit=500) if "wait for" in (run.goal or "")}
        assert 4 == len(waiting)
        assert not waiting & {it.run_id for it in past.list_incidents(limit=100)}

    def test_some_guidance_is_followed(self, past):
        """Of the interventions with an outcome some worked and some were ignored, of several kinds."""
        made = [(it.kind, one.outcome) for it in past.list_incidents(limit=100) for one in it.interventions]
        assert {("loop", "worked"), ("style", "worked"), ("loop", "ignored"), ("goal", "ignored")} <= {*made}
        assert sum(outcome == "worked" for _, outcome in made) >= 6

    def test_severities_are_mixed(self, past):
        """What was followed at once stays medium; what was ignored to the end is critical."""
        assert {"MED", "HIGH", "CRITICAL"} == {it.severity for it in past.list_incidents(limit=100)}

    def test_most_runs_are_clean_and_lie_in_the_last_two_weeks(self, past):
        """Baselines are calibrated, and no run is in the future."""
        runs = past.list_runs(limit=500)
        assert sum(run.incidents == 0 for run in runs) > 40
        assert all(time.time() - 15 * 86_400 < run.started_at <= time.time() for run in runs)
        assert max(run.started_at for run in runs) - min(run.started_at for run in runs) > 7 * 86_400
        assert all(it.is_calibrated for it in past.list_baselines())

    def test_nothing_is_noted_or_lost(self, past):
        """The clock of the past goes with its steps."""
        assert {} == past.get_losses()


def test_the_live_agent_records_until_it_is_stopped(tmp_path):
    """Steps of a run arrive while it works, and the run has ended when it is stopped."""
    path = tmp_path / "demo.db"
    with closing(SQLiteStore(path)) as store:
        with LiveDemo(path):
            deadline = time.monotonic() + 60
            while not any(run.events > 1 for run in store.list_runs()):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert {"ended"} == {run.state for run in store.list_runs()}
