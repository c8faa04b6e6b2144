from decimal import Decimal

import pytest

from steadyhelm.engine.judge_calls import JudgeCalls


def search(monitor, times=1, **fields):
    return [
        monitor.record_event(
            "tool_call", "search", input_data={"q": "oslo"}, output_data={"text": "nothing"}, **fields
        )
        for _ in range(times)
    ]


def work(monitor, times, **fields):
    for n in range(times):
        monitor.record_event("tool_call", "open", input_data={"page": n}, output_data=f"page {n}", **fields)


class TestGoingBack:
    def test_not_to_a_checkpoint_from_inside_the_loop(self, make):
        """
        Where the only checkpoint lies after the first evidence, nobody is sent back to it.
        """
        monitor = make()
        with monitor.run():
            search(monitor, 1)
            monitor.checkpoint()

            assert "ask" == search(monitor, 5)[-1].verdict

    def test_not_to_one_that_was_lost_with_the_process(self, make):
        """
        Checkpoints in memory end with their process: a run taken up elsewhere has none.
        """
        first, second = make(), make()
        first.start_run("session-1")
        assert first.flush(60).complete  # it is known now that there is no saved state
        assert first.checkpoint()
        first.suspend("session-1")
        assert first.flush(60).complete
        second.start_run("session-1")
        assert second.flush(60).complete

        assert "rollback" not in [decision.verdict for decision in search(second, 8)]

    def test_what_could_not_be_kept_as_it_came_is_said(self, make):
        """
        A checkpoint names what was reduced to something that can be kept.
        """
        monitor = make()
        with monitor.run():
            taken = monitor.checkpoint(conversation_history=[object()])

        assert taken.reduced

    def test_what_was_left_behind_is_not_returned_to(self, make):
        """
        After a return, checkpoints of the course that was left are gone.
        """
        monitor = make()
        with monitor.run() as run:
            monitor.checkpoint(label="good")
            search(monitor, 1)
            monitor.checkpoint(label="on the way into the loop")
            search(monitor, 2)
            monitor.roll_back()
            work(monitor, 30)
            kept = [it.label for it in monitor.keeper.list_checkpoints(run.run_id, agent_id="researcher")]

        assert ["good"] == kept

    def test_one_taken_in_trouble_is_marked(self, make):
        """
        A checkpoint says whether an incident was open when it was taken.
        """
        monitor = make()
        with monitor.run():
            before = monitor.checkpoint()
            search(monitor, 3)
            during = monitor.checkpoint()

        assert (False, True) == (before.in_incident, during.in_incident)


class TestBudgets:
    def test_runs_that_are_not_watched_borrow_nothing(self, make):
        """
        A run that a judge starts is not watched, and takes nothing from the budget of the run around it.
        """
        monitor = make("[budget]\nsteps = 100\n")

        def count_left() -> int:
            with monitor.run(parent_run_id=parent.run_id):
                return monitor.budget(parent.run_id).steps_remaining

        with monitor.run() as parent:
            watched = count_left()
            left = JudgeCalls(60.0).call(count_left)

        assert watched < 100 == left

    def test_a_child_cannot_be_granted_more_than_its_parent_has(self, make):
        """
        What a child has is a share: more is granted to the parent, or to nobody.
        """
        monitor = make("[budget]\nsteps = 100\n")
        with monitor.run(), monitor.run():
            assert not monitor.grant("more", steps=1000).approved

    def test_what_is_lent_is_no_reason_to_land(self, make):
        """
        A parent whose budget is with its children is not told to finish.
        """
        monitor = make("[budget]\nsteps = 100\nchild_share = 0.95\n")
        with monitor.run() as parent, monitor.run():
            decision = monitor.record_event(
                "tool_call", "open", input_data={"page": 1}, output_data="page 1", run_id=parent.run_id
            )

        assert () == decision.findings

    def test_the_users_time_is_not_the_agents(self, make):
        """
        How long a user takes to answer, or a run is put aside, does not count against its time.
        """
        monitor = make("[budget]\nwall_s = 60\n")
        with monitor.run() as run:
            work(monitor, 1, timestamp=1000.0)
            monitor.record_event("user_message", "user", input_data="go on", timestamp=90_000.0)
            work(monitor, 1, timestamp=90_005.0)
            used = monitor.budget(run.run_id).wall_used_s

        assert 5.0 == used

    def test_exploring_costs_no_budget(self, make):
        """
        Reading changes no file and is no failure: a run that explores keeps its limits.
        """
        monitor = make("[budget]\nsteps = 100\n")
        with monitor.run():
            monitor.record_event(
                "tool_call", "write_file", input_data={"path": "a", "content": "b"}, output_data="saved"
            )
            work(monitor, 40)

            assert 100 == monitor.budget().steps_limit

    def test_profiles_leave_other_limits_alone(self, make):
        """
        What a type of task takes sets steps and tokens, not the limits on money and time.
        """
        monitor = make("[budget]\nfrom_profiles = true\nwall_s = 60\n")
        for _ in range(5):
            with monitor.run(task_type="lookup"):
                work(monitor, 10)
        monitor.flush()
        with monitor.run(task_type="lookup"):
            known = monitor.budget()

        assert (12, 60.0) == (known.steps_limit, known.wall_limit_s)

    def test_a_limit_nobody_can_judge_is_named(self, make):
        """
        A cost limit without costs is not silently blind.
        """
        monitor = make("[budget]\ncost_usd = 1.0\n")
        with monitor.run():
            work(monitor, 2)

            assert "no step has reported" in monitor.not_checked()["budget.cost_usd"]


