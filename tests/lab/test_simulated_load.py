from random import Random

import pytest
from msgspec import structs

from steadyhelm import SQLiteStore
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.lab.load.mix import draw, measure_mix, read_built_in_mix
from steadyhelm.lab.load.simulation import format_load, simulate_load
from steadyhelm.lab.load.worker import SimulatedAgent
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.stores.locations import DatabaseLocation


def make_run(*steps, gap_s=2.0):
    """A run of tool calls: each step is the tool's name, its argument and its result."""
    events = [
        TraceEvent(
            agent_id="a",
            run_id="r",
            action_type="tool_call",
            action_name=name,
            input_data=given,
            output_data=got,
            token_count=10,
            timestamp=100.0 + gap_s * place,
        )
        for place, (name, given, got) in enumerate(steps)
    ]
    info = RunInfo(agent_id="a", run_id="r")
    nothing = {"labels": [], "outcome": "", "meta": {}, "extra": {}, "problems": [], "unread": 0}
    return ReadRun(info=info, events=events, entries=len(events), line=1, **nothing)


class TestMix:
    def test_is_measured_on_runs(self):
        """
        Two runs of 2 and 4 calls, one of which is made twice: lengths, tools and repeats are theirs.
        """
        short = make_run(("read", "x", "y"), ("read", "z", "y"))
        longer = make_run(("read", "a", "b"), ("read", "a", "b"), ("edit", "a", "b"), ("test", "a", "b"))
        mix = measure_mix([short, longer])

        assert (2, 6) == (mix.runs, mix.steps)
        assert [2.0, 4.0] == [mix.lengths[0], mix.lengths[-1]]
        assert [0.6667, 0.1667, 0.1667] == mix.tools
        assert 0.1667 == mix.repeated
        assert {"tool_call"} == set(mix.kinds)

    def test_gaps_have_the_mean_one(self):
        """
        Gaps are relative: the same ones whatever the pace of the runs was.
        """
        steps = [("read", n, n) for n in range(9)]

        assert (
            measure_mix([make_run(*steps, gap_s=2.0)]).gaps == measure_mix([make_run(*steps, gap_s=9.0)]).gaps
        )
        assert {1.0} == set(measure_mix([make_run(*steps)]).gaps)

    def test_needs_steps(self):
        """
        Nothing can be drawn from runs without steps.
        """
        with pytest.raises(SettingsError, match="no steps"):
            measure_mix([make_run()])

    def test_the_built_in_one(self):
        """
        The mix that comes along was measured on hundreds of runs; its shares add up.
        """
        mix = read_built_in_mix()
        drawn = [draw(mix.gaps, Random(n)) for n in range(4000)]

        assert 500 < mix.runs
        assert 1.0 == pytest.approx(sum(sizes.share for sizes in mix.kinds.values()), abs=0.01)
        assert 1.0 == pytest.approx(sum(drawn) / len(drawn), abs=0.1)


class TestAgent:
    def test_the_same_seed_makes_the_same_steps(self):
        """
        A load can be repeated.
        """
        mix = read_built_in_mix()
        first, second = (list(SimulatedAgent(mix, Random(7)).list_steps(40)) for _ in range(2))

        assert first == second
        assert {"tool_call", "llm_request", "user_message"} >= {step["action_type"] for step in first}

    def test_long_runs_are_under_way_more_often(self):
        """
        Of short and long runs that are as many, an agent is found in a long one for most of its time, on
        average half way through.
        """
        mix = structs.replace(read_built_in_mix(), lengths=[10.0, 10.0, 90.0, 90.0])
        agent = SimulatedAgent(mix, Random(1))
        found = [agent.draw_run_under_way() for _ in range(4000)]

        lengths = [agent.draw_length() for _ in range(4000)]
        expected = sum(length**2 for length in lengths) / sum(lengths)
        assert expected == pytest.approx(sum(length for length, _ in found) / len(found), rel=0.05)
        assert 0.5 == pytest.approx(sum(past / length for length, past in found) / len(found), abs=0.05)
        assert all(0 <= past < length for length, past in found)


class TestLoad:
    def test_what_is_recorded_is_stored(self, tmp_path):
        """
        Two processes share agents and a database: nothing is lost, nothing is there twice.
        """
        path = tmp_path / "load.db"
        mix = read_built_in_mix()
        report = simulate_load(
            DatabaseLocation(str(path)), mix, agents=20, rate=4.0, seconds=1.5, processes=2, seed=1
        )
        store = SQLiteStore(path, read_only=True)
        events = store.describe()["rows"]["events"]
        store.close()

        assert 0 < report.recorded == report.stored == events - report.past
        assert 0 < report.past
        assert 0 == report.lost
        assert 0 <= report.lag_median_s <= report.lag_p99_s <= report.lag_max_s
        assert "0 lost" in format_load(report)

    def test_what_is_missing_counts_as_lost(self, tmp_path):
        """
        Steps that a full journal dropped are reported.
        """
        config = tmp_path / "steadyhelm.toml"
        config.write_text("journal_cap_mb = 0\nqueue_cap = 1\n")
        report = simulate_load(
            DatabaseLocation(str(tmp_path / "load.db")),
            read_built_in_mix(),
            agents=50,
            rate=100.0,
            seconds=1.0,
            processes=1,
            config_file=str(config),
        )

        assert report.recorded - report.stored == report.lost > 0
        assert any(reason.startswith(("journal full", "queue full")) for reason in report.troubles)
