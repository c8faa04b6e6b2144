"""What is special to the OpenAI Agents SDK: its hooks, its settings, its approvals, agents within agents."""

import asyncio
import contextlib
import sys
import warnings

import agents
import mcp
import pytest
from agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    ModelBehaviorError,
    ModelSettings,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ShellTool,
    ToolGuardrailFunctionOutput,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
    tool_input_guardrail,
)
from agents.exceptions import InputGuardrailTripwireTriggered, MaxTurnsExceeded, ToolTimeoutError
from agents.mcp import MCPServer
from agents.run import AgentRunner, ModelInputData, get_default_agent_runner, set_default_agent_runner
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseFunctionShellToolCall, ResponseFunctionWebSearch
from openai.types.responses.response_function_shell_tool_call import Action
from openai.types.responses.response_function_web_search import ActionSearch
from script import Ask, ModelBroke, Scene, ToolBroke, Turn
from stages.openai_agents import TheStage, close_loop, given, scripted
from versions import needs
from watched import comes_true, events_of, guidance_of, not_run_of, runs_of, story

import steadyhelm
from steadyhelm import RunStopped, SettingsError
from steadyhelm.adapters.openai_agents import OpenAIAgentsAdapter
from steadyhelm.testing.doubles import Alarm

QUIET = RunConfig(tracing_disabled=True)
WAYS = ("sync", "async", "async stream")


@pytest.fixture(autouse=True)
def nothing_is_sent(monkeypatch):
    """Traces stay here, whatever a test does with them."""
    agents.set_trace_processors([])


@pytest.fixture
def unheard(monkeypatch):
    """What the SDK's own coroutines complain about when they are left behind."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@function_tool
def lookup(key: str) -> str:
    """Look an entry up."""
    return f"no entry for {key}"


@function_tool(failure_error_function=None)
def fatal(what: str) -> str:
    """Ends the run."""
    raise ToolBroke(what)


@function_tool(failure_error_function=lambda _context, _error: "sorry")
def excused(what: str) -> str:
    """Fails with words of its own."""
    raise ToolBroke(what)


@function_tool(timeout=0.01)
async def slow(what: str) -> str:
    """Takes too long."""
    await asyncio.sleep(5)
    return what


def call(tool, call_id="c1", **args):
    return Ask(tool, args, call_id)


def turn(*calls):
    return Turn(calls=calls)


def again(n, tool="lookup", **args):
    """The same call, turn after turn."""
    args = args or {"key": "a"}
    return [turn(call(tool, f"c{number}", **args)) for number in range(1, n + 1)]


def agent_with(*turns, tools=(lookup,), name="outer", **options):
    return Agent(name, model=scripted(turns), tools=list(tools), **options)


def ran(runner, agent, goal="find it", how="async", **options):
    """What comes of a run, however it is called: its result, or what it raised."""
    options = {"max_turns": 50, "run_config": QUIET, **options}
    try:
        if how == "sync":
            return runner.run_sync(agent, goal, **options)
        if how == "async":
            return asyncio.run(runner.run(agent, goal, **options))
        return asyncio.run(_read(runner, agent, goal, options))
    except Exception as exc:  # noqa: BLE001 - what reaches the caller is what is looked at
        return exc
    finally:
        if how == "sync":
            close_loop()


def run_wrapped(agent, by):
    """The result of a wrapped agent that is run by its own methods or by the SDK's own runner."""
    options = {"max_turns": 50, "run_config": QUIET}
    running = Runner.run(agent, "find it", **options) if by == "Runner" else agent.run("find it", **options)
    return asyncio.run(running)


async def _read(runner, agent, goal, options):
    result = runner.run_streamed(agent, goal, **options)
    async for _ in result.stream_events():
        pass
    return result


def requests(agent):
    """What the agent's model was given, request by request."""
    return [given(call.input) for call in agent.model.calls]


def told(monitor, n=0):
    """What callers told about themselves in the n-th run, with what they told."""
    events = events_of(monitor, runs_of(monitor)[n].run_id, told=True)
    return [(it.action_name, it.metadata) for it in events if it.action_type == "state_transition"]


def failures(monitor, n=0):
    events = events_of(monitor, runs_of(monitor)[n].run_id)
    return [it.error for it in events if it.action_type == "tool_call" and it.error]


