import asyncio
import contextlib
import gc
import threading

import pytest
from fake_endpoints import FakeEndpoint
from script import Ask, ModelBroke, Played, Scene, Turn
from stages.crewai import ScriptedModel, TheStage, make_tools
from watched import comes_true, events_of, guidance_of, line, runs_of, story

# isort: split
from crewai import LLM, Agent, Crew, Process, Task
from crewai.events import crewai_event_bus
from crewai.events.stream_context import _stream_sinks
from crewai.flow.flow import Flow, listen, start
from crewai.hooks import HookAborted, InterceptionPoint, get_hooks, register_hook, unregister_hook
from crewai.hooks.dispatch import get_scoped_hooks, scoped_hooks
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure

from steadyhelm import RunStopped, SettingsError
from steadyhelm.adapters.crewai import CrewAIAdapter, DriftCrew, watch_crews
from steadyhelm.adapters.crewai.calls import ModelCalls, ToolCalls
from steadyhelm.testing.doubles import Alarm

STAGE = TheStage()
ANYTHING = "the answer"
FOUND = ["model: ", "lookup(key=x) -> no entry for x", "model: nothing"]


def call(name, call_id="c1", **args):
    """A turn that asks for one call."""
    return Turn(calls=(Ask(name, args, call_id),))


def lookups(n, key="a"):
    """The same look-up, turn after turn."""
    return [call("lookup", f"c{n}", key=key) for n in range(1, n + 1)]


FINDS = (call("lookup", key="x"), Turn("nothing"))


class Rude:
    """Something that does not like to be looked at."""

    def __str__(self):
        raise RuntimeError("none of your business")

    @property
    def __class__(self):
        raise RuntimeError("none of your business")


class Office:
    """Agents and crews on their scripts, and what their tools were really called with."""

    def __init__(self, stage=STAGE):
        self.stage, self.played = stage, Played()
        self.tools = make_tools(self.played)

    def agent(self, *turns, role="clerk", tools=None):
        return self.stage.agent(role, turns, self.played.requests, self.tools if tools is None else tools)

    def task(self, description, *turns, **options):
        agent = self.agent(
            *turns, role=options.pop("role", f"clerk to {description}"), tools=options.pop("tools", None)
        )
        return Task(description=description, expected_output=ANYTHING, agent=agent, **options)

    def crew(self, *tasks, **options):
        return Crew(agents=[task.agent for task in tasks], tasks=list(tasks), cache=False, **options)

    def crew_of_two(self, **options):
        adds = self.task("add {what}", call("add", a=1, b=2), Turn("three"), role="adder")
        return self.crew(adds, self.task("find {what}", *FINDS, role="finder"), **options)


@pytest.fixture
def office():
    """An office with native tool calls and a model that the bus hears."""
    return Office()


@pytest.fixture
def hook():
    """Registers a hook of somebody else, for everybody in the process, and takes it away again."""
    registered = []

    def register(point, function):
        register_hook(point, function)
        registered.append((point, function))

    yield register
    for point, function in registered:
        unregister_hook(point, function)


KICKOFFS = {
    "kickoff": lambda crew: crew.kickoff(inputs={"what": "it"}),
    "kickoff_async": lambda crew: asyncio.run(crew.kickoff_async(inputs={"what": "it"})),
    "akickoff": lambda crew: asyncio.run(crew.akickoff(inputs={"what": "it"})),
}
SEVERAL = [{"what": "this"}, {"what": "that"}]


def abort(_context):
    """A hook that aborts."""
    raise HookAborted("enough", "the user")


def aborted(crew):
    """What the caller of an unwatched crew receives when a hook aborts; older CrewAI makes another error."""
    with scoped_hooks({InterceptionPoint.PRE_MODEL_CALL: [abort]}), pytest.raises(Exception) as received:  # noqa: PT011
        crew.kickoff()
    return received.value


def goals(monitor):
    """The goals of all runs, each with that of the run it is in."""
    runs = {run.run_id: run for run in runs_of(monitor)}
    above = {run_id: runs.get(run.parent_run_id) for run_id, run in runs.items()}
    return sorted((run.goal, getattr(above[run_id], "goal", None)) for run_id, run in runs.items())


def story_of(monitor, goal):
    """The steps of the run with this goal, without the user's words."""
    (run,) = [run for run in runs_of(monitor) if run.goal == goal]
    return story(monitor, run.run_id)[1:]


def tool_calls(monitor):
    """The tool calls of the oldest run."""
    events = events_of(monitor, runs_of(monitor)[0].run_id)
    return [event for event in events if event.action_type == "tool_call"]


