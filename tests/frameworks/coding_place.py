"""A user's home with a project in it, where a real coding agent works with a scripted model on loopback."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steadyhelm.hooks.resident import stop_resident

STEADYHELM = Path(sys.executable).with_name("steadyhelm")
GOAL = "Find out what a.txt says"
LIMIT_S = 60


class CodingPlace:
    """A home and a project; `agent` is the coding agent that works there.

    Nothing of the machine's own home is seen: the environment is PATH and this home.
    """

    agent = ""
    settings = ""
    """The settings file that hooks are installed in, in the home."""

    def __init__(self, folder):
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        (self.project / "a.txt").write_text("hello\n")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(folder)}

    @property
    def own(self):
        return self.home / ".steadyhelm"

    @property
    def settings_file(self):
        return self.home / self.settings

    def steadyhelm(self, *arguments):
        done = subprocess.run(
            [STEADYHELM, *arguments],
            env=self.environment,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout

    def install(self, mode="guide", *options):
        self.steadyhelm("hook", "install", "--agent", self.agent, "--mode", mode, "--yes", *options)

    def uninstall(self):
        self.steadyhelm("hook", "uninstall", "--agent", self.agent, "--yes")

    def run_agent(self, command, **environment):
        """Let the agent work; returns the process, which must have written something."""
        done = subprocess.run(
            command,
            env=self.environment | environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.stdout, done.stderr
        return done

    def runs(self):
        """The runs that are in the store, newest first."""
        return json.loads(self.steadyhelm("runs", "--json"))["runs"]

    def made(self):
        """How many times the scripted command really ran: it writes a line each time."""
        log = self.project / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0


def is_told_after(calls, words, requests):
    """Whether the model reads these words in no request before so many calls were made, and from then on.

    A hook that is late lets the agent go on: then the words are in the request after the next call.
    """
    told = [words in it for it in requests]
    return told == sorted(told) and not any(told[:calls]) and told[-1]


@contextlib.contextmanager
def open_place(kind):
    """A place of this kind; the resident helper is ended afterwards."""
    # A socket's path must be short, and pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="sh-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        place = kind(Path(folder))
        yield place
        socket = place.own / "hook.sock"
        stop_resident(str(socket))
        until = time.monotonic() + 60
        while socket.exists() and time.monotonic() < until:
            time.sleep(0.01)