class TestPluggedIn:
    @pytest.mark.parametrize("how", WAYS)
    def test_an_agent_itself_can_be_wrapped(self, monitors, how):
        """
        A wrapped agent is run by methods of its own, with its input alone; all else about it is the agent's.
        """
        monitor = monitors()
        agent = agent_with(*again(1))
        watched = monitor.wrap(agent)

        async def streamed():
            result = watched.run_streamed("find it", run_config=QUIET)
            return [event async for event in result.stream_events()] and result

        if how == "sync":
            result = watched.run_sync("find it", run_config=QUIET)
            close_loop()
        else:
            result = asyncio.run(watched.run("find it", run_config=QUIET) if how == "async" else streamed())

        assert ("done", "outer", agent) == (result.final_output, watched.name, result.last_agent)
        assert ["user: find it", "model: ", "lookup(key=a) -> no entry for a", "model: done"] == story(
            monitor
        )

    @pytest.mark.parametrize("by", ["its own methods", "Runner"])
    def test_a_wrapped_agent_is_guided(self, monitors, by):
        """
        In guide mode what was noticed reaches the model of a wrapped agent, whoever runs it.
        """
        monitor, agent = monitors("guide"), agent_with(*again(4))
        result = run_wrapped(monitor.wrap(agent), by)

        assert "done" == result.final_output
        assert guidance_of(monitor)[0] in requests(agent)[3]

    @pytest.mark.parametrize("by", ["its own methods", "Runner"])
    def test_a_wrapped_agent_is_blocked_and_stopped(self, monitors, by):
        """
        In enforce mode the fifth identical call of a wrapped agent is not made, and then it is stopped.
        """
        monitor, agent = monitors("enforce"), agent_with(*again(30))
        with pytest.raises(RunStopped):
            run_wrapped(monitor.wrap(agent), by)

        assert "call_refused" in [name for name, _ in told(monitor)]
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_arguments_may_be_named(self, monitors):
        """
        Agent and input may be given by name.
        """
        monitor = monitors()
        runner = monitor.wrap(Runner)
        asyncio.run(runner.run(starting_agent=agent_with(), input="find it", run_config=QUIET))

        assert ["user: find it", "model: done"] == story(monitor)

    def test_named_arguments_of_an_agent_that_is_copied(self, monitors):
        """
        It makes no difference where the agent has to be copied.
        """
        runner = monitors("enforce").wrap(Runner, ask="interrupt")
        named = asyncio.run(runner.run(starting_agent=agent_with(), input="find it", run_config=QUIET))
        mixed = asyncio.run(runner.run(agent_with(), input="find it", run_config=QUIET))

        assert ["done", "done"] == [named.final_output, mixed.final_output]

    def test_a_conversation_given_as_a_list_has_its_last_words_as_goal(self, monitors):
        """
        Of a conversation the goal is what the user said last, however many messages it took.
        """
        monitor = monitors()
        conversation = [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "find it"},
            {"role": "user", "content": [{"type": "input_text", "text": "and name it"}]},
        ]
        ran(monitor.wrap(Runner), agent_with(), conversation)

        assert "find it\nand name it" == runs_of(monitor)[0].goal

    @pytest.mark.parametrize(
        ("args", "options"),
        [
            ((), {}),
            (("no agent", "hello"), {}),
            ((None, "hello"), {}),
            ((agent_with(), "hello"), {"hooks": AgentHooks()}),
            ((agent_with(), "hello"), {"hooks": "none"}),
            ((agent_with(), "hello"), {"run_config": 5}),
            ((agent_with(), "hello"), {"no_such_option": 5}),
        ],
    )
    def test_what_the_sdk_refuses_it_refuses_itself(self, monitors, args, options):
        """
        A call that is wrong fails as it does without us, and leaves no run behind.
        """
        monitor = monitors()
        with pytest.raises(Exception) as bare:  # noqa: PT011 - whatever the SDK raises
            asyncio.run(Runner.run(*args, **options))
        with pytest.raises(bare.type) as watched:
            asyncio.run(monitor.wrap(Runner).run(*args, **options))

        assert str(bare.value) == str(watched.value)
        assert 0 == monitor.status()["live_runs"]

    @pytest.mark.parametrize("thing", [None, 5, "agents", int, object(), RunHooks, Agent, lookup, [], {}])
    def test_strange_objects_are_not_recognised(self, thing):
        """
        Nothing but an agent or a runner is taken for one, and looking never fails.
        """
        assert not OpenAIAgentsAdapter.can_wrap(thing)

    @pytest.mark.parametrize("ask", ["interrupts", 5, ""])
    def test_a_way_to_ask_that_is_none(self, monitors, ask):
        """
        Users are asked by a function or by interruptions; anything else is said to be wrong at once.
        """
        for thing in (Runner, agent_with()):
            with pytest.raises(SettingsError, match="ask must be a function"):
                monitors().wrap(thing, ask=ask)

    def test_settings_may_be_a_dict(self, monitors):
        """
        Settings may be a dict, or not be given at all: then the SDK closes what it opened itself.
        """
        monitor = monitors()
        runner = monitor.wrap(Runner)
        for config in ({"tracing_disabled": True}, None):
            assert "done" == ran(runner, agent_with(), run_config=config).final_output

        assert 2 == len(runs_of(monitor))

    def test_a_monitor_that_is_off_changes_nothing(self, monitors):
        """
        With Steadyhelm disabled the host's own arguments go to the SDK as they are.
        """
        monitor = monitors()
        runner, hooks = monitor.wrap(Runner), RunHooks()
        monitor.disabled = True
        entry = runner.open("run", (agent_with(), "hello"), {"hooks": hooks})

        assert {"hooks": hooks} == entry.kwargs

    def test_the_default_runner_comes_back(self, monitors):
        """
        The SDK's default runner is ours only while a watched run goes on.
        """
        before = get_default_agent_runner()
        seen = []

        @function_tool
        def look() -> str:
            """Who runs agents now?"""
            seen.append(get_default_agent_runner())
            return "looked"

        ran(monitors().wrap(Runner), agent_with(turn(call("look")), tools=[look]))

        assert before is not seen[0]
        assert before is get_default_agent_runner()

    def test_somebody_elses_runner_is_used(self, monitors):
        """
        A default runner of the host's own still runs every agent, also one that stands around ours.
        """
        ran_by = []

        class Theirs(AgentRunner):
            def __init__(self, before):
                self.before = before

            async def run(self, starting_agent, input, **options):  # noqa: A002 - the SDK's name
                ran_by.append(starting_agent.name)
                return await self.before.run(starting_agent, input, **options)

        @function_tool
        def wrap_again() -> str:
            """Another library puts itself around whoever is there."""
            set_default_agent_runner(Theirs(get_default_agent_runner()))
            return "wrapped"

        before = get_default_agent_runner()
        runner = monitors().wrap(Runner)
        try:
            ran(runner, agent_with(turn(call("wrap_again")), tools=[wrap_again], name="first"))
            assert "done" == ran(runner, agent_with(*again(1), name="second")).final_output
        finally:
            set_default_agent_runner(before)

        assert ["second"] == ran_by


class Noting(RunHooks):
    """Hooks of the host's own: each notes its name."""

    def __init__(self):
        self.seen = []

    async def on_agent_start(self, context, agent):
        self.seen.append("agent start")

    async def on_agent_end(self, context, agent, output):
        self.seen.append("agent end")

    async def on_llm_start(self, context, agent, system_prompt, input_items):
        self.seen.append("llm start")

    async def on_llm_end(self, context, agent, response):
        self.seen.append("llm end")

    async def on_tool_start(self, context, agent, tool):
        self.seen.append(f"{tool.name} start")

    async def on_tool_end(self, context, agent, tool, result):
        self.seen.append(f"{tool.name} end")

    async def on_handoff(self, context, from_agent, to_agent):
        self.seen.append(f"{from_agent.name} to {to_agent.name}")


