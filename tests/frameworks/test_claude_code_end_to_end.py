"""Claude Code itself, watched by its hooks: the real program, its own settings file, a model on loopback."""

import json
from pathlib import Path

import claude_agent_sdk
import pytest
from coding_place import GOAL, CodingPlace, is_told_after, open_place
from fake_messages import INPUT_TOKENS, OUTPUT_TOKENS, FakeMessages
from script import Ask, Turn

CLAUDE = Path(claude_agent_sdk.__file__).with_name("_bundled") / "claude"
FLAGS = ("--output-format", "stream-json", "--verbose", "--allowedTools=Read,Bash,Agent")
HELPER = "agent for Claude Code"
"""Words that stand in the system prompt of Claude Code's own sub-agents."""
TOKENS = INPUT_TOKENS + OUTPUT_TOKENS


class ClaudePlace(CodingPlace):
    """Where Claude Code works."""

    agent = "claude-code"
    settings = ".claude/settings.json"

    def __init__(self, folder):
        super().__init__(folder)
        self.environment["CLAUDE_CODE_TMPDIR"] = str(folder)
        self.said = []

    def work(self, turns, *options, goal=GOAL):
        """Let Claude Code work with this script; gives the model, and what the program told at the end."""
        with FakeMessages(turns) as model:
            done = self.run_agent(
                [CLAUDE, "-p", goal, *FLAGS, *options],
                ANTHROPIC_BASE_URL=model.url,
                ANTHROPIC_API_KEY="none",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            )
        self.said = [json.loads(line) for line in done.stdout.splitlines()]
        return model, next(it for it in reversed(self.said) if it["type"] == "result")

    def lines(self):
        """What the user was shown by hooks."""
        return [it["content"] for it in self.said if it.get("subtype") == "informational"]

    def read(self, n):
        return Ask("Read", {"file_path": str(self.project / "a.txt")}, f"toolu_{n:03}")

    def bash(self, n):
        return Ask("Bash", {"command": "echo again >> log; cat a.txt"}, f"toolu_{n:03}")


@pytest.fixture
def place():
    with open_place(ClaudePlace) as place:
        yield place


def times(n, ask):
    return [Turn(calls=(ask(i),)) for i in range(n)]


@pytest.mark.parametrize("tool", ["read", "bash"])
def test_the_reminder_reaches_the_model(place, tool):
    """
    An agent that makes the same call again and again is told so before its next request, and not before.
    """
    place.install("guide")
    model, result = place.work(times(4, getattr(place, tool)))
    name = tool.capitalize()
    assert is_told_after(3, f"{name} called 3 times", model.texts())
    assert ("done", "completed") == (result["result"], result["terminal_reason"])
    (line,) = place.lines()
    assert line.endswith(
        f"Steadyhelm: {name} called 3 times in a row with the same arguments and the same result"
    )


def test_the_session_is_a_run_like_any_other(place):
    """
    The session is in the store under its id, with its goal, its calls, its tokens and what was noticed.
    """
    place.install("guide")
    model, result = place.work(times(4, place.bash))
    (run,) = place.runs()
    assert (result["session_id"], "claude-code", GOAL, "ended") == (
        *(run["run_id"], run["agent_id"], run["goal"], run["state"]),
    )
    requests = len(model.requests[""])
    assert (4, requests * TOKENS, 1) == (run["tool_calls"], run["tokens"], run["incidents"])
    shown = place.steadyhelm("show", result["session_id"])
    assert "remind, verdict guide" in shown
    assert "Bash called 4 times in a row" in place.steadyhelm("alerts", "--json")


def test_a_denial_reaches_the_model_and_a_stop_ends_the_run(place):
    """
    In mode enforce the calls that would go on with the loop are not made; who goes on asking is stopped.
    """
    place.install("enforce")
    model, result = place.work(times(20, place.bash))
    made = place.made()
    denied = [it for it in model.texts() if "This call was not run." in it]
    assert 4 == made
    assert "this call would make it: Bash called 5 times in a row" in denied[0]
    assert ("hook_stopped", False) == (result["terminal_reason"], result["is_error"])
    assert made < len(model.requests[""]) < 20
    (run,) = place.runs()
    assert (made, "ended", len(model.requests[""]) * TOKENS) == (
        run["tool_calls"],
        run["state"],
        run["tokens"],
    )


def test_observing_says_nothing(place):
    """
    In mode observe nothing reaches the model or the user, and everything is kept.
    """
    place.install("observe")
    model, result = place.work(times(6, place.read))
    assert not any("called 3 times" in it for it in model.texts())
    assert ([], "done") == (place.lines(), result["result"])
    assert 1 == place.runs()[0]["incidents"]


