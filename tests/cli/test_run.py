"""`steadyhelm run` runs a program as Python does."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys

print(sys.argv[1:], __name__, __file__, sys.path[0])


def fail():
    raise ValueError("boom")


{"fail": fail, "exit": lambda: sys.exit(7), "end": lambda: None}[sys.argv[1]]()
"""
OURS = [sys.executable, "-m", "steadyhelm", "run", "--mode", "guide"]
LINE = "Steadyhelm watches in mode guide: no framework is installed.\n"


@pytest.fixture
def run(tmp_path):
    """Runs a command beside the program."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "STEADYHELM_HOME": str(tmp_path / "home")}

    def run(*command):
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.mark.parametrize("what", ["end", "exit", "fail"])
def test_a_script_runs_as_without_us(run, what):
    """
    Output, arguments, exit status and traceback are those of `python script.py`.
    """
    bare = run(sys.executable, "app/program.py", what, "--flag")
    ours = run(*OURS, "--", "app/program.py", what, "--flag")

    assert (bare.returncode, bare.stdout) == (ours.returncode, ours.stdout)
    assert bare.stderr == ours.stderr.replace(LINE, "")


def test_a_module_runs_as_without_us(run):
    """
    `-m` runs a module, and options after it are the module's own.
    """
    bare = run(sys.executable, "-m", "app.program", "exit", "--mode", "x")
    ours = run(*OURS, "-m", "app.program", "exit", "--mode", "x")

    assert (7, bare.stdout) == (ours.returncode, ours.stdout)


def test_its_processes_are_its_own(run, tmp_path):
    """
    An option of the program that our own commands have too starts no process of ours in it.
    """
    (tmp_path / "app" / "parts.py").write_text(
        "import sys; print('multiprocessing.forkserver' in sys.modules)"
    )
    done = run(*OURS, "--", "app/parts.py", "--jobs", "2")

    assert (0, "False\n") == (done.returncode, done.stdout)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Name the program to run"),
        (("nowhere.py",), "no script"),
        (("--", "-m", "app.parts"), "A module is run with -m before the `--`."),
        (("--mode", "gide", "app/program.py"), "mode"),
    ],
)
def test_what_cannot_be_run_is_named(run, words, says):
    """
    Without a program, with one that is not there, or with a wrong mode nothing runs.
    """
    done = run(*OURS, *words)

    assert (2, "") == (done.returncode, done.stdout)
    assert says in done.stderr
