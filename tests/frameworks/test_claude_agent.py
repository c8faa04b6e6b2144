"""What is special to the Claude Agent SDK: its client, its options, its sub-agents, its way of asking."""

import asyncio
import os
import signal
import subprocess
import tempfile

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLINotFoundError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from fake_messages import INPUT_TOKENS, OUTPUT_TOKENS, FakeMessages
from script import GOAL, Ask, Turn
from stages.claude import INNER, OUTER, environment
from versions import needs
from watched import events_of, guidance_of, runs_of, story

from steadyhelm import RunStopped, SettingsError
from steadyhelm.adapters.claude_agent import ClaudeAgentAdapter
from steadyhelm.adapters.claude_agent.hooks import EVENTS, ClaudeConversation
from steadyhelm.boundary.driver import Boundary

TOKENS = INPUT_TOKENS + OUTPUT_TOKENS


class Desk:
    """A model with a script, and options to reach it."""

    def __init__(self, turns, *, pause_s=0.0, **options):
        self.model = FakeMessages(turns)
        self._folder = tempfile.TemporaryDirectory(prefix="sh-")
        self._pause_s = pause_s
        self._options = options
        self.made = []

    def __enter__(self):
        self.model.__enter__()
        return self

    def __exit__(self, *exc):
        self.model.__exit__(*exc)
        self._folder.cleanup()

    @property
    def options(self):
        @tool("lookup", "Look up an entry.", {"key": str})
        async def lookup(args):
            self.made.append(args["key"])
            await asyncio.sleep(self._pause_s)
            return {"content": [{"type": "text", "text": f"no entry for {args['key']}"}]}

        home = self._folder.name
        given = {
            "system_prompt": OUTER,
            "tools": ["Agent"],
            "mcp_servers": {"ledger": create_sdk_mcp_server("ledger", tools=[lookup])},
            "allowed_tools": ["mcp__ledger", "Agent"],
            "setting_sources": [],
            "env": environment(self.model, home),
            "cwd": home,
        }
        return ClaudeAgentOptions(**(given | self._options))


def lookups(n, key="a", first=1):
    return [Turn(calls=(Ask("lookup", {"key": key}, f"c{first + n}"),)) for n in range(n)]


async def all_of(messages):
    return [message async for message in messages]


def asked(function, desk, prompt=GOAL):
    """All messages of a query."""
    return asyncio.run(all_of(function(prompt=prompt, options=desk.options)))


async def prompts(desk, requests):
    """Two prompts, the second after the model was asked so often."""
    yield {"type": "user", "message": {"role": "user", "content": "find a"}}
    while len(desk.model.requests[""]) < requests:  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0.02)
    yield {"type": "user", "message": {"role": "user", "content": "and b"}}


async def prompt_of(text):
    """One prompt, as a stream."""
    yield {"type": "user", "message": {"role": "user", "content": text}}