class TestRuns:
    @pytest.mark.parametrize("kickoff", KICKOFFS.values(), ids=KICKOFFS)
    @pytest.mark.parametrize("at_once", [False, True], ids=["in turn", "at once"])
    def test_each_task_of_a_crew_is_a_run_inside_it(self, office, monitors, kickoff, at_once):
        """
        A crew's goal is what its tasks say, with the inputs in it; each task is a run with a goal of its own.
        """
        monitor = monitors()
        crew = office.crew_of_two()
        crew.tasks[0].async_execution = at_once
        kickoff(monitor.wrap(crew))

        whole = "add it\nfind it"
        assert [("add it", whole), (whole, None), ("find it", whole)] == goals(monitor)
        assert ["model: ", "add(a=1, b=2) -> 3", "model: three"] == story_of(monitor, "add it")
        assert FOUND == story_of(monitor, "find it")

    def test_a_goal_may_be_given(self, office, monitors):
        """
        Whoever knows better than the tasks what it is all about says so.
        """
        monitor = monitors()
        monitor.wrap(office.crew_of_two(), goal="keep the {what}").kickoff(inputs={"what": "books"})

        assert "keep the books" == runs_of(monitor)[0].goal

    def test_a_coworker_is_a_run_inside_that_of_the_manager(self, office, monitors):
        """
        What a manager hands on to a coworker is a run with that as its goal; the manager has one call of it.
        """
        monitor = monitors()
        worker = office.agent(*FINDS, role="worker")
        wants = {"task": "look x up", "context": "none", "coworker": "worker"}
        boss = office.agent(call("delegate_work_to_coworker", **wants), Turn("told"), role="boss", tools=[])
        boss.allow_delegation = True
        task = Task(description="find x", expected_output=ANYTHING)
        crew = Crew(agents=[worker], tasks=[task], process=Process.hierarchical, manager_agent=boss)
        monitor.wrap(crew).kickoff()

        assert [("find x", None), ("look x up", "find x")] == goals(monitor)
        assert FOUND == story_of(monitor, "look x up")
        assert 3 == len(story_of(monitor, "find x"))

    @pytest.mark.parametrize("way", ["kickoff_for_each", "kickoff_for_each_async", "akickoff_for_each"])
    def test_a_crew_for_each_input_is_a_run_for_each(self, office, monitors, way):
        """
        A crew that is kicked off for several inputs, in turn or at once, is as many runs.
        """
        monitor = monitors()
        results = getattr(monitor.wrap(office.crew_of_two()), way)(inputs=SEVERAL)
        results = asyncio.run(results) if asyncio.iscoroutine(results) else results

        assert 2 == len(results)
        assert ["add that\nfind that", "add this\nfind this"] == [
            it for it, above in goals(monitor) if not above
        ]
        assert 6 == len(goals(monitor))
        assert 0 == monitor.status()["live_runs"]

    def test_streams_for_each_input_are_a_run_for_each(self, office, monitors):
        """
        Where each input gives a stream, each stream is a run, and belongs to it while it is read.
        """
        monitor = monitors()
        streams = monitor.wrap(office.crew_of_two(stream=True)).kickoff_for_each(inputs=SEVERAL)
        for parts in zip(*streams, strict=False):
            assert parts
        assert ["done", "nothing"] == sorted(_read(stream).result.raw for stream in streams)

        assert 2 == len([above for _, above in goals(monitor) if above is None])
        assert ({}, 0) == (monitor.status()["losses"], monitor.status()["live_runs"])

    @pytest.mark.parametrize(
        "ask",
        [
            lambda agent: agent.kickoff("find x"),
            lambda agent: asyncio.run(agent.kickoff_async("find x")),
            lambda agent: asyncio.run(agent.akickoff(messages=[{"role": "user", "content": "find x"}])),
            lambda agent: agent.message("find x"),
            lambda agent: asyncio.run(_awaited(lambda: agent.kickoff("find x"))),
        ],
        ids=["kickoff", "kickoff_async", "akickoff", "message", "kickoff inside a loop"],
    )
    def test_an_agent_may_work_without_a_crew(self, office, monitors, ask):
        """
        An agent that is asked by itself is a run with what it is asked as its goal.
        """
        monitor = monitors()
        ask(monitor.wrap(office.agent(*FINDS)))

        assert [("find x", None)] == goals(monitor)
        assert FOUND == story_of(monitor, "find x")

    @pytest.mark.parametrize("way", ["kickoff", "kickoff_async", "stream"])
    def test_a_flow_is_a_run_with_its_agents_inside(self, office, monitors, way):
        """
        A flow's own model calls are its steps, the agents it kicks off are runs inside it.
        """
        agent = office.agent(Turn("hello"), *FINDS)

        class Filing(Flow):
            """File {what}."""

            @start()
            def greet(self):
                return agent.llm.call([{"role": "user", "content": "hi"}])

            @listen(greet)
            def find(self):
                return agent.kickoff("find x")

        monitor = monitors()
        flow = Filing()
        flow.stream = way == "stream"
        result = getattr(monitor.wrap(flow), way.replace("stream", "kickoff"))(inputs={"what": "letters"})
        _read(result) if way == "stream" else asyncio.run(result) if way == "kickoff_async" else result

        assert [("File letters.", None), ("find x", "File letters.")] == goals(monitor)
        assert ["model: hello"] == story_of(monitor, "File letters.")
        assert FOUND == story_of(monitor, "find x")

    def test_a_crew_in_a_tool_is_a_run_inside_that_of_the_caller(self, office, monitors):
        """
        A crew that a tool of a watched crew kicks off is watched with it.
        """
        inner = office.crew(office.task("find x", *FINDS))
        crew = office.crew(office.task("hand it on", call("pass_on", what="x"), tools=[_runs(inner)]))
        monitor = monitors()
        monitor.wrap(crew).kickoff()

        assert [("find x", "hand it on"), ("hand it on", None)] == goals(monitor)

    def test_a_crew_with_a_monitor_of_its_own_is_told_to_that_one_only(self, office, monitors):
        """
        Two monitors do not mix: the inner crew is a run of its own monitor, inside a run of the outer one.
        """
        outer, inner = monitors(), monitors()
        watched = inner.wrap(office.crew(office.task("find x", *FINDS)))
        crew = office.crew(office.task("hand it on", call("pass_on", what="x"), tools=[_runs(watched)]))
        outer.wrap(crew).kickoff()

        (above,), (below,) = runs_of(outer), runs_of(inner)
        assert ("hand it on", "find x", above.run_id) == (above.goal, below.goal, below.parent_run_id)
        assert 4 == len(story(outer))
        assert FOUND == story_of(inner, "find x")

    def test_everything_in_a_block_can_be_watched(self, office, monitors):
        """
        `watch_crews` watches what is kicked off inside it, by whomever, and nothing else.
        """
        monitor = monitors()
        with watch_crews(monitor):
            office.crew(office.task("find x", *FINDS)).kickoff()
            office.agent(*FINDS).kickoff("find it too")
        office.agent(*FINDS).kickoff("unseen")

        assert [("find it too", None), ("find x", None)] == goals(monitor)

    def test_a_stop_leaves_the_block_as_such(self, office, monitors):
        """
        Whoever catches CrewAI's abort inside a watched block receives RunStopped at its end.
        """
        monitor = monitors("enforce")
        crew = office.crew(office.task("find", *lookups(30)))
        with pytest.raises(RunStopped), watch_crews(monitor), contextlib.suppress(HookAborted):
            crew.kickoff()

        assert [("find", None)] == goals(monitor)
        assert "stopped" == runs_of(monitor)[0].outcome


