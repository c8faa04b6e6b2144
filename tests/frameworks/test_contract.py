"""What every adapter promises: one table of scenes, played by every framework in every way it has."""

import asyncio
import itertools

import pytest
from conftest import WANTED, stage_of
from script import GOAL, Ask, Scene, Turn
from spies import TOUCHED
from watched import events_of, guidance_of, line, runs_of, story

from steadyhelm import RunStopped
from steadyhelm.testing.doubles import Alarm


def calls(tool, *several, first=1, **args):
    """A turn of the model that asks for calls; `several` are the arguments of more than one."""
    wanted = several or (args,)
    return Turn(calls=tuple(Ask(tool, each, f"c{first + n}") for n, each in enumerate(wanted)))


def lookups(n, key="a"):
    """The same look-up, turn after turn."""
    return [Turn(calls=(Ask("lookup", {"key": key}, f"c{n}"),)) for n in range(1, n + 1)]


def steps(monitor, action_type):
    """The steps of one type in the first run."""
    events = events_of(monitor, runs_of(monitor)[0].run_id)
    return [event for event in events if event.action_type == action_type]


ONE_CALL = Scene(turns=[calls("add", a=1, b=2)])
SEVERAL_TURNS = Scene(
    turns=[calls("add", a=1, b=2), calls("lookup", first=2, key="x"), Turn(says="It is 3.")]
)
PARALLEL = Scene(turns=[calls("add", {"a": 1, "b": 2}, {"a": 3, "b": 4})])
FAILING_TOOL = Scene(turns=[calls("broken", what="ink")])
BAD_ARGUMENTS = Scene(turns=[calls("add", a="many", b=2)])
UNKNOWN_TOOL = Scene(turns=[calls("nowhere", to="go")])
MODEL_ERROR = Scene(turns=[calls("add", a=1, b=2), Turn(breaks=True)])
NESTED = Scene(
    turns=[calls("delegate", task="find the total")],
    inner=[calls("lookup", first=7, key="total"), Turn(says="there is none")],
)

