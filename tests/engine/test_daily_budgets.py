"""An agent's budget of the day counts over all its runs, in all processes, and opens again the next day."""

import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from steadyhelm import BaselineStats, Budget, RunStopped, SettingsError
from steadyhelm.budgets.daily import DailyLimits
from steadyhelm.engine.daily_ledger import DailyLedger
from steadyhelm.engine.session import Session
from steadyhelm.events import RunInfo
from steadyhelm.store_rows import AgentSpending
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import an_event

NOON = time.time() // 86_400 * 86_400 + 43_200
"""Noon of this day in UTC: what is older than the retention would be deleted."""
TODAY, TOMORROW = (datetime.fromtimestamp(NOON + 86_400 * n, UTC).date().isoformat() for n in range(2))
HOUR = 3600.0


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(make, clock):
    """Makes monitors whose clock stands at noon."""
    return lambda **options: make(clock=clock, **options)


def step(monitor, n, tokens=100, **fields):
    """Take a step that is like no other."""
    return monitor.record_event(
        "tool_call",
        "read_file",
        input_data={"path": f"{n}.py"},
        output_data=f"line {n}",
        token_count=tokens,
        **fields,
    )


def spend(monitor, runs, steps=3, tokens=100):
    """Complete runs of a few steps each, and return the verdicts."""
    verdicts = []
    for run in range(runs):
        with monitor.run():
            verdicts += [step(monitor, f"{run}-{n}", tokens).verdict for n in range(steps)]
    return verdicts