def claude_process():
    """The id of the one Claude Code that works for us."""
    ours = subprocess.check_output(["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], text=True)
    (child,) = [line.split()[0] for line in ours.splitlines() if "_bundled/claude" in line]
    return int(child)


class TestOptions:
    def test_a_copy_with_our_hooks_beside_theirs(self, monitors):
        """
        Options are copied: the user's hooks stay, in front of ours, and what was given is left as it was.
        """

        async def theirs(payload, call_id, context):
            return {}

        before = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[theirs])]}
        options = ClaudeAgentOptions(hooks=before, max_turns=3)
        watched = monitors().wrap(options)
        assert ({"PreToolUse"}, 1, 3) == (
            set(options.hooks),
            len(options.hooks["PreToolUse"]),
            watched.max_turns,
        )
        assert set(EVENTS) == set(watched.hooks)
        assert ["Bash", None] == [it.matcher for it in watched.hooks["PreToolUse"]]

    def test_hooks_alone_see_every_reply_and_call(self, monitors):
        """
        With nothing but the options watched each turn is a run: its replies and calls are seen, and its
        tokens as far as the transcript has been written.
        """
        monitor = monitors()
        with Desk([*lookups(2), Turn(says="none")], pause_s=0.3) as desk:
            options = monitor.wrap(desk.options)
            asyncio.run(all_of(query(prompt=GOAL, options=options)))
        step = ["model: ", "lookup(key=a) -> no entry for a"]
        assert [f"user: {GOAL}", *step * 2, "model: none"] == story(monitor)
        run = runs_of(monitor)[0]
        assert ("done", True) == (run.outcome, TOKENS <= run.tokens <= 3 * TOKENS)

    def test_hooks_alone_guide(self, monitors):
        """
        In guide mode what was noticed reaches the model by the options alone, and every call goes ahead.
        """
        monitor = monitors("guide")
        with Desk([*lookups(4), Turn(says="none")]) as desk:
            options = monitor.wrap(desk.options)
            messages = asyncio.run(all_of(query(prompt=GOAL, options=options)))
            assert guidance_of(monitor)[0] in desk.model.texts()[3]
            assert (4, "none") == (len(desk.made), messages[-1].result)

    def test_hooks_alone_speak_and_stop(self, monitors):
        """
        Words, denials and stops need no more than the options; a stopped turn says that a hook stopped it.
        """
        monitor = monitors("enforce")
        with Desk(lookups(30)) as desk:
            options = monitor.wrap(desk.options)
            messages = asyncio.run(all_of(query(prompt=GOAL, options=options)))
            assert guidance_of(monitor)[0] in desk.model.texts()[3]
            assert 4 == len(desk.made)
        assert "hook_stopped" == messages[-1].terminal_reason
        assert "stopped" == runs_of(monitor)[0].outcome

    def test_watched_twice_is_watched_once(self, monitors):
        """
        Options that are watched already are not told of twice by a query that is.
        """
        monitor = monitors()
        with Desk(lookups(1)) as desk:
            messages = ClaudeAgentAdapter(monitor, query)(prompt=GOAL, options=monitor.wrap(desk.options))
            asyncio.run(all_of(messages))
        assert [f"user: {GOAL}", "model: ", "lookup(key=a) -> no entry for a", "model: done"] == story(
            monitor
        )
        assert 1 == len(runs_of(monitor))