class TestWhatIsTheHostsOwn:
    @pytest.mark.parametrize("how", WAYS)
    def test_its_hooks_are_all_called(self, monitors, how):
        """
        The host's hooks see what they see without us, in the same order.
        """
        bare, watched = Noting(), Noting()
        for runner, hooks in ((Runner, bare), (monitors("enforce").wrap(Runner), watched)):
            other = agent_with(*again(1), name="other")
            first = agent_with(turn(call("transfer_to_other", "h1")), handoffs=[other])
            ran(runner, first, how=how, hooks=hooks)

        assert "outer to other" in bare.seen
        assert bare.seen == watched.seen

    def test_its_input_filter_sees_what_we_say(self, monitors):
        """
        The host's filter has the last word about what the model is given, and hears ours.
        """
        heard = []

        def theirs(data):
            heard.append(given(data.model_data.input))
            return ModelInputData(input=data.model_data.input, instructions="Be brief.")

        monitor = monitors("guide")
        agent = agent_with(*again(4))
        config = RunConfig(tracing_disabled=True, call_model_input_filter=theirs)
        ran(monitor.wrap(Runner), agent, run_config=config)

        assert requests(agent) == heard
        assert guidance_of(monitor)[0] in heard[3]
        assert {"Be brief."} == {call.system_instructions for call in agent.model.calls}
        assert config.call_model_input_filter is theirs

    @needs("openai-agents", "0.24", "the formatter is not asked about exceptions")
    def test_its_error_formatter_speaks_to_the_model(self, monitors):
        """
        What the host's formatter says goes to the model; what the tool failed with is kept.
        """

        @function_tool
        def broken() -> str:
            """Never works."""
            raise ToolBroke("ink")

        async def theirs(args):
            return f"{args.tool_name} is out of order"

        monitor = monitors()
        agent = agent_with(turn(call("broken")), tools=[broken])
        config = RunConfig(tracing_disabled=True, tool_error_formatter=theirs)
        ran(monitor.wrap(Runner), agent, run_config=config)

        assert "broken is out of order" in requests(agent)[1]
        assert ["ToolBroke: ink"] == failures(monitor)

    @pytest.mark.parametrize("how", WAYS)
    def test_what_its_own_code_raises_passes_unchanged(self, monitors, how):
        """
        An error in the host's filter or hooks is the host's, and no model call that failed.
        """

        def broken_filter(data):
            raise ToolBroke("filter")

        class Broken(RunHooks):
            async def on_llm_end(self, context, agent, response):
                raise ToolBroke("hook")

        monitor = monitors()
        runner = monitor.wrap(Runner)
        config = RunConfig(tracing_disabled=True, call_model_input_filter=broken_filter)
        first = ran(runner, agent_with(), how=how, run_config=config)
        second = ran(runner, agent_with(), how=how, hooks=Broken())

        assert [(ToolBroke, "filter"), (ToolBroke, "hook")] == [(type(it), str(it)) for it in (first, second)]
        stories = [story(monitor, run.run_id) for run in runs_of(monitor)]
        assert ["user: find it", "agent_error: ToolBroke: filter"] == stories[0]
        assert ["user: find it", "model: done", "agent_error: ToolBroke: hook"] == stories[1]

    def test_its_agents_and_tools_stay_as_they_are(self, monitors):
        """
        A call is refused without touching the agent, its list of tools or a tool.
        """
        agent = agent_with(*again(5))
        before = (dict(vars(agent)), list(agent.tools), dict(vars(lookup)))
        result = ran(monitors("enforce").wrap(Runner), agent)

        after = {name: value for name, value in vars(agent).items() if name in before[0]}
        assert before == (after, list(agent.tools), dict(vars(lookup)))
        assert agent is result.last_agent


