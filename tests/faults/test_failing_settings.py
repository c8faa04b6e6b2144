"""A disk that fails while hooks are installed: a settings file has its old content or the new one."""

import errno
import json
import subprocess
import sys

import pytest
from fault_tools import build_failing_calls, with_tools

pytestmark = pytest.mark.usefixtures("quiet")

BEFORE = '{\n  "model": "x",\n  "permissions": {"allow": ["Bash(ls)"]}\n}\n'
CHANGES_SETTINGS = """
import ctypes, json, os, shutil, sys
from pathlib import Path
from typer.testing import CliRunner
from steadyhelm.cli.hook import app
from steadyhelm.settings import home

os.environ.pop("LD_PRELOAD")
before, calls, *arguments = sys.argv[1:]
file = Path(os.environ["HOME"]) / ".claude" / "settings.json"
fail_from = ctypes.CDLL(None).fail_from
tries, count, place = [], 0, 0

def hook(*words):
    done = CliRunner().invoke(app, [*words, "--agent", "claude-code", "--yes"])
    is_told = done.exception is None or type(done.exception) is SystemExit
    return done.exit_code if is_told else repr(done.exception)

while place <= count:
    shutil.rmtree(os.environ["HOME"], ignore_errors=True)
    file.parent.mkdir(parents=True)
    if before:
        file.write_text(before)
    if arguments != ["install"]:
        hook("install")
    old = file.read_text() if file.exists() else ""
    fail_from(place, int(calls))
    status = hook(*arguments)
    count = fail_from(-1, 0)
    new = file.read_text() if file.exists() else ""
    undone = hook("uninstall")
    left = sorted(path.name for path in Path(os.environ["HOME"]).rglob("*") if path.is_file())
    tries.append([status, new != old, undone, file.read_text() if file.exists() else "", left])
    place += 1
print(json.dumps(tries))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The compiled library that lets calls fail."""
    return build_failing_calls(tmp_path_factory.mktemp("library"))


def change_at_each_place(library, folder, before, arguments, *, calls, error):
    """Return what came of the command for each call of the system that fails, and after an uninstallation."""
    settings = {
        "LD_PRELOAD": library,
        "FAIL_BELOW": folder,
        "FAIL_ERRNO": error,
        "HOME": folder / "home",
        "STEADYHELM_HOME": folder / "home" / "own",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHANGES_SETTINGS, before, str(calls), *arguments],
        env=with_tools() | {name: str(value) for name, value in settings.items()},
        capture_output=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("before", [BEFORE, ""])
@pytest.mark.parametrize(("error", "calls"), [(errno.EIO, 1), (errno.ENOSPC, 1000)])
@pytest.mark.parametrize("arguments", [["install"], ["install", "--mode", "guide"], ["uninstall"]])
def test_all_or_nothing(tmp_path, library, arguments, error, calls, before):
    """
    Whatever call fails: a command that fails has changed nothing, and uninstalling restores every byte.
    """
    tries = change_at_each_place(library, tmp_path, before, arguments, calls=calls, error=error)

    assert len(tries) > 8
    assert not [it for it in tries if it[0] not in (0, 1) or (it[0] == 1) == it[1]]
    assert [(0, before)] * len(tries) == [(undone, text) for _, _, undone, text, _ in tries]
    # On a disk that takes no call any more, what was begun stays, beside the file and not in it.
    litter = {name for *_, left in tries for name in left} - {"settings.json"}
    assert calls > 1 or not [name for name in litter if not name.endswith(".new")]


def test_a_lost_backup(tmp_path, monkeypatch):
    """
    Without its backup a settings file is not deleted: our entries alone are removed.
    """
    from steadyhelm.hooks import installer

    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "own"))
    file = tmp_path / "settings.json"
    file.write_text(BEFORE)
    installer.apply_install(installer.plan_install("claude-code", file))
    installer.get_backup_path(file).unlink()

    installer.apply_uninstall(installer.plan_uninstall(file))

    assert json.loads(BEFORE) == json.loads(file.read_text())
