import asyncio
import contextvars
import os
import threading
import time
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhelm import DriftMonitor, RunStopped, SettingsError
from steadyhelm.adapter import CONTINUE, ModelReply
from steadyhelm.boundary.driver import Boundary, is_asking
from steadyhelm.engine.capture import Capture
from steadyhelm.testing.doubles import Alarm

ALL = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
STOPS = {"before_model": {"stop"}}


@pytest.fixture
def watch(tmp_path):
    """Makes a boundary over a monitor of its own."""
    made = []

    def make(can=ALL, mode="observe", *, ask=None, source="test", **options):
        monitor = DriftMonitor("agent", db_path=tmp_path / f"{len(made)}.db", mode=mode, **options)
        made.append(monitor)
        return Boundary(monitor, source, can, ask=ask)

    yield make
    for monitor in made:
        monitor.close()


def story(boundary, run_id=None):
    """The events of a run, shortly."""
    monitor = boundary.monitor
    monitor.flush()
    run_id = run_id or monitor.store.get_run_ids("agent")[-1]
    return [_line(event) for event in monitor.store.get_run_traces("agent", run_id)]


def _line(event):
    came = f"!{event.error}" if event.error else event.text
    return f"{event.action_type.split('_')[0]} {event.action_name} {came}".strip()


def ended(boundary):
    boundary.monitor.flush()
    return [boundary.monitor.store.find_run(it) for it in boundary.monitor.store.get_run_ids("agent")]


def look(run, n, *, turns=1):
    """The agent asks for the same look-up again; gives what it was told before the model and the tool."""
    steers = []
    for turn in range(n, n + turns):
        before = run.before_model(state=str(turn))
        if before.verdict == "stop":
            return [*steers, before]
        run.after_model(ModelReply(text="", input_tokens=10, output_tokens=5))
        instruction = run.before_tool(f"c{turn}", "lookup", {"key": "a"})
        if instruction.verdict == "proceed":
            run.after_tool(f"c{turn}", "no entry")
        steers += [before, instruction]
    return steers


