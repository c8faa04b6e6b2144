"""Codex CLI itself, watched by its hooks: the real program, its own settings file, a model on loopback."""

import json
import os
from pathlib import Path

import pytest
from coding_place import GOAL, CodingPlace, is_told_after, open_place
from fake_endpoints import USAGE, FakeEndpoint
from script import Ask, Turn

CODEX = Path(os.environ["STEADYHELM_CODING_AGENTS"]).absolute() / "codex"
# A new hook runs once the user has trusted it in Codex; nobody is there to do so.
FLAGS = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust", "--sandbox", "danger-full-access")
QUIET = ("analytics.enabled=false", "check_for_update_on_startup=false", 'model_provider="loopback"')
TOKENS = USAGE["total_tokens"]
FAILS = "echo again >> log; cat nothing; exit 3"
WORKS = "echo again >> log; cat a.txt"


class CodexPlace(CodingPlace):
    """Where Codex works."""

    agent = "codex"
    settings = ".codex/hooks.json"

    def work(self, turns):
        """Let Codex work with this script; gives the model, and the events the program printed."""
        with FakeEndpoint(turns) as model:
            provider = f'name="loopback", base_url="{model.url}/v1", wire_api="responses"'
            provider = f"model_providers.loopback={{{provider}, request_max_retries=0, stream_max_retries=0}}"
            options = [word for value in (*QUIET, provider) for word in ("-c", value)]
            done = self.run_agent([CODEX, "exec", "--json", *FLAGS, *options, GOAL])
        return model, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def place():
    with open_place(CodexPlace) as place:
        yield place


def times(n, command, name="call"):
    return [Turn(calls=(Ask("exec_command", {"cmd": command}, f"{name}_{i:03}"),)) for i in range(n)]


def test_guidance_reaches_the_model_of_codex(place):
    """
    A command that is run again and again is pointed out to the model after the third time, not before.
    """
    place.install("guide")
    model, events = place.work(times(5, WORKS))
    assert is_told_after(3, "Bash called 3 times", model.texts)
    assert "turn.completed" == events[-1]["type"]


def test_a_session_of_codex_is_a_run_with_its_exit_codes(place):
    """
    The session is a run that has ended, with its goal, its calls, its tokens, and failed commands as errors.
    """
    place.install("observe")
    model, events = place.work([*times(2, FAILS), *times(1, "true", "last")])
    (run,) = place.runs()
    assert (events[0]["thread_id"], "codex", GOAL, "ended") == (
        *(run["run_id"], run["agent_id"], run["goal"], run["state"]),
    )
    assert (3, 2, len(model.bodies) * TOKENS) == (run["tool_calls"], run["errors"], run["tokens"])
    assert "exit code 3: cat: nothing" in place.steadyhelm("show", run["run_id"])


def test_exit_codes_of_commands_at_once(place):
    """
    Commands that one reply asks for together each keep their own exit code.
    """
    place.install("observe")
    asks = [Ask("exec_command", {"cmd": f"exit {n}"}, f"call_{n}") for n in (0, 1, 2)]
    place.work([Turn(calls=tuple(asks))])
    (run,) = place.runs()
    assert (3, 2) == (run["tool_calls"], run["errors"])


def test_a_block_holds_in_codex(place):
    """
    In mode enforce a command that would continue the loop does not run, and the model reads why.
    """
    place.install("enforce")
    model, _ = place.work(times(7, WORKS))
    assert 4 == place.made()
    assert "blocked by PreToolUse hook" in model.texts[5]
    assert "Bash called" in model.texts[5].rpartition("blocked by PreToolUse hook")[2]
    assert 4 == place.runs()[0]["tool_calls"]


def test_observing_codex_says_nothing(place):
    """
    In mode observe nothing reaches the model, and the incident is stored.
    """
    place.install("observe")
    model, _ = place.work(times(5, WORKS))
    assert not any("called 3 times" in it for it in model.texts)
    assert (5, 1) == (place.made(), place.runs()[0]["incidents"])


def test_after_uninstalling_codex_is_as_before(place):
    """
    Uninstalling restores the hooks file byte for byte; the user's own hook ran as before, and ours no more.
    """
    command = {"type": "command", "command": "cat > /dev/null; echo ours >> hook_ran"}
    before = json.dumps({"hooks": {"PostToolUse": [{"hooks": [command]}]}})
    place.settings_file.parent.mkdir()
    place.settings_file.write_text(before)
    place.install("guide")
    place.work(times(1, WORKS))
    place.uninstall()
    assert before == place.settings_file.read_text()
    place.work(times(4, WORKS))
    assert 5 == len((place.project / "hook_ran").read_text().splitlines())
    assert 1 == len(place.runs())
