"""The budget of a live run follows what the host reports and what was proven, never a guess."""

import sqlite3
import threading
from contextlib import closing, suppress

import pytest

from steadyhelm import Budget, DriftMonitor
from steadyhelm.errors import SettingsError

LIMIT = 100


class Driver:
    """Takes steps of one kind each in the run of a monitor."""

    def __init__(self, monitor):
        self.monitor = monitor
        self.taken = 0
        self.declared = 0.0

    def read(self):
        """Read a file that was not read before."""
        self.taken += 1
        path = f"src/module_{self.taken}.py"
        return self.monitor.record_event(
            "tool_call", "read_file", input_data={"path": path}, output_data=f"the content of {path}"
        )

    def write(self):
        """Write a file that was not there before."""
        self.taken += 1
        path = f"src/new_{self.taken}.py"
        return self.monitor.record_event(
            "tool_call",
            "write_file",
            input_data={"path": path, "content": f"n = {self.taken}"},
            output_data="ok",
        )

    def repeat(self):
        """Make the same call as always, with the same result."""
        self.taken += 1
        return self.monitor.record_event(
            "tool_call", "search", input_data={"q": "oslo"}, output_data={"text": "nothing found"}
        )

    def report(self, gain):
        """Report how far the run is."""
        self.declared = min(1.0, self.declared + gain)
        self.monitor.progress(self.declared)


def idle(driver):
    driver.repeat()


def reading(driver):
    driver.read()


def steady(driver):
    driver.write()


def steady_with_reports(driver):
    driver.write()
    driver.report(0.012)


def bursty(driver):
    driver.write()
    if driver.taken % 15 == 0:
        driver.report(0.2)


def reported_standstill(driver):
    driver.read()
    driver.report(0.0)


def slow(driver):
    driver.read()
    driver.report(0.002)


SCENARIOS = {
    "idle: repeats itself": (idle, "less"),
    "reading": (reading, "all"),
    "steady, nothing reported": (steady, "all"),
    "steady, reported": (steady_with_reports, "all"),
    "bursty: a report now and then": (bursty, "all"),
    "stuck by its own reports": (reported_standstill, "less"),
    "slower than is wanted": (slow, "less"),
}


class TestScenarios:
    @pytest.mark.parametrize("name", SCENARIOS)
    def test_what_is_left_of_a_limit(self, make, name):
        """
        A limit shrinks for a loop and for reports below what is wanted, for nothing else, and never grows.
        """
        step, expected = SCENARIOS[name]
        monitor = make(budget=Budget(steps=LIMIT))
        with monitor.run(goal="add a module for each country"):
            driver = Driver(monitor)
            for _ in range(40):
                step(driver)
            limit = monitor.budget().steps_limit

        assert ("less" if limit < LIMIT else "all") == expected
        assert limit <= LIMIT

    def test_nobody_is_poorer_for_working(self, make):
        """
        However long a productive run is, it has at least what an idle one has.
        """
        limits = {}
        for step in (steady, reading, idle):
            monitor = make(budget=Budget(steps=400))
            with monitor.run():
                driver = Driver(monitor)
                for _ in range(200):
                    step(driver)
                limits[step.__name__] = monitor.budget().steps_limit

        assert limits["steady"] == limits["reading"] == 400 > limits["idle"]

    def test_a_run_that_is_nearly_done_may_ask_for_a_little_more(self, make):
        """
        An emergency extension of a tenth is granted to a run that reports .9; else the limit stands.
        """
        monitor = make(budget=Budget(steps=LIMIT))
        with monitor.run():
            driver = Driver(monitor)
            for _ in range(90):
                driver.write()
                driver.report(0.01)
            refused = monitor.request_extension("two more files", steps=50)
            granted = monitor.request_extension("two more files", steps=10)

            assert (False, True) == (refused.approved, granted.approved)
            assert LIMIT + 10 == monitor.budget().steps_limit

    def test_what_a_loop_has_cost_comes_back(self, make):
        """
        After a loop is left, a window of other steps brings the limit back, and not past where it was.
        """
        monitor = make(budget=Budget(steps=200))
        with monitor.run():
            driver = Driver(monitor)
            for _ in range(10):
                driver.repeat()
            shrunk = monitor.budget().steps_limit
            for _ in range(60):
                driver.write()

            assert 140 == shrunk
            assert 200 == monitor.budget().steps_limit

    def test_only_the_user_raises_a_limit(self, make):
        """
        What a user grants is on top of the limit, and is not lost when the limit shrinks and comes back.
        """
        monitor = make(budget=Budget(steps=LIMIT))
        with monitor.run():
            driver = Driver(monitor)
            monitor.grant("take your time", steps=20)
            for _ in range(10):
                driver.repeat()
            for _ in range(60):
                driver.write()
                driver.report(0.015)

            assert LIMIT + 20 == monitor.budget().steps_limit


