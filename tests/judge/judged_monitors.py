"""Drive a monitor that has a judge, and read what it stored."""

from judge_endpoint import WAIT_S
from typer.testing import CliRunner

from steadyhelm.cli.main import app
from steadyhelm.events import JUDGED


def loop(monitor, calls=3, tool="read", result="nothing"):
    """Make the same call again and again; the third opens an incident."""
    for _ in range(calls):
        monitor.record_event("tool_call", tool, input_data={"path": "a.txt"}, output_data=result)


def list_judged(monitor):
    """Return the stored answers, in order."""
    monitor.flush(WAIT_S)
    traces = [trace.event for run in monitor.store.list_runs() for trace in read_events(monitor, run.run_id)]
    return [it.metadata for it in traces if it.action_name == JUDGED]


def read_events(monitor, run_id):
    """Return the stored events of a run, with their payloads."""
    return list(monitor.store.iter_run_events("agent", run_id))


def wait_for(wait_until, monitor, answers):
    """Wait until so many answers are stored."""
    wait_until(lambda: len(list_judged(monitor)) >= answers)


def list_incidents(monitor):
    """Return the stored incidents."""
    monitor.flush(WAIT_S)
    return monitor.store.list_incidents()


def run_command(*arguments, db=None, expect=0):
    """Run a command in this process and return what it prints to stdout."""
    done = CliRunner().invoke(app, [*(("--db", str(db)) if db is not None else ()), *arguments])
    assert expect is None or done.exit_code == expect, done.output
    return done.stdout
