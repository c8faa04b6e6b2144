import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import SAMPLES, encoded, fed, read, run_of, told, wild_objects

from steadyhelm.recordings.codex import Codex
from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.recordings.transcript_reader import NumberedLines, read_runs


def line(kind: str, second: float = 0, **payload) -> dict:
    return {"timestamp": f"2026-06-18T00:57:{second:06.3f}Z", "type": kind, "payload": payload}


def meta(**payload) -> dict:
    return line("session_meta", **{"id": "s", "cli_version": "0.140.0", "cwd": "/home/a", **payload})


def message(role: str, words: str, second: float = 0) -> dict:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": words}]
    return {**line("response_item", second), "payload": {"type": "message", "role": role, "content": content}}


def item(kind: str, second: float = 0, **payload) -> dict:
    return {**line("response_item", second), "payload": {"type": kind, **payload}}


def event(kind: str, second: float = 0, **payload) -> dict:
    return {**line("event_msg", second), "payload": {"type": kind, **payload}}


def call(call_id: str, second: float = 0, name: str = "exec_command", **arguments) -> dict:
    return item("function_call", second, name=name, arguments=json.dumps(arguments), call_id=call_id)


def output(call_id: str, words="ok", second: float = 0) -> dict:
    return item("function_call_output", second, call_id=call_id, output=words)


def cost(last: int, total: int) -> dict:
    usage = {"last_token_usage": {"total_tokens": last}, "total_token_usage": {"total_tokens": total}}
    return event("token_count", info=usage)