class TestExhausted:
    @pytest.mark.parametrize(
        ("mode", "verdict"), [("enforce", "ask"), ("guide", "guide"), ("observe", "proceed")]
    )
    def test_it_keeps_answering(self, make, mode, verdict):
        """
        A budget that is used up is the answer to every further step, and one intervention after the landing.
        """
        monitor = make(budget=Budget(steps=5), mode=mode)
        with monitor.run() as run:
            driver = Driver(monitor)
            decisions = [driver.read() for _ in range(12)]
        monitor.flush()
        incidents = [it for it in monitor.store.list_incidents("researcher") if it.run_id == run.run_id]

        assert {"ASK_USER"} == {str(it.action) for it in decisions[4:]}
        assert {verdict} == {it.verdict for it in decisions[4:]}
        [interventions] = [it.interventions for it in incidents if it.detector == "budget"]
        assert [3, 4] == [it.seq for it in interventions]


class TestWhereItComesFrom:
    def test_from_the_monitor(self, make):
        """
        Limits given to the monitor win over the settings; those not given stay as they are set.
        """
        monitor = make("[budget]\nsteps = 7\ntokens = 900\n", budget=Budget(steps=9, cost_usd=0.5))
        with monitor.run():
            budget = monitor.budget()

        assert (9, 900, 0.5, None) == (
            budget.steps_limit,
            budget.tokens_limit,
            budget.cost_limit_usd,
            budget.wall_limit_s,
        )

    def test_from_the_run(self, make):
        """
        Limits given to a run hold for it alone.
        """
        monitor = make(budget=Budget(steps=9))
        with monitor.run(budget=Budget(steps=3, wall_s=60)):
            given = monitor.budget()
        with monitor.run():
            usual = monitor.budget()

        assert (3, 60.0) == (given.steps_limit, given.wall_limit_s)
        assert (9, None) == (usual.steps_limit, usual.wall_limit_s)

    def test_without_any_other(self, make):
        """
        A run can have limits where the monitor has none.
        """
        monitor = make()
        with monitor.run(budget=Budget(steps=3)):
            driver = Driver(monitor)
            verdicts = [driver.read().verdict for _ in range(3)]

            assert ["proceed", "guide", "ask"] == verdicts
        with monitor.run():
            assert monitor.budget() is None

    def test_a_child_gets_what_is_given_to_it_of_what_its_parent_has(self, make):
        """
        A child draws on its parent's budget, at most what the parent can spare, and returns the rest.
        """
        monitor = make(budget=Budget(steps=LIMIT))
        with monitor.run() as parent:
            with monitor.run(budget=Budget(steps=70)):
                Driver(monitor).read()
                share, left = monitor.budget().steps_limit, monitor.budget(parent.run_id).steps_remaining
            with monitor.run(budget=Budget(steps=500)):
                most = monitor.budget().steps_limit

            assert (70, 30, 89) == (share, left, most)
            assert 99 == monitor.budget(parent.run_id).steps_remaining

    def test_a_resumed_run_keeps_it(self, make):
        """
        What a run was given, and has used of it, is there again when it is resumed.
        """
        monitor = make()
        monitor.start_run("session-1", budget=Budget(steps=10))
        Driver(monitor).read()
        monitor.suspend("session-1")
        monitor.start_run("session-1")
        monitor.flush()  # its saved state is read by now

        assert (10, 9) == (monitor.budget().steps_limit, monitor.budget().steps_remaining)
        monitor.start_run("session-1", budget=Budget(steps=4))

    def test_every_change_of_the_limits_is_stored_where_it_was_made(self, make):
        """
        Limits that a resumed run is given anew, and a grant after its last step, are stored with the run.
        """
        monitor = make()
        monitor.start_run("session-1", budget=Budget(steps=10))
        Driver(monitor).read()
        monitor.suspend("session-1")
        monitor.flush()
        monitor.start_run("session-1", budget=Budget(steps=25))
        monitor.flush()
        Driver(monitor).read()
        monitor.grant("the user said yes", steps=5)
        monitor.end_run("session-1")
        monitor.flush()
        with closing(sqlite3.connect(monitor.store.path)) as database:
            stored = database.execute("SELECT steps FROM limits ORDER BY seq").fetchall()

        assert [(10,), (25,), (30,)] == stored

    def test_it_is_part_of_the_recording(self, make):
        """
        The limits of a run are recorded with it, so that what was decided can be decided again.
        """
        monitor = make()
        with monitor.run(budget=Budget(steps=3)) as run:
            Driver(monitor).read()
        monitor.flush()
        first, second = monitor.store.get_run_traces("researcher", run.run_id)

        assert ("budget_set", {"steps": 3}) == (first.action_name, first.metadata)
        assert "read_file" == second.action_name

    @pytest.mark.parametrize("limits", [{"steps": 0}, {"steps": 1.5}, {"tokens": -1}, {"cost_usd": "1"}])
    def test_what_is_no_limit_is_refused(self, limits):
        """
        A limit that is no number above 0 is refused where it is written.
        """
        [name] = limits
        with pytest.raises(SettingsError, match=f"The budget's {name} must be"):
            Budget(**limits)

    def test_what_is_no_budget_does_no_harm(self, make):
        """
        Anything else than a Budget is counted and left out; the run is watched.
        """
        monitor = make()
        with monitor.run(budget=50):
            assert monitor.budget() is None
        assert 1 == monitor.health.totals()["budget left out: it is no steadyhelm.Budget"]


