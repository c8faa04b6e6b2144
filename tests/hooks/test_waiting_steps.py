"""Steps that hooks could not record yet are known to the commands that delete and check."""

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from steadyhelm.cli.main import app
from steadyhelm.hooks.handler import handle_request
from steadyhelm.hooks.request import Deadline, HookRequest
from steadyhelm.hooks.waiting_steps import count_waiting
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def send(session, call_id, event="PostToolUse", **fields):
    """Handle one event of Claude Code, however long it takes."""
    told = {"session_id": session, "hook_event_name": event, "tool_name": "Read", "tool_use_id": call_id}
    body = json.dumps({**told, "tool_input": {"file_path": f"/p/{call_id}"}, **fields}).encode()
    return handle_request(HookRequest([], body, Deadline(60.0)))


def send_in_vain(home, *events):
    """The same while the database is held: the steps wait."""
    with closing(sqlite3.connect(home / "steadyhelm.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        for session, call_id, fields in events:
            send(session, call_id, **fields)


def run_command(*words):
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.stdout + result.stderr


def list_runs(home):
    """The stored runs with the number of their calls."""
    with closing(SQLiteStore(home / "steadyhelm.db", read_only=True)) as store:
        return {run.run_id: run.tool_calls for run in store.list_runs(limit=1000)}


def test_a_deleted_run_does_not_come_back(home):
    """
    The steps of a deleted run that still waited are deleted, and those of other runs are recorded.
    """
    send("s1", "t1")
    send("s2", "t2")
    send_in_vain(home, ("s1", "t3", {}), ("s2", "t4", {}), ("s1", "t5", {"agent_id": "part"}))
    status, said = run_command("db", "delete-run", "s1", "--yes")
    assert (0, "Deleted run s1 of claude-code: 1 step, and 1 step from hooks not stored yet.\n") == (
        status,
        said,
    )
    assert 2 == count_waiting()
    send("s2", "t6")
    assert (0, {"s2": 3, "s1/part": 1}) == (count_waiting(), list_runs(home))


def test_the_run_of_a_resumed_session(home):
    """
    The steps that wait for a resumed session go with any of its runs.
    """
    send("s1", "t1")
    send("s1", "t2", event="SessionEnd")
    send("s1", "t3")
    send_in_vain(home, ("s1", "t4", {}))
    assert {"s1": 1, "s1~2": 1} == list_runs(home)
    assert 0 == run_command("db", "delete-run", "s1~2", "--yes")[0]
    assert (0, {"s1": 1}) == (count_waiting(), list_runs(home))


def test_a_deleted_agent_does_not_come_back(home):
    """
    The steps of a deleted agent that still waited are deleted; those of its sub-agents are another agent's.
    """
    send("s1", "t1")
    send_in_vain(home, ("s1", "t2", {}), ("s3", "t3", {}), ("s1", "t4", {"agent_id": "part"}))
    status, said = run_command("db", "delete-agent", "claude-code", "--yes")
    assert (0, "Deleted agent claude-code: 1 run, and 2 steps from hooks not stored yet.\n") == (status, said)
    assert 1 == count_waiting()


def test_steps_for_another_database_stay(home):
    """
    A run deleted from one database keeps its steps that wait for another.
    """
    send("s1", "t1")
    send_in_vain(home, ("s1", "t2", {}))
    with closing(SQLiteStore(home / "steadyhelm.db")) as store:
        store.backup(home / "copy.db")
    assert 0 == run_command("--db", str(home / "copy.db"), "db", "delete-run", "s1", "--yes")[0]
    assert 1 == count_waiting()


def test_the_doctor_counts_them(home):
    """
    The doctor warns about steps that wait, and is content when none does.
    """
    send("s1", "t1")
    send_in_vain(home, ("s1", "t2", {}))
    assert ("warning", "1 step not recorded yet") == check_hooks()
    send("s1", "t3")
    assert ("ok", "0 steps not recorded yet") == check_hooks()


def check_hooks():
    checks = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["checks"]
    [check] = [check for check in checks if check["name"] == "hooks"]
    return check["status"], check["message"]


def test_the_names_of_a_run_are_redacted(home):
    """
    The agent's name and version are redacted like those of any run, and all that goes by them still works.
    """
    (home / "steadyhelm.toml").write_text('version = "claude-7"\n[redaction]\npatterns = ["claude"]\n')
    send("s1", "t1")
    send_in_vain(home, ("s1", "t2", {}))
    with closing(SQLiteStore(home / "steadyhelm.db", read_only=True)) as store:
        [run] = store.list_runs()
    assert "claude" not in run.agent_id + run.version
    line = handle_request(HookRequest(["statusline"], b'{"session_id": "s1"}', Deadline(60.0)))
    assert "steadyhelm: on course · 1 calls" == line.decode()
    assert 0 == run_command("db", "delete-run", "s1", "--yes")[0]
    assert 0 == count_waiting()


def test_a_run_whose_steps_all_wait(home):
    """
    A run of which nothing is stored yet can be deleted by its whole id; its steps never come.
    """
    send("s1", "t1")
    send_in_vain(home, ("s2", "t2", {}), ("s2", "t3", {}), ("s3", "t4", {}))
    assert (0, "Deleted run s2 of claude-code: 2 steps from hooks not stored yet.\n") == run_command(
        "db", "delete-run", "s2", "--yes"
    )
    assert 1 == run_command("db", "delete-run", "s2", "--yes")[0]
    assert 1 == run_command("db", "delete-run", "s3", "--agent", "codex", "--yes")[0]
    send("s1", "t5")
    assert (0, {"s1": 2, "s3": 1}) == (count_waiting(), list_runs(home))


def test_an_agent_whose_steps_all_wait(home):
    """
    An agent of which nothing is stored yet can be deleted, after a yes.
    """
    send("s1", "t1")
    send_in_vain(home, ("s1", "t2", {"agent_id": "part"}))
    assert 2 == run_command("db", "delete-agent", "claude-code/subagent")[0]
    status, said = run_command("db", "delete-agent", "claude-code/subagent", "--yes")
    assert (0, "Deleted agent claude-code/subagent: 1 step from hooks not stored yet.\n") == (status, said)
    assert (0, {"s1": 1}) == (count_waiting(), list_runs(home))


def test_a_session_that_is_resumed_very_often(home, monkeypatch):
    """
    Each time a session is resumed it is a run of its own; what comes after the last possible one is counted.
    """
    monkeypatch.setattr("steadyhelm.hooks.sessions.MAX_RUNS_PER_SESSION", 60)
    for n in range(62):
        send("s1", f"t{n}")
        send("s1", f"e{n}", event="SessionEnd")
    assert {"s1": 1} | {f"s1~{n}": 1 for n in range(2, 61)} == list_runs(home)
    with closing(SQLiteStore(home / "steadyhelm.db", read_only=True)) as store:
        assert {"hook: the session was resumed too often": 4} == store.get_losses()


def test_a_step_that_comes_again_after_the_end(home):
    """
    A request that is handled twice is recorded once, also when its session has ended in between.
    """
    told = {"session_id": "s1", "hook_event_name": "PostToolUse", "tool_name": "Read", "tool_use_id": "t1"}
    request = HookRequest([], json.dumps(told).encode(), Deadline(60.0))
    handle_request(request)
    send("s1", "e", event="SessionEnd")
    handle_request(request)
    assert {"s1": 1} == list_runs(home)