class TestSession:
    def test_a_small_session(self):
        """
        A rollout is one run: the user's words, the model's under its name, and each call with its result.
        """
        run = run_of(
            Codex(),
            meta(),
            line("turn_context", model="gpt-5"),
            message("user", "list it"),
            message("assistant", "I look."),
            call("c1", 1, cmd="ls"),
            output("c1", "a.py", 3),
        )
        assert [
            ("user_message", "user", "list it"),
            ("llm_request", "gpt-5", "I look."),
            ("tool_call", "exec_command", "a.py"),
        ] == told(run)
        assert ({"cmd": "ls"}, 2000.0) == (run.events[2].input_data, run.events[2].duration_ms)
        assert ("s", "codex", "list it", "0.140.0") == (
            run.info.run_id,
            run.info.agent_id,
            run.info.goal,
            run.info.version,
        )

    def test_other_tools(self):
        """
        Patches and shell calls are calls; a search at the model's side is one whose result is unknown.
        """
        run = run_of(
            Codex(),
            item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c1"),
            item("custom_tool_call_output", call_id="c1", output="Success."),
            item("local_shell_call", action={"command": ["ls"]}, call_id="c2"),
            output("c2"),
            item("web_search_call", status="completed", action={"query": "loops"}),
        )
        assert [
            ("apply_patch", "*** Begin Patch", "Success."),
            ("local_shell", {"command": ["ls"]}, "ok"),
            ("web_search", {"query": "loops"}, ""),
        ] == [(e.action_name, e.input_data, e.text) for e in run.events]

    def test_calls_of_one_reply_were_issued_together(self):
        """
        Calls of one reply share their start; those of the next know of the results before them.
        """
        run = run_of(
            Codex(), call("c1"), call("c2"), output("c1"), output("c2"), cost(5, 5), call("c3"), output("c3")
        )
        assert [0, 0, 2] == [event.started_seq for event in run.events]

    @pytest.mark.parametrize(
        ("words", "failed"),
        [
            ("Chunk ID: 1\nProcess exited with code 2\nOutput:\nno such file", True),
            ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine", False),
            ("the log says: Exit code: 1", False),
            ('{"output": "no", "metadata": {"exit_code": 1}}', True),
            ('{"output": "yes", "metadata": {"exit_code": 0}}', False),
            ({"content": "no", "success": False}, True),
            ("plain", False),
        ],
    )
    def test_errors(self, words, failed):
        """
        A call has failed when the harness says so, by an exit code above the output or by a flag.
        """
        run = run_of(Codex(), call("c1"), output("c1", words))
        assert failed == (run.events[0].error is not None)

    def test_the_older_format(self):
        """
        Rollouts of bare items, with a head that has no type, are read as well.
        """
        run = run_of(
            Codex(),
            {"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
            {"record_type": "state"},
            message("user", "go")["payload"],
            call("c1")["payload"],
            output("c1")["payload"],
        )
        assert ("old", 2) == (run.info.run_id, len(run.events))

    def test_a_subagent(self):
        """
        The rollout of a spawned agent names the session that spawned it.
        """
        spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
        run = run_of(Codex(), meta(source=spawned), message("user", "look"))
        assert ("s", "p", "codex/subagent") == (
            run.info.run_id,
            run.info.parent_run_id,
            run.info.agent_id,
        )


class TestUsage:
    def test_on_the_first_step_of_its_reply(self):
        """
        What a reply cost is told after its results, and stands on its first step nevertheless.
        """
        run = run_of(Codex(), message("assistant", "a"), call("c1"), output("c1"), cost(70, 70))
        assert [70, 0] == [event.token_count for event in run.events]

    def test_figures_told_twice(self):
        """
        The same figures told again are not counted again.
        """
        run = run_of(
            Codex(),
            message("assistant", "a"),
            cost(70, 70),
            cost(70, 70),
            message("assistant", "b"),
            cost(5, 75),
        )
        assert [70, 5] == [event.token_count for event in run.events]

    def test_held_back_until_it_is_known(self):
        """
        The steps of a reply come out when its cost is known, or when the user speaks.
        """
        reader = Codex()
        lines = encoded(
            message("assistant", "a"), cost(3, 3), message("assistant", "b"), message("user", "c")
        )
        assert [[], ["a"], [], ["b", "c"]] == [[e.text for e in reader.feed(line)] for line in lines]

    def test_thoughts_are_no_words(self):
        """
        Reasoning is only noted on the reply's first step.
        """
        run = run_of(Codex(), item("reasoning", summary=[]), message("assistant", "a"))
        assert [("a", {"thinking": True})] == [(e.text, e.metadata) for e in run.events]


class TestWhoSpeaks:
    def test_a_message_told_twice(self):
        """
        A user's message stands in an item and in an event; it is one turn, whichever comes first.
        """
        in_item, in_event = message("user", "go"), event("user_message", message="go")
        run = run_of(Codex(), in_item, in_event, message("assistant", "yes"), in_event, in_item)
        assert ["go", "yes", "go"] == [e.text for e in run.events]

    def test_a_message_that_looks_like_the_harness(self):
        """
        A user's message that begins like one of the harness is a turn, because an event says so.
        """
        run = run_of(
            Codex(), message("user", "<div> is broken"), event("user_message", message="<div> is broken")
        )
        assert ["state_transition", "user_message"] == [e.action_type for e in run.events]

    @pytest.mark.parametrize(
        ("said", "name"),
        [
            (message("developer", "<permissions instructions>"), "harness"),
            (message("user", "# AGENTS.md instructions for /home/a"), "harness"),
            (message("user", "<environment_context>\n<cwd>"), "harness"),
            (event("turn_aborted", reason="interrupted"), "interrupted"),
            (event("error", message="stream closed"), "error"),
            (line("compacted", message="so far"), "compacted"),
        ],
    )
    def test_no_turn_of_the_user(self, said, name):
        """
        Instructions, surroundings, interruptions and compactions are changes of state, never a turn.
        """
        run = run_of(Codex(), said)
        assert [("state_transition", name)] == [(e.action_type, e.action_name) for e in run.events]

    def test_a_user_who_steers_while_a_tool_works(self):
        """
        A user's word does not end a call whose result comes after it.
        """
        run = run_of(Codex(), call("c1"), message("user", "faster"), output("c1", "done"))
        assert ["faster", "done"] == [e.text for e in run.events]


class TestOddLines:
    def test_unknown_kinds_are_named_once(self):
        """
        Unknown lines, items and events are passed over and named once each; repetitions of items are not.
        """
        run = run_of(
            Codex(),
            message("user", "go"),
            {"type": "dream", "payload": {}},
            item("hum"),
            event("wink"),
            event("wink"),
            event("agent_message", message="said already"),
        )
        assert (1, 0) == (len(run.events), run.unread)
        assert [
            "the line type 'dream' is not known and was passed over",
            "the item type 'hum' is not known and was passed over",
            "the event type 'wink' is not known and was passed over 2 times",
        ] == run.problems

    def test_a_half_written_last_line(self):
        """
        A last line that is still being written is no error, a broken one before it is.
        """
        broken, run = read(Codex(), b"{oops\n", message("user", "go"), b'{"type": "resp')
        assert (1, 1) == (broken.line, len(run.events))


rollout = st.lists(
    st.sampled_from(
        [
            message("user", "go"),
            event("user_message", message="go"),
            message("assistant", "a"),
            call("c1"),
            call("c2"),
            output("c1"),
            output("c2"),
            cost(5, 5),
            cost(4, 9),
            item("reasoning"),
            event("turn_aborted", reason="interrupted"),
        ]
    ),
    max_size=12,
)
kinds = [
    *("session_meta", "response_item", "event_msg", "turn_context", "compacted", "message", "function_call"),
    *("function_call_output", "token_count", "user_message", "turn_aborted", "web_search_call", "reasoning"),
]
keys = [
    *(
        "type",
        "payload",
        "timestamp",
        "id",
        "role",
        "content",
        "text",
        "name",
        "arguments",
        "call_id",
        "output",
    ),
    *(
        "info",
        "last_token_usage",
        "total_token_usage",
        "total_tokens",
        "message",
        "source",
        "action",
        "status",
    ),
]


class TestProperties:
    @given(rollout, st.integers(0, 12))
    def test_reading_in_two_parts(self, lines, cut):
        """
        A rollout that is read up to any line, and on from there later, gives the events of one reading.
        """
        written = encoded(*lines)
        reader = Codex(name="s")
        first = [event for line in written[:cut] for event in reader.feed(line)]
        at_once = [event for run in read(Codex(name="s"), *lines) for event in run.events]
        assert at_once == first + fed(reader, written[cut:])

    @given(st.lists(wild_objects(kinds, keys), max_size=6))
    def test_no_content_raises(self, lines):
        """
        Whatever stands in the lines, reading them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in read(Codex(), *lines))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no recorded rollouts at {SAMPLES}")
class TestRecordedRollout:
    def test_everything_is_counted(self):
        """
        A real rollout has every call, failure and token of its file, and nothing that was not understood.
        """
        [run] = read_runs(Codex(), NumberedLines(SAMPLES / "codex" / "rollout.jsonl").iter_lines())
        calls = [event for event in run.events if event.action_type == "tool_call"]
        assert (23, 2, 3) == (
            len(calls),
            sum(event.output_data is None for event in calls),
            sum(event.error is not None for event in calls),
        )
        assert (269_672, []) == (sum(event.token_count for event in run.events), run.problems)