class TestProfiles:
    SETTINGS = "[budget]\nfrom_profiles = true\n"

    def complete(self, monitor, steps, task_type="lookup"):
        with monitor.run(task_type=task_type):
            driver = Driver(monitor)
            decisions = [driver.read() for _ in range(steps)]
            budget = monitor.budget()
        monitor.flush()
        return budget, decisions

    def test_a_few_tasks_limit_nobody(self, make):
        """
        Until five tasks of a type are completed, a run of that type has no limit.
        """
        monitor = make(self.SETTINGS)
        budgets = [self.complete(monitor, 4)[0] for _ in range(6)]

        assert [None] * 5 == budgets[:5]
        assert 5 == budgets[5].steps_limit

    def test_longer_tasks_are_learnt_from(self, make):
        """
        A completed task that took more than was recommended is learnt from, and the limit follows.
        """
        monitor = make(self.SETTINGS)
        for _ in range(5):
            self.complete(monitor, 4)
        for _ in range(10):
            budget, _ = self.complete(monitor, 9)
        [profile] = monitor.store.list_profiles("researcher")

        assert 15 == profile.tasks
        assert budget.steps_limit >= 8

    def test_a_limit_that_is_set_stays(self, make):
        """
        What tasks took before never raises a limit that is set.
        """
        monitor = make(self.SETTINGS, budget=Budget(steps=3))
        for _ in range(6):
            budget, _ = self.complete(monitor, 2)
        assert 3 == budget.steps_limit


