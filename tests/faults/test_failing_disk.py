"""A disk that fails for a moment, at any call of the system: what is recorded is stored, or counted."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fault_tools import Account, adopt, build_failing_calls, make_monitor, record, with_tools

pytestmark = [pytest.mark.sqlite, pytest.mark.usefixtures("quiet")]

EVENTS = 36
PLACES = 8

RECORDS = """
import os, sys
os.environ.pop("LD_PRELOAD")
from steadyhelm import DriftMonitor
monitor = DriftMonitor("agent", db_path=sys.argv[1])
for number in range(3):
    with monitor.run(run_id=f"run{number}", goal="find the answer"):
        for step in range(12):
            monitor.record_event("tool_call", "search", input_data={"q": step % 4}, output_data={"n": 1})
    monitor.flush(0.2)
monitor.flush(60)
monitor.close(5)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The compiled library that lets calls fail."""
    return build_failing_calls(tmp_path_factory.mktemp("library"))


def record_on(library, folder, *, first=-1, calls=0, error=errno.EIO):
    """Record three runs in a process some of whose calls fail; return how many it made."""
    folder.mkdir()
    count = folder.with_suffix(".count")
    settings = {
        "LD_PRELOAD": library,
        "FAIL_BELOW": folder,
        "FAIL_COUNT": count,
        "FAIL_FROM": first,
        "FAIL_CALLS": calls,
        "FAIL_ERRNO": error,
    }
    done = subprocess.run(
        [sys.executable, "-c", RECORDS, str(folder / "steadyhelm.db")],
        env=with_tools() | {name: str(value) for name, value in settings.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert 0 == done.returncode, done.stderr
    return int(count.read_text())


@pytest.fixture(scope="module")
def calls_made(library, tmp_path_factory):
    """How many calls the process makes on a sound disk."""
    return record_on(library, tmp_path_factory.mktemp("sound") / "folder")


class TestFailingCalls:
    @pytest.mark.parametrize("place", range(PLACES))
    @pytest.mark.parametrize(("error", "calls"), [(errno.EIO, 1), (errno.ENOSPC, 20)])
    def test_every_event_is_stored_or_counted(self, tmp_path, library, calls_made, place, error, calls):
        """
        One call that fails, or twenty in a row, at any place: nothing raises, and nothing is missing.
        """
        folder = tmp_path / "failing"
        record_on(library, folder, first=calls_made * place // PLACES, calls=calls, error=error)
        adopt(folder / "steadyhelm.db")
        account = Account(folder / "steadyhelm.db")

        assert (EVENTS, []) == (account.stored + account.lost, account.faults)


BACKS_UP = """
import ctypes, os, sys
from pathlib import Path
from steadyhelm.stores.sqlite import SQLiteStore
os.environ.pop("LD_PRELOAD")
database, backup = map(Path, sys.argv[1:])
fail_from = ctypes.CDLL(None).fail_from
place, count = 0, 1
while place < count:
    store = SQLiteStore(database, read_only=True)
    fail_from(place, 1 << 30)
    try:
        store.backup(backup)
    except Exception as exc:
        assert type(exc).__name__.endswith("StoreError"), exc
    count = fail_from(-1, 0)
    store.close()
    if backup.exists():
        copy = SQLiteStore(backup, read_only=True)
        assert not copy.check(), place
        copy.close()
        backup.unlink()
    place += max(1, count // 20)
print(place)
"""


def test_a_disk_that_ends_a_backup(tmp_path, library):
    """
    Wherever the disk takes no call any more, there is no backup, or a sound one.
    """
    folder = tmp_path / "failing"
    monitor = make_monitor(folder / "steadyhelm.db")
    with monitor.run(run_id="run"):
        record(monitor, 50)
    monitor.close(60)
    files = [str(folder / name) for name in ("steadyhelm.db", "backup.db")]

    settings = {"LD_PRELOAD": library, "FAIL_BELOW": folder, "FAIL_ERRNO": errno.ENOSPC}
    done = subprocess.run(
        [sys.executable, "-c", BACKS_UP, *files],
        env=with_tools() | {name: str(value) for name, value in settings.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (0, True) == (done.returncode, done.stdout.strip().isdigit()), done.stderr


class TestStart:
    def test_on_a_full_disk(self, tmp_path):
        """
        A monitor that starts on a full disk keeps its steps, and stores them when there is room.
        """
        folder = tmp_path / "small"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        try:
            filler = folder / "filler"
            with pytest.raises(OSError, match="No space"):
                filler.write_bytes(bytes(4 << 20))
            monitor = make_monitor(folder / "steadyhelm.db")
            with monitor.run(run_id="run"):
                record(monitor, 50)
            assert not monitor.flush(0.2).complete
            filler.unlink()
            assert monitor.flush(60).complete
            monitor.close()
            account = Account(folder / "steadyhelm.db")
            assert ({"run": 50}, 0, []) == (account.runs, account.lost, account.faults)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False)

    def test_with_too_many_open_files(self, tmp_path):
        """
        A monitor that starts while the process may open no more files stores its steps once it may.
        """
        resource = pytest.importorskip("resource")
        usual = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(it.name) for it in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, usual[1]))
        try:
            taken = _open_all()
            monitor = make_monitor(tmp_path / "steadyhelm.db")
            with monitor.run(run_id="run"):
                record(monitor, 50)
            assert not monitor.flush(0.2).complete
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        assert monitor.flush(60).complete
        monitor.close()

        account = Account(tmp_path / "steadyhelm.db")
        assert ({"run": 50}, 0, []) == (account.runs, account.lost, account.faults)


def _open_all():
    """Open files until the process may open no more; return their descriptors."""
    taken = []
    while True:
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return taken
