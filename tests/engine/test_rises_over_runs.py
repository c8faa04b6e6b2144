import math
import random
from contextlib import closing

import pytest
from msgspec import structs

from steadyhelm import DriftMonitor
from steadyhelm.baselines import BaselineStats, Cusum, Trend
from steadyhelm.engine.agent_knowledge import AgentKnowledge
from steadyhelm.policy.alerting import build_threshold
from steadyhelm.stores import open_store

AGENT = "researcher"
NEARLY_RISEN = BaselineStats(
    agent_id=AGENT,
    is_calibrated=True,
    calibration_runs=60,
    trends={"tokens": Trend(learning=Cusum(count=60, mean=math.log(1000.0), squares=15.0, total=4.0))},
)
"""One more run that takes far more tokens is a rise over the agent's runs."""


@pytest.fixture
def make_monitor(tmp_path):
    """Makes monitors that have read the baseline, all on one database."""
    database = tmp_path / "steadyhelm.db"
    with closing(open_store(database)) as store:
        store.save_baseline(NEARLY_RISEN)
    monitors = []

    def make():
        monitors.append(DriftMonitor(AGENT, db_path=database))
        assert monitors[-1].flush(60).complete
        return monitors[-1]

    yield make
    for monitor in monitors:
        monitor.close()


def start_costly_run(monitor):
    run_id = monitor.start_run()
    monitor.record_event("llm_request", "model", output_data="done", token_count=20_000)
    return run_id


def end_run(monitor, run_id):
    monitor.end_run(run_id)
    assert monitor.flush(60).complete


def count_rises(monitor):
    return sum("come to take more tokens" in it.message for it in monitor.store.list_incidents(AGENT))


class TestOverlappingRuns:
    def test_runs_of_one_monitor_report_a_rise_once(self, make_monitor):
        """
        Runs that overlap are compared with the same runs before them: the first that ends reports the rise.
        """
        monitor = make_monitor()
        runs = [start_costly_run(monitor) for _ in range(4)]
        for run_id in runs:
            monitor.end_run(run_id)
        assert monitor.flush(60).complete

        assert 1 == count_rises(monitor)

    def test_runs_of_two_monitors_on_one_database_report_a_rise_once(self, make_monitor):
        """
        What a run elsewhere reported, and the baseline has learnt since, is not reported again.
        """
        here, there = make_monitor(), make_monitor()
        run_here, run_there = start_costly_run(here), start_costly_run(there)
        end_run(here, run_here)
        assert there.flush(60).complete
        end_run(there, run_there)

        assert 1 == count_rises(here)

    def test_a_run_that_began_before_the_rise_was_learnt_does_not_report_it_later(self, make_monitor):
        """
        A long run that is compared with what held at its start does not report a rise that is known by now.
        """
        monitor = make_monitor()
        long, short = start_costly_run(monitor), start_costly_run(monitor)
        end_run(monitor, short)
        end_run(monitor, long)

        assert 1 == count_rises(monitor)


class TestClaims:
    def with_alarms(self, alarms, runs=60):
        trend = Trend(learning=Cusum(alarms=alarms))
        return structs.replace(NEARLY_RISEN, calibration_runs=runs, trends={"tokens": trend})

    def test_the_next_rise_is_another_one(self):
        """
        A run compared with runs that the last rise is part of reports the next one.
        """
        knowledge = AgentKnowledge(AGENT, None)
        claims = [knowledge.claim_rise(self.with_alarms(alarms), "tokens") for alarms in (0, 0, 1, 1, 0)]

        assert [True, False, True, False, False] == claims

    def test_another_measure_is_another_rise(self):
        """
        A rise of tool calls is reported beside one of tokens.
        """
        knowledge = AgentKnowledge(AGENT, None)

        assert knowledge.claim_rise(self.with_alarms(0), "tokens")
        assert knowledge.claim_rise(self.with_alarms(0), "tools")

    def test_a_baseline_learnt_anew_may_show_the_first_rise_again(self):
        """
        After a reset of the baseline an earlier report does not count any more.
        """
        knowledge = AgentKnowledge(AGENT, None)
        knowledge.use_baseline(self.with_alarms(0, runs=60))
        assert knowledge.claim_rise(self.with_alarms(0, runs=60), "tokens")
        knowledge.use_baseline(self.with_alarms(0, runs=30))

        assert knowledge.claim_rise(self.with_alarms(0, runs=30), "tokens")


