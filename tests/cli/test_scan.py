import gzip
import json
import os
from pathlib import Path

import pytest
from whole_program import call, healthy_line, looping_line, process, run_line, scanned, steadyhelm, written

from steadyhelm.assembly import DriftMonitor
from steadyhelm.errors import StoreError

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def runs(apart):
    """A file with a clean run and a looping one."""
    file = apart / "runs.jsonl"
    file.write_text(healthy_line() + looping_line())
    return file


class TestJson:
    def test_one_object_a_run_in_order(self, runs):
        """
        Every run is one line, clean or not, in the order of the file.
        """
        assert ["fine", "stuck"] == [report["run_id"] for report in scanned(runs)]

    def test_keys(self, runs):
        """
        A report has these keys and no others.
        """
        report = scanned(runs)[1]
        keys = ["run_id", "events", "findings", "incidents", "action", "tokens_saved", "not_checked"]
        finding = ["at", "detector", "kind", "severity", "score", "message", "evidence"]
        incident = ["kind", "from", "to", "peak", "severity", "message"]

        assert keys == list(report)
        assert finding == list(report["findings"][0])
        assert incident == list(report["incidents"][0])
        assert ["detector", "reason"] == list(report["not_checked"][0])

    def test_findings_and_incidents(self, runs):
        """
        A loop is a finding at each event that continues it, and one incident from the first to the last.
        """
        report = scanned(runs)[1]
        told = [it for it in report["findings"] if it["kind"] == "loop" and it["severity"] != "LOW"]
        [incident] = report["incidents"]

        assert {3, 4, 5} <= {finding["at"] for finding in told}
        assert [0, 1, 2, 3, 4, 5] == told[-1]["evidence"]
        assert ("loop", told[0]["at"], 5) == (incident["kind"], incident["from"], incident["to"])

    def test_places_are_entries(self, apart):
        """
        `at`, `evidence` and `events` count the entries of the run's own list, results included.
        """
        pair = [{"type": "tool_call", "name": "ls"}, {"type": "tool_result", "name": "ls", "text": "a"}]
        [report] = scanned(written(apart, run_line(*pair * 6)))
        last = report["findings"][-1]

        assert (12, 10) == (report["events"], last["at"])
        assert {0, 2, 4, 6, 8, 10} == set(last["evidence"])

    def test_strongest_action(self, runs):
        """
        `action` is the strongest answer any event got, and with it go the tokens it would have saved.
        """
        fine, stuck = scanned(runs)

        assert ("CONTINUE", None) == (fine["action"], fine["tokens_saved"])
        assert stuck["action"] in {"SUMMARIZE_REPLAN", "CHECKPOINT_RESET", "ASK_USER"}
        assert 0 < stuck["tokens_saved"] < 600

    def test_what_cannot_be_judged_is_said(self, runs):
        """
        A detector that could not look is named with its reason.
        """
        missed = scanned(runs)[1]["not_checked"]

        assert "goal_drift" in {one["detector"] for one in missed}

    def test_not_a_word_but_json_on_standard_output(self, runs):
        """
        The summary of a JSON report goes to standard error.
        """
        answer = process("scan", runs, "--format", "json")

        assert 2 == len(answer.documents)
        assert "2 runs, 1 flagged (1 loop)" in answer.err


class TestLimits:
    LARGE = run_line({"type": "llm_output", "text": "a long story", "tokens": 90_000})

    def test_size_alone_is_low(self, apart):
        """
        Passing a default limit is noticed, not flagged: every real session passes it.
        """
        answer = steadyhelm("scan", written(apart, self.LARGE), "--format", "json")

        assert 0 == answer.status
        assert ["LOW"] == [finding["severity"] for finding in answer.documents[0]["findings"]]

    def test_a_limit_of_ones_own_is_real(self, apart):
        """
        A limit in the settings file flags the run that passes it.
        """
        (apart / "steadyhelm.toml").write_text("[detectors.resource_spike]\nabsolute_token_limit = 80_000\n")
        answer = steadyhelm("scan", written(apart, self.LARGE), "--format", "json")

        assert 3 == answer.status
        assert ["HIGH"] == [finding["severity"] for finding in answer.documents[0]["findings"]]

    def test_one_limit_does_not_bring_the_other(self, apart):
        """
        Who sets a limit of tokens has not asked for one of time.
        """
        (apart / "steadyhelm.toml").write_text("[detectors.resource_spike]\nabsolute_token_limit = 80_000\n")
        slow = run_line({"type": "llm_output", "text": "at last", "tokens": 5, "duration_ms": 900_000})

        assert [] == scanned(written(apart, slow))[0]["findings"]


