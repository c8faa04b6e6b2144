"""Gemini CLI itself, watched by its hooks: the real program, its own settings file, a model on loopback."""

import json
import os
from pathlib import Path

import pytest
from coding_place import GOAL, CodingPlace, is_told_after, open_place
from fake_gemini import TOKENS, FakeGemini
from script import Ask, Turn

GEMINI = Path(os.environ["STEADYHELM_CODING_AGENTS"]).absolute() / "gemini"
FLAGS = ("--yolo", "--skip-trust", "--output-format", "stream-json", "--model", "gemini-2.5-pro")
QUIET = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    # Its own check would end the loop before ours has spoken a second time.
    "model": {"disableLoopDetection": True},
}
FAILS = "echo again >> log; cat nothing; exit 3"
WORKS = "echo again >> log; cat a.txt"


class GeminiPlace(CodingPlace):
    """Where Gemini CLI works."""

    agent = "gemini-cli"
    settings = ".gemini/settings.json"

    def __init__(self, folder):
        super().__init__(folder)
        self.settings_file.parent.mkdir()
        self.settings_file.write_text(json.dumps(QUIET))

    def work(self, turns):
        """Let Gemini CLI work with this script; gives the model, and the events the program printed."""
        with FakeGemini(turns) as model:
            done = self.run_agent(
                [GEMINI, "--prompt", GOAL, *FLAGS],
                GEMINI_API_KEY="none",
                GOOGLE_GEMINI_BASE_URL=model.url,
            )
        return model, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def place():
    with open_place(GeminiPlace) as place:
        yield place


def shell(n, command):
    return [Turn(calls=(Ask("run_shell_command", {"command": command}, ""),)) for _ in range(n)]


def test_guidance_reaches_the_model_of_gemini_cli(place):
    """
    A command that is run again and again is pointed out to the model after the third time, not before.
    """
    place.install("guide")
    model, events = place.work(shell(5, WORKS))
    assert is_told_after(3, "run_shell_command called 3 times", model.texts())
    assert ("result", "success") == (events[-1]["type"], events[-1]["status"])


def test_a_session_of_gemini_cli_is_a_run_with_its_exit_codes(place):
    """
    The session is a run that has ended, with its goal, its calls, its tokens, and failed commands as errors.
    """
    place.install("observe")
    model, events = place.work([*shell(2, FAILS), *shell(1, "true")])
    (run,) = place.runs()
    assert (events[0]["session_id"], "gemini-cli", GOAL, "ended") == (
        *(run["run_id"], run["agent_id"], run["goal"], run["state"]),
    )
    assert (3, 2, len(model.requests) * TOKENS) == (run["tool_calls"], run["errors"], run["tokens"])
    assert "exit code 3: cat: nothing" in place.steadyhelm("show", run["run_id"])


def test_a_block_holds_in_gemini_cli(place):
    """
    In mode enforce a command that would continue the loop does not run, and the model reads why.
    """
    place.install("enforce")
    model, _ = place.work(shell(7, WORKS))
    assert 4 == place.made()
    assert "run_shell_command called 5 times" in model.texts()[5]
    assert 4 == place.runs()[0]["tool_calls"]


def test_observing_gemini_cli_says_nothing(place):
    """
    In mode observe nothing reaches the model, the incident is stored, and only the model was asked.
    """
    place.install("observe")
    model, _ = place.work(shell(5, WORKS))
    assert not any("called 3 times" in it for it in model.texts())
    assert (5, 1, []) == (place.made(), place.runs()[0]["incidents"], model.others)


def test_after_uninstalling_gemini_cli_is_as_before(place):
    """
    Uninstalling restores the settings byte for byte; the user's own hook ran as before, and ours no more.
    """
    command = {"type": "command", "command": "cat > /dev/null; echo ours >> hook_ran"}
    before = json.dumps({**QUIET, "hooks": {"AfterTool": [{"matcher": "*", "hooks": [command]}]}})
    place.settings_file.write_text(before)
    place.install("guide")
    place.work(shell(1, WORKS))
    place.uninstall()
    assert before == place.settings_file.read_text()
    place.work(shell(4, WORKS))
    assert 5 == len((place.project / "hook_ran").read_text().splitlines())
    assert 1 == len(place.runs())