class TestChildren:
    def test_children_that_run_side_by_side(self, make):
        """
        What eight children take at once and return adds up: nothing is lost, nothing is spent twice.
        """
        monitor = make(budget=Budget(steps=400))
        seen = []

        def work(parent, number):
            with monitor.run(parent_run_id=parent.run_id):
                driver = Driver(monitor)
                driver.taken = 1000 * number
                for _ in range(number):
                    driver.read()
                seen.append(monitor.budget(parent.run_id))

        with monitor.run() as parent:
            threads = [threading.Thread(target=work, args=(parent, number)) for number in range(1, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            left = monitor.budget()

        assert {400} == {it.steps_used + it.steps_reserved + it.steps_remaining for it in seen}
        assert (36, 0, 364) == (left.steps_used, left.steps_reserved, left.steps_remaining)

    def test_a_child_that_fails_returns_the_rest(self, make):
        """
        An error that ends a child gives its parent back what the child did not use.
        """
        monitor = make(budget=Budget(steps=100))
        with monitor.run():
            with suppress(RuntimeError), monitor.run():
                Driver(monitor).read()
                raise RuntimeError
            left = monitor.budget()

        assert (1, 0, 99) == (left.steps_used, left.steps_reserved, left.steps_remaining)

    def test_a_child_that_never_ends_keeps_its_share(self, make):
        """
        What a child may still spend is not spent twice: its parent goes on with the other half.
        """
        monitor = make(budget=Budget(steps=100))
        with monitor.run() as parent:
            child = monitor.start_run(parent_run_id=parent.run_id)
            monitor.runs.leave(child)
            driver = Driver(monitor)
            verdicts = [driver.read().verdict for _ in range(49)]
            left = monitor.budget()

        assert {"proceed"} == set(verdicts)
        assert (49, 50, 1) == (left.steps_used, left.steps_reserved, left.steps_remaining)

    def test_a_suspended_child_returns_its_rest_when_it_ends(self, make):
        """
        A child that is put aside and resumed gives back what it did not use, as any other.
        """
        monitor = make(budget=Budget(steps=100))
        with monitor.run() as parent:
            monitor.start_run("child", parent_run_id=parent.run_id)
            Driver(monitor).read()
            monitor.suspend("child")
            monitor.flush()
            lent = monitor.budget(parent.run_id).steps_reserved
            monitor.start_run("child", parent_run_id=parent.run_id)
            monitor.flush()
            Driver(monitor).read()
            monitor.end_run("child")
            left = monitor.budget(parent.run_id)

        assert (50, 2, 0) == (lent, left.steps_used, left.steps_reserved)

    def test_an_agent_inside_another_agent(self, make, tmp_path):
        """
        An agent that another agent calls draws on the caller's budget, within limits of its own.
        """
        outer = make(budget=Budget(steps=100))
        inner = DriftMonitor("helper", db_path=tmp_path / "steadyhelm.db", budget=Budget(steps=20))
        with outer.run() as parent:
            with inner.run():
                for n in range(3):
                    inner.record_event("tool_call", "read", input_data={"n": n}, output_data=n)
                lent = inner.budget(), outer.budget(parent.run_id)
            left = outer.budget()
        inner.close()

        assert (20, 50) == (lent[0].steps_limit, lent[1].steps_reserved)
        assert (3, 0, 97) == (left.steps_used, left.steps_reserved, left.steps_remaining)

    def test_the_day_counts_a_childs_steps_once(self, make):
        """
        A step of a child is one step of the agent's day.
        """
        monitor = make(budget=Budget(steps=100, daily_steps=50))
        with monitor.run(), monitor.run():
            Driver(monitor).read()

        assert 1 == monitor.daily_budget().steps_used
