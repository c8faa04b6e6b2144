"""An agent at work under the real monitor, and the commands that look at it afterwards."""

import itertools
import json
import shlex
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import NamedTuple

import typer
from typer.testing import CliRunner

from steadyhelm.assembly import DriftMonitor
from steadyhelm.cli import alerts, baseline, budget, db, export, models, runs, show
from steadyhelm.cli.context import AgentCommand, GlobalOptions
from steadyhelm.errors import SettingsError, SteadyhelmError
from steadyhelm.policy.alerting import AlertPolicy

HOSTILE = "\x1b[2Jnothing\u202e here"


class Answer(NamedTuple):
    """How a command ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def documents(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self):
        return json.loads(self.out)


class CommandLine:
    """The commands under test on one database, ending as `steadyhelm` would end."""

    def __init__(self, database):
        self.database = database
        self._runner = CliRunner()
        self._app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
        self._app.command("show")(show.show)
        for name, command in (("runs", runs.runs), ("traces", show.traces), ("export", export.export)):
            self._app.command(name, cls=AgentCommand)(command)
        for name, group in (
            ("alerts", alerts),
            ("baseline", baseline),
            ("budget", budget),
            ("models", models),
            ("db", db),
        ):
            self._app.add_typer(group.app, name=name)

    def __call__(self, line, **words):
        arguments = [part.format(**words) for part in shlex.split(line)]
        result = self._runner.invoke(self._app, arguments, obj=GlobalOptions(database=self.database))
        if isinstance(result.exception, SteadyhelmError):
            status = 2 if isinstance(result.exception, SettingsError) else 1
            return Answer(status, result.stdout, f"{result.stderr}{result.exception}")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)


def work(monitor, run_id, *, steps=4, **options):
    """A clean run: a question, a few different searches, an answer."""
    with monitor.run(run_id=run_id, **options):
        record = _recorder(monitor)
        record("user_message", "user", input_data={"text": "find me a flight"})
        for number in range(steps):
            record(
                "tool_call",
                "search" if number % 2 else "read",
                input_data={"query": f"flights page {number}"},
                output_data={"text": f"offer {number}"},
                token_count=120,
            )
        record("llm_request", "model", output_data={"text": "a flight to Oslo"}, token_count=300)


def loop(monitor, run_id, *, times, **options):
    """A run that makes the same search again and again."""
    with monitor.run(run_id=run_id, **options):
        record = _recorder(monitor)
        for _ in range(times):
            record(
                "tool_call",
                "search",
                input_data={"query": "flights to Oslo"},
                output_data={"text": HOSTILE},
                token_count=100,
            )


def _recorder(monitor):
    """Records steps one second apart: how fast the tests run must not look like a habit of the agent."""
    seconds = itertools.count(time.time() + 1)

    def record(*names, **fields):
        monitor.record_event(*names, timestamp=next(seconds), **fields)

    return record


def fill(path):
    """Three clean runs, a short and a long loop, one over a hard limit, one that failed, one of a child."""
    monitor = DriftMonitor("researcher", db_path=path, calibration_runs=3, absolute_token_limit=50_000)
    goal = "find the cheapest flight to Oslo"
    for number in range(3):
        work(monitor, f"clean-{number}", goal=goal)
    loop(monitor, "loop-short", times=4, goal=goal)
    loop(monitor, "loop-long", times=5, goal=goal)
    with monitor.run(run_id="costly"):
        _recorder(monitor)("llm_request", "model", output_data={"text": "long"}, token_count=60_000)
    with monitor.run(run_id="failing", goal=goal):
        _recorder(monitor)("tool_call", "fetch", input_data={"url": "x"}, error="no route\x07 to host")
        work(monitor, "child", parent_run_id="failing", steps=1)
    monitor.flush()
    monitor.close()
    assert {} == monitor.health.totals()


def incident_of(store, run_id, detector="action_loop"):
    """The one incident of a run."""
    [incident] = store.list_incidents("researcher", run_id, detector=detector)
    return incident


def queue_alert(store, run_id="loop-long"):
    """One alert in the outbox, as the monitor would have put it there; gives its incident."""
    incident = incident_of(store, run_id)
    alert = AlertPolicy().build_alert(incident, "opened", now=incident.last_at)
    store.enqueue(alert.to_delivery("webhook"))
    return incident


class Listener:
    """A web server on loopback that notes what it is sent, and answers as it is told."""

    def __init__(self, status=200):
        self.bodies = []
        self._server = HTTPServer(("127.0.0.1", 0), _handler(self, status))
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(listener, status):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            listener.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words):
            pass

    return Handler
