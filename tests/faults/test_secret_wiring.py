"""One known token goes into every parameter of every public method; nothing that is kept may contain it."""

import inspect
import logging
import uuid

import pytest

from steadyhelm import Budget, DriftMonitor
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.engine.capture import Capture
from steadyhelm.redaction import Redactor

TOKEN = "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uVwXy"

ORDINARY_IDS = [
    "chatcmpl-9f2KqL7mXw3RtYbN5vZc8QaPeHdJg",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    "call_Xy7Kd93LmQp2RtVbN8sWzFhJ",
    "toolu_01A09q90qw90lq917835lq9",
    "run_abc123XYZdef456UVWghi789",
    "req_011CSHoEeqs5C35K2UUqR7Fy",
    "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    "thread_8hQ2mPz4LkR7vXwB1nYcT6dF",
    str(uuid.UUID(int=0x550E8400E29B41D4A716446655440000)),
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "job-2024-05-01T12:00:00Z",
]

# Calls of every public method that takes a text, with the token wherever a text fits.
CALLS = {
    "start_run": {
        "goal": f"use {TOKEN}", "task_type": TOKEN, "version": TOKEN, "parent_run_id": TOKEN,
        "metadata": {TOKEN: TOKEN},
    },
    "record_event": {
        "action_type": TOKEN, "action_name": TOKEN, "event_id": TOKEN, "call_id": TOKEN,
        "parent_run_id": TOKEN, "input_data": {"q": TOKEN}, "output_data": [TOKEN],
        "metadata": {"a": TOKEN}, "error": f"no {TOKEN}",
    },
    "new_goal": {"goal": f"now use {TOKEN}"},
    "plan": {"steps": [{"step": f"log in with {TOKEN}", "status": "in_progress"}]},
    "before_tool": {"name": TOKEN, "args": {"a": TOKEN}},
    "call_refused": {"name": TOKEN, "reason": TOKEN, "call_id": TOKEN},
    "not_carried_out": {"reason": TOKEN},
    "request_extension": {"justification": TOKEN, "steps": 5},
    "grant": {"reason": TOKEN, "steps": 5, "daily_steps": 5},
    "checkpoint": {"label": TOKEN},
    "end_run": {"outcome": TOKEN},
}  # fmt: skip

WITHOUT_TEXT = {
    "after_fork", "budget", "close", "count_events", "daily_budget", "flush", "get_baseline", "get_findings",
    "get_last_checkpoint", "get_recent_alerts", "guidance", "model", "not_checked", "on_decision", "on_drift",
    "on_incident", "on_response", "progress",
    "roll_back", "run", "status", "stop_before_next", "suspend", "suspend_all",
    "tool", "use_baseline", "waiting_stop", "within", "wrap", "list_written_files", "declare",
}  # fmt: skip
"""Methods that keep no text of a caller, or that only call one of those above."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


def read_all(folder):
    """Return the bytes of every file in a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class TestTheToken:
    def test_every_method_is_tried(self):
        """
        No public method of the monitor is left out of this test.
        """
        methods = {name for name, _ in inspect.getmembers(DriftMonitor, callable) if not name.startswith("_")}

        assert methods == CALLS.keys() | WITHOUT_TEXT

    @pytest.mark.parametrize("payloads", ["redacted", "hashes", "none"])
    def test_nothing_kept_contains_it(self, home, logged, payloads):
        """
        Files, logs, findings and alerts do not contain a token that was passed in every parameter.
        """
        monitor = DriftMonitor(
            f"agent {TOKEN}",
            db_path=home / "a.db",
            payloads=payloads,
            absolute_token_limit=10,
            budget=Budget(daily_steps=1),
        )
        findings = []
        monitor.on_drift(findings.append, min_severity="LOW")
        run_id = monitor.start_run(TOKEN, **CALLS["start_run"])
        for name, arguments in CALLS.items():
            if name not in {"start_run", "end_run"}:
                for _ in range(6):  # often enough for a loop to be found
                    getattr(monitor, name)(
                        **arguments, run_id=TOKEN, **({"token_count": 9} if name == "record_event" else {})
                    )
        kept = read_all(home)
        monitor.end_run(TOKEN, **CALLS["end_run"])
        monitor.flush()
        status = repr((monitor.status(), monitor.get_recent_alerts(min_severity="LOW"), findings, run_id))
        monitor.close()

        assert findings
        assert TOKEN.encode() not in kept
        assert TOKEN.encode() not in read_all(home)
        assert TOKEN not in logged.text
        assert TOKEN not in status

    def test_a_watched_agent(self, home):
        """
        What an adapter reports through an agent run is redacted as well.
        """
        monitor = DriftMonitor("agent", db_path=home / "a.db")

        @monitor.tool(name=TOKEN)
        def fetch(text):
            return text + TOKEN

        with monitor.run(goal=TOKEN):
            fetch(TOKEN)
        monitor.close()

        assert TOKEN.encode() not in read_all(home)
        assert {"before_tool", "after_tool"} <= dict(inspect.getmembers(AgentRun)).keys()


class TestIds:
    CAPTURE = Capture(Redactor())

    def test_equal_stays_equal(self):
        """
        A token as an id becomes the same hash each time, and another token another one.
        """
        hidden = self.CAPTURE.identify(TOKEN)

        assert TOKEN not in hidden
        assert hidden == Capture(Redactor()).identify(TOKEN)
        assert hidden == self.CAPTURE.identify(hidden)
        assert hidden != self.CAPTURE.identify(TOKEN[:-1] + "z")

    @pytest.mark.parametrize("given", ORDINARY_IDS)
    def test_ordinary_ids_stay(self, given):
        """
        Ids of model providers, UUIDs, ULIDs and ids of one's own are not changed.
        """
        assert given == self.CAPTURE.identify(given)

    def test_a_run_is_found_by_its_own_id(self, home):
        """
        A run whose id is a token is continued, read and ended by that id.
        """
        monitor = DriftMonitor("agent", db_path=home / "a.db")
        run_id = monitor.start_run(TOKEN)
        monitor.record_event("tool_call", "read", run_id=TOKEN, call_id=TOKEN)
        monitor.record_event("tool_call", "read", run_id=TOKEN, call_id=TOKEN)
        monitor.end_run(TOKEN)
        monitor.flush()
        events = monitor.store.get_run_traces("agent", run_id)
        monitor.close()

        assert [run_id, run_id] == [event.run_id for event in events]
        assert 1 == len({event.call_id for event in events})

    def test_everything_is_kept_when_asked_for(self):
        """
        With the payload mode "full" names and ids stay as they came.
        """
        capture = Capture(Redactor(), "full")

        assert (TOKEN, TOKEN) == (capture.identify(TOKEN), capture.name(TOKEN))