class TestSeen:
    def test_a_run_with_all_its_steps(self, watch):
        """
        The goal is the user's first turn; each model call and each tool call is one event.
        """
        boundary = watch()
        with boundary.run("find it") as run:
            run.before_model()
            run.after_model(ModelReply(text="I look.", model="small", input_tokens=3, output_tokens=4))
            run.before_tool("c1", "lookup", {"key": "a"})
            run.after_tool("c1", "no entry")

        assert ["user user find it", "llm small I look.", "tool lookup no entry"] == story(boundary)
        assert "done" == ended(boundary)[0].outcome

    def test_calls_of_one_reply_share_where_they_began(self, watch):
        """
        Two calls of one reply had seen the same, whichever ends first.
        """
        boundary = watch()
        with boundary.run("go") as run:
            run.after_model(ModelReply(text="both"))
            for call in "ab":
                run.before_tool(call, "fetch", {"page": call})
            for call in "ba":
                run.after_tool(call, f"page {call}")
        boundary.monitor.flush()
        events = boundary.monitor.store.get_run_traces("agent", run.run_id)

        assert [("b", 2), ("a", 2)] == [(it.call_id, it.started_seq) for it in events[2:]]

    def test_an_adapter_that_sees_no_models_has_batches_too(self, tmp_path):
        """
        Where model calls are not seen, calls that run at the same time were asked for together, others not.
        """
        monitor = DriftMonitor("agent", db_path=tmp_path / "x.db")
        boundary = Boundary(monitor, "test", STOPS, sees_models=False)
        with boundary.run("go") as run:
            run.before_tool("a", "fetch")
            run.before_tool("b", "fetch")
            run.after_tool("a", 1)
            run.after_tool("b", 2)
            run.before_tool("c", "fetch")
            run.after_tool("c", 3)
        monitor.flush()
        events = monitor.store.get_run_traces("agent", run.run_id)
        monitor.close()

        assert [1, 1, 3] == [it.started_seq for it in events if it.action_type == "tool_call"]

    def test_a_call_seen_by_two_surfaces_is_one(self, watch):
        """
        The first surface that tells of a call owns it; what another tells of it is dropped.
        """
        boundary = watch()
        with boundary.run("go") as run:
            for surface in ("hooks", "bus"):
                run.before_tool("c1", "fetch", {"page": 1}, surface=surface)
            for surface in ("bus", "hooks"):
                run.after_tool("c1", f"told by {surface}", surface=surface)

        assert ["user user go", "tool fetch told by hooks"] == story(boundary)

    def test_a_retry_is_another_call(self, watch):
        """
        The same surface telling of the same id again has tried again: both attempts count.
        """
        boundary = watch()
        with boundary.run("go") as run:
            for error in ("no", None):
                run.before_tool("c1", "fetch", {"page": 1})
                run.after_tool("c1", "yes", error=error)

        assert ["tool fetch !no", "tool fetch yes"] == story(boundary)[1:]

    def test_a_call_whose_result_never_comes(self, watch):
        """
        It was made all the same: it is told at the user's next turn or at the end, result unknown.
        """
        boundary = watch()
        with boundary.run("go") as run:
            run.before_tool("c1", "fetch")
            run.record_user_message("never mind")
            run.before_tool("c2", "fetch")

        assert ["tool fetch", "user user never mind", "tool fetch"] == story(boundary)[1:]

    def test_a_call_that_was_never_made(self, watch):
        """
        A tool that does not exist, or arguments that do not fit, are a failed call.
        """
        boundary = watch()
        with boundary.run("go") as run:
            run.record_call("c1", "nowhere", {"to": 1}, error="there is no such tool")

        assert ["tool nowhere !there is no such tool"] == story(boundary)[1:]

    def test_the_hosts_own_exception_passes_unchanged(self, watch):
        """
        The very object arrives, is the run's outcome, and is told once though a step told of it before.
        """
        boundary = watch()
        problem = KeyError("ink")

        def work():
            with boundary.run("go") as run:
                run.before_tool("c1", "write")
                run.after_tool("c1", error=problem)
                raise problem

        with pytest.raises(KeyError) as caught:
            work()

        assert problem is caught.value
        assert ["user user go", "tool write !KeyError: 'ink'"] == story(boundary)
        assert "error: KeyError" == ended(boundary)[0].outcome

    def test_an_error_no_step_told_of_is_an_event(self, watch):
        """
        An agent that fails between its steps has failed all the same.
        """
        boundary = watch()
        with pytest.raises(ZeroDivisionError), boundary.run("go"):
            raise ZeroDivisionError("by nothing")

        assert ["state agent_error !ZeroDivisionError: by nothing"] == story(boundary)[1:]