def test_calls_that_are_never_made(place):
    """
    Asking for an unknown tool, or with bad arguments, is noticed like any other loop.
    """
    place.install("guide")
    unknown = [Turn(calls=(Ask("Nope", {"x": 1}, f"toolu_{n}"),)) for n in range(4)]
    wrong = [Turn(calls=(Ask("Read", {"file": "a.txt"}, f"toolu_w{n}"),)) for n in range(4)]
    model, _ = place.work([*unknown, *wrong])
    assert "Nope called 3 times in a row with the same arguments and the same error" in model.texts()[3]
    run = place.runs()[0]
    assert (8, 8) == (run["tool_calls"], run["errors"])


def test_calls_at_once_count_once_each(place):
    """
    Calls that one reply asks for together are each seen once, those that are refused among them.
    """
    place.install("guide")
    write = Ask("Write", {"file_path": str(place.project / "b.txt"), "content": "x"}, "toolu_w")
    place.work([Turn(calls=(place.read(1), place.bash(2), write))])
    run = place.runs()[0]
    assert (3, 1) == (run["tool_calls"], run["errors"])


def test_a_subagent_is_a_run_of_its_own(place):
    """
    A sub-agent that loops is told so itself, and its steps are a child of the session's run.
    """
    place.install("guide")
    delegate = Ask(
        "Agent", {"description": "look", "prompt": "look", "subagent_type": "general-purpose"}, "toolu_d"
    )
    model, result = place.work({"": [Turn(calls=(delegate,))], HELPER: times(4, place.read)})
    assert any("Read called 3 times" in it for it in model.texts(HELPER))
    assert not any("Read called 3 times" in it for it in model.texts())
    child, run = sorted(place.runs(), key=lambda it: it["parent_run_id"] is None)
    assert ("claude-code/subagent", result["session_id"], 4) == (
        *(child["agent_id"], child["parent_run_id"], child["tool_calls"]),
    )
    assert (1, GOAL) == (run["tool_calls"], run["goal"])
    assert 1 == sum("» user" in line for line in place.steadyhelm("show", run["run_id"]).splitlines())


def test_a_model_that_fails(place):
    """
    A turn that ends because the model could not be asked is an error of the run, and stays the host's.
    """
    place.install("enforce")
    _, result = place.work([Turn(calls=(place.read(1),)), Turn(breaks=True)])
    assert (True, 403) == (result["is_error"], result["api_error_status"])
    assert 1 == place.runs()[0]["errors"]


def test_a_session_that_is_taken_up_again(place):
    """
    A session that goes on after its end is a second run, which is not charged with the first one's tokens.
    """
    place.install("guide")
    _, first = place.work(times(2, place.read))
    _, second = place.work([], "--continue", goal="And now sum up")
    assert first["session_id"] == second["session_id"]
    later, earlier = place.runs()
    assert (f"{first['session_id']}~2", "And now sum up", TOKENS) == (
        *(later["run_id"], later["goal"], later["tokens"]),
    )
    assert (first["session_id"], 3 * TOKENS) == (earlier["run_id"], earlier["tokens"])


def test_hooks_of_a_project(place):
    """
    Hooks can be installed for one project only.
    """
    place.install("guide", "--project")
    assert not place.settings_file.exists()
    model, _ = place.work(times(4, place.bash))
    assert "Bash called 3 times" in model.texts()[3]


def test_hooks_beside_those_of_others(place):
    """
    The user's own hooks run as before, and keep their entry when ours go.
    """
    settings = place.settings_file
    settings.parent.mkdir()
    command = {"type": "command", "command": "cat > /dev/null; echo ours >> hook_ran"}
    before = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]}})
    settings.write_text(before)
    place.install("guide")
    model, _ = place.work(times(4, place.bash))
    assert 4 == len((place.project / "hook_ran").read_text().splitlines())
    assert "Bash called 3 times" in model.texts()[3]
    place.uninstall()
    assert before == settings.read_text()


def test_without_hooks_nothing_is_left(place):
    """
    After uninstalling the agent works as if Steadyhelm had never been there.
    """
    place.install("guide")
    place.uninstall()
    model, result = place.work(times(4, place.read))
    assert "done" == result["result"]
    assert not any("called 3 times" in it for it in model.texts())
    assert not (place.own / "steadyhelm.db").exists()


def test_a_broken_store_stands_in_nobodys_way(place):
    """
    With a database that cannot be used the agent works on, and the reason is noted.
    """
    place.install("enforce")
    place.own.mkdir(exist_ok=True)
    (place.own / "steadyhelm.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
    _, result = place.work(times(6, place.bash))
    assert ("done", 6) == (result["result"], place.made())
    assert "store cannot be used" in (place.own / "hook.log").read_text()
