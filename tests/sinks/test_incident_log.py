"""An incident is one line in the log when it opens, and one when it gets worse."""

import logging

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.findings import Severity
from steadyhelm.incidents import Incident
from steadyhelm.sinks.incident_log import IncidentLog


@pytest.fixture(autouse=True)
def at_warning(caplog):
    caplog.set_level(logging.WARNING, logger="steadyhelm")


def an_incident(incident_id="i1", severity=Severity.MED, **fields):
    known = {
        "agent_id": "researcher",
        "run_id": "r1",
        "detector": "action_loop",
        "kind": "loop",
        "peak": 0.5,
        "message": "search called 4 times in a row with the same arguments and the same result",
        "suggested_action": "",
        "opened_at": 1.0,
        "opened_seq": 0,
        "last_at": 2.0,
        "last_seq": 3,
    }
    return Incident(incident_id=incident_id, severity=severity, **{**known, **fields})


class TestTheLine:
    def test_it_says_who_what_and_where_to_look(self, caplog):
        """
        The line names the agent, the severity, the run, what happened, and the command that shows it.
        """
        IncidentLog("/data/my runs.db").write([an_incident()])

        [line] = caplog.messages

        assert line == (
            "researcher drifts (MED, run r1): search called 4 times in a row with the same arguments and the "
            "same result. See: steadyhelm --db '/data/my runs.db' alerts show i1"
        )

    def test_it_comes_again_only_when_it_gets_worse(self, caplog):
        """
        However often an incident is written, there is one line for each severity it reaches.
        """
        log = IncidentLog()
        for severity in (Severity.MED, Severity.MED, Severity.HIGH, Severity.HIGH, Severity.MED):
            log.write([an_incident(severity=severity)])
        log.write([an_incident("i2", Severity.MED), an_incident("i2", Severity.CRITICAL)])

        assert ["drifts (MED", "drifts further (HIGH", "drifts (CRITICAL"] == [
            line.removeprefix("researcher ").split(",")[0] for line in caplog.messages
        ]

    def test_hostile_words_do_no_harm(self, caplog):
        """
        Line breaks, control characters and great length of what an agent said stay out of the log.
        """
        hostile = "a\x1b[31m\nERROR fake line\u202e" + "x" * 5000
        IncidentLog().write([an_incident(message=hostile, agent_id=hostile, run_id=hostile)])
        [line] = caplog.messages

        assert line.isprintable()
        assert len(line) < 700


class TestInAMonitor:
    def test_a_newcomer_hears_of_a_loop(self, caplog, tmp_path):
        """
        With nothing set up, a loop of many calls is a few lines in the log, not one a call and not none.
        """
        path = tmp_path / "runs.db"
        monitor = DriftMonitor("researcher", db_path=path)
        with monitor.run():
            for _ in range(14):
                monitor.record_event("tool_call", "search", input_data={"q": "oslo"}, output_data="nothing")
        monitor.close()
        [alert] = monitor.get_recent_alerts()

        assert 1 <= len(caplog.messages) <= 3
        assert all("search called" in line for line in caplog.messages)
        assert caplog.messages[-1].endswith(f"See: steadyhelm --db {path} alerts show {alert.incident_id}")

    def test_a_healthy_run_is_silent(self, caplog, tmp_path):
        """
        Nothing is logged where nothing is wrong.
        """
        monitor = DriftMonitor("researcher", db_path=tmp_path / "runs.db")
        with monitor.run():
            for n in range(14):
                monitor.record_event("tool_call", "read", input_data={"page": n}, output_data=f"page {n}")
        monitor.close()

        assert [] == caplog.messages
