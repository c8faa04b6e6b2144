from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import encoded, fed, read, run_of, told, wild_objects

from steadyhelm.recordings.gemini_cli import GeminiCLI
from steadyhelm.recordings.recognition import open_runs
from steadyhelm.recordings.run_file import BrokenLine, ReadRun

RECORDED = Path(__file__).parent.parent / "golden" / "transcript-gemini-cli-0.61.jsonl"
HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "kind": "main"}


def message(kind, content="", second=0, name="m1", **more):
    time = f"2026-01-01T00:00:{second:02}.000Z"
    return {"id": name, "timestamp": time, "type": kind, "content": content, **more}


def call(response, name="run_shell_command", status="success", call_id="c1"):
    result = [{"functionResponse": {"id": call_id, "name": name, "response": response}}]
    return {"id": call_id, "name": name, "args": {"a": 1}, "result": result, "status": status}


def reply(*calls, text="", tokens=15, **more):
    return message("gemini", text, tokens={"total": tokens}, model="gemini-2.5-pro", toolCalls=calls, **more)


class TestChat:
    def test_the_recorded_chat(self):
        """
        A real chat has every call with its own failure, every token, and nothing that was not understood.
        """
        [run] = open_runs(RECORDED)
        calls = [event for event in run.events if event.action_type == "tool_call"]
        assert ["run_shell_command", "run_shell_command", "read_file"] == [it.action_name for it in calls]
        assert ["hello", "cat: nothing: No such file or directory"] == [it.text for it in calls[:2]]
        assert [None, "cat: nothing: No such file or directory", "File not found: /project/nope.txt"] == [
            event.error for event in calls
        ]
        assert 3 == calls[1].metadata["exit_code"]
        assert (60, []) == (sum(event.token_count for event in run.events), run.problems)
        assert ("session-1", "gemini-cli", "Find out what a.txt says") == (
            *(run.info.run_id, run.info.agent_id, run.info.goal),
        )

    def test_a_reply_that_is_written_twice(self):
        """
        A reply counts once, and its calls are issued together.
        """
        calls = [call({"output": "x"}, "ls", call_id="c1"), call({"output": "y"}, "ls", call_id="c2")]
        first = reply(text="I look.")
        run = run_of(
            GeminiCLI(),
            HEADER,
            message("user", [{"text": "go"}], name="u"),
            first,
            {**first, "toolCalls": calls},
        )
        assert [
            ("user_message", "user", "go"),
            ("llm_request", "gemini-2.5-pro", "I look."),
            ("tool_call", "ls", "x"),
            ("tool_call", "ls", "y"),
        ] == told(run)
        assert 15 == sum(event.token_count for event in run.events)
        assert 1 == len({event.started_seq for event in run.events[2:]})

    @pytest.mark.parametrize(
        ("response", "status", "error", "code"),
        [
            ({"output": "Output: ok\nProcess Group PGID: 4"}, "success", None, None),
            ({"output": "Output: no\nExit Code: 1\nProcess Group PGID: 4"}, "success", "no", 1),
            ({"output": "Output: \nExit Code: 2"}, "success", "error", 2),
            ({"error": "not allowed"}, "error", "not allowed", None),
            ({}, "cancelled", "error", None),
        ],
    )
    def test_failures(self, response, status, error, code):
        """
        A call has failed when its command ended with another code than 0, or Gemini CLI says so.
        """
        run = run_of(GeminiCLI(), HEADER, reply(call(response, status=status)))
        step = run.events[-1]
        assert (error, code) == (step.error, (step.metadata or {}).get("exit_code"))

    def test_what_the_program_writes(self):
        """
        The context of a session and notices are changes of state, never messages of the user.
        """
        context = message("user", [{"text": "<session_context>\nfiles\n</session_context>"}])
        lines = (HEADER, {"$set": {"messages": [context]}}, message("error", "quota", name="e"))
        assert [("state_transition", "harness"), ("state_transition", "error")] == [
            it[:2] for it in told(run_of(GeminiCLI(), *lines))
        ]


lines = st.lists(
    st.sampled_from(
        [
            HEADER,
            {"$set": {"lastUpdated": "x"}},
            message("user", "go", 1, "u1"),
            message("user", [{"functionResponse": {}}], 3, "u2"),
            reply(second=2),
            reply(call({"output": "x"}), second=2),
            reply(second=4, name="m2", text="done"),
            message("info", "updated", 5, "i"),
        ]
    ),
    max_size=12,
)
keys = ["id", "type", "content", "timestamp", "toolCalls", "tokens", "total", "result", "functionResponse"]
keys += ["response", "output", "error", "status", "name", "args", "$set", "messages", "sessionId", "text"]


class TestProperties:
    @given(lines, st.integers(0, 12))
    def test_reading_in_two_parts(self, lines, cut):
        """
        A chat that is read up to any line, and on from there later, gives the events of one reading.
        """
        written = encoded(*lines)
        reader = GeminiCLI(name="s")
        first = [event for line in written[:cut] for event in reader.feed(line)]
        at_once = [event for run in read(GeminiCLI(name="s"), *lines) for event in run.events]
        assert at_once == first + fed(reader, written[cut:])

    @given(st.lists(wild_objects(["user", "gemini", "error", "run_shell_command"], keys, 3), max_size=6))
    def test_no_content_raises(self, lines):
        """
        Whatever stands in the lines, reading them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in read(GeminiCLI(), *lines))