class TestTheDay:
    def test_runs_add_up(self, watch):
        """
        Ten steps a day are three runs of three steps and one step; then the user is asked at every step.
        """
        monitor = watch(budget=Budget(daily_steps=10))

        assert ["proceed"] * 9 + ["ask"] * 3 == spend(monitor, runs=4)

    def test_a_long_run_is_told_of_each_day_that_is_used_up(self, watch, clock):
        """
        A run that met the end of yesterday's budget is told of today's, which others have used up, as news.
        """
        one, other = (watch(budget=Budget(daily_steps=3)) for _ in range(2))
        one.start_run("long")
        days = [step(one, n, run_id="long").daily_budget for n in range(3)]
        clock.now += 86_400
        spend(other, runs=1)
        other.flush()
        one.flush()
        foreseen = one.before_tool("read_file", {"path": "next.py"}, run_id="long")
        taken = step(one, "next", run_id="long")
        one.end_run("long")

        assert [None, None, TODAY] == [day and day.day for day in days]
        assert (TOMORROW, TOMORROW) == (foreseen.daily_budget.day, taken.daily_budget.day)
        assert [False] == [it.is_ongoing for it in taken.findings if TOMORROW in it.message]

    def test_the_decision_says_which_budget_what_is_spent_and_when_it_opens(self, watch):
        """
        The user reads the numbers of the day, the date and the time of the next one.
        """
        monitor = watch(budget=Budget(daily_tokens=1_000))
        spend(monitor, runs=3)
        with monitor.run():
            decision = step(monitor, "last")

        message = (
            f"the agent's daily budget is used up: 1,000 of 1,000 tokens on {TODAY}, over all its runs; "
            f"it opens again at {TOMORROW} 00:00 UTC"
        )
        assert [message] == [finding.message for finding in decision.findings]
        assert message in decision.guidance
        assert (("tokens",), 1_000, NOON + 12 * HOUR) == (
            decision.daily_budget.exhausted_by,
            decision.daily_budget.tokens_used,
            decision.daily_budget.opens_at,
        )

    def test_a_call_is_not_made_once_it_is_used_up(self, watch):
        """
        The first call of a new run is asked about before it is made.
        """
        monitor = watch(budget=Budget(daily_steps=3))
        spend(monitor, runs=1)
        with monitor.run():
            assert "ask" == monitor.before_tool("read_file", {"path": "a.py"}).verdict

    def test_a_decorated_function_is_not_called_once_it_is_used_up(self, watch):
        """
        A decorator cannot ask anybody: in a new run the first call is refused, and `RunStopped` says why.
        """
        monitor = watch(budget=Budget(daily_steps=3))
        called = []
        read = monitor.tool(called.append, name="read_file")
        spend(monitor, runs=1)
        monitor.flush()
        for _ in range(2):
            with pytest.raises(RunStopped, match="daily budget is used up: 3 of 3 tool calls"), monitor.run():
                read("a.py")

        assert [] == called

    def test_a_used_up_budget_of_a_run_refuses_each_further_call(self, watch):
        """
        A program that goes on after a stop is stopped again, and no tool is called.
        """
        monitor = watch(budget=Budget(steps=2))
        called = []
        read = monitor.tool(called.append, name="read_file")
        with monitor.run():
            for n in range(5):
                with suppress(RunStopped):
                    read(n)

        assert [0, 1] == called

    @pytest.mark.parametrize("mode", ["observe", "guide"])
    def test_other_modes_only_say_so(self, watch, mode):
        """
        Without `enforce` nothing is stopped.
        """
        monitor = watch(budget=Budget(daily_steps=2), mode=mode)

        assert {"observe": {"proceed"}, "guide": {"proceed", "guide"}}[mode] == set(spend(monitor, runs=1))

    def test_money(self, watch):
        """
        Cents add up without a rest: ten times ten cents are a dollar.
        """
        monitor = watch(budget=Budget(daily_cost_usd=1.0))
        with monitor.run():
            verdicts = [step(monitor, n, cost_usd=0.1).verdict for n in range(10)]

        assert ["proceed"] * 9 + ["ask"] == verdicts

    def test_the_next_day_is_another(self, watch, clock):
        """
        At midnight the same run goes on, and the day's sum begins at nothing.
        """
        monitor = watch(budget=Budget(daily_steps=2))
        with monitor.run():
            assert ["proceed", "ask", "ask"] == [step(monitor, n).verdict for n in range(3)]
            clock.now = NOON + 12 * HOUR
            assert ["proceed", "ask"] == [step(monitor, n).verdict for n in range(3, 5)]

        assert (TOMORROW, 2) == (monitor.daily_budget().day, monitor.daily_budget().steps_used)

    def test_the_day_of_another_place(self, watch, clock):
        """
        Two hours east of Greenwich the day ends at 22:00 UTC.
        """
        monitor = watch(settings="[budget]\nutc_offset_h = 2", budget=Budget(daily_steps=2))
        clock.now = NOON + 9.9 * HOUR
        spend(monitor, runs=1)

        assert NOON + 10 * HOUR == monitor.daily_budget().opens_at
        clock.now = NOON + 10 * HOUR
        assert ["proceed"] == spend(monitor, runs=1, steps=1)

    def test_a_limit_for_a_run_holds_beside_it(self, watch):
        """
        Each budget is named by its own finding.
        """
        monitor = watch(budget=Budget(steps=4, daily_steps=8))
        with monitor.run():
            of_run = [step(monitor, n) for n in range(4)][-1]
        spend(monitor, runs=1)
        with monitor.run():
            of_day = step(monitor, "x")

        assert ["budget"] == [it.detector for it in of_run.findings]
        assert ["daily_budget"] == [it.detector for it in of_day.findings]
        assert (None, True) == (of_run.daily_budget, of_day.daily_budget.exhausted)

    def test_it_is_listed_once_in_a_run(self, watch):
        """
        Every step is answered, one incident is opened, one finding is stored.
        """
        monitor = watch(budget=Budget(daily_steps=1))
        with monitor.run() as run:
            for n in range(5):
                step(monitor, n)
        monitor.flush()

        assert 1 == len(monitor.store.get_drift_events(run_id=run.run_id))
        assert ["daily_budget"] == [it.detector for it in monitor.store.list_incidents(run_id=run.run_id)]

    def test_a_limit_of_a_day_is_not_for_one_run(self, watch):
        """
        `start_run` takes limits of the run; those of a day belong to the agent, and that is counted.
        """
        monitor = watch()
        with monitor.run(budget=Budget(daily_steps=1)):
            assert ["proceed"] * 3 == [step(monitor, n).verdict for n in range(3)]

        reason = "daily limits of a run left out: give them to DriftMonitor"
        assert {reason: 1} == {key: n for key, n in monitor.health.totals().items() if key == reason}

    @pytest.mark.parametrize(
        ("limit", "words"),
        [
            ({"daily_steps": 0}, "daily_steps must be a whole number from 1"),
            ({"daily_tokens": 1.5}, "daily_tokens must be a whole number from 1"),
            ({"daily_cost_usd": -1}, "daily_cost_usd must be a number above 0"),
        ],
    )
    def test_a_limit_that_is_none_is_refused(self, limit, words):
        """
        The error names the limit and what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            Budget(**limit)

    def test_without_a_limit_there_is_no_day(self, watch):
        """
        An agent without daily limits has no daily budget, and its runs have no further events.
        """
        monitor = watch()
        spend(monitor, runs=1)

        assert monitor.daily_budget() is None

    def test_a_run_that_met_it_is_learnt_from(self, watch):
        """
        That the day was used up says nothing against the run: its baseline learns from it.
        """
        monitor = watch(budget=Budget(daily_steps=2))
        spend(monitor, runs=1)
        monitor.flush()

        assert 1 == monitor.get_baseline().calibration_runs


class TestManyProcesses:
    def test_what_is_stored_counts(self, watch, tmp_path):
        """
        A monitor that starts later knows what was spent before.
        """
        limit = Budget(daily_steps=4)
        first = watch(budget=limit)
        spend(first, runs=1)
        first.close()

        assert ["ask", "ask"] == spend(watch(budget=limit), runs=1, steps=2)

    def test_two_monitors_at_once(self, watch):
        """
        Each knows what the other spent as soon as that is stored and read.
        """
        one, other = (watch(budget=Budget(daily_steps=6)) for _ in range(2))
        spend(one, runs=1)
        one.flush()
        spend(other, runs=1)
        for monitor in (other, one):
            monitor.flush()

        assert (6, 6) == (one.daily_budget().steps_used, other.daily_budget().steps_used)
        assert ["ask"] == spend(one, runs=1, steps=1)

    def test_another_process(self, watch, tmp_path):
        """
        A program of its own spends from the same budget.
        """
        monitor = watch(budget=Budget(daily_steps=3))
        program = (
            "from steadyhelm import DriftMonitor\n"
            f"monitor = DriftMonitor('researcher', db_path={str(tmp_path / 'steadyhelm.db')!r},"
            f" clock=lambda: {NOON})\n"
            "for n in range(3):\n"
            "    monitor.record_event('tool_call', 'read', input_data=n, output_data=n)\n"
            "monitor.close()\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
        monitor.flush()

        assert ["ask"] == spend(monitor, runs=1, steps=1)

    def test_what_is_queued_counts_at_once_and_once(self, tmp_path, clock):
        """
        A step counts from the moment it is recorded, and not twice when it is stored and read.
        """
        store = SQLiteStore(tmp_path / "steadyhelm.db")
        ledger = DailyLedger("agent", DailyLimits(steps=10), clock)
        counts = []

        def note(*_):
            counts.append(ledger.get_state().steps_used)

        events = [an_event(seq, timestamp=NOON) for seq in range(2)]
        note(ledger.record(events))
        note(ledger.read(store))  # nothing is stored yet
        note(store.write(events))
        note(ledger.note_written(events))  # stored, and not read yet
        note(ledger.read(store))
        note(store.write(events), ledger.read(store))  # delivered twice
        store.close()

        assert [2] * 6 == counts

    def test_a_forked_child_does_not_count_for_its_parent(self, tmp_path, clock):
        """
        What the parent had queued is stored by the parent: the child forgets it.
        """
        ledger = DailyLedger("agent", DailyLimits(steps=10), clock)
        ledger.record([an_event(0, timestamp=NOON)])
        ledger.after_fork()

        assert 0 == ledger.get_state().steps_used

    def test_a_read_that_midnight_overtook_is_made_again(self, clock):
        """
        What was read of the day before says nothing of the new one, also when a step has seen that one begin.
        """
        ledger = DailyLedger("agent", DailyLimits(steps=10), clock)
        midnights = [NOON + 86_400]

        class Store:
            def list_spending(self, **_):
                if midnights:
                    clock.now = midnights.pop()
                    ledger.get_state()
                return [AgentSpending(agent_id="agent", steps=7)]

        ledger.read(Store())
        assert (True, 0) == (ledger.is_outdated(), ledger.get_state().steps_used)
        ledger.read(Store())
        assert (False, 7) == (ledger.is_outdated(), ledger.get_state().steps_used)


class TestMore:
    def test_a_users_yes_holds_for_all_runs_of_the_day(self, watch, clock):
        """
        What is granted in one run is known to another monitor, and gone the next day.
        """
        one, other = (watch(budget=Budget(daily_steps=3)) for _ in range(2))
        with one.run():
            assert ["proceed", "proceed", "ask"] == [step(one, n).verdict for n in range(3)]
            granted = one.grant("the user said yes", daily_steps=2)
            assert ["proceed", "ask"] == [step(one, n).verdict for n in range(3, 5)]
        one.flush()
        other.flush()

        assert (True, 2) == (granted.approved, granted.granted_steps)
        assert (5, 5) == (other.daily_budget().steps_used, other.daily_budget().steps_limit)
        clock.now += 24 * HOUR
        assert (0, 3) == (other.daily_budget().steps_used, other.daily_budget().steps_limit)

    def test_it_can_be_granted_before_it_is_used_up(self, watch):
        """
        A user may raise the day's budget at any time.
        """
        monitor = watch(budget=Budget(daily_tokens=200))
        with monitor.run():
            assert monitor.grant("a long day", daily_tokens=200).approved
            assert ["proceed"] * 3 + ["ask"] == [step(monitor, n).verdict for n in range(4)]

    def test_a_grant_of_a_limit_that_is_not_set_is_refused(self, watch):
        """
        Tokens cannot be granted where only steps are limited.
        """
        monitor = watch(budget=Budget(daily_steps=3))
        with monitor.run():
            refused = monitor.grant("more", daily_tokens=5)

        assert (False, "Nothing was granted of any limit set.") == (refused.approved, refused.reason)

    def test_an_emergency_extension_follows_the_rules(self, watch):
        """
        A run that reports .9 gets a tenth of the day's budget more, once; others get nothing.
        """
        monitor = watch(budget=Budget(daily_steps=20))
        with monitor.run():
            for n in range(20):
                step(monitor, n)
            early = monitor.request_extension("nearly done", daily_steps=2)
            monitor.progress(0.95)
            large = monitor.request_extension("nearly done", daily_steps=5)
            granted = monitor.request_extension("nearly done", daily_steps=2)
            again = monitor.request_extension("nearly done", daily_steps=1)

            assert [False, False, True, False] == [it.approved for it in (early, large, granted, again)]
            assert 22 == monitor.daily_budget().steps_limit
            assert "proceed" == step(monitor, "after").verdict

    def test_without_a_daily_budget_there_is_nothing_to_grant(self, watch):
        """
        The answer says that there is no budget.
        """
        monitor = watch()
        with monitor.run():
            assert "The run has no budget." == monitor.grant("more", daily_steps=5).reason

    def test_grants_at_the_same_time_are_each_stored_once(self, watch):
        """
        Every caller gets the decision about its own request, and the day gets what all were granted.
        """
        # Every step waits until it is stored, so that the others come in between.
        monitor = watch(budget=Budget(daily_steps=1), settings='durability = "durable"')
        together, answers = threading.Barrier(4), []

        def ask(run_id, first):
            together.wait()
            for steps in range(first, first + 5):
                granted = monitor.grant(f"for {steps}", daily_steps=steps, run_id=run_id)
                answers.append((steps, granted.granted_steps))

        with monitor.run() as run:
            threads = [threading.Thread(target=ask, args=(run.run_id, 1 + 5 * n)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        monitor.close()

        assert [(steps, steps) for steps in range(1, 21)] == sorted(answers)
        assert 1 + sum(range(21)) == watch(budget=Budget(daily_steps=1)).daily_budget().steps_limit

    def test_a_grant_survives_without_payloads(self, watch):
        """
        Amounts are stored also where nothing else of an event is.
        """
        monitor = watch(budget=Budget(daily_steps=1), payloads="none")
        with monitor.run():
            monitor.grant("yes", daily_steps=4)
        monitor.close()

        assert 5 == watch(budget=Budget(daily_steps=1)).daily_budget().steps_limit


class TestKept:
    def test_a_run_judged_again_decides_the_same(self, watch):
        """
        That the budget was used up is an event of the run: a replay, which knows no other runs, sees it too.
        """
        monitor = watch(budget=Budget(daily_steps=5))
        spend(monitor, runs=1)
        with monitor.run() as run:
            live = [step(monitor, n).action for n in range(3)]
        monitor.flush()
        events = monitor.store.get_run_traces("researcher", run.run_id)

        assert "daily_budget" in [event.action_name for event in events]
        session = Session(
            RunInfo(agent_id="researcher", run_id=run.run_id), (), BaselineStats(agent_id="researcher")
        )
        judged = [(event.action_type, session.observe(event).decision.action) for event in events]
        assert live == [action for kind, action in judged if kind == "tool_call"]

    def test_a_suspended_run_of_yesterday_may_go_on(self, watch, clock):
        """
        What was true when a run was suspended is looked at again when it goes on.
        """
        monitor = watch(budget=Budget(daily_steps=2))
        run_id = monitor.start_run("mine")
        spent = [step(monitor, n).verdict for n in range(2)]
        monitor.suspend(run_id)
        monitor.flush()
        clock.now += 24 * HOUR
        monitor.start_run("mine")

        assert ["proceed", "ask", "proceed"] == [*spent, step(monitor, "next").verdict]
