import csv
import gzip
import io
import stat

import pyarrow.parquet as pq
import pytest

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.run_file import RunFile


class TestExport:
    def test_run_files(self, steadyhelm):
        """
        JSON Lines on standard output are run files, which `scan` reads again.
        """
        answer = steadyhelm("export")
        runs = list(RunFile(io.BytesIO(answer.out.encode())))

        assert 8 == len(runs)
        assert {"researcher"} == {run.info.agent_id for run in runs}
        assert "Exported 8 runs with 32 steps.\n" == answer.err

    def test_one_run(self, steadyhelm):
        """
        The beginning of its id chooses one run, and `latest` the newest one.
        """
        [run] = steadyhelm("export --run loop-l").documents

        assert ("loop-long", 5) == (run["run_id"], len(run["events"]))
        assert ["child"] == [it["run_id"] for it in steadyhelm("export --run latest").documents]

    def test_unknown_run(self, steadyhelm):
        """
        A run that is not there ends with status 1, and nothing is written.
        """
        assert (1, "", "There is no run 'zzz'. List what there is with: steadyhelm runs") == tuple(
            steadyhelm("export --run zzz")
        )

    def test_one_agent(self, steadyhelm):
        """
        An agent nobody knows is named, with those that are known.
        """
        assert 8 == len(steadyhelm("export --agent rese").documents)
        assert "Known agents: researcher." in steadyhelm("export --agent nobody").err

    def test_since(self, steadyhelm, store):
        """
        Only runs active in the span asked for are written.
        """
        old = TraceEvent(agent_id="a", run_id="old", action_type="tool_call", action_name="x", timestamp=1.0)
        store.save_trace(old)

        assert 9 == len(steadyhelm("export").documents)
        assert 8 == len(steadyhelm("export --since 7d").documents)

    def test_since_what(self, steadyhelm):
        """
        A span that cannot be read is a usage error.
        """
        assert 2 == steadyhelm("export --since yesterday").status

    def test_csv(self, steadyhelm):
        """
        A table has a line of names and a line per step.
        """
        rows = list(csv.DictReader(io.StringIO(steadyhelm("export --format csv --run clean-0").out)))

        assert ["0", "1", "2", "3", "4", "5"] == [row["seq"] for row in rows]

    @pytest.mark.parametrize("form", ["jsonl", "csv"])
    def test_hostile_text(self, steadyhelm, store, form):
        """
        Control and bidirectional characters are written as their numbers: an export may end in a terminal.
        """
        name = "a\x1b[2J\x9b\u202e\u2028b"
        event = TraceEvent(
            agent_id="a", run_id="r9", action_type="tool_call", action_name=name, timestamp=1.0
        )
        store.save_trace(event)
        written = steadyhelm(f"export --format {form} --run r9").out

        assert not set("\x1b\x9b\u202e\u2028") & set(written)
        assert "202e" in written

    def test_parquet(self, steadyhelm, apart):
        """
        Parquet has a row per step.
        """
        answer = steadyhelm("export --format parquet -o steps.parquet")

        assert "Exported 8 runs with 32 steps to steps.parquet.\n" == answer.err
        assert 32 == pq.read_table(apart / "steps.parquet").num_rows

    def test_parquet_needs_a_file(self, steadyhelm):
        """
        Parquet on standard output is a usage error that says what to add.
        """
        answer = steadyhelm("export --format parquet")

        assert (2, "") == (answer.status, answer.out)
        assert "-o FILE" in answer.err

    def test_unknown_format(self, steadyhelm):
        """
        A format that does not exist is a usage error that names those that do.
        """
        answer = steadyhelm("export --format xml")

        assert 2 == answer.status
        assert "parquet" in answer.err

    def test_compressed_and_private(self, steadyhelm, apart):
        """
        A file in .gz is compressed, and only its owner may read it.
        """
        steadyhelm("export -o runs.jsonl.gz")
        path = apart / "runs.jsonl.gz"

        assert 8 == len(gzip.decompress(path.read_bytes()).splitlines())
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)

    @pytest.mark.parametrize(("option", "status", "kept"), [("", 2, True), ("--yes", 0, False)])
    def test_a_file_that_exists(self, steadyhelm, apart, option, status, kept):
        """
        A file that exists is replaced only with --yes.
        """
        (apart / "runs.jsonl").write_text("mine")

        assert status == steadyhelm(f"export -o runs.jsonl {option}").status
        assert kept == ((apart / "runs.jsonl").read_text() == "mine")

    def test_no_such_folder(self, steadyhelm):
        """
        A place that cannot be written to ends with status 1.
        """
        assert 1 == steadyhelm("export -o nowhere/runs.jsonl").status