class TestQuery:
    def test_wrapping_the_function(self, monitors):
        """
        `monitor.wrap(query)` gives a function to call like it.
        """
        monitor = monitors()
        with Desk([Turn(says="It is 3.")]) as desk:
            messages = asked(monitor.wrap(query), desk)
        assert "It is 3." == messages[-1].result
        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_what_a_turn_took(self, monitors):
        """
        Tokens and cost of a run are those that the SDK names at the end.
        """
        monitor = monitors()
        with Desk(lookups(3)) as desk:
            messages = asked(ClaudeAgentAdapter(monitor, query), desk)
        run = runs_of(monitor)[0]
        assert 4 * TOKENS == run.tokens
        assert pytest.approx(messages[-1].total_cost_usd) == run.cost_usd

    def test_what_a_stopped_turn_took(self, monitors):
        """
        A run that was stopped is charged with all it took, and so is its caller: nothing stays open.
        """
        monitor = monitors("enforce")
        with Desk(lookups(30)) as desk:
            with pytest.raises(RunStopped) as stop:
                asked(ClaudeAgentAdapter(monitor, query), desk)
            requests = len(desk.model.requests[""])
        run = runs_of(monitor)[0]
        assert (run.run_id, requests * TOKENS) == (stop.value.run_id, run.tokens)
        assert run.cost_usd > 0

    def test_the_other_calls_of_a_stopped_reply(self, monitors):
        """
        When a call of a reply is stopped, those beside it are not made either.
        """
        monitor = monitors("enforce")
        pairs = [
            Turn(calls=tuple(Ask("lookup", {"key": "a"}, f"c{n}{side}") for side in "xy")) for n in range(20)
        ]
        with Desk(pairs) as desk:
            with pytest.raises(RunStopped):
                asked(ClaudeAgentAdapter(monitor, query), desk)
            made = len(desk.made)
        told = [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.action_type == "tool_call"]
        assert made == len(told)

    def test_a_listener_that_takes_its_time(self, monitors):
        """
        However slow its messages are taken, each reply is told once and before its calls.
        """

        async def slowly():
            async for _ in ClaudeAgentAdapter(monitor, query)(prompt=GOAL, options=desk.options):
                await asyncio.sleep(0.1)

        monitor = monitors()
        with Desk(lookups(3)) as desk:
            asyncio.run(slowly())
        step = ["model: ", "lookup(key=a) -> no entry for a"]
        assert [f"user: {GOAL}", *step * 3, "model: done"] == story(monitor)
        assert 4 * TOKENS == runs_of(monitor)[0].tokens

    def test_words_beside_a_call_are_seen(self, monitors):
        """
        What the model says before it calls a tool is the text of its reply.
        """
        monitor = monitors()
        with Desk([Turn(says="Let me see.", calls=lookups(1)[0].calls)]) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk)
        assert "model: Let me see." == story(monitor)[1]

    def test_whoever_leaves_early_is_not_held(self, monitors):
        """
        A caller that breaks out of the loop ends the run; nothing is raised at it.
        """

        async def first_reply():
            messages = ClaudeAgentAdapter(monitor, query)(prompt=GOAL, options=desk.options)
            async for message in messages:
                if isinstance(message, AssistantMessage):
                    break
            await messages.aclose()

        monitor = monitors("enforce")
        with Desk(lookups(3)) as desk:
            asyncio.run(first_reply())
        assert ("left early", 0) == (runs_of(monitor)[0].outcome, monitor.status()["live_runs"])

    def test_a_stream_of_prompts(self, monitors):
        """
        Prompts that come as a stream are turns of the user; the first is the goal.
        """
        monitor = monitors()
        with Desk(lookups(1)) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk, prompt=prompts(desk, requests=2))
        assert "find a" == runs_of(monitor)[0].goal
        assert ["user: find a", "user: and b"] == [it for it in story(monitor) if it.startswith("user")]

    @needs("claude-agent-sdk", "0.2.182", "a prompt that comes inside a turn is not reported")
    def test_a_prompt_inside_a_turn(self, monitors):
        """
        A prompt that comes while the agent works is a turn of the user as well.
        """
        monitor = monitors()
        with Desk(lookups(1)) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk, prompt=prompts(desk, requests=1))
        assert ["user: find a", "user: and b"] == [it for it in story(monitor) if it.startswith("user")]

    def test_several_at_once(self, monitors):
        """
        Queries that run side by side in one loop are runs of their own.
        """

        async def both():
            watched = ClaudeAgentAdapter(monitor, query)
            await asyncio.gather(
                *(all_of(watched(prompt=f"find {n}", options=desk.options)) for n in range(3))
            )

        monitor = monitors()
        with Desk([]) as desk:
            asyncio.run(both())
        stories = sorted(story(monitor, run.run_id) for run in runs_of(monitor))
        assert [[f"user: find {n}", "model: done"] for n in range(3)] == stories

    def test_a_program_that_is_not_there(self, monitors):
        """
        What fails before the conversation begins is the SDK's own error, and how the run ended.
        """
        monitor = monitors("enforce")
        with Desk([], cli_path="/nowhere/claude") as desk, pytest.raises(CLINotFoundError):
            asked(ClaudeAgentAdapter(monitor, query), desk)
        assert "error: CLINotFoundError" == runs_of(monitor)[0].outcome

    def test_a_program_that_dies(self, monitors):
        """
        A program that is killed raises what it raises without us, and nothing stays open.
        """

        async def killed():
            alive = True
            async for message in ClaudeAgentAdapter(monitor, query)(prompt=GOAL, options=desk.options):
                if alive and isinstance(message, AssistantMessage):
                    os.kill(claude_process(), signal.SIGKILL)
                    alive = False  # what it had said by then may still come

        monitor = monitors("enforce")
        # Older versions raise a plain exception.
        with Desk(lookups(3), pause_s=5) as desk, pytest.raises(Exception, match="exit code -9"):
            asyncio.run(killed())
        assert 0 == monitor.status()["live_runs"]

    def test_turned_off(self, monitors):
        """
        With everything turned off the SDK's own objects come back.
        """
        monitor = monitors()
        monitor.disabled = True
        options = ClaudeAgentOptions()
        assert (query, options) == tuple(ClaudeAgentAdapter(monitor, it) for it in (query, options))

    @needs("claude-agent-sdk", "0.2.182", "a limit of turns is not raised as an error of its own")
    def test_the_sdks_own_limits_pass_unchanged(self, monitors):
        """
        A run that the SDK ends by itself raises what it raises, and is told as the agent's error.
        """
        monitor = monitors("enforce")
        with Desk(lookups(5), max_turns=2) as desk, pytest.raises(claude_agent_sdk.ResultError) as limit:
            asked(ClaudeAgentAdapter(monitor, query), desk)
        assert "error_max_turns" == limit.value.subtype
        assert "error: ResultError" == runs_of(monitor)[0].outcome
        assert story(monitor)[-1].startswith("agent_error: ")


