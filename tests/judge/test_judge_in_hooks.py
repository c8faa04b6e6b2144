"""Sessions of coding agents: the resident helper asks, and the next event of the session has the verdict."""

import json
import os
import sys
import threading

import pytest
from judge_endpoint import WAIT_S, Client, Endpoint, answer

from steadyhelm.events import JUDGED
from steadyhelm.findings import Severity
from steadyhelm.hooks import handler
from steadyhelm.hooks.request import Deadline, HookRequest
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def endpoint():
    """A model that judges everything healthy."""
    server = Endpoint(answer("healthy"))
    yield server
    server.close()


@pytest.fixture
def call(tmp_path, monkeypatch, endpoint):
    """Makes the same call again in a session of Claude Code; the judge is named in the settings."""
    module = type(os)("openai")
    module.OpenAI = lambda: Client(endpoint.port)
    monkeypatch.setitem(sys.modules, "openai", module)
    monkeypatch.setattr(handler, "_parts", {})
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
    monkeypatch.setenv("STEADYHELM_JUDGE", "openai:some-model")
    monkeypatch.chdir(tmp_path)

    def make(number):
        told = {"session_id": "s", "hook_event_name": "PostToolUse", "tool_name": "Read"}
        told |= {"tool_use_id": f"s-{number}", "tool_input": {"file_path": "/p/a.py"}}
        told |= {"tool_response": {"stdout": "x = 1"}}
        request = HookRequest(["--agent", "claude-code"], json.dumps(told).encode(), Deadline(60.0))
        return handler.handle_request(request)

    return make


def read_session(folder):
    """Return the stored answers and incidents of the session."""
    store = SQLiteStore(folder / "steadyhelm.db")
    try:
        (run,) = store.list_runs()
        traces = list(store.iter_run_events(run.agent_id, run.run_id))
        judged = [it.event.metadata for it in traces if it.event.action_name == JUDGED]
        return judged, store.list_incidents()
    finally:
        store.close()


def has_answer():
    """Return whether an answer waits for the next event."""
    return any(parts.judging._answers for parts in handler._parts.values())


def test_a_verdict_is_recorded_with_the_next_event_of_its_session(call, endpoint, tmp_path):
    """
    Three equal calls; the resident asks when they are answered; the fourth event records the verdict first.
    """
    for number in range(3):
        call(number)
    assert not endpoint.asked
    handler.send_alerts(stays=True)
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if has_answer():
            break
        pause.wait(0.01)
    assert not read_session(tmp_path)[0]
    call(3)
    judged, (incident,) = read_session(tmp_path)
    assert [(it["label"], it["input_tokens"]) for it in judged] == [("healthy", 700)]
    assert (incident.state, incident.severity) == ("closed", Severity.LOW)
    assert len(endpoint.asked) == 1


def test_a_process_that_ends_asks_nobody(call, endpoint, tmp_path):
    """
    Without a resident helper nothing is asked, and the session goes on as without a judge.
    """
    for number in range(3):
        call(number)
        handler.send_alerts(stays=False)
    judged, (incident,) = read_session(tmp_path)
    assert not endpoint.asked
    assert not judged
    assert incident.severity is Severity.MED