class TestRuns:
    def test_an_agent_inside_an_agent_is_its_child(self, watch):
        """
        Whatever begins inside a watched run, of any adapter, is a child of it, with a baseline of its own.
        """
        outer, inner = watch(), watch(source="other")
        with outer.run("all of it") as parent, inner.run("a part", agent="clerk") as child:
            pass
        inner.monitor.flush()

        run = inner.monitor.store.find_run(child.run_id)
        assert (parent.run_id, "clerk") == (run.parent_run_id, run.task_type)

    def test_a_run_that_the_host_opened_is_joined(self, watch):
        """
        The host's own run goes on when the agent is done, and two calls of the agent are two turns in it.
        """
        boundary = watch()
        with boundary.monitor.run(goal="the day") as host:
            for goal in ("one", "two"):
                with boundary.run(goal) as run:
                    assert host.run_id == run.run_id
        assert ["user user one", "user user two"] == story(boundary, host.run_id)

    def test_two_agents_at_once_in_the_hosts_run_do_not_mix(self, watch):
        """
        The second that works at the same time in a joined run is a child of it.
        """
        boundary = watch()
        with boundary.monitor.run(goal="the day") as host, boundary.run("one"), boundary.run("two") as second:
            assert host.run_id != second.run_id
        assert {None, host.run_id} == {run.parent_run_id for run in ended(boundary)}

    def test_two_surfaces_of_one_run_find_each_other_by_its_key(self, watch):
        """
        What is known under a key goes on under it, until it has ended.
        """
        boundary = watch()
        run = boundary.start_run("go", key="thread 1")

        assert run is boundary.start_run("go", key="thread 1")
        assert run is boundary.find_run("thread 1")
        run.end()
        assert boundary.find_run("thread 1") is None
        assert run is not boundary.start_run("go", key="thread 1")

    def test_beginning_leaves_the_context_as_it_was(self, watch):
        """
        A run that a hook begins must not become the current run of whoever's context the hook is called in.
        """
        boundary = watch()
        run = boundary.start_run("go")
        assert boundary.monitor.current_run is None
        with run.activate():
            assert run.run_id == boundary.monitor.current_run
        assert boundary.monitor.current_run is None

    def test_a_model_call_that_is_told_already(self, watch):
        """
        Whoever sees model calls from further inside can know that this one is being told of.
        """
        boundary = watch()
        assert not is_asking()
        with boundary.run("go") as run:
            run.before_model()
            assert is_asking()
            run.after_model(ModelReply(text="yes"))
            assert not is_asking()

    def test_tasks_do_not_mix(self, watch):
        """
        Each task of an event loop has its own run.
        """
        boundary = watch()

        async def work(goal):
            async with boundary.run(goal) as run:
                for n in range(3):
                    run.before_tool(f"{n}", "fetch", {"page": n})
                    await asyncio.sleep(0)
                    run.after_tool(f"{n}", goal)
                return run.run_id

        async def all_of_them():
            return await asyncio.gather(*(work(f"goal {n}") for n in range(5)))

        for n, run_id in enumerate(asyncio.run(all_of_them())):
            assert [f"user user goal {n}", *[f"tool fetch goal {n}"] * 3] == story(boundary, run_id)


