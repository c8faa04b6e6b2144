"""Runs with a plan: guidance that knows the step, reminders, and what becomes of the plan."""

import pytest

from steadyhelm import DriftMonitor

PLAN = [
    {"step": "Read the test", "status": "completed"},
    {"step": "Fix the tax", "status": "in_progress"},
    {"step": "Run all tests", "status": "pending"},
]


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide")
    yield monitor
    monitor.close()


def fail(monitor, times=3):
    call = {"input_data": {"only": "tax"}, "output_data": "1 failed", "error": "1 failed"}
    return [monitor.record_event("tool_call", "run_tests", **call) for _ in range(times)][-1]


class TestGuidance:
    def test_a_given_plan(self, monitor):
        """
        Guidance about a loop names the step at which it happens.
        """
        with monitor.run(goal="make it pass") as run:
            run.plan(PLAN)
            decision = fail(monitor)

        assert 'Current step: 2. "Fix the tax"' in decision.guidance
        assert "run_tests called 3 times" in decision.guidance

    def test_by_the_runs_id(self, monitor):
        """
        The monitor takes a plan for any run, as text too.
        """
        with monitor.run() as run:
            monitor.plan("- [x] Read\n- [ ] Fix the tax", run_id=run.run_id)
            decision = fail(monitor)

        assert 'Current step: 2. "Fix the tax"' in decision.guidance

    def test_a_plan_tool(self, monitor):
        """
        The list that the agent keeps with its own tool is enough.
        """
        with monitor.run():
            monitor.record_event("tool_call", "update_plan", input_data={"plan": PLAN}, output_data="updated")
            decision = fail(monitor)

        assert "1 of 3 steps are marked as done" in decision.guidance

    def test_without_a_plan_nothing_changes(self, monitor):
        """
        A run without a plan gets the same guidance as ever.
        """
        with monitor.run(goal="make it pass"):
            decision = fail(monitor)

        assert decision.guidance.endswith("Your goal: make it pass")

    def test_another_task_ends_it(self, monitor):
        """
        With a new goal the old plan is forgotten.
        """
        with monitor.run(goal="make it pass") as run:
            run.plan(PLAN)
            run.new_goal("translate the brochure into Finnish")
            decision = fail(monitor)

        assert "plan" not in decision.guidance.lower()

    def test_a_blocked_call_names_the_step_too(self, tmp_path):
        """
        The text in place of a blocked call's result ends with the next move.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="enforce")
        with monitor.run() as run:
            run.plan(PLAN)
            fail(monitor, 4)
            before = monitor.before_tool("run_tests", {"only": "tax"})
        monitor.close()

        assert "deny" == before.verdict
        assert before.guidance.startswith("This call was not run.")
        assert before.guidance.splitlines()[-1].startswith("Next move:")

    @pytest.mark.parametrize("plan", [None, 7, object(), [[[]]], {"a": 1}, "\x00" * 10, [None] * 1000])
    def test_anything_may_be_given(self, monitor, plan):
        """
        What is no plan changes nothing, and raises nothing.
        """
        with monitor.run(goal="make it pass") as run:
            run.plan(plan)
            decision = fail(monitor)

        assert decision.guidance.endswith("Your goal: make it pass")


class TestState:
    def test_it_survives_being_put_aside(self, tmp_path):
        """
        A run that is resumed by another monitor still knows its plan.
        """
        first = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide")
        run_id = first.start_run("mend", goal="make it pass")
        first.plan(PLAN, run_id=run_id)
        first.suspend(run_id)
        first.close()
        second = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide")
        second.start_run("mend")
        second.flush()
        decision = fail(second)
        second.close()

        assert 'Current step: 2. "Fix the tax"' in decision.guidance

    def test_a_rollback_returns_to_the_plan_of_then(self, tmp_path):
        """
        After a rollback the plan is that of the checkpoint.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="enforce")
        with monitor.run() as run:
            run.plan(PLAN)
            monitor.checkpoint()
            run.plan([{"step": "Give up", "status": "in_progress"}])
            fail(monitor, 6)
            monitor.roll_back()
            session = monitor.runs.get(run.run_id).session
            assert "Read the test" == session.plan.items[0].description
        monitor.close()

    def test_secrets_do_not_enter_it(self, monitor):
        """
        A secret in a step is redacted before the plan is kept, and never said.
        """
        secret = "sk-" + "a1B2c3D4" * 6
        with monitor.run() as run:
            run.plan([{"step": f"Log in with api_key={secret}", "status": "in_progress"}])
            decision = fail(monitor)
            session = monitor.runs.get(run.run_id).session
            assert secret.encode() not in session.state()

        assert "Current step: 1." in decision.guidance
        assert secret not in decision.guidance