class TestTools:
    @pytest.mark.parametrize("how", WAYS)
    def test_a_tool_whose_error_ends_the_run(self, monitors, how):
        """
        A tool without a failure function ends the run: its own error is kept, the SDK's goes to the host.
        """
        turns = [turn(call("fatal", "c1", what="ink"), call("lookup", "c2", key="a"))]
        bare = ran(Runner, agent_with(*turns, tools=[fatal, lookup]), how=how)
        monitor = monitors()
        error = ran(monitor.wrap(Runner), agent_with(*turns, tools=[fatal, lookup]), how=how)

        assert (UserError, str(bare)) == (type(error), str(error))
        # Whether the other call of the batch comes to its end depends on which of them is faster.
        assert ["user: find it", "model: ", "fatal(what=ink) failed"] == story(monitor)[:3]
        assert ["ToolBroke: ink"] == failures(monitor)

    def test_a_tool_with_a_failure_function_of_its_own(self, monitors):
        """
        Words of the tool's own look like a result: that they stand for a failure is told by the trace.
        """
        monitor = monitors()
        ran(
            monitor.wrap(Runner),
            agent_with(turn(call("excused", what="ink")), tools=[excused]),
            run_config=None,
        )

        assert ["sorry"] == failures(monitor)

    def test_a_tool_that_takes_too_long(self, monitors):
        """
        A call that the SDK gave up waiting for has failed.
        """
        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("slow", what="ink")), tools=[slow]))

        assert ["Tool 'slow' timed out after 0.01 seconds."] == failures(monitor)

    def test_a_tool_that_takes_too_long_and_ends_the_run(self, monitors):
        """
        The same where the SDK raises.
        """

        @function_tool(timeout=0.01, timeout_behavior="raise_exception")
        async def hangs() -> str:
            """Takes too long."""
            await asyncio.sleep(5)
            return ""

        monitor = monitors()
        error = ran(monitor.wrap(Runner), agent_with(turn(call("hangs")), tools=[hangs]))

        assert ToolTimeoutError is type(error)
        assert ["user: find it", "model: ", "hangs() failed"] == story(monitor)

    def test_an_unknown_tool_that_the_model_hears_of(self, monitors):
        """
        Where the SDK answers the model instead of raising, the call has failed all the same.
        """
        monitor = monitors()
        config = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")
        ran(monitor.wrap(Runner), agent_with(turn(call("nowhere", to="go"))), run_config=config)

        assert ["user: find it", "model: ", "nowhere(to=go) failed", "model: done"] == story(monitor)
        assert ["nowhere: no such tool"] == not_run_of(monitor)

    def test_one_unknown_tool_among_known_ones(self, monitors):
        """
        Only the call of the unknown tool has failed; the others of that answer were never made.
        """
        monitor = monitors()
        agent = agent_with(turn(call("lookup", "c1", key="a"), call("nowhere", "c2", to="go")))
        error = ran(monitor.wrap(Runner), agent)

        assert ModelBehaviorError is type(error)
        assert ["user: find it", "model: ", "nowhere(to=go) failed"] == story(monitor)
        assert ["nowhere: no such tool"] == not_run_of(monitor)

    @needs("openai-agents", "0.24", "the SDK does not ask again by itself")
    @pytest.mark.parametrize("how", WAYS)
    def test_a_request_that_the_sdk_repeats_is_a_failed_model_call(self, monitors, how):
        """
        Each request was made, also one that failed and led to another.
        """
        model = ScriptedModel([ModelBroke("no line"), ModelBroke("no line"), [assistant_message("done")]])
        retry = agents.ModelRetrySettings(max_retries=2, backoff={"initial_delay": 0}, policy=lambda _: True)
        agent = Agent("outer", model=model, model_settings=ModelSettings(retry=retry))
        monitor = monitors()
        ran(monitor.wrap(Runner), agent, how=how)

        assert ["user: find it", "model failed", "model failed", "model: done"] == story(monitor)

    def test_a_call_under_the_id_of_an_earlier_one_is_not_run(self, monitors):
        """
        The SDK answers it with the earlier result.
        """
        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(*[turn(call("lookup", key="a"))] * 2))

        assert ["lookup: answered"] == not_run_of(monitor)

    @pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", "x" * 100_000])
    def test_arguments_that_are_no_json(self, monitors, arguments):
        """
        Whatever a model sends as arguments, the call is seen and nothing of ours fails.
        """
        monitor = monitors()
        model = ScriptedModel(
            [[function_call("lookup", arguments, call_id="c1")], [assistant_message("done")]]
        )
        result = ran(monitor.wrap(Runner), Agent("outer", model=model, tools=[lookup]))

        assert "done" == result.final_output
        kinds = [it.action_type for it in events_of(monitor, runs_of(monitor)[0].run_id)]
        assert ["user_message", "llm_request", "tool_call", "llm_request"] == kinds
        assert {} == monitor.status()["losses"]

    @pytest.mark.parametrize("max_turns", [1, 50], ids=["the run fails then", "the run goes on"])
    def test_a_call_that_a_guardrail_of_the_hosts_refuses(self, monitors, max_turns):
        """
        No hook tells of a call that the host's own guardrail refused: the conversation does.
        """

        @tool_input_guardrail
        def never(data):
            return ToolGuardrailFunctionOutput.reject_content("not today")

        @function_tool(tool_input_guardrails=[never])
        def guarded() -> str:
            """Never called."""
            return "called"

        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("guarded")), tools=[guarded]), max_turns=max_turns)

        assert ["user: find it", "model: ", "guarded() failed"] == story(monitor)[:3]
        assert ["Not called. not today"] == failures(monitor)
        assert ["guarded: refused"] == not_run_of(monitor)[:1]

    def test_a_guardrail_of_a_tool_that_ends_the_run(self, monitors):
        """
        It names no tool, and speaks of the only call there is; where there are several nobody knows.
        """

        @tool_input_guardrail
        def never(data):
            return ToolGuardrailFunctionOutput.raise_exception()

        @function_tool(tool_input_guardrails=[never])
        def guarded(what: str) -> str:
            """Never called."""
            return what

        stories = []
        for calls in ([call("guarded", what="a")], [call("guarded", f"c{n}", what=n) for n in "ab"]):
            monitor = monitors()
            ran(monitor.wrap(Runner), agent_with(turn(*calls), tools=[guarded]))
            stories.append((story(monitor)[2].partition(":")[0], not_run_of(monitor)))

        assert [("guarded(what=a) failed", ["guarded: refused"]), ("agent_error", [])] == stories

    @pytest.mark.parametrize("how", WAYS)
    def test_a_call_that_was_not_made_when_the_run_failed(self, monitors, how):
        """
        An error that names no tool is that of the run, and not of a call that was never started.
        """

        async def ask_nobody(*_):
            raise UserError("nobody is there to ask")

        @function_tool(needs_approval=ask_nobody)
        def gated() -> str:
            """Never called."""
            return "called"

        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("gated")), tools=[gated]), how=how)

        assert ["user: find it", "model: ", "agent_error: UserError: nobody is there to ask"] == story(
            monitor
        )

    def test_a_tool_of_the_models_provider(self, monitors):
        """
        A search that the provider made itself is a call like any other, with what it looked for.
        """
        search = ResponseFunctionWebSearch(
            id="ws_1",
            type="web_search_call",
            status="completed",
            action=ActionSearch(type="search", query="ledger", queries=["ledger"]),
        )
        model = ScriptedModel([[search, assistant_message("Found.")]])
        monitor = monitors()
        ran(monitor.wrap(Runner), Agent("outer", model=model))

        events = events_of(monitor, runs_of(monitor)[0].run_id)
        assert ["user", "llm", "web_search"] == [it.action_name if it.seq else "user" for it in events]
        assert "ledger" == events[2].input_data["query"]

    def test_a_shell(self, monitors):
        """
        A tool that the SDK runs itself is seen with its result, though its hooks name no call.
        """
        command = ResponseFunctionShellToolCall(
            id="sh_1",
            call_id="c1",
            type="shell_call",
            status="completed",
            action=Action(commands=["ls"], max_output_length=None, timeout_ms=None),
        )
        model = ScriptedModel([[command], [assistant_message("done")]])
        monitor = monitors("enforce")
        shell = ShellTool(executor=lambda _request: "ledger.txt")
        result = ran(monitor.wrap(Runner), Agent("outer", model=model, tools=[shell]))

        assert "done" == result.final_output
        (seen,) = [
            it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "tool_call"
        ]
        assert ("shell", ["ls"]) == (seen.action_name, seen.input_data["commands"])
        assert "ledger.txt" in str(seen.output_data)

    def test_a_shell_that_ends_the_run(self, monitors):
        """
        What the run came to in the meantime, the call was made.
        """
        command = ResponseFunctionShellToolCall(
            id="sh_1",
            call_id="c1",
            type="shell_call",
            status="completed",
            action=Action(commands=["ls"], max_output_length=None, timeout_ms=None),
        )
        monitor = monitors()
        shell = ShellTool(executor=lambda _request: "ledger.txt")
        agent = Agent("outer", model=ScriptedModel([[command]]), tools=[shell])
        error = ran(monitor.wrap(Runner), agent, max_turns=1)

        assert MaxTurnsExceeded is type(error)
        assert 1 == len(
            [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "tool_call"]
        )

    def test_a_call_that_ends_the_run_by_design(self, monitors):
        """
        With `stop_on_first_tool` a result is the answer: the call has its result too.
        """
        monitor = monitors()
        agent = agent_with(*again(1), tool_use_behavior="stop_on_first_tool")
        result = ran(monitor.wrap(Runner), agent)

        assert "no entry for a" == result.final_output
        assert ["user: find it", "model: ", "lookup(key=a) -> no entry for a"] == story(monitor)