class TestAnswers:
    def test_words_wait_for_a_place_where_they_can_be_said(self, watch):
        """
        What a tool's result calls for is said before the next model call, once.
        """
        boundary = watch(mode="guide")
        with boundary.run("find it") as run:
            steers = look(run, 0, turns=5)

        said = [(place, it.verdict) for place, it in enumerate(steers) if it.verdict != "proceed"]
        assert [(6, "guide")] == said[:1]
        assert "lookup called 3 times" in steers[6].text

    def test_words_that_can_go_with_a_result(self, watch):
        """
        An adapter that can add words to a tool's result takes them there.
        """
        boundary = watch({"after_tool": {"guide"}}, mode="guide")
        with boundary.run("find it") as run:
            look(run, 0, turns=3)
            assert "guide" == run.take_instruction("after_tool").verdict
            assert CONTINUE == run.take_instruction("after_tool")

    def test_a_fruitless_call_is_refused_and_told(self, watch):
        """
        In enforce mode the fifth equal call is refused; that is kept as what it is, no call of a tool.
        """
        boundary = watch(mode="enforce")
        with boundary.run("find it") as run:
            steers = look(run, 0, turns=5)

        assert "deny" == steers[-1].verdict
        assert 4 == sum(it.startswith("tool") for it in story(boundary))
        assert any("call_refused" in it for it in story(boundary))
        blocked, why, *_ = steers[-1].text.splitlines()
        assert "This call was not run." == blocked
        assert "this call would make it: " in why
        assert " called 5 times in a row" in why

    def test_a_stop_is_written_down_before_anybody_raises(self, watch):
        """
        Whatever the framework makes of a stop, wrapped or swallowed, the caller gets RunStopped.
        """
        for made_of_it in (RuntimeError("the framework's own"), None):
            boundary = watch(STOPS, mode="enforce")

            def work(boundary=boundary, made_of_it=made_of_it):
                with boundary.run("find it") as run:
                    assert "stop" == look(run, 0, turns=20)[-1].verdict
                    assert run.stopped is not None
                    if made_of_it is not None:
                        raise made_of_it

            with pytest.raises(RunStopped) as caught:
                work()

            assert made_of_it is caught.value.__cause__
            run = ended(boundary)[0]
            assert (run.run_id, "stopped") == (caught.value.run_id, run.outcome)

    def test_a_call_made_while_a_stop_waits_is_refused(self, watch):
        """
        Where only the model's boundary can stop, tools are refused until it is reached.
        """
        can = {"before_model": {"stop"}, "before_tool": {"deny"}}
        boundary = watch(can, mode="enforce", make_detectors=lambda: [Alarm(at=1)])
        with boundary.run("find it") as run:
            look(run, 0)
            instruction = run.before_tool("c1", "fetch", {"page": 1})

        assert ("deny", "Not called: the run is being stopped.") == (instruction.verdict, instruction.text)

    def test_a_stop_that_was_swallowed_is_said_again(self, watch):
        """
        A framework that goes on after a stop is told again at every place, until it ends.
        """
        boundary = watch(mode="enforce", make_detectors=lambda: [Alarm(at=1)])
        run = boundary.start_run("find it")
        run.before_tool("c0", "fetch")
        run.after_tool("c0", "no")

        assert ["stop", "stop", "stop"] == [
            run.before_model().verdict,
            run.before_tool("c1", "fetch").verdict,
            run.before_model().verdict,
        ]
        assert isinstance(run.finish(), RunStopped)

    def test_the_user_is_asked_by_the_hosts_own_function(self, watch):
        """
        The answer is a turn of the user's, and stands in for the call that was not made.
        """
        asked = []

        def ask(question):
            asked.append(question)
            return "look in the archive"

        boundary = watch(mode="enforce", ask=ask)
        with boundary.run("find it") as run:
            steers = look(run, 0, turns=10)

        assert "find it" in asked[0]
        assert "lookup called" in asked[0]
        assert ("deny", "Not called. The user says: look in the archive") == (
            steers[-1].verdict,
            steers[-1].text,
        )
        assert "user user look in the archive" in story(boundary)

    @pytest.mark.parametrize(("answer", "verdict"), [(True, "proceed"), (False, "stop")])
    def test_a_user_may_just_allow_or_refuse(self, watch, answer, verdict):
        """
        True lets the call go ahead, False ends the run.
        """
        boundary = watch(mode="enforce", ask=lambda _: answer)
        run = boundary.start_run("find it")

        assert verdict == look(run, 0, turns=10)[-1].verdict
        assert (answer is False) == isinstance(run.finish(), RunStopped)

    @pytest.mark.parametrize("ask", [lambda _: 1 / 0, lambda _: None])
    def test_a_question_that_cannot_be_put_stops(self, watch, quiet, ask):
        """
        Where nobody answers, the run ends as where nobody can be asked: the agent must not go on by itself.
        """
        boundary = watch(mode="enforce", ask=ask)
        run = boundary.start_run("find it")

        assert "stop" == look(run, 0, turns=10)[-1].verdict
        assert isinstance(run.finish(), RunStopped)

    @pytest.mark.parametrize(("answer", "verdict"), [("Yes.", "proceed"), ("no", "stop")])
    def test_yes_and_no_are_understood(self, watch, answer, verdict):
        """
        What a user types at a prompt counts as what it means, and is kept as it was typed.
        """
        boundary = watch(mode="enforce", ask=lambda _: answer)
        run = boundary.start_run("find it")

        assert verdict == look(run, 0, turns=10)[-1].verdict
        run.end()
        assert f"user user {answer}" in story(boundary)

    def test_no_ends_the_run_where_only_the_model_can_be_stopped(self, watch):
        """
        Where a call can only be refused, a no refuses it and stops the run at the next model call.
        """
        can = {"before_model": {"guide", "stop"}, "before_tool": {"deny", "ask"}}
        boundary = watch(can, mode="enforce", ask=lambda _: "no")
        run = boundary.start_run("find it")
        refused = [it.text for it in look(run, 0, turns=10) if it.verdict == "deny"]

        assert "Not called: the run is being stopped." in refused
        assert "stop" == run.before_model().verdict
        assert isinstance(run.finish(), RunStopped)

    def test_the_question_names_the_goal_that_holds_now(self, watch):
        """
        After the user has set another task, a question to them is about that task.
        """
        asked = []
        boundary = watch(mode="enforce", ask=lambda question: asked.append(question) or "go on")
        run = boundary.start_run("Book a flight to Oslo")
        run.after_model(ModelReply(text="I have booked the flight to Oslo for you, it leaves on Monday."))
        run.record_user_message("Forget the flight. New task: translate the rental contract into French.")
        look(run, 0, turns=10)

        assert "translate the rental contract into French" in asked[0]
        assert "Oslo" not in asked[0].partition("Noticed")[0]

    def test_a_batch_is_asked_about_once(self, watch, monkeypatch):
        """
        Four calls at once that all need the user's word bring one question, and one grant.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_STEPS", "20")
        asked = []

        def ask(question):
            asked.append(question)
            time.sleep(0.05)
            return True

        boundary = watch(mode="enforce", ask=ask)
        with boundary.run("find it") as run:
            while not boundary.monitor.budget(run.run_id).exhausted:
                run.before_tool(f"c{len(asked)}", "fetch")
                run.after_tool(f"c{len(asked)}", f"page {boundary.monitor.count_events(run.run_id)}")
                asked.clear()
            calls = [
                threading.Thread(target=run.before_tool, args=(f"x{n}", "fetch", {"page": n}))
                for n in range(4)
            ]
            for call in calls:
                call.start()
            for call in calls:
                call.join()

        assert 1 == len(asked)
        assert 1 == story(boundary).count("user user Go on.")

    def test_an_answer_about_a_used_up_budget_is_worth_a_quarter_of_it(self, watch, monkeypatch):
        """
        A user who answers wants the agent to go on: it gets a quarter more, and asks again when that is gone.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_STEPS", "8")
        asked = []
        boundary = watch(mode="enforce", ask=lambda question: asked.append(question) or True)
        with boundary.run("find it") as run:
            for n in range(16):
                if run.before_tool(f"c{n}", "fetch", {"page": n}).verdict == "proceed":
                    run.after_tool(f"c{n}", f"page {n}")
            # 8, and a quarter of it is 10, and a quarter of that 13, and a quarter of that 17
            assert (3, 17) == (len(asked), boundary.monitor.budget(run.run_id).steps_limit)

    def test_an_answer_about_a_used_up_day_is_worth_a_quarter_of_it(self, watch, monkeypatch):
        """
        A user who answers raises the day's budget, and another run of the day has it too.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_DAILY_STEPS", "8")
        asked = []
        boundary = watch(mode="enforce", ask=lambda question: asked.append(question) or True)
        for name in ("one", "two"):
            with boundary.run("find it") as run:
                for n in range(6):
                    if run.before_tool(f"{name}{n}", "fetch", {"page": n}).verdict == "proceed":
                        run.after_tool(f"{name}{n}", f"page {name} {n}")

        daily = boundary.monitor.daily_budget()
        assert (2, 12, 13) == (len(asked), daily.steps_used, daily.steps_limit)
        assert all("the agent's daily budget is used up" in question for question in asked)

    def test_the_call_after_a_rollback_is_recorded(self, watch):
        """
        A rollback changes what the model is given: the call is made, and its reply is an event.
        """
        boundary = watch(mode="enforce")
        with boundary.run("find it") as run:
            steers = look(run, 1, turns=7)
            before = run.before_model(key="m", state="8")
            run.after_model(ModelReply(text="back"), key="m")

        assert "rollback" == before.verdict
        assert "rollback" not in [it.verdict for it in steers]
        assert "llm llm back" in story(boundary)

    def test_a_rollback_that_fails_is_not_asked_for_again(self, watch):
        """
        An adapter that cannot go back says so: what comes next is stronger, and the loop does not go on.
        """
        boundary = watch(mode="enforce")
        run, verdicts = boundary.start_run("find it"), []
        for turn in range(1, 40):
            steers = look(run, turn)
            verdicts += [it.verdict for it in steers]
            if steers[0].verdict == "rollback":
                run.report_failed_rollback("the conversation is not here any more")

        assert isinstance(run.finish(), RunStopped)
        assert (1, "stop") == (verdicts.count("rollback"), verdicts[-1])
        assert len(story(boundary)) < 60

    def test_what_came_too_late_is_reported(self, watch):
        """
        An answer that nobody could carry out before the agent was done is not judged.
        """
        boundary = watch(mode="guide")
        with boundary.run("find it") as run:
            look(run, 0, turns=3)
        boundary.monitor.flush()
        (incident,) = boundary.monitor.store.list_incidents("agent")

        assert "the agent had finished" in incident.interventions[-1].not_carried_out


class TestFailing:
    def test_an_error_of_ours_never_reaches_the_agent(self, watch, quiet, monkeypatch):
        """
        With `on_failure` open a step that cannot be judged passes, and is counted.
        """
        boundary = watch(mode="enforce")
        monkeypatch.setattr(Capture, "encode", lambda *_: 1 / 0)
        with boundary.run("find it") as run:
            assert "proceed" == look(run, 0)[-1].verdict
        assert boundary.monitor.status()["losses"]

    def test_closed_lets_nothing_pass_unjudged(self, watch, quiet, monkeypatch):
        """
        With `on_failure` closed, in enforce mode, a step that cannot be judged does not pass.
        """
        monkeypatch.setenv("STEADYHELM_ON_FAILURE", "closed")
        boundary = watch(mode="enforce")
        run = boundary.start_run("find it")
        monkeypatch.setattr(Capture, "encode", lambda *_: 1 / 0)

        assert "deny" == run.before_tool("c1", "lookup").verdict
        run.after_model(ModelReply(text="hm"))
        assert "stop" == run.before_model().verdict
        assert "could not judge" in str(run.stopped)

    def test_closed_holds_for_a_run_that_could_not_begin(self, watch, quiet, monkeypatch):
        """
        A run that we failed to begin is not judged at all: with `on_failure` closed it does not go on.
        """
        monkeypatch.setenv("STEADYHELM_ON_FAILURE", "closed")
        boundary = watch(mode="enforce", make_detectors=lambda: 1 / 0)
        run = boundary.start_run("find it")

        assert "stop" == run.before_tool("c1", "lookup").verdict

    def test_closed_means_nothing_where_nothing_may_be_refused(self, watch, quiet, monkeypatch):
        """
        In guide mode nothing is ever refused, whatever `on_failure` says.
        """
        monkeypatch.setenv("STEADYHELM_ON_FAILURE", "closed")
        boundary = watch(mode="guide")
        run = boundary.start_run("find it")
        monkeypatch.setattr(Capture, "encode", lambda *_: 1 / 0)

        assert CONTINUE == run.before_tool("c1", "lookup")

    def test_ask_must_be_a_plain_function(self, watch):
        """
        A wrong `ask` is said at once, not when the user is needed.
        """

        async def later(question):
            return question

        with pytest.raises(SettingsError, match="ask must be a function"):
            watch(ask="me")
        with pytest.raises(SettingsError, match="ask must be a plain function"):
            watch(ask=later)

    def test_a_monitor_must_be_one(self):
        """
        What is no monitor is said at once.
        """
        with pytest.raises(SettingsError, match="watched by a monitor"):
            Boundary("agent", "test", ALL)

    def test_errors_without_words_are_errors_all_the_same(self, watch):
        """
        An exception whose own words raise is told by its name, and the run ends.
        """

        class Wordless(Exception):  # noqa: N818 - it has no words at all
            def __str__(self):
                raise RuntimeError("no words")

        boundary = watch()
        problem = Wordless()
        run = boundary.start_run("go")
        run.before_tool("c1", "fetch")
        run.after_tool("c1", error=problem)

        assert problem is run.finish(problem)
        assert ["user user go", "tool fetch !Wordless"] == story(boundary)
        assert 0 == boundary.monitor.status()["live_runs"]

    @pytest.mark.parametrize("leaves", [KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()])
    def test_what_is_no_failure_stays_itself(self, watch, leaves):
        """
        Whoever presses the keys, or cancels a task, gets what they asked for, also from a stopped run.
        """
        boundary = watch(STOPS, mode="enforce")
        run = boundary.start_run("find it")
        look(run, 0, turns=20)

        assert run.stopped is not None
        assert leaves is run.finish(leaves)

    def test_disabled_is_disabled(self, watch, monkeypatch):
        """
        With everything turned off an adapter changes nothing and keeps nothing.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        boundary = watch(mode="enforce")
        with boundary.run("find it") as run:
            assert {"proceed"} == {it.verdict for it in look(run, 0, turns=10)}


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["before", "after"]), st.integers(0, 3), st.sampled_from(["hooks", "bus"])),
        max_size=30,
    )
)
def test_whatever_order_surfaces_speak_in_each_attempt_is_one_event(tmp_path_factory, told):
    """
    A call is told as often as its owner began it, whatever the others say, and whatever comes first.
    """
    monitor = DriftMonitor("agent", db_path=tmp_path_factory.mktemp("db") / "x.db")
    boundary = Boundary(monitor, "test", STOPS)
    owners, began = {}, 0
    with boundary.run("go") as run:
        for what, call, surface in told:
            if what == "after":
                run.after_tool(f"c{call}", "yes", surface=surface)
                continue
            run.before_tool(f"c{call}", "fetch", surface=surface)
            began += owners.setdefault(call, surface) == surface
    monitor.flush()
    events = monitor.store.get_run_traces("agent", run.run_id)
    monitor.close()

    assert began == sum(it.action_type == "tool_call" for it in events)