class TestModels:
    @pytest.mark.parametrize("how", ["sync", "async"])
    @pytest.mark.parametrize("text_calls", [False, True], ids=["native calls", "calls in words"])
    def test_a_model_that_tells_the_bus_nothing_is_seen_all_the_same(self, monitors, how, text_calls):
        """
        A model that somebody wrote themselves brings every reply and its tokens, by its own count.
        """
        monitor = monitors()
        turns = [call("add", a=1, b=2), call("lookup", "c2", key="x")]
        TheStage(silent=True, text_calls=text_calls).play(Scene(turns=turns), monitor, how)

        events = events_of(monitor, runs_of(monitor)[0].run_id)
        replies = [event for event in events if event.action_type == "llm_request"]
        assert ["user", "scripted", "add", "scripted", "lookup", "scripted"] == [
            it.action_name for it in events
        ]
        assert [15, 15, 15] == [event.token_count for event in replies]

    @pytest.mark.parametrize("silent", [False, True], ids=["heard", "not heard"])
    def test_every_attempt_of_an_agent_is_seen(self, office, monitors, silent):
        """
        CrewAI lets an agent whose model fails begin anew, twice: that is three model calls of one run.
        """
        monitor = monitors()
        model = ScriptedModel([Turn(breaks=True)] * 2, office.played.requests, silent=silent)
        agent = Agent(role="clerk", goal="to help", backstory="Hired.", llm=model, tools=office.tools)
        monitor.wrap(office.crew(Task(description="try", expected_output=ANYTHING, agent=agent))).kickoff()

        assert ["model failed", "model failed", "model: done"] == story_of(monitor, "try")
        failed = events_of(monitor, runs_of(monitor)[0].run_id)[1]
        assert "ModelBroke: no model" == failed.error

    def test_a_failure_is_told_where_it_happened(self, office, monitors):
        """
        An error ends the task and the crew; it is a step of the task only, and reaches the caller as it was.
        """
        monitor = monitors()
        crew = office.crew(office.task("add", Turn("three")), office.task("find", Turn(breaks=True)))
        with pytest.raises(ModelBroke, match="no model"):
            monitor.wrap(crew).kickoff()

        assert ["model failed"] == story_of(monitor, "find")
        assert [] == story_of(monitor, "add\nfind")
        assert ["done", *["error: ModelBroke"] * 2] == sorted(run.outcome for run in runs_of(monitor))

    @pytest.mark.parametrize("how", STAGE.ways)
    def test_a_provider_of_crewais_own_is_seen(self, office, monitors, how):
        """
        The real OpenAI provider over the wire: every reply, its tokens, and the calls under their own ids.
        """
        monitor = monitors()
        both = Turn(calls=(Ask("add", {"a": 1, "b": 2}, "c1"), Ask("add", {"a": 1, "b": 2}, "c2")))
        with FakeEndpoint([both]) as endpoint:
            crew = office.crew(_over_the_wire(office, endpoint), stream="stream" in how)
            STAGE._kicked_off(monitor.wrap(crew), how, office.played)

        made = ["add(a=1, b=2) -> 3"] * 2
        assert ["model:", *made, "model: done"] == [it.strip() for it in story(monitor)[1:]]
        assert {"c1", "c2"} == {event.call_id for event in tool_calls(monitor)}
        replies = [
            it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "llm_request"
        ]
        assert [(15, "gpt-4o")] * 2 == [(it.token_count, it.action_name) for it in replies]

    def test_a_provider_that_tells_its_failure_twice_failed_once(self, office, monitors):
        """
        CrewAI's OpenAI provider tells the bus of one refusal two times.
        """
        monitor = monitors()
        with FakeEndpoint([Turn(breaks=True)]) as endpoint, pytest.raises(Exception, match="no model"):
            monitor.wrap(office.crew(_over_the_wire(office, endpoint))).kickoff()

        assert ["model failed"] == story(monitor)[1:]

    def test_what_the_user_says_to_the_result_is_a_turn_of_theirs(self, office, monitors, monkeypatch):
        """
        A task with human input: the user's words are seen without what CrewAI puts around them.
        """
        answers = iter(["use more ink", ""])
        monkeypatch.setattr("builtins.input", lambda *_: next(answers))
        monitor = monitors()
        task = office.task("write", Turn("first"), Turn("second"), human_input=True)
        monitor.wrap(office.crew(task)).kickoff()

        assert ["model: first", "user: use more ink", "model: second"] == story_of(monitor, "write")

    def test_a_result_that_is_sent_back_goes_on_in_the_same_run(self, office, monitors):
        """
        A guardrail that refuses a result lets the agent try again: a loop over attempts is a loop of one run.
        """
        monitor = monitors()
        task = office.task("write", Turn("no"), Turn("yes"), guardrail=lambda it: (it.raw == "yes", it.raw))
        monitor.wrap(office.crew(task)).kickoff()

        assert ["model: no", "model: yes"] == story_of(monitor, "write")


