"""A program that records every input and output on the thread that calls Steadyhelm, and prints it as JSON.

Run as `python io_watcher.py FOLDER`. An audit hook cannot be removed: hence a process of its own.
"""

import json
import os
import posix
import sqlite3
import sys
import threading
import traceback
from pathlib import Path

# What neither waits nor touches a file: it asks about this process, or converts a value.
HARMLESS = {"getpid", "getppid", "fspath", "urandom", "strerror", "getuid", "geteuid", "times", "sched_yield"}
WATCHED_EVENTS = ("open", "os.", "sqlite3.", "socket.", "subprocess.", "shutil.", "mmap.", "fcntl.", "import")
JOURNAL = "os.pwrite"


class Watcher:
    """Records what happens on one thread while one of our calls runs."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = {}
        self._call: str | None = None
        self._thread = threading.get_ident()
        self._is_noting = False

    def watch(self, name, call, *args, **fields):
        """Make a call of ours, and record what it does."""
        self.seen.setdefault(name, [])
        self._call = name
        try:
            return call(*args, **fields)
        finally:
            self._call = None

    def note(self, what: str) -> None:
        """Record an input or output, with the place in our code that led to it."""
        if self._call is None or self._is_noting or threading.get_ident() != self._thread:
            return
        self._is_noting = True
        ours = [frame for frame in traceback.extract_stack() if "/steadyhelm/" in frame.filename]
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "elsewhere"
        self.seen[self._call].append(f"{what} at {place}")
        self._is_noting = False


WATCHER = Watcher()


def watch_os() -> None:
    """Record the functions of `os` that cause no audit event, such as `stat`, `read` and `fsync`."""
    for name in dir(posix):
        function = getattr(posix, name)
        if callable(function) and not isinstance(function, type) and name not in HARMLESS:
            setattr(os, name, make_watched(f"os.{name}", function))


def make_watched(name, function):
    """Return the function, recorded under its name."""

    def watched(*args, **fields):
        if name != JOURNAL:
            WATCHER.note(name)
        return function(*args, **fields)

    return watched


class WatchedConnection(sqlite3.Connection):
    """A connection whose statements are recorded: an open connection causes no audit event."""

    def execute(self, *args):
        WATCHER.note("sqlite3 execute")
        return super().execute(*args)

    def executemany(self, *args):
        WATCHER.note("sqlite3 executemany")
        return super().executemany(*args)


def watch_sqlite() -> None:
    """Record every statement on every connection."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **fields: connect(*args, factory=WatchedConnection, **fields)


def use(monitor, other) -> None:
    """Make every call that must not wait, in runs that are new, suspended here and suspended elsewhere."""
    watch = WATCHER.watch

    class Agent:
        def invoke(self, question):
            return search(question)

    @monitor.tool
    def search(query):
        return f"nothing about {query}"

    agent = monitor.wrap(Agent())
    loop = {"input_data": {"q": "oslo"}, "output_data": {"text": "none"}, "token_count": 5}
    for run_id in (None, "new", "suspended elsewhere", "suspended here", "suspended here"):
        run = watch("start_run", monitor.start_run, run_id, goal="find a flight to Oslo", task_type="flight")
        for _ in range(6):
            watch("record_event", monitor.record_event, "tool_call", "search", **loop)
        watch("record_event", monitor.record_event, "llm_request", "model", output_data={"text": "I looked."})
        watch("record_event", monitor.record_event, "user_message", "user", input_data={"text": "No, wrong."})
        decision = watch("before_tool", monitor.before_tool, "search", {"q": "oslo"})
        watch("call_refused", monitor.call_refused, "search", decision=decision)
        watch("progress", monitor.progress, 0.5)
        watch("budget", monitor.budget)
        watch("daily_budget", monitor.daily_budget)
        watch("request_extension", monitor.request_extension, "nearly there", steps=1)
        watch("grant", monitor.grant, "go on", steps=1, daily_steps=1)
        watch("not_carried_out", monitor.not_carried_out, "it could not be done")
        watch("checkpoint", monitor.checkpoint, conversation_history=["hello"], state_files={"a.txt": b"a"})
        watch("get_last_checkpoint", monitor.get_last_checkpoint)
        watch("roll_back", monitor.roll_back)
        with watch("within", monitor.within, run):
            watch("tool", search, "trains")
        watch("wrap", agent.invoke, "buses")
        watch("get_recent_alerts", monitor.get_recent_alerts)
        watch("get_baseline", monitor.get_baseline)
        watch("status", monitor.status)
        watch("not_checked", monitor.not_checked)
        if run_id == "suspended here":
            watch("suspend", monitor.suspend)
            other.flush()
        else:
            watch("end_run", monitor.end_run)


def main(folder: Path) -> None:
    """Use a monitor, and print what happened on this thread."""
    watch_sqlite()
    from steadyhelm import DriftMonitor

    settings = folder / "steadyhelm.toml"
    settings.write_text(
        f'[budget]\nsteps = 500\ndaily_steps = 40\n[checkpoints]\nfolder = "{folder / "kept"}"\n'
    )
    options = {"db_path": folder / "runs.db", "config": settings, "mode": "enforce"}
    other = DriftMonitor("researcher", **options)
    other.start_run("suspended elsewhere")
    other.record_event("tool_call", "search")
    other.suspend()
    other.flush()
    monitor = DriftMonitor("researcher", **options)
    watch_os()
    sys.addaudithook(lambda event, args: WATCHER.note(event) if event.startswith(WATCHED_EVENTS) else None)
    use(monitor, other)
    print(json.dumps({"seen": WATCHER.seen, "losses": monitor.health.totals()}))
    monitor.close()
    other.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
