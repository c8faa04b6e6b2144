import gzip
import io
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import line, read, reason_of, said

from steadyhelm.errors import FormatError
from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))


class TestBrokenLines:
    def test_the_rest_is_read(self):
        """
        A broken line is reported in its place, with its number and column, and the rest is read.
        """
        first, broken, last = read(line(said()) + b'{"run_id": "x",}\n' + line(said(), run_id="y"))
        assert (1, 2, 3) == (first.line, broken.line, last.line)
        assert ("not JSON: trailing comma in object at column 16", 16) == (broken.reason, broken.column)

    def test_blank_lines_count_and_say_nothing(self):
        """
        Blank lines are skipped without a word, but they are lines.
        """
        [run] = read(b"\n  \r\n" + line(said()))
        assert 3 == run.line

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"5", "5 is not an object"),
            (b'"run"', "'run' is not an object"),
            (b"{}", "no `events`"),
            (b'{"events": []}', "`events` are empty"),
            (b'{"events": {"a": 1}}', "`events` is an object, not a list"),
            (b'{"type": "tool_call"}', "one run a line"),
            (b'[{"events": []}]', "one run a line"),
            (b'{\n  "events": [\n  ]\n}\n', "one run a line"),
            (b'[\n{"events": []},\n{"events": []}\n]', "one run a line"),
            (b'{"events": [1, {"type": "x"}]}', "none of its 2 events can be read: event 0 is 1"),
            (b'{"events": ', "not JSON"),
            (b"[" * 100_000, "nested too deeply"),
            ('{"events": []}'.encode("utf-16"), "UTF-16"),
            (b"PK\x03\x04\x00\x00\nmore\nand more\n", "binary"),
            (b"SQLite format 3\x00\x10\x00\nmore\n", "`steadyhelm --db FILE export` writes its runs so"),
        ],
    )
    def test_reasons(self, content, words):
        """
        What is no run is reported once, with a reason that helps.
        """
        assert words in reason_of(content)

    def test_a_good_run_after_a_pretty_printed_one(self):
        """
        A run after a value spread over several lines is read, and later breaks are reported again.
        """
        items = read(b'{\n"events": 1\n}\n' + line(said()) + b"oops\n")
        assert [(BrokenLine, 1), (ReadRun, 4), (BrokenLine, 5)] == [(type(item), item.line) for item in items]

    def test_a_line_too_long(self):
        """
        A line over the limit is skipped without being kept, and the next one is read.
        """
        broken, run = read(line(said("x" * 5_000_000)) + line(said()), line_limit=1000)
        assert (1, "the line is longer than 1000 bytes and was skipped; split the run") == (
            broken.line,
            broken.reason,
        )
        assert 2 == run.line

    def test_run_ids_seen_twice(self):
        """
        Two runs of one id are both kept, and the second names both lines.
        """
        first, second = read(line(said()) + line(said()))
        assert ([], ["line 2 has the run id 'r' of line 1 again; both are kept"]) == (
            first.problems,
            second.problems,
        )
        assert 0 == second.unread

    def test_bytes_that_are_no_text(self):
        """
        Bytes that are not UTF-8 are replaced and noted.
        """
        [run] = read(line(said("caf?")).replace(b"caf?", b"caf\xe9"))
        assert ("caf\ufffd", 1) == (run.events[0].text, run.unread)

    def test_numbers_json_does_not_have(self):
        """
        NaN and infinity, which some writers let through, are left out and noted.
        """
        [run] = read(b'{"events": [{"type": "state", "tokens": NaN, "t": 1e999, "duration_ms": 2.5}]}')
        assert (0, 2.5, 1) == (run.events[0].token_count, run.events[0].duration_ms, run.unread)

    def test_half_characters(self):
        """
        Half of a surrogate pair becomes a question mark.
        """
        [run] = read(b'{"events": [{"type": "state", "text": "a\\ud800b"}]}')
        assert "a?b" == run.events[0].text

    def test_mark_and_carriage_returns(self):
        """
        A byte order mark and Windows line ends are no trouble.
        """
        content = b"\xef\xbb\xbf" + (line(said()) + line(said(), run_id="y")).replace(b"\n", b"\r\n")
        assert ["r", "y"] == [run.info.run_id for run in read(content)]