def work(monitor, times):
    return [
        monitor.record_event("tool_call", "open", input_data={"page": n}, output_data=f"page {n}")
        for n in range(times)
    ]


class TestReminders:
    def test_every_few_steps(self, tmp_path):
        """
        A reminder comes after so many steps without other guidance, and is no sign of drift.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", remind_every=6)
        with monitor.run(goal="sort the archive") as run:
            run.plan(PLAN)
            decisions = work(monitor, 13)

        reminded = [place for place, decision in enumerate(decisions, start=1) if decision.guidance]
        assert [6, 12] == reminded
        assert {("CONTINUE", "guide", "reminder")} == {
            (it.action, it.verdict, it.wording) for it in decisions if it.guidance
        }
        assert "Goal: sort the archive" in decisions[5].guidance
        assert "Fix the tax" in decisions[5].guidance
        monitor.flush()
        assert [] == monitor.store.list_incidents("planner")
        monitor.close()

    @pytest.mark.parametrize("options", [{}, {"remind_every": 0}, {"remind_every": 3, "mode": "observe"}])
    def test_off_by_default_and_in_observe_mode(self, tmp_path, options):
        """
        Nobody is reminded who did not ask for it.
        """
        options = {"mode": "guide", **options}
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", **options)
        with monitor.run(goal="sort the archive"):
            assert not any(decision.guidance for decision in work(monitor, 20))
        monitor.close()

    def test_by_the_settings(self, tmp_path, monkeypatch):
        """
        The setting does what the argument does; the argument counts more.
        """
        monkeypatch.setenv("STEADYHELM_GUIDANCE_REMIND_EVERY", "4")
        for options, reminded in (({}, 1), ({"remind_every": 0}, 0)):
            monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", **options)
            with monitor.run(goal="sort the archive"):
                assert reminded == sum(bool(decision.guidance) for decision in work(monitor, 5))
            monitor.close()

    def test_without_goal_or_plan_there_is_nothing_to_say(self, tmp_path):
        """
        A run without a goal and without a plan is not reminded of anything.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", remind_every=2)
        with monitor.run():
            assert not any(decision.guidance for decision in work(monitor, 9))
        monitor.close()

    def test_other_guidance_postpones_it(self, tmp_path):
        """
        A model that was just given guidance is not reminded as well, nor while the incident is open.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", remind_every=4)
        with monitor.run(goal="make it pass"):
            fail(monitor, 3)
            assert not any(decision.guidance for decision in work(monitor, 5))
        monitor.close()

    def test_it_waits_for_a_reader(self, tmp_path):
        """
        A reminder about a decorated function's call is there for the next request.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", remind_every=2)

        @monitor.tool
        def open_page(page):
            return f"page {page}"

        with monitor.run(goal="sort the archive") as run:
            open_page(1)
            open_page(2)
            assert "sort the archive" in run.guidance()
            assert "" == run.guidance()
        monitor.close()

    def test_an_unknown_step_is_not_named(self, tmp_path):
        """
        Of a plan without statuses no step is called the current one.
        """
        monitor = DriftMonitor("planner", db_path=tmp_path / "plans.db", mode="guide", remind_every=3)
        with monitor.run(goal="sort the archive") as run:
            run.plan(["Sort the letters", "Label the boxes"])
            decision = work(monitor, 3)[-1]

        assert "Now:" not in decision.guidance
        monitor.close()
