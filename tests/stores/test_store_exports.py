import csv
import gzip
import io
import json
import stat
import sys

import pytest

from steadyhelm.errors import MissingExtraError, NotFoundError, SettingsError, StoreError
from steadyhelm.events import RunInfo
from steadyhelm.hostile_text import escape_unsafe
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.stores.exports import ExportCounts, export
from steadyhelm.testing.store_records import AT, a_summary, an_event

DETECTORS_READ = (
    *("action_type", "action_name", "timestamp", "token_count", "input_data", "output_data", "duration_ms"),
    *("error", "call_id", "parent_run_id", "cost_usd"),
)


def lines(store, **asked):
    stream = io.BytesIO()
    export(store, stream, format="jsonl", **asked)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def table(store, **asked):
    stream = io.BytesIO()
    export(store, stream, format="csv", **asked)
    return list(csv.DictReader(io.StringIO(stream.getvalue().decode("utf-8"), newline="")))


class TestRunFiles:
    def test_one_run_a_line(self, store):
        """
        Each run is one line with what was known about it, newest first.
        """
        info = RunInfo(
            agent_id="agent",
            run_id="run",
            goal="mend it",
            started_at=AT,
            version="2",
            task_type="fix",
            metadata={"model": "m"},
        )
        store.write(
            [info, an_event(0), a_summary(outcome="done"), an_event(0, run_id="older", timestamp=AT - 9)]
        )
        first, second = lines(store)

        assert ["run", "older"] == [first["run_id"], second["run_id"]]
        assert {
            "agent_id": "agent",
            "goal": "mend it",
            "version": "2",
            "task_type": "fix",
            "started_at": AT,
            "outcome": "done",
            "meta": {"model": "m"},
        }.items() <= first.items()

    def test_an_event_has_the_keys_of_a_run_file(self, store):
        """
        Arguments, result, error and numbers stand under the keys that run files know.
        """
        store.write([an_event(0, call_id="c", cost_usd=0.5, started_seq=0, metadata={"k": [1]})])
        ((event,),) = (line["events"] for line in lines(store))

        assert {
            "type": "tool_call",
            "name": "read",
            "args": {"path": "a.py"},
            "result": {"text": "words"},
            "tokens": 10,
            "duration_ms": 5.0,
            "t": AT,
            "call_id": "c",
            "cost_usd": 0.5,
            "meta": {"seq": 0, "started_seq": 0, "metadata": {"k": [1]}},
        } == event

    def test_what_detectors_read_survives(self, store):
        """
        Runs read back from an export give detectors what the stored events gave them.
        """
        events = [
            an_event(
                0, action_type="user_message", action_name="user", input_data={"text": "hi"}, output_data=None
            ),
            an_event(
                1, action_type="llm_request", action_name="m", input_data=None, output_data={"text": "ok"}
            ),
            an_event(
                2, action_type="llm_request", action_name="m", input_data={"n": 1}, output_data={"parts": [1]}
            ),
            an_event(3, call_id="c-1", cost_usd=0.25, parent_run_id="p"),
            an_event(4, output_data=None),
            an_event(5, output_data={"rows": [1, 2]}, error="exit status 1"),
            an_event(6, output_data=None, error="error", token_count=0, duration_ms=0.0),
            an_event(7, action_type="state_transition", action_name="plan", output_data={"to": "work"}),
        ]
        store.write(events)
        stream = io.BytesIO()
        export(store, stream, format="jsonl")
        (run,) = RunFile(io.BytesIO(stream.getvalue()))

        assert [] == run.problems
        for stored, read in zip(store.get_run_traces("agent", "run"), run.events, strict=True):
            for name in DETECTORS_READ:
                assert getattr(stored, name) == getattr(read, name), (stored.seq, name)

    def test_an_unknown_kind_is_a_state(self, store):
        """
        A kind of action that run files do not know is written as a state, its own name beside it.
        """
        store.write([an_event(0, action_type="handoff", event_id="mine")])
        ((event,),) = (line["events"] for line in lines(store))

        assert ("state", "handoff", "mine") == (
            event["type"],
            event["meta"]["action_type"],
            event["meta"]["event_id"],
        )

    def test_chosen_runs_only(self, store):
        """
        An agent, a run or a time narrows what is written; a run may be named by a prefix.
        """
        store.write(
            [an_event(0, run_id="abc"), an_event(0, agent_id="other", run_id="def", timestamp=AT + 9)]
        )

        assert ["abc"] == [line["run_id"] for line in lines(store, agent_id="agent")]
        assert ["abc"] == [line["run_id"] for line in lines(store, run_id="ab")]
        assert ["def"] == [line["run_id"] for line in lines(store, since=AT + 5)]
        with pytest.raises(NotFoundError):
            lines(store, run_id="x")

    def test_no_run_falls_between_two_pages(self, store, monkeypatch):
        """
        Every run is written once, also when many began at the same moment.
        """
        monkeypatch.setattr("steadyhelm.stores.exports._RUNS_PER_PAGE", 4)
        store.write([an_event(0, run_id=f"run-{n}", timestamp=AT + n // 11) for n in range(40)])

        assert sorted(f"run-{n}" for n in range(40)) == sorted(line["run_id"] for line in lines(store))


class TestFiles:
    @pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
    def test_a_file_is_its_owners(self, store, tmp_path, kind):
        """
        An exported file is private, complete, and leaves nothing beside it.
        """
        store.write([an_event(seq) for seq in range(5)])
        (tmp_path / "exports").mkdir()
        exported = export(store, tmp_path / "exports" / "out", format=kind)
        (file,) = (tmp_path / "exports").iterdir()

        assert ExportCounts(runs=1, events=5) == exported
        assert ("out", 0o600) == (file.name, stat.S_IMODE(file.stat().st_mode))

    def test_gz_is_compressed(self, store, tmp_path):
        """
        A name that ends with .gz gives a compressed file, the same every time.
        """
        store.write([an_event(0)])
        for name in ("a.jsonl.gz", "b.jsonl.gz"):
            export(store, tmp_path / name, format="jsonl")

        assert "run" == json.loads(gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()))["run_id"]
        assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()

    def test_a_failed_export_changes_nothing(self, store, tmp_path):
        """
        What was there before stays when an export fails, and no part of it is left.
        """
        (tmp_path / "out.jsonl").write_text("before")

        with pytest.raises(NotFoundError):
            export(store, tmp_path / "out.jsonl", format="jsonl", run_id="nothing")
        assert "before" == (tmp_path / "out.jsonl").read_text()
        assert [] == list(tmp_path.glob(".out*"))

    def test_an_impossible_place(self, store, tmp_path):
        """
        A place where no file can be made is named with the reason, and no other place is.
        """
        with pytest.raises(StoreError, match=r"out\.csv cannot be created: No such file or directory\."):
            export(store, tmp_path / "nowhere" / "out.csv", format="csv")

    def test_an_unknown_format(self, store):
        """
        A format we do not write is refused with those we do.
        """
        with pytest.raises(SettingsError, match="one of jsonl, csv, parquet, got 'xml'"):
            export(store, io.BytesIO(), format="xml")

    def test_nothing_stored_is_nothing_written(self, store):
        """
        An empty store gives an empty file of each kind.
        """
        for kind in ("jsonl", "csv", "parquet"):
            assert ExportCounts(runs=0, events=0) == export(store, io.BytesIO(), format=kind)


class TestTables:
    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
    def test_no_cell_is_a_formula(self, store, start):
        """
        A text that a spreadsheet would run stands behind a quote.
        """
        store.write([an_event(0, action_name=f"{start}cmd|' /C calc'!A0", error=f"{start}1")])
        (row,) = table(store)

        shown = escape_unsafe(start)
        assert (f"'{shown}cmd|' /C calc'!A0", f"'{shown}1") == (row["action_name"], row["error"])

    def test_any_text_stays_in_its_cell(self, store):
        """
        Commas, quotes, line ends and emoji do not break a row, and numbers stay numbers.
        """
        store.write([an_event(0, action_name='a,"b"\n😀', call_hash=-5), an_event(1)])
        first, second = table(store)

        assert ('a,"b"\n😀', "-5", "read") == (
            first["action_name"],
            first["call_hash"],
            second["action_name"],
        )
        assert {"text": "words"} == json.loads(second["output_json"])

    def test_parquet_has_types(self, store):
        """
        Parquet holds the same columns with numbers as numbers and what is missing as missing.
        """
        parquet = pytest.importorskip("pyarrow.parquet")
        store.write([an_event(seq, call_hash=-(2**63)) for seq in range(3)])
        stream = io.BytesIO()
        export(store, stream, format="parquet")
        read = parquet.read_table(io.BytesIO(stream.getvalue())).to_pylist()

        assert [0, 1, 2] == [row["seq"] for row in read]
        assert {"call_hash": -(2**63), "cost_usd": None, "input_json": '{"path":"a.py"}'}.items() <= read[
            0
        ].items()

    def test_parquet_needs_its_extra(self, store, tmp_path, monkeypatch):
        """
        Without pyarrow the error says what to install, and no file is left.
        """
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(MissingExtraError, match=r"steadyhelm\[parquet\]"):
            export(store, tmp_path / "out.parquet", format="parquet")
        assert not (tmp_path / "out.parquet").exists()