class TestBaseline:
    @pytest.fixture
    def learnt(self, apart):
        """A database with an agent whose runs cost a thousand tokens."""
        path = apart / "learnt.db"
        monitor = DriftMonitor("thrifty", db_path=path, calibration_runs=5)
        for _ in range(5):
            with monitor.run(goal="save"):
                for n in range(5):
                    monitor.record_event("tool_call", "look", input_data={"n": n}, token_count=200)
        monitor.close()
        return path

    COSTLY = run_line(*(call(result=str(n), tokens=2_000) for n in range(5)), agent_id="thrifty")

    def test_judged_by_what_is_usual(self, apart, learnt):
        """
        With a baseline a run is compared with the agent's own runs; without one it is not.
        """
        file = written(apart, self.COSTLY)

        assert 0 == steadyhelm("scan", file).status
        assert ["resource"] == [it["kind"] for it in scanned(file, "--baseline", learnt)[0]["incidents"]]

    def test_an_agent_without_one(self, apart, learnt):
        """
        A run of an agent that has no baseline is judged alone, and that is said.
        """
        [report] = scanned(written(apart, looping_line(agent_id="stranger")), "--baseline", learnt)

        assert {"detector": "baseline", "reason": _ALONE} in report["not_checked"]
        assert ["loop"] == [incident["kind"] for incident in report["incidents"]]

    def test_nothing_is_written(self, apart, learnt):
        """
        The database stays as it is, to the byte.
        """
        before = learnt.read_bytes()
        steadyhelm("scan", written(apart, self.COSTLY), "--baseline", learnt)

        assert before == learnt.read_bytes()

    def test_no_database_appears(self, runs, apart):
        """
        Scanning makes no database.
        """
        steadyhelm("scan", runs)

        assert [] == list(apart.glob("*.db"))

    def test_a_file_that_is_none(self, runs, apart):
        """
        A file that is no database is an error, and is left as it is.
        """
        (apart / "no.db").write_text("nothing of the kind")
        with pytest.raises(StoreError, match="not a database"):
            steadyhelm("scan", runs, "--baseline", apart / "no.db")

        assert "nothing of the kind" == (apart / "no.db").read_text()


_ALONE = "no baseline of agent 'stranger' was learnt; the run was judged alone"


@pytest.mark.skipif(not (DATA / "runs").is_dir(), reason="the recorded runs are not here")
class TestRecordedRuns:
    def test_everything_is_read(self, apart):
        """
        Every recorded run and case is judged, none is broken.
        """
        lines = sum(
            len(gzip.decompress(path.read_bytes()).splitlines())
            for path in (DATA / "runs").glob("*.jsonl.gz")
        )
        lines += len((DATA / "loops" / "cases.jsonl").read_text().splitlines())
        answer = steadyhelm("scan", DATA / "runs", DATA / "loops", "--format", "json")

        assert lines == len(answer.documents)
        assert 3 == answer.status

    def test_real_sessions_stay_quiet(self, apart):
        """
        Of 133 real coding sessions none is flagged for a loop, at most two for never naming their goal.
        """
        reports = scanned(DATA / "runs" / "claudecode_sessions.jsonl.gz")
        kinds = [{incident["kind"] for incident in report["incidents"]} for report in reports]

        assert {"correction", "style", "goal"} >= set().union(*kinds)
        assert sum("goal" in found for found in kinds) <= 2

    def test_the_same_every_time(self, apart):
        """
        The same file gives the same report, to the byte.
        """
        cases = DATA / "loops" / "cases.jsonl"

        assert json.dumps(scanned(cases)) == json.dumps(scanned(cases))
