"""What real coding agents sent to a hook and wrote into their transcripts, recorded with a scripted model."""

from pathlib import Path

import msgspec
import pytest

from steadyhelm.recordings.hook_events.dialects import DIALECTS, recognise_dialect
from steadyhelm.recordings.hook_events.gemini_cli import read_shell_result
from steadyhelm.recordings.hook_events.transcript_usage import count_tokens, read_transcript

GOLDEN = Path(__file__).parent.parent / "golden"
NOT_THERE = "cat: nothing: No such file or directory"
RECORDED = {
    "codex": (
        "hooks-codex-0.166.jsonl",
        [
            ("other", "", None),
            ("prompt", "", None),
            ("before_tool", "Bash", None),
            ("after_tool", "Bash", None),
            ("before_tool", "Bash", None),
            ("after_tool", "Bash", None),
            ("reply", "", None),
            ("end", "", None),
        ],
    ),
    "gemini-cli": (
        "hooks-gemini-cli-0.61.jsonl",
        [
            ("other", "", None),
            ("prompt", "", None),
            ("before_tool", "run_shell_command", None),
            ("after_tool", "run_shell_command", None),
            ("before_tool", "run_shell_command", None),
            ("after_tool", "run_shell_command", f"exit code 3: {NOT_THERE}"),
            ("before_tool", "read_file", None),
            ("after_tool", "read_file", "File not found: /project/nope.txt"),
            ("reply", "", None),
            ("end", "", None),
        ],
    ),
}


def payloads(agent):
    return [msgspec.json.decode(line) for line in (GOLDEN / RECORDED[agent][0]).read_bytes().splitlines()]


@pytest.mark.parametrize("agent", RECORDED)
def test_recorded_events_are_read(agent):
    """
    Every event of the session is a step of the right kind, with its tool and its error.
    """
    steps = [DIALECTS[agent].read(payload) for payload in payloads(agent)]
    assert RECORDED[agent][1] == [(step.kind, step.tool, step.error) for step in steps]
    assert {"session-1"} == {step.run_id for step in steps}


@pytest.mark.parametrize("agent", RECORDED)
def test_recorded_agents_are_recognised(agent):
    """
    Each event of a tool says whose it is.
    """
    calls = [it for it in payloads(agent) if "tool_name" in it]
    assert {agent} == {recognise_dialect(payload).agent for payload in calls}


@pytest.mark.parametrize("name", ["transcript-codex-0.166.jsonl", "transcript-gemini-cli-0.61.jsonl"])
def test_recorded_tokens(name):
    """
    The tokens of each reply are counted once, also where a transcript repeats them and is read in parts.
    """
    replies = {"transcript-codex-0.166.jsonl": 3, "transcript-gemini-cli-0.61.jsonl": 4}[name]
    path = str(GOLDEN / name)
    whole = count_tokens(read_transcript(path, 0), 0)
    assert 15 * replies == whole.tokens
    ends = [n + 1 for n, byte in enumerate((GOLDEN / name).read_bytes()) if byte == ord("\n")]
    for end in ends:
        part = read_transcript(path, 0)
        before = part._replace(end=end, replies=tuple(it for it in part.replies if it.begins_at < end))
        first = count_tokens(before, 0)
        rest = count_tokens(read_transcript(path, first.read_to), first.read_to, counted=first.reply)
        assert whole.tokens == first.tokens + rest.tokens


def test_recorded_exit_codes_of_codex():
    """
    The exit code of each command is in the transcript, under the id of its call.
    """
    part = read_transcript(str(GOLDEN / "transcript-codex-0.166.jsonl"), 0)
    assert (("call_1", 0), ("call_2", 3)) == part.exits


@pytest.mark.parametrize(
    ("told", "result"),
    [
        ("", ("", 0)),
        ("Output: 1 passed\nProcess Group PGID: 7", ("1 passed", 0)),
        ("Output: a\nb\nSignal: 9\nBackground PIDs: 4, 5\nProcess Group PGID: 7", ("a\nb", 9)),
        ("Output: Exit Code: 1\nis what it printed", ("Exit Code: 1\nis what it printed", 0)),
        ("Exit Code: 99999999999999999999", ("Exit Code: 99999999999999999999", 0)),
    ],
)
def test_results_of_commands_of_gemini_cli(told, result):
    """
    The lines after what a command printed give its exit code, and are no part of its result.
    """
    assert result == read_shell_result(told)