def test_threads_of_one_run_lose_nothing(watch):
    """
    Parallel tools in threads of their own are all told, each once.
    """
    boundary = watch()
    with boundary.run("go") as run:

        def work(n):
            for turn in range(20):
                run.before_tool(f"{n}.{turn}", "fetch", {"page": n})
                run.after_tool(f"{n}.{turn}", n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    boundary.monitor.flush()

    calls = [it.call_id for it in boundary.monitor.store.get_run_traces("agent", run.run_id) if it.call_id]
    assert 80 == len(calls) == len(set(calls))


class TestLimits:
    def test_a_limit_nobody_set_is_noticed_and_no_more(self, watch):
        """
        A run past a default limit gets a LOW finding: no alert, no incident, no guidance, and it goes on.
        """
        boundary = watch(mode="enforce")
        with boundary.run("read it all") as run:
            for n in range(30):
                assert "proceed" == run.before_model().verdict
                run.after_model(ModelReply(text=f"page {n} tells of {n * n} things", input_tokens=5_000))
        boundary.monitor.flush()
        found = boundary.monitor.store.get_drift_events("agent", run_id=run.run_id, limit=99)

        assert {"LOW"} == {it.severity for it in found if it.detector == "resource_spike"}
        assert "tokens spent in this run, the limit is 50,000" in found[-1].message
        assert [] == boundary.monitor.get_recent_alerts()
        assert [] == boundary.monitor.store.list_incidents("agent")

    def test_a_limit_that_was_set_is_acted_on(self, watch):
        """
        The same run past a limit of the user's own does not go on for ever.
        """
        boundary = watch(mode="enforce", absolute_token_limit=20_000)
        run = boundary.start_run("read it all")
        for n in range(30):
            if run.before_model().verdict == "stop":
                break
            run.after_model(ModelReply(text=f"page {n} tells of {n * n} things", input_tokens=5_000))

        assert isinstance(run.finish(), RunStopped)


class TestLife:
    def test_runs_nest_as_deep_as_they_like(self, watch):
        """
        A run deep inside others is the child of the run around it, and each of them goes on after it.
        """
        boundary, deep = watch(), 80
        with ExitStack() as stack:
            runs = [stack.enter_context(boundary.run(f"part {n}")) for n in range(deep)]
            assert runs[-1].run_id == boundary.monitor.current_run
        boundary.monitor.flush()
        parents = [boundary.monitor.store.find_run(run.run_id).parent_run_id for run in runs]

        assert [None, *(run.run_id for run in runs[:-1])] == parents
        assert boundary.monitor.current_run is None

    def test_a_run_of_the_host_around_many_stays_the_current_one(self, watch):
        """
        When forty runs inside a run of the host's are over, what comes next belongs to the host's run.
        """
        monitor = watch().monitor
        with monitor.run(goal="the day") as day, ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(monitor.run(goal="a part"))
            stack.close()

            assert day.run_id == monitor.current_run

    def test_a_task_that_outlives_its_agent_begins_a_run_of_its_own(self, watch):
        """
        What goes on in the context of a run that has ended does not belong to it any more.
        """
        boundary = watch()
        with boundary.run("first") as first:
            context = contextvars.copy_context()
        second = context.run(boundary.start_run, "second")
        second.end()

        assert first.run_id != second.run_id
        assert ["user user second"] == story(boundary, second.run_id)

    def test_a_run_put_aside_comes_back_as_it_was(self, watch):
        """
        A run that had to make room goes on with its next step: what can be done in it is the same.
        """
        boundary = watch(STOPS, mode="enforce")
        with boundary.run("all") as parent:
            child = boundary.start_run("part", agent="clerk")
        boundary.monitor.suspend(child.run_id)
        child.after_model(ModelReply(text="more"))
        live = boundary.monitor.runs.get(child.run_id)

        assert {"proceed", "stop"} == live.session.can
        assert (parent.run_id, "clerk") == (live.session.run.parent_run_id, live.session.run.task_type)
        assert boundary.monitor.current_run is None

    def test_children_are_sampled_with_their_parents(self, watch):
        """
        Where only some runs are watched, a run inside another is watched if that one is.
        """
        boundary = watch(sample_rate=0.5)
        for _ in range(20):
            with boundary.run("outer"), boundary.run("inner"):
                pass
        found = ended(boundary)

        assert 2 * sum(run.parent_run_id is None for run in found) == len(found)

    def test_closing_the_monitor_does_not_hurt_a_run(self, watch, quiet):
        """
        An agent whose monitor was closed goes on, and ends.
        """
        boundary = watch()
        run = boundary.start_run("go")
        boundary.monitor.close()
        run.before_tool("c1", "fetch")
        run.after_tool("c1", "page")

        assert run.finish() is None

    def test_a_checkpoint_of_the_hosts_own_is_not_ours_to_return_to(self, watch):
        """
        In a run of the host's, only a state this adapter knows can be returned to; else the words are said.
        """
        boundary = watch(mode="enforce", make_detectors=lambda: [Alarm(at=1)])
        with boundary.monitor.run(goal="the day"):
            boundary.monitor.checkpoint(label="before the refactoring")
            run = boundary.start_run("go")
            run.before_tool("c1", "fetch")
            run.after_tool("c1", "page")

            assert "guide" == run.before_model(state="4").verdict

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
    def test_a_fork_of_a_fork_goes_on_under_its_own_name(self, watch, tmp_path):
        """
        In a child of a child the run goes on as a run of that process, and its locks are free.
        """
        boundary = watch()
        run = boundary.start_run("go")
        run.lock.acquire()  # as another thread might, at that very moment
        told = tmp_path / "told"
        if (child := os.fork()) == 0:
            if (grandchild := os.fork()) == 0:
                run.before_tool("c1", "fetch")
                run.after_tool("c1", "page")
                told.write_text(str(boundary.monitor.status()["live_runs"]))
                os._exit(0)
            os.waitpid(grandchild, 0)
            os._exit(0)
        os.waitpid(child, 0)
        run.lock.release()

        assert "1" == told.read_text()