class TestTools:
    def test_every_attempt_at_a_call_is_seen(self, monitors):
        """
        CrewAI makes a failing call that it read from a model's words three times: three calls, three ids.
        """
        monitor = monitors()
        TheStage(text_calls=True).play(Scene(turns=[call("broken", what="ink")]), monitor, "sync")

        calls = tool_calls(monitor)
        assert ["ToolBroke: ink"] * 3 == [event.error for event in calls]
        assert 3 == len({event.call_id for event in calls})
        assert 1 == len({event.started_seq for event in calls})

    @pytest.mark.parametrize("text_calls", [False, True], ids=["native calls", "calls in words"])
    @pytest.mark.parametrize("args", ["{nonsense", ""])
    def test_arguments_that_cannot_be_read_are_a_failed_call(self, monitors, text_calls, args):
        """
        A call whose arguments are no arguments is never made, and seen to have failed.
        """
        monitor = monitors()
        turn = Turn(calls=(Ask("lookup", args, "c1"),))
        played = TheStage(text_calls=text_calls).play(Scene(turns=[turn]), monitor, "sync")

        assert [] == played.made
        (event,) = tool_calls(monitor)
        assert event.error
        assert {} == monitor.status()["losses"]

    def test_a_tool_that_is_not_there_is_one_failed_call(self, monitors):
        """
        CrewAI looks for an unknown tool six times before it gives up; the model asked once.
        """
        monitor = monitors()
        TheStage(text_calls=True).play(Scene(turns=[call("nowhere", to="go")]), monitor, "sync")

        assert ["nowhere(to=go) failed"] == [line(event) for event in tool_calls(monitor)]

    def test_a_call_that_crewai_answers_itself_is_a_call(self, monitors):
        """
        Where CrewAI reads calls from words it does not make one again, but answers: the model asked for it.
        """
        monitor = monitors()
        played = TheStage(text_calls=True).play(Scene(turns=lookups(2)), monitor, "sync")

        first, second = (line(event) for event in tool_calls(monitor))
        assert (1, "lookup(key=a) -> no entry for a") == (len(played.made), first)
        assert second.startswith("lookup(key=a) -> I tried reusing the same input")

    def test_a_cached_result_is_a_call_too(self, office, monitors):
        """
        Where CrewAI's cache answers, the tool does not run; the agent called it all the same.
        """
        monitor = monitors()
        task = office.task("find", *lookups(2))
        monitor.wrap(Crew(agents=[task.agent], tasks=[task], cache=True)).kickoff()

        assert 1 == len(office.played.made)
        assert ["lookup(key=a) -> no entry for a"] * 2 == [line(event) for event in tool_calls(monitor)]

    @pytest.mark.parametrize("text_calls", [False, True], ids=["native calls", "calls in words"])
    def test_a_tool_that_says_it_failed_has_failed(self, monitors, text_calls):
        """
        A tool may give a failure back instead of raising it.
        """

        @tool
        def post(letter: str) -> ToolFailure:
            """Post a letter."""
            return ToolFailure(message=f"no stamp on {letter}")

        office = Office(TheStage(text_calls=text_calls))
        monitor = monitors()
        monitor.wrap(office.crew(office.task("post it", call("post", letter="A"), tools=[post]))).kickoff()

        assert ["no stamp on A"] == [event.error for event in tool_calls(monitor)]

    def test_functions_that_a_model_calls_itself_are_calls(self, office, monitors):
        """
        A model that is handed functions calls them without asking any hook: they are seen, as they went.
        """
        model = ScriptedModel([], [])

        def add(a: int, b: int) -> str:
            return str(a + b)

        class Summing(Flow):
            @start()
            def add(self):
                functions = {"add": add}
                model._handle_tool_execution("add", {"a": 1, "b": 2}, functions)
                model._handle_tool_execution("add", {"a": 1}, functions)

        monitor = monitors()
        monitor.wrap(Summing(), goal="sum").kickoff()

        assert ["add(a=1, b=2) -> 3", "add(a=1) failed"] == [line(event) for event in tool_calls(monitor)]

    @pytest.mark.parametrize("text_calls", [False, True], ids=["native calls", "calls in words"])
    def test_a_call_that_somebody_else_refuses_has_failed(self, monitors, hook, text_calls):
        """
        A hook of the user's own comes first: the call it refuses was asked for, and not made.
        """
        hook(InterceptionPoint.PRE_TOOL_CALL, lambda context: context.tool_name != "lookup")
        monitor = monitors()
        played = TheStage(text_calls=text_calls).play(Scene(turns=lookups(1)), monitor, "sync")

        assert ([], ["lookup(key=a) failed"]) == (played.made, [line(event) for event in tool_calls(monitor)])