class TestAsking:
    @pytest.mark.parametrize("allows", [True, False])
    def test_the_user_is_asked_by_the_sdks_own_means(self, monitors, allows):
        """
        Where the options say how a permission is asked for, that is how the user is asked about the agent.
        """
        questions = []

        async def can_use_tool(name, args, context):
            if context.decision_reason:
                questions.append(context.decision_reason)
            return PermissionResultAllow() if allows else PermissionResultDeny(message="Look in the archive.")

        monitor = monitors("enforce")
        with Desk(lookups(9), can_use_tool=can_use_tool) as desk:
            # Older versions take `can_use_tool` with a stream of prompts alone.
            messages = asked(ClaudeAgentAdapter(monitor, query), desk, prompt=prompt_of(GOAL))
            requests = desk.model.texts()
        assert "does not make progress" in questions[0]
        assert "done" == messages[-1].result
        told = [it for it in story(monitor) if it.startswith("user")]
        assert ("user: Go on." if allows else "user: Look in the archive.") in told
        assert allows is not any("Look in the archive." in it for it in requests)


AGENTS = {"inner": AgentDefinition(description="looks things up", prompt=INNER, tools=["lookup"])}


def errand(n=1, kind="inner", *, background=False):
    args = {"description": "look", "prompt": "find the total", "subagent_type": kind}
    return Ask("Agent", args | {"run_in_background": background}, f"e{n}")


class TestSubAgents:
    @pytest.mark.parametrize("background", [False, True])
    def test_a_subagent_is_a_child(self, monitors, background):
        """
        A sub-agent of Claude Code is a run inside the run, with its task as the goal, also in the background.
        """
        monitor = monitors()
        turns = {"": [Turn(calls=(errand(background=background),))], INNER: [*lookups(1), Turn(says="none")]}
        with Desk(turns, agents=AGENTS) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk)
        outer, inner = runs_of(monitor)
        assert (outer.run_id, "find the total", "done") == (inner.parent_run_id, inner.goal, inner.outcome)
        step = ["user: find the total", "model: ", "lookup(key=a) -> no entry for a", "model: none"]
        assert step == story(monitor, inner.run_id)
        assert [f"user: {GOAL}"] == [it for it in story(monitor, outer.run_id) if it.startswith("user")]
        assert 1 == outer.tool_calls

    def test_two_at_once(self, monitors):
        """
        Sub-agents that work side by side are two children.
        """
        monitor = monitors()
        turns = {"": [Turn(calls=(errand(1), errand(2)))], INNER: [*lookups(2), Turn(says="none")]}
        with Desk(turns, agents=AGENTS) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk)
        outer, *inner = runs_of(monitor)
        assert [outer.run_id] * 2 == [it.parent_run_id for it in inner]
        assert 2 == sum(it.tool_calls for it in inner)
        assert 2 == outer.tool_calls

    def test_a_loop_of_a_subagent_is_answered_there(self, monitors):
        """
        A sub-agent that loops hears of it itself, and one that does not listen is stopped alone.
        """
        monitor = monitors("enforce")
        turns = {"": [Turn(calls=(errand(),))], INNER: lookups(30)}
        with Desk(turns, agents=AGENTS) as desk:
            try:
                asked(ClaudeAgentAdapter(monitor, query), desk)
            except RunStopped as stop:
                pytest.fail(f"the outer agent was stopped: {stop}")
            assert guidance_of(monitor)[0] in desk.model.texts(INNER)[3]
            assert 4 <= len(desk.made) <= 6
        outer, inner = runs_of(monitor)
        assert ("done", "stopped") == (outer.outcome, inner.outcome)

    def test_a_subagent_that_cannot_start(self, monitors):
        """
        A sub-agent that never works is a failed call, and its run does not stay open.
        """
        monitor = monitors()
        agents = {"inner": AgentDefinition(description="looks", prompt=INNER, tools=["nothing"])}
        with Desk({"": [Turn(calls=(errand(),))]}, agents=agents) as desk:
            asked(ClaudeAgentAdapter(monitor, query), desk)
        assert 0 == monitor.status()["live_runs"]
        assert story(monitor)[2].endswith("failed")