class TestSources:
    def test_gzip_is_known_by_its_bytes(self, tmp_path):
        """
        A packed file is unpacked whatever its name, and a plain one is read whatever its name.
        """
        (tmp_path / "packed.jsonl").write_bytes(gzip.compress(line(said())))
        (tmp_path / "plain.gz").write_bytes(line(said()))
        runs = [run for name in ("packed.jsonl", "plain.gz") for run in RunFile(tmp_path / name)]
        assert ["r", "r"] == [run.info.run_id for run in runs]

    def test_a_file_may_be_read_twice(self, tmp_path):
        """
        Going over a path again reads it again.
        """
        (tmp_path / "a.jsonl").write_bytes(line(said()))
        runs = RunFile(str(tmp_path / "a.jsonl"))
        assert list(runs) == list(runs)

    def test_standard_input(self, monkeypatch):
        """
        A dash is standard input, packed or not.
        """
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(line(said())))))
        assert ["r"] == [run.info.run_id for run in RunFile("-")]

    def test_a_stream_stays_open(self):
        """
        A stream that was handed in is not closed.
        """
        stream = io.BytesIO(line(said()))
        assert 1 == len(list(RunFile(stream)))
        assert not stream.closed

    def test_an_empty_file(self):
        """
        An empty file, plain or packed, holds no runs and no broken line.
        """
        assert ([], []) == (read(b""), read(gzip.compress(b"")))

    def test_reading_is_lazy(self):
        """
        A run is handed out before the next line is read.
        """

        class Pipe(io.RawIOBase):
            lines = iter([line(said()), line(said(), run_id="y")])
            taken = 0

            def readable(self) -> bool:
                return True

            def readinto(self, buffer) -> int:
                content = next(self.lines, b"")
                self.taken += 1
                buffer[: len(content)] = content
                return len(content)

        pipe = Pipe()
        runs = iter(RunFile(pipe))
        next(runs)
        assert 1 == pipe.taken
        assert ["y"] == [run.info.run_id for run in runs]

    def test_a_packed_file_that_breaks_off(self):
        """
        What stands before the break is read; the rest is one broken line.
        """
        packed = gzip.compress(line(said()) + line(said(os.urandom(50_000).hex())))
        run, broken = read(packed[:-20_000])
        assert (1, 2) == (run.line, broken.line)
        assert "breaks off" in broken.reason

    @pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8bnot packed at all"])
    def test_a_packed_file_that_is_none(self, content):
        """
        A file that begins like gzip and is none cannot be read at all, and the error says so.
        """
        with pytest.raises(FormatError, match="cannot be read"):
            read(content)

    @pytest.mark.parametrize("name", ["missing.jsonl", ".", "a\0b"])
    def test_a_file_that_cannot_be_opened(self, tmp_path, name):
        """
        A path that cannot be opened is an error that names it.
        """
        with pytest.raises(FormatError, match="cannot be opened"):
            list(RunFile(os.path.join(tmp_path, name)))  # noqa: PTH118 - a NUL in a plain string


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from(["user_message", "llm_output", "tool_call", "tool_result", "error", "state", "?"])
keys = (
    "name",
    "args",
    "result",
    "error",
    "text",
    "tokens",
    "duration_ms",
    "t",
    "call_id",
    "cost_usd",
    "stream",
)
wild_entry = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    kinds,
    st.dictionaries(st.sampled_from(keys), any_json, max_size=5),
)


class TestProperties:
    @given(
        st.dictionaries(st.text(max_size=6), any_json, max_size=3),
        st.lists(any_json | wild_entry, max_size=8),
    )
    def test_no_content_raises(self, run_keys, events):
        """
        Whatever JSON stands in a run, reading it gives one record and no error.
        """
        [item] = read(json.dumps({**run_keys, "events": events}).encode())
        assert isinstance(item, (ReadRun, BrokenLine))

    @given(st.binary(max_size=200))
    def test_no_bytes_raise(self, content):
        """
        Whatever bytes stand in a file that is not packed, reading it gives records and no error.
        """
        assert all(isinstance(item, BrokenLine) for item in read(b"x" + content))


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no recorded runs at {DATA}")
class TestRecordedRuns:
    def test_every_recorded_run_is_read(self):
        """
        Every recorded run reads without a broken line and with nothing left out.
        """
        files = [*sorted((DATA / "runs").glob("*.jsonl.gz")), DATA / "loops" / "cases.jsonl"]
        items = [item for file in files for item in RunFile(file)]
        assert [] == [item for item in items if isinstance(item, BrokenLine) or item.unread]
        assert len(items) > 900