class TestSteered:
    def test_a_refusal_reaches_a_model_that_calls_in_words(self, monitors):
        """
        The model hears our reason, not that some hook has blocked its call.
        """
        monitor = monitors("enforce")
        played = TheStage(text_calls=True).play(Scene(turns=lookups(6)), monitor, "sync")

        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        (refused, *_) = [event for event in told if event.action_name == "call_refused"]
        assert refused.metadata["reason"] in played.requests[-1]
        assert not any("blocked by hook" in request for request in played.requests)

    @pytest.mark.parametrize("way", [*KICKOFFS, "stream", "kickoff_for_each"])
    def test_a_stop_in_one_task_stops_the_crew(self, office, monitors, way):
        """
        The caller receives RunStopped with the run of the task that did not get on; no further task begins.
        """
        monitor = monitors("enforce")
        tasks = (
            office.task("add", Turn("three")),
            office.task("find", *lookups(30)),
            office.task("say", Turn("it")),
        )
        watched = monitor.wrap(office.crew(*tasks, stream=way == "stream"))
        ways = {
            **KICKOFFS,
            "stream": lambda crew: _read(crew.kickoff()),
            "kickoff_for_each": lambda crew: crew.kickoff_for_each(inputs=SEVERAL),
        }
        with pytest.raises(RunStopped) as stopped:
            ways[way](watched)

        outcomes = {run.goal: run.outcome for run in runs_of(monitor)}
        assert {"add\nfind\nsay": "stopped", "add": "done", "find": "stopped"} == outcomes
        assert ["find"] == [it.goal for it in runs_of(monitor) if it.run_id == stopped.value.run_id]
        assert type(aborted(office.crew(office.task("find")))) is type(stopped.value.__cause__)
        assert 0 == monitor.status()["live_runs"]

    def test_the_result_of_a_stopped_stream_is_the_stop(self, office, monitors):
        """
        Whoever looks at a stream's result after it was stopped receives RunStopped again.
        """
        stream = (
            monitors("enforce").wrap(office.crew(office.task("find", *lookups(30)), stream=True)).kickoff()
        )
        with pytest.raises(RunStopped):
            list(stream)
        with pytest.raises(RunStopped):
            _ = stream.result

    def test_a_stop_that_a_tool_swallows_holds(self, monitors):
        """
        CrewAI makes a failed call of an agent that was stopped inside a tool; the agent around it stops next.
        """
        monitor = monitors("enforce")
        scene = Scene(turns=[call("delegate", task="go on"), Turn("fine")], inner=lookups(30))
        played = STAGE.play(scene, monitor, "sync")

        assert RunStopped is type(played.error)
        assert 1 == len(played.requests)
        assert ["stopped", "stopped"] == [run.outcome for run in runs_of(monitor)]

    # CrewAI itself ends a run at the fifth equal answer since a rollback, where calls are native.
    @pytest.mark.parametrize(("text_calls", "times"), [(False, 10), (True, 12)], ids=["native", "in words"])
    def test_a_user_who_says_no_ends_the_run(self, monitors, text_calls, times):
        """
        The question goes to the host's own function; after a no there is no further model call.
        """
        asked = []
        office = Office(TheStage(text_calls=text_calls))
        monitor = monitors("enforce")
        crew = monitor.wrap(
            office.crew(office.task("find a", *lookups(times))), ask=lambda it: bool(asked.append(it))
        )
        with pytest.raises(RunStopped):
            crew.kickoff()

        assert ["find a" in it for it in asked] == [True]
        assert "stopped" == runs_of(monitor)[0].outcome

    @pytest.mark.parametrize(("text_calls", "times"), [(False, 10), (True, 12)], ids=["native", "in words"])
    def test_a_user_who_says_something_else_is_heard(self, monitors, text_calls, times):
        """
        The call is not made, and the model gets what the user said in place of its result.
        """
        office = Office(TheStage(text_calls=text_calls))
        crew = monitors("enforce").wrap(
            office.crew(office.task("find a", *lookups(times))), ask=lambda _: "look in the archive"
        )
        crew.kickoff()

        assert "The user says: look in the archive" in office.played.requests[-1]
        assert not any("blocked by hook" in request for request in office.played.requests)

    def test_a_conversation_that_was_rewritten_is_not_cut(self, office, monitors, hook):
        """
        After a summary there is nothing to return to: the words are said all the same, the rest is reported.
        """

        def summarise(context):
            if len(context.messages) > 6:
                context.messages[:] = [{"role": "user", "content": "so far: nothing"}]

        hook(InterceptionPoint.PRE_MODEL_CALL, summarise)
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=3)])
        task = office.task("find", *(call("lookup", f"c{n}", key=str(n)) for n in range(3)))
        monitor.wrap(office.crew(task)).kickoff()

        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert ["the conversation was rewritten since"] == [
            event.metadata["reason"] for event in told if event.action_name == "not_carried_out"
        ]
        assert office.played.requests[3].startswith("so far: nothing\n")
        assert "the same page again and again" in office.played.requests[3]