class TestClient:
    def test_a_conversation_is_one_run(self, monitors):
        """
        From its first prompt to its end a client is one run; what the user says next is a turn of theirs.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient)(desk.options) as client:
                for prompt in ("find a", "and b"):
                    await client.query(prompt)
                    said.extend([message async for message in client.receive_response()])

        monitor, said = monitors(), []
        with Desk(
            [*lookups(1), Turn(says="none"), *lookups(1, "b", first=5), Turn(says="none of b")]
        ) as desk:
            asyncio.run(talk())
        assert 2 == sum(isinstance(message, ResultMessage) for message in said)
        assert ["user: find a", "model: ", "lookup(key=a) -> no entry for a", "model: none"] == story(
            monitor
        )[:4]
        assert ["user: and b", "model: ", "lookup(key=b) -> no entry for b", "model: none of b"] == story(
            monitor
        )[4:]
        (run,) = runs_of(monitor)
        assert ("find a", "done", 4 * TOKENS) == (run.goal, run.outcome, run.tokens)

    def test_guidance_reaches_the_model(self, monitors):
        """
        In guide mode what was noticed reaches the model of a watched client, and every call goes ahead.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient)(desk.options) as client:
                await client.query("find a")
                await all_of(client.receive_response())

        monitor = monitors("guide")
        with Desk([*lookups(4), Turn(says="none")]) as desk:
            asyncio.run(talk())
            assert guidance_of(monitor)[0] in desk.model.texts()[3]
            assert 4 == len(desk.made)

    def test_a_stop_and_what_comes_after_it(self, monitors):
        """
        A stop reaches whoever listens; the client stays connected, and the next prompt begins another run.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient(desk.options)) as client:
                await client.query("find a")
                with pytest.raises(RunStopped):
                    await all_of(client.receive_response())
                await client.query("then b")
                return await all_of(client.receive_response())

        monitor = monitors("enforce")
        with Desk([*lookups(9), Turn(says="none of b")]) as desk:
            messages = asyncio.run(talk())
            assert "then b" in desk.model.texts()[-1]
        assert isinstance(messages[-1], ResultMessage)
        assert ["stopped", "done"] == [run.outcome for run in runs_of(monitor)]

    def test_a_stop_that_nobody_heard(self, monitors):
        """
        Whoever does not listen learns of a stop when the conversation is over.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient(desk.options)) as client:
                await client.query("find a")
                while client._conversation.stopped is None:  # noqa: ASYNC110 - nobody listens
                    await asyncio.sleep(0.02)

        monitor = monitors("enforce")
        with Desk(lookups(30)) as desk, pytest.raises(RunStopped):
            asyncio.run(talk())

    def test_a_turn_that_the_user_breaks_off(self, monitors):
        """
        After an interruption the turns that follow are counted as they come.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient)(desk.options) as client:
                await client.query("find a")
                async for message in client.receive_response():
                    if isinstance(message, AssistantMessage):
                        await client.interrupt()
                await client.query("then b")
                await all_of(client.receive_response())

        monitor = monitors()
        with Desk([*lookups(1), *lookups(1, "b", first=5), Turn(says="none of b")]) as desk:
            asyncio.run(talk())
        told = story(monitor)
        assert "model: none of b" == told[-1]
        assert 1 == told.count("lookup(key=b) -> no entry for b")

    def test_a_failure_of_the_callers_own(self, monitors):
        """
        What fails in the block of a client is the caller's own, and how the run ended.
        """

        async def talk():
            async with monitor.wrap(ClaudeSDKClient)(desk.options) as client:
                await client.query("find a")
                await all_of(client.receive_response())
                raise KeyError("mine")

        monitor = monitors()
        with Desk([]) as desk, pytest.raises(KeyError, match="mine"):
            asyncio.run(talk())
        assert "error: KeyError" == runs_of(monitor)[0].outcome

    def test_a_client_that_is_connected_cannot_be_watched(self, monitors):
        """
        Hooks are set when a client connects: after that it is too late, and it says so.
        """

        async def talk():
            async with ClaudeSDKClient(desk.options) as client:
                with pytest.raises(SettingsError, match="is connected"):
                    monitors().wrap(client)

        with Desk([]) as desk:
            asyncio.run(talk())


class TestBadInput:
    @pytest.mark.parametrize("agent", [None, 3, "query", object(), dict, lambda: None, ClaudeAgentAdapter])
    def test_what_is_not_of_the_sdk(self, agent, monitors):
        """
        Only the SDK's own objects are recognised, and no object is too odd to be looked at.
        """
        assert not ClaudeAgentAdapter.can_wrap(agent)
        with pytest.raises(SettingsError, match="Claude Agent SDK"):
            ClaudeAgentAdapter(monitors(), agent)

    def test_an_ask_that_is_no_function(self, monitors):
        """
        What cannot be asked is refused at once.
        """
        with pytest.raises(SettingsError, match="ask must be a function"):
            monitors().wrap(ClaudeAgentOptions(), ask="the user")

    @pytest.mark.parametrize("listens", [True, False])
    @pytest.mark.parametrize(
        "payload",
        [
            {},
            {"hook_event_name": "BeforeLunch"},
            {"hook_event_name": "PostToolUse", "tool_use_id": "never announced"},
            {"hook_event_name": "SubagentStop", "agent_id": "never started"},
            {"hook_event_name": "PostToolBatch", "tool_calls": [None, {}, {"tool_use_id": 3}]},
            {
                "hook_event_name": "PreToolUse",
                "tool_name": "Agent",
                "tool_input": ["\ud800"],
                "tool_use_id": None,
            },
            {"hook_event_name": "UserPromptSubmit", "prompt": None},
            {"hook_event_name": "StopFailure"},
        ],
        ids=range(8),
    )
    def test_odd_events(self, payload, listens, monitors):
        """
        An event that makes no sense is answered with nothing.
        """
        talk = ClaudeConversation(Boundary(monitors("enforce"), "claude_agent", {}), has_messages=listens)
        assert [{}, {}] == [talk.handle_hook(payload), talk.handle_hook({**payload, "session_id": "s"})]
        talk.finish()

    def test_a_failure_of_ours_is_not_the_agents(self, monitors, quiet, monkeypatch):
        """
        When we fail, the agent goes on, and it is counted.
        """
        monkeypatch.setattr("steadyhelm.adapters.claude_agent.entry.record_message", lambda *_: 1 / 0)
        monkeypatch.setattr("steadyhelm.recordings.hook_events.claude_code.read", lambda *_: 1 / 0)
        monitor = monitors("guide")
        with Desk(lookups(1)) as desk:
            messages = asked(ClaudeAgentAdapter(monitor, query), desk)
        assert "done" == messages[-1].result
        assert monitor.status()["losses"]
