import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("io_watcher.py")
SOURCE = Path(__file__).parents[2] / "src"
CALLS = (
    *("start_run", "record_event", "before_tool", "call_refused", "not_carried_out", "progress"),
    *(
        "budget",
        "daily_budget",
        "request_extension",
        "grant",
        "checkpoint",
        "get_last_checkpoint",
        "roll_back",
        "within",
    ),
    *("tool", "wrap", "get_recent_alerts", "get_baseline", "status", "not_checked", "suspend", "end_run"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What happened on the caller's thread, by call, in a process of its own."""
    folder = tmp_path_factory.mktemp("io")
    environment = {"PYTHONPATH": str(SOURCE), "STEADYHELM_HOME": str(folder), "PATH": "/usr/bin:/bin"}
    program = [sys.executable, str(PROGRAM), str(folder)]
    done = subprocess.run(
        program, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


class TestCallersThread:
    @pytest.mark.parametrize("call", CALLS)
    def test_a_call_touches_nothing(self, recorded, call):
        """
        No call opens a file, a socket or the database on its own thread; it appends to the journal at most.
        """
        assert [] == recorded["seen"][call]

    def test_every_call_was_watched(self, recorded):
        """
        The program makes every call that must not wait, and none of them failed.
        """
        assert set(CALLS) == set(recorded["seen"])
        assert [] == [reason for reason in recorded["losses"] if reason.startswith("error in")]

    @pytest.mark.parametrize(
        "what", ["open('x', 'w')", "os.stat('.')", "sqlite3.connect('runs.db').execute('SELECT 1')"]
    )
    def test_the_program_notices(self, tmp_path, what):
        """
        What a call would do to a file or a database is recorded: the test above can fail.
        """
        code = (
            "import sys, os, sqlite3; import io_watcher as it; it.watch_sqlite(); it.watch_os();"
            "sys.addaudithook(lambda event, args: it.WATCHER.note(event)"
            " if event.startswith(it.WATCHED_EVENTS) else None);"
            f"it.WATCHER.watch('call', lambda: {what}); print(it.WATCHER.seen)"
        )
        environment = {"PYTHONPATH": f"{SOURCE}:{PROGRAM.parent}"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert "at elsewhere" in done.stdout, done.stderr