class TestGuest:
    def test_nothing_is_left_behind(self, office, monitors):
        """
        No hook and no listener stays with CrewAI, after success, failure, stop and streams.
        """
        before = _traces()
        monitor = monitors("enforce")
        monitor.wrap(office.crew(office.task("find", *FINDS))).kickoff()
        _read(monitor.wrap(office.crew(office.task("find", *FINDS), stream=True)).kickoff())
        with pytest.raises(ModelBroke):
            monitor.wrap(office.crew(office.task("find", Turn(breaks=True)))).kickoff()
        with pytest.raises(RunStopped):
            monitor.wrap(office.crew(office.task("find", *lookups(30)))).kickoff()

        assert before == _traces()

    def test_what_is_not_watched_is_not_seen(self, office, monitors):
        """
        A crew that works in another thread at the same time, unwatched, is nobody's business.
        """
        inside, seen = threading.Event(), threading.Event()

        @tool
        def wait(what: str) -> str:
            """Wait for the other crew."""
            inside.set()
            assert seen.wait(60)
            return what

        def other():
            assert inside.wait(60)
            Office().crew(Office().task("unseen", *FINDS)).kickoff()
            seen.set()

        monitor = monitors()
        thread = threading.Thread(target=other)
        thread.start()
        monitor.wrap(office.crew(office.task("wait", call("wait", what="it"), tools=[wait]))).kickoff()
        thread.join()

        assert [("wait", None)] == goals(monitor)
        assert ["model: ", "wait(what=it) -> it", "model: done"] == story_of(monitor, "wait")

    def test_crews_at_the_same_time_with_monitors_of_their_own_do_not_mix(self, monitors):
        """
        Each crew is told to its own monitor, whoever else works in the process.
        """
        watching = {key: monitors() for key in "abcd"}

        def work(key):
            office = Office()
            task = office.task(f"find {key}", *lookups(3, key))
            watching[key].wrap(office.crew(task, office.task("say", Turn("it")))).kickoff()

        threads = [threading.Thread(target=work, args=(key,)) for key in watching]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        for key, monitor in watching.items():
            assert 3 == len(runs_of(monitor))
            step = ["model: ", f"lookup(key={key}) -> no entry for {key}"]
            assert [*step * 3, "model: done"] == story_of(monitor, f"find {key}")

    @pytest.mark.parametrize(
        ("calls", "method"),
        [
            (ModelCalls, "before"),
            (ModelCalls, "record_completed"),
            (ToolCalls, "before"),
            (ToolCalls, "after"),
        ],
    )
    def test_an_error_of_ours_is_counted_and_the_crew_goes_on(
        self, office, monitors, monkeypatch, quiet, calls, method
    ):
        """
        Whatever fails in a hook or a listener of ours, the crew does its work.
        """

        def fail(*_):
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(calls, method, fail)
        monitor = monitors("enforce")
        result = monitor.wrap(office.crew(office.task("find", *FINDS))).kickoff()

        assert "nothing" == result.raw
        assert [] != [reason for reason in monitor.status()["losses"] if "crewai" in reason]

    def test_an_abort_of_the_users_own_passes_unchanged(self, office, monitors, hook):
        """
        A hook of the user's that aborts is their own way to stop: it is not made into ours.
        """
        expected = aborted(office.crew(office.task("find", *FINDS)))

        hook(InterceptionPoint.PRE_MODEL_CALL, abort)
        with pytest.raises(type(expected)) as received:
            monitors("enforce").wrap(office.crew(office.task("find", *FINDS))).kickoff()
        assert str(expected) == str(received.value)

    def test_hooks_of_a_context_go_on_working(self, office, monitors):
        """
        Whoever has hooks for this context already keeps them.
        """
        called = []
        with scoped_hooks({InterceptionPoint.PRE_TOOL_CALL: [lambda it: called.append(it.tool_name)]}):
            monitors().wrap(office.crew(office.task("find", *FINDS))).kickoff()

        assert ["lookup"] == called

    def test_a_stream_that_is_left_ends_its_run(self, office, monitors):
        """
        A stream that is closed, half read or not at all, leaves no run open.
        """
        monitor = monitors()
        half = monitor.wrap(office.crew(office.task("half", *lookups(2)), stream=True)).kickoff()
        next(iter(half))
        half.close()
        monitor.wrap(office.crew(office.task("unread", *FINDS), stream=True)).kickoff().close()

        assert {"half": "left early", "unread": "left early"} == {
            it.goal: it.outcome for it in runs_of(monitor)
        }
        assert 0 == monitor.status()["live_runs"]

    def test_everything_else_about_a_crew_stays_as_it_is(self, office, monitors):
        """
        A watched crew can be looked at like the crew itself.
        """
        crew = office.crew_of_two(name="books")
        watched = monitors().wrap(crew)

        assert (crew.tasks, "books") == (watched.tasks, watched.name)

    @pytest.mark.parametrize("make", [Rude, dict, object, int, lambda: None, lambda: Crew])
    def test_no_other_object_is_taken_for_a_crew(self, make):
        """
        Whatever it is asked about, it says whether it knows it, and never fails.
        """
        assert CrewAIAdapter.can_wrap(make()) is False

    def test_what_cannot_be_watched_is_refused_with_words(self, monitors):
        """
        The error says what it takes and what it got.
        """
        with pytest.raises(SettingsError, match="takes a Crew, an Agent or a Flow, got a dict"):
            CrewAIAdapter(monitors(), {})

    @pytest.mark.parametrize("make", [Rude, *(lambda it=it: it for it in ("\ud800", float("nan"), "{what}"))])
    def test_inputs_of_any_kind_do_not_keep_a_crew_from_working(self, office, monitors, make):
        """
        An input may fail when it is made into words, or be half a character, or stand for itself.
        """
        monitor = monitors()
        crew = office.crew(office.task("find {what}", *FINDS))
        crew.before_kickoff_callbacks = [lambda inputs: {"what": "x"}]
        monitor.wrap(crew).kickoff(inputs={"what": make()})

        assert FOUND == story(monitor)[1:]
        assert {} == monitor.status()["losses"]

    def test_a_monitor_that_is_switched_off_changes_nothing(self, office, monitors, monkeypatch):
        """
        With STEADYHELM_DISABLED the crew works as if it were not watched.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors("enforce")

        assert "nothing" == monitor.wrap(office.crew(office.task("find", *FINDS))).kickoff().raw


class TestStreamsThatAreLeft:
    @pytest.mark.parametrize("read", [0, 1])
    def test_a_stream_that_nobody_holds_any_more_is_over(self, office, monitors, read):
        """
        A stream that is not read, or not to its end, ends its run when its last holder lets go of it.
        """
        monitor = monitors()
        stream = monitor.wrap(office.crew(office.task("find", *FINDS), stream=True)).kickoff()
        for _ in zip(range(read), stream, strict=False):
            pass
        assert 1 == monitor.status()["live_runs"]
        del stream

        assert comes_true(lambda: 0 == monitor.status()["live_runs"])
        assert {} == monitor.status()["losses"]

    def test_a_stream_that_was_read_is_told_of_once(self, office, monitors):
        """
        To let go of a stream that was read to its end changes nothing.
        """
        monitor = monitors()
        stream = _read(monitor.wrap(office.crew(office.task("find", *FINDS), stream=True)).kickoff())
        told = story_of(monitor, "find")
        del stream
        gc.collect()

        assert FOUND == told == story_of(monitor, "find")
        assert ["done"] == [run.outcome for run in runs_of(monitor)]


class TestWrappedTwice:
    def test_the_same_monitor_gives_it_back(self, office, monitors):
        """
        What a monitor watches already it gives back as it is, however that came about.
        """
        monitor = monitors()
        once = monitor.wrap(office.crew_of_two())
        made = DriftCrew(office.crew_of_two(), monitor)

        assert once is monitor.wrap(once)
        assert made is monitor.wrap(made)

    def test_a_second_monitor_is_refused(self, office, monitors):
        """
        Work in CrewAI belongs to one run at a time: who would watch it as well is told what to do instead.
        """
        once = monitors().wrap(office.crew_of_two())
        assert CrewAIAdapter.can_wrap(once)
        with pytest.raises(SettingsError, match="only one monitor can watch it"):
            CrewAIAdapter(monitors(), once)


class TestDriftCrew:
    def test_it_has_a_monitor_of_its_own(self, office, tmp_path):
        """
        Without a monitor it makes one, named after the crew, with the settings it is given.
        """
        crew = DriftCrew(office.crew_of_two(name="books"), db_path=tmp_path / "books.db", mode="guide")
        crew.kickoff(inputs={"what": "it"})
        crew.monitor.flush()

        assert ("books", "guide") == (crew.monitor.agent_id, crew.monitor.mode)
        assert 3 == len(crew.monitor.store.get_run_ids("books"))
        crew.monitor.close()

    @pytest.mark.parametrize("way", ["DriftCrew", "watch_crews"])
    def test_its_model_is_guided(self, monitors, way):
        """
        In guide mode what was noticed reaches the model, in each of the ways to watch a crew.
        """
        monitor, played = monitors("guide"), Played()
        crew = STAGE.crew(Scene(turns=lookups(4)), played)
        if way == "DriftCrew":
            DriftCrew(crew, monitor).kickoff()
        else:
            with watch_crews(monitor):
                crew.kickoff()

        assert guidance_of(monitor)[0] in played.requests[3]
        assert 4 == len(played.made)

    def test_it_is_blocked_and_stopped(self, monitors):
        """
        In enforce mode the fifth identical call is not made, and then the crew is stopped.
        """
        monitor, played = monitors("enforce"), Played()
        with pytest.raises(RunStopped):
            DriftCrew(STAGE.crew(Scene(turns=lookups(30)), played), monitor).kickoff()

        assert 4 <= len(played.made) <= 6
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_it_takes_a_monitor(self, office, monitors):
        """
        A monitor that is given is used as it is; settings beside it would be lost, and are refused.
        """
        monitor = monitors()
        DriftCrew(office.crew(office.task("find", *FINDS)), monitor).kickoff()

        assert FOUND == story_of(monitor, "find")
        with pytest.raises(SettingsError, match="leave out mode"):
            DriftCrew(office.crew_of_two(), monitor, mode="guide")


async def _awaited(make):
    return await make()


def _read(stream):
    for _ in stream:
        pass
    return stream


def _runs(crew):
    """A tool that kicks a crew off."""

    @tool
    def pass_on(what: str) -> str:
        """Let others do it."""
        return crew.kickoff().raw

    return pass_on


def _over_the_wire(office, endpoint):
    """A task for an agent whose model is asked by CrewAI's own provider."""
    model = LLM(model="openai/gpt-4o", base_url=f"{endpoint.url}/v1", api_key="none")
    agent = Agent(
        role="clerk", goal="to help", backstory="Hired.", llm=model, tools=office.tools, max_retry_limit=0
    )
    return Task(description="work", expected_output=ANYTHING, agent=agent)


def _traces():
    """Everything that listens to CrewAI in this process or context."""
    points = {point: (get_hooks(point), get_scoped_hooks(point)) for point in InterceptionPoint}
    handlers = {kind: set(those) for kind, those in crewai_event_bus._sync_handlers.items() if those}
    return points, handlers, _stream_sinks.get()