class TestAgents:
    @pytest.mark.parametrize("how", WAYS)
    @pytest.mark.parametrize("by", [lambda agent: agent, handoff])
    def test_a_handover_is_told_in_the_same_run(self, monitors, how, by):
        """
        An agent that takes over goes on with the run; the hand-over itself is no tool call.
        """
        monitor = monitors()
        other = agent_with(*again(1), name="other")
        first = agent_with(turn(call("transfer_to_other", "h1")), handoffs=[by(other)])
        ran(monitor.wrap(Runner), first, how=how)

        assert [("handoff", {"from": "outer", "to": "other"})] == told(monitor)
        steps = ["model: ", "model: ", "lookup(key=a) -> no entry for a", "model: done"]
        assert ["user: find it", *steps] == story(monitor)

    @pytest.mark.parametrize("how", WAYS)
    def test_a_tool_that_runs_an_agent_itself(self, monitors, how):
        """
        An agent that a tool runs, by a runner that nobody wrapped, is a child run.
        """
        inner = agent_with(*again(1), name="inner")

        @function_tool
        async def delegate(task: str) -> str:
            """Let somebody else do it."""
            return (await Runner.run(inner, task, run_config=QUIET)).final_output

        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("delegate", task="it")), tools=[delegate]), how=how)

        outer, child = runs_of(monitor)
        assert (outer.run_id, "it") == (child.parent_run_id, child.goal)
        steps = ["user: it", "model: ", "lookup(key=a) -> no entry for a", "model: done"]
        assert steps == story(monitor, child.run_id)

    def test_an_agent_outside_is_not_watched(self, monitors):
        """
        What another task runs at the same time, by a runner that nobody wrapped, is none of our business.
        """
        monitor = monitors()
        alone = agent_with(*again(3), name="alone")

        async def both():
            watched = monitor.wrap(Runner).run(agent_with(*again(3)), "find it", run_config=QUIET)
            await asyncio.gather(watched, Runner.run(alone, "something else", run_config=QUIET))

        asyncio.run(both())

        assert ["find it"] == [run.goal for run in runs_of(monitor)]

    def test_a_guardrail_that_runs_an_agent(self, monitors):
        """
        What a guardrail asks an agent is a child run; when it trips, the host's exception is its own.
        """
        judge = agent_with(Turn(says="no"), name="judge")

        @input_guardrail
        async def judged(context, agent, given_input):
            result = await Runner.run(judge, given_input, run_config=QUIET)
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=result.final_output == "no")

        monitor = monitors()
        error = ran(monitor.wrap(Runner), agent_with(input_guardrails=[judged]))

        assert InputGuardrailTripwireTriggered is type(error)
        outer, child = runs_of(monitor)
        assert ["user: find it", "model: no"] == story(monitor, child.run_id)
        assert "error: InputGuardrailTripwireTriggered" == outer.outcome
        assert 0 == monitor.status()["live_runs"]

    def test_hooks_of_an_agent_as_a_tool(self, monitors):
        """
        Hooks that `as_tool` was given are called as ever, and its steps are seen.
        """
        hooks = Noting()
        inner = agent_with(*again(1), name="inner")
        delegate = inner.as_tool("delegate", "Let somebody else do it.", hooks=hooks, run_config=QUIET)
        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("delegate", input="it")), tools=[delegate]))

        assert ["lookup start", "lookup end"] == [it for it in hooks.seen if it.startswith("lookup")]
        assert 4 == len(story(monitor, runs_of(monitor)[1].run_id))

    def test_an_agent_as_a_tool_that_streams(self, monitors):
        """
        An agent as a tool whose events are streamed is a child run like any other.
        """
        parts = []
        inner = agent_with(*again(1), name="inner")
        delegate = inner.as_tool("delegate", "Let somebody else do it.", on_stream=parts.append)
        monitor = monitors()
        ran(monitor.wrap(Runner), agent_with(turn(call("delegate", input="it")), tools=[delegate]))

        assert parts
        steps = ["user: it", "model: ", "lookup(key=a) -> no entry for a", "model: done"]
        assert steps == story(monitor, runs_of(monitor)[1].run_id)

    def test_an_agent_as_a_tool_that_fails(self, monitors):
        """
        What made the inner run fail is what the outer run's call failed with.
        """
        inner = agent_with(Turn(breaks=True), name="inner")
        monitor = monitors()
        agent = agent_with(
            turn(call("delegate", input="it")), tools=[inner.as_tool("delegate", "Somebody else.")]
        )
        ran(monitor.wrap(Runner), agent)

        assert ["ModelBroke: no model"] == failures(monitor)
        assert ["user: it", "model failed"] == story(monitor, runs_of(monitor)[1].run_id)

    @pytest.mark.parametrize("how", WAYS)
    def test_a_stop_inside(self, monitors, how):
        """
        An agent inside that is stopped is a failed call to the one outside, which goes on.
        """
        monitor = monitors("enforce")
        inner = agent_with(*again(40), name="inner")
        delegate = inner.as_tool("delegate", "Somebody else.", max_turns=50)
        result = ran(
            monitor.wrap(Runner), agent_with(turn(call("delegate", input="it")), tools=[delegate]), how=how
        )

        assert "done" == result.final_output
        assert ["done", "stopped"] == [run.outcome for run in runs_of(monitor)]
        assert failures(monitor)[0].startswith("RunStopped: Run stopped.")

    @pytest.mark.parametrize("how", WAYS)
    @pytest.mark.parametrize("on_stream", [None, lambda _event: None])
    def test_a_stop_inside_that_may_leave(self, monitors, how, on_stream):
        """
        Where the host lets errors of the agent inside pass, its stop reaches the caller as what it is.
        """
        monitor = monitors("enforce")
        inner = agent_with(*again(40), name="inner")
        options = {"max_turns": 50, "failure_error_function": None, "on_stream": on_stream}
        delegate = inner.as_tool("delegate", "Somebody else.", **options)
        error = ran(
            monitor.wrap(Runner), agent_with(turn(call("delegate", input="it")), tools=[delegate]), how=how
        )

        assert isinstance(error, RunStopped)
        assert ["stopped", "stopped"] == [run.outcome for run in runs_of(monitor)]
        assert runs_of(monitor)[1].run_id == error.run_id