class TestGoals:
    def test_a_new_goal_survives_a_restart(self, make):
        """
        What the user asked for last is still the goal when the run goes on elsewhere.
        """
        task = "New task: write the release notes for version two and mail them to the translators."
        first, second = make(), make()
        first.start_run("session-1", goal="Find the cheapest flight from Bergen to Lisbon in May.")
        first.record_event("llm_request", "model", output_data="I look at the flights from Bergen first.")
        first.record_event("user_message", "user", input_data=task)
        first.suspend("session-1")
        assert first.flush(60).complete
        second.start_run("session-1")
        assert second.flush(60).complete

        assert task in search(second, 3)[-1].guidance

    def test_what_the_user_added_is_quoted(self, make):
        """
        Words that are no new goal still stand in what the model is told.
        """
        monitor = make()
        with monitor.run(goal="Find the cheapest flight from Bergen to Lisbon in May."):
            monitor.record_event("llm_request", "model", output_data="I look at the flights from Bergen.")
            monitor.record_event("user_message", "user", input_data="but only with one stop")

            assert "The user said last: but only with one stop" in search(monitor, 3)[-1].guidance


class TestAnyHost:
    def test_a_cost_may_be_a_decimal(self, make):
        """
        Money comes as a decimal or a text too, and costs no event.
        """
        monitor = make("[budget]\ncost_usd = 10.0\n")
        with monitor.run():
            monitor.record_event("llm_request", "model", output_data="a", cost_usd=Decimal("0.5"))
            monitor.record_event("llm_request", "model", output_data="b", cost_usd="0.25")

            assert 0.75 == monitor.budget().cost_used_usd

    @pytest.mark.parametrize(
        "ask",
        [
            lambda monitor: monitor.progress("x"),
            lambda monitor: monitor.progress(float("nan")),
            lambda monitor: monitor.call_refused(None, reason="half \ud800"),
            lambda monitor: monitor.call_refused("search", decision="deny"),
            lambda monitor: monitor.not_carried_out(object()),
            lambda monitor: monitor.not_carried_out("half \ud800"),
            lambda monitor: monitor.grant("no", steps=-5),
            lambda monitor: monitor.request_extension(None, steps="many"),
            lambda monitor: monitor.checkpoint(conversation_history=[{1: {2}}], label="\ud800"),
            lambda monitor: monitor.before_tool("search", run_id=["no run"]),
            lambda monitor: monitor.budget(run_id={}),
            lambda monitor: monitor.roll_back(run_id=7),
        ],
    )
    def test_whatever_it_says_nothing_is_raised_and_nothing_lost(self, make, ask):
        """
        Nonsense from a host raises nothing into it, and what is kept can still be read.
        """
        monitor = make("[budget]\nsteps = 50\n")
        with monitor.run(goal="half \ud800") as run:
            search(monitor, 3)
            ask(monitor)
            search(monitor, 1)
        monitor.flush()

        assert 1 == len(monitor.store.list_incidents("researcher", run.run_id))

    def test_a_host_with_a_clock_of_its_own(self, make):
        """
        What is told between two steps happened with the step before: nothing is out of order.
        """
        monitor = make()
        with monitor.run():
            work(monitor, 1, timestamp=1000.0)
            monitor.progress(0.5)
            monitor.checkpoint()
            work(monitor, 1, timestamp=1001.0)

        assert "event out of order" not in monitor.health.totals()

    def test_observe_asks_for_nothing(self, make):
        """
        In observe mode no hook asks the host for anything.
        """
        monitor = make(mode="observe")
        heard = []
        monitor.on_response("switch_model", heard.append)
        with monitor.run():
            search(monitor, 10)

        assert [] == heard
