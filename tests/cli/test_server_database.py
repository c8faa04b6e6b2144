"""Commands on a PostgreSQL database: the same as on a file, and never with its password."""

import re
from contextlib import closing

import pytest
from typer.testing import CliRunner

from steadyhelm import DriftMonitor
from steadyhelm.cli.main import app
from steadyhelm.errors import SteadyhelmError


@pytest.fixture
def url(postgres_url):
    """The address of a database with one run, with a password that this server does not ask for."""
    with (
        closing(DriftMonitor("worker", db_path=postgres_url)) as monitor,
        monitor.run(run_id="job", goal="mend it"),
    ):
        monitor.record_event("tool_call", "search", input_data=1, output_data="x")
    return postgres_url.replace("steadyhelm@", "steadyhelm:s3cret@")


@pytest.fixture
def call():
    """Run a command in this process, and return its status and everything it printed."""

    def call(*arguments, **variables):
        done = CliRunner().invoke(app, list(map(str, arguments)), env=variables)
        if isinstance(done.exception, SteadyhelmError):
            return 1, done.output + str(done.exception)
        return done.exit_code, done.output

    return call


class TestCommands:
    def test_they_read_it(self, call, url):
        """
        `runs` by an option, `db info` by the environment and `db path` by a file show the database.
        """
        for status, text in (
            call("--db", url, "runs"),
            call("db", "info", STEADYHELM_DB=url),
            call("db", "check", STEADYHELM_DB=url),
            call("--db", url, "doctor"),
        ):
            assert 0 == status, text
            assert "s3cret" not in text
        assert "job" in call("--db", url, "runs")[1]

    def test_the_password_is_not_shown(self, call, url):
        """
        What prints settings prints the address without its password.
        """
        for arguments in (("db", "path"), ("config",), ("config", "--json")):
            status, text = call(*arguments, STEADYHELM_DB=url)
            assert 0 == status, text
            assert "steadyhelm@" in text
            assert "s3cret" not in text

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda url: url.replace("/test_", "/no_"), "does not exist on that server"),
            (
                lambda url: "postgresql://worker:s3cret@127.0.0.1:9/x",
                "cannot be reached. Check that",
            ),
        ],
        ids=["wrong database", "server away"],
    )
    def test_errors_are_plain(self, call, url, change, words):
        """
        A database that is not there, and a server that is not there, are each said in one line.
        """
        status, text = call("--db", change(url), "runs")

        assert 1 == status
        assert words in text
        assert "s3cret" not in text

    def test_a_file_is_copied_there(self, call, postgres_url, tmp_path):
        """
        `db copy` moves a file, and says what it copied; the new database shows the same runs.
        """
        path = tmp_path / "old.db"
        with closing(DriftMonitor("worker", db_path=path)) as monitor, monitor.run(run_id="job"):
            monitor.record_event("tool_call", "search", input_data=1, output_data="x")
        status, text = call("db", "copy", path, postgres_url)

        assert 0 == status, text
        assert "compared 1 run" in text
        assert call("--db", path, "runs", "--json") == call("--db", postgres_url, "runs", "--json")


class TestRecordedRuns:
    @pytest.fixture
    def learnt(self, tmp_path, postgres_url, call):
        """What an agent taught, as a file and on the server."""
        path = tmp_path / "learnt.db"
        with closing(DriftMonitor("worker", db_path=path, calibration_runs=2)) as monitor:
            for name in ("one", "two"):
                with monitor.run(run_id=name):
                    monitor.record_event(
                        "tool_call", "search", input_data=name, output_data="x", token_count=9
                    )
        assert 0 == call("db", "copy", path, postgres_url)[0]
        return path, postgres_url.replace("steadyhelm@", "steadyhelm:s3cret@")

    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_scan_compares_with_its_baselines(self, call, learnt, tmp_path, jobs):
        """
        Runs are compared with the baselines on a server as with those in a file.
        """
        step = '{"type": "tool_call", "name": "search", "args": {"q": %d}, "result": "%d", "tokens": 9000}'
        steps = ", ".join(step % (place, place) for place in range(8))
        file = tmp_path / "runs.jsonl"
        file.write_text(f'{{"run_id": "new", "agent_id": "worker", "events": [{steps}]}}\n')
        alone, here, there = (
            call("scan", file, "--json", "--jobs", jobs, *more)
            for more in ((), *(("--baseline", where) for where in learnt))
        )

        assert here == there
        assert alone != here
        assert "s3cret" not in there[1]

    def test_the_lab_reads_its_runs(self, call, learnt):
        """
        The lab measures on the runs of a server as on those of a file, under its address.
        """
        (status, here), (_, there) = (call("lab", "false-alarms", where, "--json") for where in learnt)

        assert 0 == status, here
        assert '"runs":2' in here
        assert here.replace('"learnt.db"', '"name"') == re.sub('"postgresql://[^"]*"', '"name"', there)
        assert "s3cret" not in there

    def test_a_server_that_is_away(self, call, tmp_path):
        """
        A server that cannot be reached is named without its password, and nothing is judged alone instead.
        """
        (tmp_path / "runs.jsonl").write_text("")
        for words in (("scan", tmp_path / "runs.jsonl", "--baseline"), ("lab", "false-alarms")):
            status, text = call(*words, "postgresql://worker:s3cret@127.0.0.1:9/x")

            assert 1 == status, text
            assert "cannot be reached" in text
            assert "s3cret" not in text


class TestJournal:
    def test_steps_wait_in_our_folder(self, postgres_server, tmp_path, monkeypatch):
        """
        While the database is away steps wait in files of our folder; the next command stores them.
        """
        from steadyhelm.stores import open_store
        from steadyhelm.stores.locations import DatabaseLocation

        monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "own"))
        with postgres_server.new_database() as url:
            monitor = DriftMonitor("worker", db_path=url)
            journals = DatabaseLocation(url).journal_path.parent
            with monitor.run(run_id="job"):
                monitor.record_event("tool_call", "search", input_data=1, output_data="x")
            waiting = list(journals.iterdir())
            monitor.close()
            with closing(open_store(url, read_only=True)) as store:
                stored = store.get_run_traces("worker", "job")

        assert [tmp_path / "own" / "journals"] == list({path.parent for path in waiting})
        assert 1 == len(stored)