class Ledger(MCPServer):
    """A server with one tool, in this process."""

    called = 0
    name = "ledger"

    async def connect(self):
        """There is nothing to connect to."""

    async def cleanup(self):
        """And nothing to leave."""

    async def list_tools(self, run_context=None, agent=None):
        schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
        return [mcp.types.Tool(name="page", input_schema=schema)]

    async def call_tool(self, tool_name, arguments, meta=None):
        self.called += 1
        return mcp.types.CallToolResult(content=[mcp.types.TextContent(type="text", text="an empty page")])

    async def list_prompts(self):
        raise NotImplementedError

    async def get_prompt(self, name, arguments=None):
        raise NotImplementedError


class TestSteered:
    @pytest.mark.parametrize("how", WAYS)
    def test_one_call_of_a_batch_is_refused(self, monitors, how):
        """
        Of two calls asked for at once only the fruitless one is refused.
        """
        monitor = monitors("enforce")
        both = turn(call("lookup", "c5", key="a"), call("lookup", "c6", key="b"))
        agent = agent_with(*again(4), both)
        ran(monitor.wrap(Runner), agent, how=how)

        assert 1 == [name for name, _ in told(monitor)].count("call_refused")
        assert "no entry for b" in requests(agent)[5]

    @needs("openai-agents", "0.24", "it takes tools of an older mcp")
    def test_a_call_of_an_mcp_server_is_refused(self, monitors):
        """
        A tool that a server brings is seen, and refused, like any other.
        """
        monitor = monitors("enforce")
        server = Ledger()
        agent = agent_with(*again(5, "page", number=1), tools=[], mcp_servers=[server])
        ran(monitor.wrap(Runner), agent)

        assert (4, 1) == (server.called, [name for name, _ in told(monitor)].count("call_refused"))
        assert 4 == len([it for it in story(monitor) if it.startswith("page(number=1)")])

    def test_words_stay_where_they_were_said(self, monitors):
        """
        What was said once stands in every later request, at the same place.
        """
        monitor = monitors("guide")
        agent = agent_with(*again(5))
        ran(monitor.wrap(Runner), agent)

        said = guidance_of(monitor)[0]
        assert [0, 0, 0, 1, 1, 1] == [request.count(said) for request in requests(agent)]
        assert requests(agent)[5].startswith(requests(agent)[3])

    def test_a_conversation_that_the_server_keeps(self, monitors):
        """
        Where the server keeps the conversation words are sent once.
        """
        monitor = monitors("guide")
        agent = agent_with(*again(5))
        ran(monitor.wrap(Runner), agent, auto_previous_response_id=True)

        said = guidance_of(monitor)[0]
        assert [0, 0, 0, 1, 0, 0] == [request.count(said) for request in requests(agent)]

    def test_a_conversation_that_the_server_keeps_goes_on(self, monitors):
        """
        A state knows who keeps its conversation, though the host does not say so again.
        """

        @function_tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay a bill."""
            return f"paid {amount}"

        monitor = monitors("guide")
        runner = monitor.wrap(Runner)
        agent = agent_with(turn(call("pay", "p1", amount=3)), *again(5), tools=[pay, lookup])
        result = ran(runner, agent, auto_previous_response_id=True)
        state = result.to_state()
        state.approve(result.interruptions[0])
        ran(runner, agent, state)

        said = guidance_of(monitor)[0]
        assert 1 == sum(request.count(said) for request in requests(agent))

    def test_what_the_server_keeps_cannot_be_taken_back(self, monitors):
        """
        Nothing can be taken out of what the server keeps: a confirmed loop stops the run instead.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        error = ran(monitor.wrap(Runner), agent_with(*again(2)), auto_previous_response_id=True)

        assert RunStopped is type(error)
        assert "rollback" == error.decision.wanted

    def test_a_conversation_that_is_another_one(self, monitors):
        """
        After a hand-over with a filter the places of old mean nothing: no call is torn from its result.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        other = agent_with(turn(call("lookup", "c2", key="b")), name="other")

        def shorter(data):
            return data.clone(input_history="start over", pre_handoff_items=(), new_items=())

        first = agent_with(*again(1), turn(call("transfer_to_other", "h1")))
        first.handoffs = [handoff(other, input_filter=shorter)]
        conversation = [{"role": "user", "content": words} for words in ("hello", "find it")]
        result = ran(monitor.wrap(Runner), first, conversation)

        assert "done" == result.final_output
        assert "not_carried_out" in [name for name, _ in told(monitor)]
        last = other.model.calls[-1].input
        assert guidance_of(monitor)[0] == last[-1]["content"]
        assert ["message", "call", "output", "message"] == [
            str(it.get("type", "message")).rpartition("_")[2] for it in last
        ]

    @pytest.mark.parametrize("how", WAYS)
    def test_a_stop_before_calls(self, monitors, how):
        """
        No call of the answer at which a run is stopped is made, and none is told of.
        """
        monitor = monitors("enforce")
        played = TheStage().play(Scene(turns=again(30)), monitor, how)

        assert RunStopped is type(played.error)
        lines = story(monitor)
        assert len(played.made) == len([it for it in lines if it.startswith("lookup")])


class TestAskedByInterruptions:
    def _interrupted(self, monitor, agent, how="async", **options):
        runner = monitor.wrap(Runner, ask="interrupt")
        return runner, ran(runner, agent, how=how, **options)

    @pytest.mark.parametrize("how", WAYS)
    def test_a_call_that_is_approved(self, monitors, how):
        """
        The run comes back with the call in question; approved, it is made, and the run is the same.
        """
        monitor = monitors("enforce")
        agent = agent_with(*again(12))
        runner, result = self._interrupted(monitor, agent, how)
        (item,) = result.interruptions
        assert ("lookup", 1) == (item.name, monitor.status()["live_runs"])
        assert "How should it continue?" in runner.question(item)

        state = result.to_state()
        state.approve(item)
        result = ran(runner, agent, state, how=how)

        assert ("done", []) == (result.final_output, result.interruptions)
        (run,) = runs_of(monitor)
        assert ("done", 0) == (run.outcome, monitor.status()["live_runs"])
        lines = story(monitor)
        at = lines.index("user: Go on.")
        assert "lookup(key=a) -> no entry for a" == lines[at + 1]

    def test_a_no_ends_the_run(self, monitors):
        """
        A call that is rejected without a message is a no: the run stops, and its caller receives the stop.
        """
        monitor = monitors("enforce")
        agent = agent_with(*again(10))
        runner, result = self._interrupted(monitor, agent)
        state = result.to_state()
        state.reject(result.interruptions[0])
        stopped = ran(runner, agent, state)

        assert isinstance(stopped, RunStopped)
        assert ["stopped"] == [run.outcome for run in runs_of(monitor)]

    def test_a_call_that_is_rejected(self, monitors):
        """
        Rejected, it is not made; what the user said is a turn of theirs, and the model hears it.
        """
        monitor = monitors("enforce")
        agent = agent_with(*again(10))
        runner, result = self._interrupted(monitor, agent)
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message="look in the archive")
        before = story(monitor).count("lookup(key=a) -> no entry for a")
        result = ran(runner, agent, state)

        assert "done" == result.final_output
        assert "user: look in the archive" in story(monitor)
        assert before == story(monitor).count("lookup(key=a) -> no entry for a")
        assert "look in the archive" in requests(agent)[-1]

    def test_only_the_call_in_question_waits(self, monitors):
        """
        Another call of the same tool in the same answer is made at once.
        """
        monitor = monitors("enforce")
        agent = agent_with(*again(9), turn(call("lookup", "c10", key="a"), call("lookup", "c11", key="b")))
        _, result = self._interrupted(monitor, agent)

        assert ["c10"] == [item.call_id for item in result.interruptions]
        assert "lookup(key=b) -> no entry for b" in story(monitor)

    def test_the_hosts_own_tools_are_not_touched(self, monitors):
        """
        The tools that wait are copies: those of the host need no approval before, during or after.
        """
        seen = []

        class Looking(RunHooks):
            async def on_llm_end(self, context, agent, response):
                seen.append(lookup.needs_approval)

        self._interrupted(monitors("enforce"), agent_with(*again(10)), hooks=Looking())

        assert {False} == {*seen, lookup.needs_approval}

    @needs("openai-agents", "0.24", "it takes tools of an older mcp")
    def test_a_tool_that_cannot_wait(self, monitors):
        """
        A tool that a server brings cannot wait for an answer: it is refused instead, and that is reported.
        """
        monitor = monitors("enforce")
        agent = agent_with(*again(10, "page", number=1), tools=[], mcp_servers=[Ledger()])
        _, result = self._interrupted(monitor, agent)

        assert ("done", []) == (result.final_output, result.interruptions)
        assert "Not called: the user has to be asked first." in requests(agent)[-1]
        assert "not_carried_out" in [name for name, _ in told(monitor)]

    @pytest.mark.parametrize("how", WAYS)
    def test_inside_an_agent_as_a_tool(self, monitors, how):
        """
        A call of the agent inside waits too: the outer run comes back with it, and both go on.
        """
        monitor = monitors("enforce")
        inner = agent_with(*again(12), name="inner")
        delegate = inner.as_tool("delegate", "Somebody else.", max_turns=50)
        agent = agent_with(turn(call("delegate", "d1", input="it")), tools=[delegate])
        runner, result = self._interrupted(monitor, agent, how)
        assert ["lookup"] == [item.name for item in result.interruptions]

        state = result.to_state()
        state.approve(result.interruptions[0])
        result = ran(runner, agent, state, how=how)

        assert ("done", []) == (result.final_output, result.interruptions)
        outer, child = runs_of(monitor)
        assert ("done", "done") == (outer.outcome, child.outcome)
        assert "user: Go on." in story(monitor, child.run_id)
        assert ["user: find it", "model: ", "delegate(input=it) -> done", "model: done"] == story(monitor)

    def test_after_a_handover(self, monitors):
        """
        The agent that took over can wait as well, and its state can be written down and read again.
        """
        monitor = monitors("enforce")
        other = agent_with(*again(12), name="other")
        first = agent_with(turn(call("transfer_to_other", "h1")), handoffs=[handoff(other)])
        runner, result = self._interrupted(monitor, first)
        assert ["lookup"] == [item.name for item in result.interruptions]

        written = result.to_state().to_string()
        state = asyncio.run(RunState.from_string(first, written))
        state.approve(state.get_interruptions()[0])
        result = ran(runner, first, state)

        assert "done" == result.final_output
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    def test_a_state_from_another_process(self, monitors):
        """
        A run that began elsewhere begins again here, with the same goal, and its calls are seen.
        """
        agent = agent_with(*again(10))
        _, result = self._interrupted(monitors("enforce"), agent)
        written = result.to_state().to_string()

        monitor = monitors("enforce")
        state = asyncio.run(RunState.from_string(agent, written))
        state.approve(state.get_interruptions()[0])
        result = ran(monitor.wrap(Runner, ask="interrupt"), agent, state)

        assert "done" == result.final_output
        assert "find it" == runs_of(monitor)[0].goal
        assert "lookup(key=a) -> no entry for a" in story(monitor)

    def test_a_tool_for_which_the_host_wants_approval(self, monitors):
        """
        A call that the host itself lets its user approve is one call of one run, however long that takes.
        """

        @function_tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay a bill."""
            return f"paid {amount}"

        monitor = monitors()
        runner = monitor.wrap(Runner)
        agent = agent_with(turn(call("pay", amount=3)), tools=[pay])
        result = ran(runner, agent)
        state = result.to_state()
        state.approve(result.interruptions[0])
        ran(runner, agent, state)

        assert ["user: find it", "model: ", "pay(amount=3) -> paid 3", "model: done"] == story(monitor)

    def test_a_tool_for_which_the_user_says_no(self, monitors):
        """
        A call that the user rejected was not made, and has failed.
        """

        @function_tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay a bill."""
            return f"paid {amount}"

        monitor = monitors()
        runner = monitor.wrap(Runner)
        agent = agent_with(turn(call("pay", amount=3)), tools=[pay])
        result = ran(runner, agent)
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message="too much")
        ran(runner, agent, state)

        assert ["user: find it", "model: ", "pay(amount=3) failed", "model: done"] == story(monitor)
        assert ["Not called. too much"] == failures(monitor)

    def test_without_it_a_run_is_stopped(self, monitors):
        """
        A host that nobody taught about interruptions is never left with an empty result.
        """
        error = ran(monitors("enforce").wrap(Runner), agent_with(*again(30)))

        assert RunStopped is type(error)


class TestStreams:
    def test_a_stream_that_is_left(self, monitors):
        """
        A stream that its reader cancels was left early, and its run has ended.
        """
        monitor = monitors()

        async def leave():
            result = monitor.wrap(Runner).run_streamed(agent_with(*again(5)), "find it", run_config=QUIET)
            async for _ in result.stream_events():
                result.cancel()

        asyncio.run(leave())

        assert ["left early"] == [run.outcome for run in runs_of(monitor)]

    def test_a_stream_that_nobody_reads(self, monitors):
        """
        A stream works whether anybody reads it or not, and its run ends by itself.
        """
        monitor = monitors()

        async def start():
            result = monitor.wrap(Runner).run_streamed(agent_with(*again(1)), "find it", run_config=QUIET)
            await result.run_loop_task

        asyncio.run(start())

        assert ["user: find it", "model: ", "lookup(key=a) -> no entry for a", "model: done"] == story(
            monitor
        )
        assert ["done"] == [run.outcome for run in runs_of(monitor)]

    def test_a_stream_outside_of_any_loop(self, monitors):
        """
        Where the SDK cannot even begin, it says so itself.
        """
        monitor = monitors()
        with warnings.catch_warnings():
            # The SDK leaves a coroutine behind.
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="no running event loop"):
                monitor.wrap(Runner).run_streamed(agent_with(), "find it", run_config=QUIET)

        assert 0 == monitor.status()["live_runs"]

    def test_a_run_that_is_cancelled(self, monitors):
        """
        A task that the host cancels was left early; that is no error of the agent's.
        """

        @function_tool
        async def wait() -> str:
            """Waits for ever."""
            await asyncio.sleep(60)
            return ""

        monitor = monitors()

        async def cancel():
            agent = agent_with(turn(call("wait")), tools=[wait])
            async with asyncio.timeout(0.2):
                await monitor.wrap(Runner).run(agent, "find it", run_config=QUIET)

        with pytest.raises(TimeoutError):
            asyncio.run(cancel())

        assert ["left early"] == [run.outcome for run in runs_of(monitor)]
        assert ["user: find it", "model: ", "wait() -> "] == story(monitor)

    def test_an_interrupt_inside_a_stream(self, monitors, unheard):
        """
        An interrupt leaves the stream's task behind: its run ends, and the SDK has its own runner again.
        """

        @function_tool
        async def interrupted() -> str:
            """Is interrupted."""
            raise KeyboardInterrupt

        monitor, before = monitors(), get_default_agent_runner()

        async def read():
            agent = agent_with(turn(call("interrupted")), tools=[interrupted])
            result = monitor.wrap(Runner).run_streamed(agent, "find it", run_config=QUIET)
            async for _ in result.stream_events():
                pass

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(read())

        assert comes_true(lambda: 0 == monitor.status()["live_runs"])
        assert comes_true(lambda: before is get_default_agent_runner())

    def test_a_loop_that_is_closed_around_a_stream(self, monitors, unheard):
        """
        A loop that is gone before the stream is read to its end takes the run with it.
        """

        @function_tool
        async def wait() -> str:
            """Waits for ever."""
            await asyncio.sleep(60)
            return ""

        monitor, before = monitors(), get_default_agent_runner()

        async def begin():
            agent = agent_with(turn(call("wait")), tools=[wait])
            result = monitor.wrap(Runner).run_streamed(agent, "find it", run_config=QUIET)
            async for _ in result.stream_events():
                break

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()

        assert comes_true(lambda: 0 == monitor.status()["live_runs"])
        assert comes_true(lambda: before is get_default_agent_runner())
        assert comes_true(lambda: ["left early"] == [run.outcome for run in runs_of(monitor)])


class TestWrappedTwice:
    @pytest.mark.parametrize("given", [Runner, Runner(), AgentRunner()], ids=["class", "instance", "own"])
    def test_any_runner_can_be_wrapped(self, monitors, given):
        """
        `Runner`, one made of it and the runner behind it work alike.
        """
        monitor = monitors()
        ran(monitor.wrap(given), agent_with(*again(1)))

        assert ["user: find it", "model: ", "lookup(key=a) -> no entry for a", "model: done"] == story(
            monitor
        )

    @pytest.mark.parametrize("what", ["runner", "agent"])
    def test_the_same_monitor_gives_it_back(self, monitors, what):
        """
        What a monitor watches already it gives back as it is.
        """
        monitor = monitors()
        once = monitor.wrap(Runner if what == "runner" else agent_with())
        made = OpenAIAgentsAdapter(monitor, Runner if what == "runner" else agent_with())

        assert once is monitor.wrap(once)
        assert made is monitor.wrap(made)

    @pytest.mark.parametrize("what", ["runner", "agent"])
    def test_a_second_monitor_is_refused(self, monitors, what):
        """
        The SDK has one place for hooks: who would share it is told what to do instead.
        """
        once = monitors().wrap(Runner if what == "runner" else agent_with())
        assert OpenAIAgentsAdapter.can_wrap(once)
        with pytest.raises(SettingsError, match="only one monitor can watch it"):
            OpenAIAgentsAdapter(monitors(), once)


@pytest.mark.parametrize("how", WAYS)
def test_a_wrapped_agent_is_watched_by_the_sdks_own_runner(how, monitors):
    """
    `Runner.run(monitor.wrap(agent))` is watched and stopped as `monitor.wrap(agent).run()` is.
    """
    monitor = monitors("enforce")
    agent = monitor.wrap(agent_with(*again(30)))
    error = ran(Runner, agent, how=how)

    assert RunStopped is type(error)
    assert 1 == len(runs_of(monitor))


def test_the_default_runner_comes_back_without_wrapped_agents(monitors):
    """
    When the last wrapped agent is gone the SDK's default runner is its own again.
    """
    assert comes_true(lambda: type(get_default_agent_runner()) is AgentRunner)
    agent = monitors().wrap(agent_with())
    assert AgentRunner is not type(get_default_agent_runner())
    del agent

    assert comes_true(lambda: type(get_default_agent_runner()) is AgentRunner)


class TestInstalled:
    @pytest.mark.parametrize("runner", [None, "theirs"])
    def test_another_default_runner_is_watched_too(self, monitors, runner):
        """
        A default runner that a program sets after `install()` works as before, and is watched.
        """
        monitor = monitors()
        before = get_default_agent_runner()
        steadyhelm.install(monitor=monitor)
        try:
            theirs = AgentRunner() if runner else None
            set_default_agent_runner(theirs)
            assert theirs is None or get_default_agent_runner() is theirs
            ran(Runner, agent_with(*again(1)))
        finally:
            steadyhelm.uninstall()
            set_default_agent_runner(before)

        assert "lookup(key=a) -> no entry for a" in story(monitor)
