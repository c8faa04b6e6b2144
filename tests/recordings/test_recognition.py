import gzip
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import line, said
from transcripts import SAMPLES, any_json

from steadyhelm.errors import FormatError
from steadyhelm.recordings.recognition import find_reader, open_runs
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile

CLAUDE_CODE = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
CODEX = {"type": "event_msg", "payload": {"type": "user_message", "message": "hi"}}
GEMINI_CLI = {"id": "1", "timestamp": "", "type": "user", "content": [{"text": "hi"}]}
MESSAGE = {"role": "user", "content": "hi"}
SPAN = {"trace_id": "t", "span_id": "a", "attributes": {"gen_ai.tool.name": "ls"}}


def opened(*values, **options) -> list[ReadRun | BrokenLine]:
    return list(open_runs(io.BytesIO(b"".join(json.dumps(v, **options).encode() + b"\n" for v in values))))


def sources(items) -> list[str]:
    return [item.info.metadata["source"] for item in items]


class TestRecognition:
    @pytest.mark.parametrize(
        ("value", "source"),
        [
            (CLAUDE_CODE, "Claude Code transcript"),
            (CODEX, "Codex rollout"),
            (GEMINI_CLI, "Gemini CLI chat"),
            (MESSAGE, "message list"),
            ([MESSAGE], "message list"),
            ({"messages": [MESSAGE]}, "message list"),
            (SPAN, "OpenTelemetry GenAI spans"),
            ([SPAN], "OpenTelemetry GenAI spans"),
            ({"spans": [SPAN]}, "OpenTelemetry GenAI spans"),
        ],
    )
    @pytest.mark.parametrize("indent", [None, 2])
    def test_formats(self, value, source, indent):
        """
        A transcript is known by its content, on one line or spread over many.
        """
        assert [source] == sources(opened(value, indent=indent))

    def test_run_files_are_the_default(self):
        """
        Runs are read as ever, also among broken lines.
        """
        content = b"oops\n" + line(said()) + line(said(), run_id="y")
        assert list(RunFile(io.BytesIO(content))) == list(open_runs(io.BytesIO(content)))

    def test_a_list_over_several_lines(self):
        """
        A list with a message on each of its lines is one conversation.
        """
        content = b'[\n{"role": "user", "content": "a"},\n{"role": "user", "content": "b"}\n]\n'
        [run] = open_runs(io.BytesIO(content))
        assert ["a", "b"] == [event.text for event in run.events]

    def test_the_first_known_line_decides(self):
        """
        Lines before it that say nothing or are broken do not matter.
        """
        content = b"\n" + b'{"type": "us\n' + json.dumps(CLAUDE_CODE).encode() + b"\n"
        broken, run = open_runs(io.BytesIO(content))
        assert (2, 3) == (broken.line, run.line)

    def test_none_of_them(self):
        """
        What is none of the formats gets one reason, which names what was looked for.
        """
        [broken] = opened({"a": 1}, {"b": 2}, {"c": 3})
        assert 1 == broken.line
        assert "run file" in broken.reason
        for title in (
            "Claude Code transcript",
            "Codex rollout",
            "Gemini CLI chat",
            "GenAI spans",
            "message list",
        ):
            assert title in broken.reason

    def test_no_json_at_all(self):
        """
        What is no JSON gets the reasons that run files give.
        """
        content = b"PK\x03\x04\x00\x00\nmore\n"
        [broken] = open_runs(io.BytesIO(content))
        assert "binary" in broken.reason

    def test_a_run_over_several_lines(self):
        """
        A run that is spread over several lines is told how to be rewritten.
        """
        [broken] = opened({"events": [said()]}, indent=1)
        assert "jq -c" in broken.reason

    def test_an_empty_file(self):
        """
        An empty or blank file holds no runs and no broken line.
        """
        assert ([], []) == (list(open_runs(io.BytesIO(b""))), list(open_runs(io.BytesIO(b"\n \n"))))

    def test_readers_for_live_files(self):
        """
        A line alone tells which reader goes on from there.
        """
        assert ["ClaudeCode", "Codex", "GeminiCLI", "Messages", "Spans", None] == [
            (reader := find_reader(value)) and reader.__name__
            for value in (CLAUDE_CODE, CODEX, GEMINI_CLI, MESSAGE, SPAN, {"a": 1})
        ]

    def test_tool_definitions_are_no_messages(self):
        """
        A list of tools, though each has a type, is no conversation.
        """
        assert find_reader([{"type": "function", "function": {"name": "ls"}}]) is None


class TestSources:
    def test_files_name_runs(self, tmp_path):
        """
        A run without an id of its own is called after its file.
        """
        (tmp_path / "talk.json").write_text(json.dumps([MESSAGE]))
        [run] = open_runs(tmp_path / "talk.json")
        assert "talk" == run.info.run_id

    def test_packed_files(self, tmp_path):
        """
        A packed transcript is unpacked, whatever its name.
        """
        (tmp_path / "s.jsonl").write_bytes(gzip.compress(json.dumps(CLAUDE_CODE).encode()))
        assert ["Claude Code transcript"] == sources(open_runs(str(tmp_path / "s.jsonl")))

    def test_standard_input(self, monkeypatch):
        """
        A dash is standard input, of any format.
        """
        for content in (line(said()), json.dumps(CODEX).encode()):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            assert 1 == len(list(open_runs("-")))

    def test_a_missing_file(self, tmp_path):
        """
        A path that cannot be opened is an error that names it.
        """
        with pytest.raises(FormatError, match="cannot be opened"):
            list(open_runs(tmp_path / "missing.jsonl"))


class TestProperties:
    @given(
        st.lists(any_json | st.sampled_from([CLAUDE_CODE, CODEX, MESSAGE, SPAN, {"events": []}]), max_size=5)
    )
    def test_no_content_raises(self, values):
        """
        Whatever JSON stands in the lines, opening them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in opened(*values))

    @given(st.binary(max_size=100), st.sampled_from([b"[", b"{", b"x"]))
    def test_no_bytes_raise(self, content, first):
        """
        Whatever bytes stand in a file, opening it gives records and no error.
        """
        items = open_runs(io.BytesIO(first + content))
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in items)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no recorded transcripts at {SAMPLES}")
class TestRecordedTranscripts:
    @pytest.mark.parametrize(
        ("folder", "source"),
        [
            ("claude_code", "Claude Code transcript"),
            ("codex", "Codex rollout"),
            ("trail", "OpenTelemetry GenAI spans"),
        ],
    )
    def test_real_files_are_known(self, folder, source):
        """
        Every real transcript is known for what it is.
        """
        files = [path for path in (SAMPLES / folder).iterdir() if "annotation" not in path.name]
        runs = [item for file in files for item in open_runs(file) if isinstance(item, ReadRun)]
        assert [source] * len(files) == sources(runs)