class TestEachRise:
    def test_every_rise_that_is_learnt_is_reported(self, tmp_path):
        """
        Runs one after another are compared with all runs before them where it matters, so none is missed.

        A calibrated baseline is otherwise replaced only where it has learnt a twentieth more.
        """
        chance, learnt = random.Random(3), []
        with closing(DriftMonitor(AGENT, db_path=tmp_path / "steadyhelm.db")) as monitor:
            for number in range(110):
                tokens = 4_000 * chance.lognormvariate(0.0, 0.3) * (2 if number >= 70 else 1)
                with monitor.run(run_id=f"run-{number}"):
                    monitor.record_event("llm_request", "model", output_data="done", token_count=int(tokens))
                assert monitor.flush(60).complete
                learnt.append(monitor.get_baseline().trends["tokens"].alarms)
            rises = [f"run-{number}" for number in range(1, 110) if learnt[number] > learnt[number - 1]]
            reported = [it.run_id for it in monitor.store.list_incidents(AGENT)]

        assert rises
        assert rises == reported[::-1]

    def test_what_only_counts_replaces_nothing(self):
        """
        Runs are compared with the same baseline until enough is learnt, or the agent may have changed.
        """
        knowledge = AgentKnowledge(AGENT, None)
        steady = structs.replace(NEARLY_RISEN, trends={})
        chosen = []
        for count in range(5):
            knowledge.use_baseline(structs.replace(steady, unusual_runs=count))
            chosen.append(knowledge.get_reference("", "").baseline.unusual_runs)

        assert [0, 0, 0, 0, 4] == chosen


class TestAnAgentThatChanges:
    """After 20 runs of 1,000 tokens, every run takes 40,000; nothing else shows whether that is right."""

    @pytest.fixture
    def monitor(self, tmp_path):
        with closing(DriftMonitor(AGENT, db_path=tmp_path / "steadyhelm.db", calibration_runs=20)) as monitor:
            assert monitor.flush(60).complete
            self.spend(monitor, *[1_000] * 20)
            yield monitor

    def spend(self, monitor, *amounts):
        """One run for each amount; returns what was suggested for each run that was reported."""
        suggested = []
        for tokens in amounts:
            run_id = monitor.start_run()
            monitor.record_event("llm_request", "model", output_data="done", token_count=tokens)
            end_run(monitor, run_id)
            suggested += [it.suggested_action for it in monitor.store.list_incidents(AGENT, run_id)]
        return suggested

    def test_it_never_becomes_usual_by_itself(self, monitor):
        """
        Each of its runs is reported; from the fifth on a person is asked whether the agent has changed.
        """
        suggested = self.spend(monitor, *[40_000] * 12)
        baseline = monitor.get_baseline()

        assert (12, [False] * 4 + [True] * 8) == (len(suggested), ["reset" in it for it in suggested])
        assert (20, 1_000) == (baseline.calibration_runs, round(baseline.spreads["tokens"].p95))

    def test_a_clean_run_between_them_ends_the_row(self, monitor):
        """
        Where every fourth run is as before, the agent has not changed for good.
        """
        suggested = self.spend(monitor, *[40_000, 40_000, 40_000, 1_000] * 3)

        assert (9, False) == (len(suggested), any("reset" in it for it in suggested))

    def test_after_a_reset_it_is_learnt_anew(self, monitor):
        """
        A reset ends the reports; once learnt, a run that takes ten times as much again is reported.
        """
        self.spend(monitor, *[40_000] * 5)
        monitor.store.reset_baseline(AGENT, "", "")
        assert monitor.flush(60).complete

        assert [] == self.spend(monitor, *[40_000] * 22)
        assert 1 == len(self.spend(monitor, 400_000))

    def test_a_false_alarm_lets_such_runs_teach(self, monitor):
        """
        Where a person marks one of them as a false alarm, later ones like it are not reported, and teach.
        """
        self.spend(monitor, 40_000)
        [incident] = monitor.store.list_incidents(AGENT)
        with monitor.store.transaction():
            monitor.store.save_threshold(build_threshold(incident, at=incident.last_at))
            monitor.store.review(incident.incident_id, "false_alarm")
        assert monitor.flush(60).complete

        assert [] == self.spend(monitor, 40_000)
        assert 21 == monitor.get_baseline().calibration_runs
