import pytest
from claude_code_lines import reply, result, text, use, user
from hypothesis import given
from hypothesis import strategies as st
from transcripts import SAMPLES, encoded, fed, read, run_of, told, wild_objects

from steadyhelm.recordings.claude_code import ClaudeCode
from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.recordings.transcript_reader import NumberedLines, read_runs


class TestOddLines:
    def test_unknown_kinds_are_named_once(self):
        """
        Lines and blocks of unknown kinds are passed over and named once, with how often they came.
        """
        odd = {"type": "hologram", "sessionId": "s"}
        run = run_of(ClaudeCode(), user("go"), odd, odd, reply({"type": "smell"}, text("hm")))
        assert [
            "the line type 'hologram' is not known and was passed over 2 times",
            "the content block 'smell' is not known and was passed over",
        ] == run.problems
        assert 0 == run.unread

    def test_bookkeeping_says_nothing(self):
        """
        Titles, snapshots, progress and the like are passed over without a word.
        """
        kinds = ("summary", "progress", "file-history-snapshot", "queue-operation", "last-prompt")
        run = run_of(ClaudeCode(), *({"type": kind, "sessionId": "s"} for kind in kinds), user("go"))
        assert (1, []) == (len(run.events), run.problems)

    def test_broken_lines(self):
        """
        A broken line is reported with its number, and the rest is read.
        """
        broken, run = read(ClaudeCode(), user("go"), b"{oops}\n", user("on"))
        assert (2, 2) == (broken.line, len(run.events))

    def test_a_half_written_last_line(self):
        """
        A last line that is still being written is no error.
        """
        assert 1 == len(run_of(ClaudeCode(), user("go"), b'{"type": "us').events)

    def test_a_complete_last_line_without_an_end(self):
        """
        A last line without a line end counts when it is complete.
        """
        assert 2 == len(run_of(ClaudeCode(), user("go"), encoded(user("on"))[0].strip()).events)

    def test_a_file_without_steps(self):
        """
        A transcript in which nothing happened holds no run.
        """
        assert [] == read(ClaudeCode(), {"type": "summary", "summary": "x", "leafUuid": "u"})

    def test_a_result_without_a_call(self):
        """
        A result whose call is missing is kept as a change of state, and noted.
        """
        run = run_of(ClaudeCode(), result("t9", "lost"))
        assert [("state_transition", "tool_result", "lost")] == told(run)
        assert ["event 0 is a result without an open call; kept as a change of state"] == run.problems


session = st.lists(
    st.sampled_from(
        [
            user("go"),
            user("[Request interrupted by user]"),
            reply(text("a"), usage={"output_tokens": 5}),
            reply(use("t1")),
            reply(use("t2"), message_id="m2", usage={"output_tokens": 7}),
            reply(use("t3"), isSidechain=True, agentId="a"),
            result("t1"),
            result("t2", "no", is_error=True),
            result("t3", isSidechain=True, agentId="a"),
            reply({"type": "thinking"}, message_id="m3", usage={"output_tokens": 1}),
        ]
    ),
    max_size=12,
)
kinds = ["user", "assistant", "system", "attachment", "text", "tool_use", "tool_result", "thinking", "x"]
keys = [
    *(
        "type",
        "sessionId",
        "uuid",
        "parentUuid",
        "isSidechain",
        "agentId",
        "message",
        "content",
        "id",
        "model",
    ),
    *("usage", "output_tokens", "text", "name", "input", "tool_use_id", "is_error", "timestamp", "subtype"),
    *("attachment", "prompt", "toolUseResult", "isMeta", "origin", "isCompactSummary", "isApiErrorMessage"),
]


class TestFeeding:
    def test_events_come_at_once(self):
        """
        A line gives its events as soon as it is fed, and the run is known by their run id.
        """
        reader = ClaudeCode()
        [event] = reader.feed(encoded(user("go"))[0])
        assert ("s", "go") == (event.run_id, reader.run_info(event.run_id).goal)

    @given(session, st.integers(0, 12))
    def test_reading_in_two_parts(self, lines, cut):
        """
        A transcript that is read up to any line, and on from there later, gives the events of one reading.
        """
        written = encoded(*lines)
        reader = ClaudeCode()
        first = [event for line in written[:cut] for event in reader.feed(line)]
        at_once = [run for run in read(ClaudeCode(), *lines) if isinstance(run, ReadRun)]
        events = first + fed(reader, written[cut:])
        for run in at_once:
            assert run.events == [event for event in events if event.run_id == run.info.run_id]
        assert len(events) == sum(len(run.events) for run in at_once)

    @given(session)
    def test_order_and_cost(self, lines):
        """
        Events are numbered without a gap, no call knows of later ones, and no cost is counted twice.
        """
        for run in read(ClaudeCode(), *lines):
            assert list(range(len(run.events))) == [event.seq for event in run.events]
            assert all(event.started_seq <= event.seq for event in run.events)
            assert sum(event.token_count for event in run.events) <= 13

    @given(st.lists(wild_objects(kinds, keys), max_size=6))
    def test_no_content_raises(self, lines):
        """
        Whatever stands in the lines, reading them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in read(ClaudeCode(), *lines))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no recorded transcripts at {SAMPLES}")
class TestRecordedSessions:
    @pytest.mark.parametrize(
        ("name", "calls", "failed", "tokens", "broken"),
        [
            ("4de0e81c1e", 28, 1, 1_557_648, []),
            ("6d83aa5681", 22, 1, 1_199_207, []),
            ("faf91ba50f", 23, 0, 1_238_026, [58]),
        ],
    )
    def test_everything_is_counted(self, name, calls, failed, tokens, broken):
        """
        A real session has every call, failure and token of its file, and no problem but its broken lines.
        """
        lines = NumberedLines(SAMPLES / "claude_code" / f"{name}.jsonl").iter_lines()
        *breaks, run = read_runs(ClaudeCode(), lines)
        assert broken == [item.line for item in breaks]
        assert calls == sum(event.action_type == "tool_call" for event in run.events)
        assert failed == sum(event.error is not None for event in run.events)
        assert (tokens, []) == (sum(event.token_count for event in run.events), run.problems)