STORIES = {
    "one call": (ONE_CALL, [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: done"]),
    "several turns": (
        SEVERAL_TURNS,
        [
            f"user: {GOAL}",
            "model: ",
            "add(a=1, b=2) -> 3",
            "model: ",
            "lookup(key=x) -> no entry for x",
            "model: It is 3.",
        ],
    ),
    "parallel calls": (
        PARALLEL,
        [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "add(a=3, b=4) -> 7", "model: done"],
    ),
    "a failing tool": (FAILING_TOOL, [f"user: {GOAL}", "model: ", "broken(what=ink) failed", "model: done"]),
    "bad arguments": (BAD_ARGUMENTS, [f"user: {GOAL}", "model: ", "add(a=many, b=2) failed", "model: done"]),
    "an unknown tool": (UNKNOWN_TOOL, [f"user: {GOAL}", "model: ", "nowhere(to=go) failed", "model: done"]),
    "a model error": (MODEL_ERROR, [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model failed"]),
    "a nested agent": (
        NESTED,
        [f"user: {GOAL}", "model: ", "delegate(task=find the total) -> there is none", "model: done"],
    ),
}


def pytest_generate_tests(metafunc):
    """Every framework that is asked for, in every way it has, and every scene it can play."""
    for_each = [(name, how) for name in WANTED for how in stage_of(name).ways]
    if "told" in metafunc.fixturenames:
        params = [
            pytest.param(stage_of(name), how, told_of(stage_of(name), scene), id=f"{name}-{how}-{scene}")
            for name, how in for_each
            for scene in STORIES
            if scene not in cannot(stage_of(name))
        ]
        metafunc.parametrize(("stage", "how", "told"), params)
    elif "how" in metafunc.fixturenames:
        params = [pytest.param(stage_of(name), how, id=f"{name}-{how}") for name, how in for_each]
        metafunc.parametrize(("stage", "how"), params)
    elif "stage" in metafunc.fixturenames:
        metafunc.parametrize("stage", [pytest.param(stage_of(name), id=name) for name in WANTED])


def cannot(stage):
    """What this framework cannot do, each with the reason."""
    return getattr(stage, "cannot", {})


def told_of(stage, scene):
    """A scene, and the steps that are to be seen; a framework may have a story of its own, and says why."""
    played, expected = STORIES[scene]
    return played, getattr(stage, "stories", {}).get(scene, expected)


def has_circle(error, above=()):
    """Return whether an exception is one of its own causes or contexts."""
    if error is None or error in above:
        return error is not None
    return any(has_circle(it, (*above, error)) for it in (error.__cause__, error.__context__))


class TestSeen:
    def test_every_step_is_seen_once(self, stage, how, told, monitors):
        """
        Every model call, tool call, error and user turn is one event, in order, however the agent is called.
        """
        scene, expected = told
        monitor = monitors()
        played = stage.play(scene, monitor, how)

        # Where the framework ends the run at an error there are no further turns to see.
        expected = expected[:-1] if played.error is not None and expected[-1] == "model: done" else expected
        assert expected == story(monitor)

    def test_the_host_notices_nothing(self, stage, how, told, monitors):
        """
        Result, requests, calls, streamed parts and the host's own exception are those of an unwatched agent.
        """
        scene, _ = told
        bare = stage.play(scene, None, how)
        watched = stage.play(scene, monitors(), how)

        assert (bare.result, bare.requests) == (watched.result, watched.requests)
        assert sorted(map(str, bare.made)) == sorted(map(str, watched.made))  # a pool of threads has no order
        assert bare.streamed == watched.streamed
        assert (type(bare.error), str(bare.error)) == (type(watched.error), str(watched.error))

    def test_nothing_is_lost_or_swallowed(self, stage, how, told, monitors):
        """
        Nothing had to be counted as lost, and the run has ended with an outcome that says how.
        """
        scene, _ = told
        monitor = monitors()
        played = stage.play(scene, monitor, how)

        assert {} == monitor.status()["losses"]
        assert 0 == monitor.status()["live_runs"]
        outcome = "done" if played.error is None else f"error: {type(played.error).__name__}"
        assert outcome == runs_of(monitor)[0].outcome


class TestUntouched:
    """Objects of the host are looked at by their types alone."""

    @pytest.mark.parametrize("tool", ["lookup", "broken"])
    def test_nothing_is_asked_of_what_a_tool_returns_or_raises(self, stage, how, tool, monitors):
        """
        Whatever a tool returns or raises: we ask for nothing but an error's text, and lose nothing.
        """
        if "spies" in cannot(stage):
            pytest.skip(stage.cannot["spies"])
        args = {"key": "spy"} if tool == "lookup" else {"what": "spy"}
        monitor = monitors("enforce")
        TOUCHED.clear()
        stage.play(Scene(turns=[calls(tool, **args)]), monitor, how)
        monitor.flush()

        assert [] == TOUCHED
        assert {} == monitor.status()["losses"]


class TestDetails:
    def test_calls_of_one_batch_share_where_they_were_asked_for(self, stage, how, monitors):
        """
        Two calls that the model asked for at once are one batch, whenever their results come.
        """
        monitor = monitors()
        stage.play(PARALLEL, monitor, how)

        batch = steps(monitor, "tool_call")
        assert 2 == len(batch)
        assert 1 == len({event.started_seq for event in batch})
        assert 2 == len({event.call_id for event in batch})

    def test_a_failure_is_told_in_the_tools_own_words(self, stage, how, monitors):
        """
        The error of a failed call says what the tool said, not what the framework made of it.
        """
        monitor = monitors()
        stage.play(FAILING_TOOL, monitor, how)

        (call,) = steps(monitor, "tool_call")
        assert "ink" in call.error

    def test_tokens_are_counted(self, stage, how, monitors):
        """
        Each model call brings the tokens it took, in and out.
        """
        monitor = monitors()
        stage.play(ONE_CALL, monitor, how)

        replies = steps(monitor, "llm_request")
        assert getattr(stage, "tokens", [15, 15]) == [event.token_count for event in replies]

    def test_an_agent_inside_an_agent_is_a_run_of_its_own(self, stage, how, monitors):
        """
        The inner agent's steps are a child run with its own task as goal; the outer run has one call of it.
        """
        if "a nested agent" in cannot(stage):
            pytest.skip(stage.cannot["a nested agent"])
        monitor = monitors()
        stage.play(NESTED, monitor, how)

        outer, inner = runs_of(monitor)
        assert (None, outer.run_id) == (outer.parent_run_id, inner.parent_run_id)
        assert "find the total" == inner.goal
        told = ["user: find the total", "model: ", "lookup(key=total) -> no entry for total"]
        assert [*told, "model: there is none"] == story(monitor, inner.run_id)

    def test_agents_at_the_same_time_do_not_mix(self, stage, monitors):
        """
        Two agents that work at the same time in one process are two runs, each with its own steps.
        """
        monitor = monitors()

        async def both():
            scenes = [Scene(turns=lookups(3, key), goal=f"find {key}") for key in "xy"]
            playing = [asyncio.to_thread(stage.play, scene, monitor, stage.ways[0]) for scene in scenes]
            await asyncio.gather(*playing)

        asyncio.run(both())

        stories = {run.goal: story(monitor, run.run_id) for run in runs_of(monitor)}
        for key in "xy":
            step = ["model: ", f"lookup(key={key}) -> no entry for {key}"]
            assert [f"user: find {key}", *step * 3, "model: done"] == stories[f"find {key}"]

    def test_a_run_of_the_hosts_own_is_joined(self, stage, monitors):
        """
        Inside `with monitor.run()` the agent's steps belong to that run: a conversation can be one run.
        """
        monitor = monitors()
        with monitor.run(goal="keep the books") as run:
            stage.play(ONE_CALL, monitor, stage.ways[0])
            stage.play(ONE_CALL, monitor, stage.ways[0])

        _, expected = STORIES["one call"]
        assert [run.run_id] == [it.run_id for it in runs_of(monitor)]
        assert [*expected, *expected] == story(monitor)


class TestSteered:
    def test_words_reach_the_model(self, stage, how, monitors):
        """
        In guide mode what was noticed is said to the model with its next request, and every call goes ahead.
        """
        monitor = monitors("guide")
        played = stage.play(Scene(turns=lookups(4)), monitor, how)

        said = guidance_of(monitor)[0]
        assert not any(said in request for request in played.requests[:3])
        assert said in played.requests[3]
        assert (4, "done") == (len(played.made), played.result)

    def test_observe_mode_says_nothing(self, stage, how, monitors):
        """
        By default nothing is said, whatever is noticed.
        """
        bare = stage.play(Scene(turns=lookups(8)), None, how)
        watched = stage.play(Scene(turns=lookups(8)), monitors(), how)

        assert (bare.requests, bare.made) == (watched.requests, watched.made)

    def test_a_fruitless_call_is_refused(self, stage, how, monitors):
        """
        In enforce mode the fifth identical call is not made; the model hears why, and the agent goes on.
        """
        if "deny" in cannot(stage):
            pytest.skip(stage.cannot["deny"])
        monitor = monitors("enforce")
        played = stage.play(Scene(turns=lookups(5)), monitor, how)

        assert (4, "done") == (len(played.made), played.result)
        refused = [
            event
            for event in events_of(monitor, runs_of(monitor)[0].run_id, told=True)
            if event.action_name == "call_refused"
        ]
        assert 1 == len(refused)
        assert refused[0].metadata["reason"] in played.requests[5]

    def test_a_run_that_goes_on_and_on_is_stopped(self, stage, how, monitors):
        """
        In enforce mode an agent that does not listen ends with RunStopped, whatever its framework does.
        """
        monitor = monitors("enforce")
        played = stage.play(Scene(turns=lookups(30)), monitor, how)

        assert RunStopped is type(played.error)
        assert not has_circle(played.error)
        run = runs_of(monitor)[0]
        assert (run.run_id, "stopped") == (played.error.run_id, run.outcome)
        # Where calls cannot be refused they are made, until the answers to them have been ignored.
        assert 4 <= len(played.made) <= (12 if "deny" in cannot(stage) else 6)
        assert len(played.requests) <= 12

    def test_the_user_is_asked(self, stage, how, monitors):
        """
        Where the user can be asked they are; their answer is a turn of theirs, and reaches the model.
        """
        if "ask" in cannot(stage):
            pytest.skip(stage.cannot["ask"])
        monitor = monitors("enforce")
        # An agent that is taken back by a denied call is, before anybody is asked.
        asked_at = 9 if "rollback" in cannot(stage) else 10
        turns = lookups(12 if "deny" in cannot(stage) else asked_at)
        scene = Scene(turns=turns, answers=["look in the archive", "and then stop"])
        played = stage.play(scene, monitor, how)

        assert (None, "done") == (played.error, played.result)
        told = [line(it) for it in events_of(monitor, runs_of(monitor)[0].run_id)]
        assert "user: look in the archive" in told
        assert any("look in the archive" in request for request in played.requests)

    def test_the_agent_is_taken_back(self, stage, how, monitors):
        """
        A confirmed loop takes the agent back: the model does not see what came since, but hears why.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=3)])
        turns = [calls("add", a=1, b=2), calls("lookup", first=2, key="x"), calls("lookup", first=3, key="y")]
        played = stage.play(Scene(turns=turns), monitor, how)

        if "rollback" in cannot(stage):
            # What cannot be carried out is reported, and must not fade away.
            assert RunStopped is type(played.error)
            assert "rollback" == played.error.decision.wanted
            return
        assert (None, "done") == (played.error, played.result)
        assert GOAL in played.requests[3]
        assert "no entry for" not in played.requests[3]
        assert guidance_of(monitor)[0] in played.requests[3]
        assert len(played.requests) == len(steps(monitor, "llm_request"))

    def test_an_agent_that_repeats_denied_calls_is_taken_back(self, stage, how, monitors):
        """
        Calls that were denied and are asked for again lead to a rollback: the model no longer sees them.
        """
        for missing in {"deny", "rollback"} & set(cannot(stage)):
            pytest.skip(stage.cannot[missing])
        monitor = monitors("enforce")
        played = stage.play(Scene(turns=lookups(8)), monitor, how)

        returns = [
            event
            for event in events_of(monitor, runs_of(monitor)[0].run_id, told=True)
            if event.action_name == "rolled_back"
        ]
        assert 1 == len(returns)
        seen = [request.count("no entry for") for request in played.requests]
        assert any(later < earlier for earlier, later in itertools.pairwise(seen)), seen
        assert len(played.requests) == len(steps(monitor, "llm_request"))

    def test_a_stop_of_the_models_own_making_passes_unchanged(self, stage, how, monitors):
        """
        In enforce mode too the host's own exception is the host's own.
        """
        bare = stage.play(MODEL_ERROR, None, how)
        watched = stage.play(MODEL_ERROR, monitors("enforce"), how)

        assert (type(bare.error), str(bare.error)) == (type(watched.error), str(watched.error))
        assert watched.error is not None
