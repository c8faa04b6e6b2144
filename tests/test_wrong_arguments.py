import re
from collections.abc import Callable
from typing import Any

import pytest

import steadyhelm
from steadyhelm import Budget, DriftMonitor, SettingsError
from steadyhelm.sinks.callback import Callback


class Agent:
    """An agent that any monitor can wrap."""

    def run(self, task):
        """Return the task."""
        return task


ARGUMENTS = [
    ("agent_id", 5, "agent_id must be a text that names the agent, got 5."),
    ("goal_description", 5, "goal_description must be a text, got 5."),
    ("mode", [], "mode must be one of observe, guide, enforce, got []."),
    ("version", 5, "version must be text, got 5."),
    ("sample_rate", "x", "sample_rate must be a number from 0 to 1, got 'x'."),
    ("calibration_runs", [], "calibration_runs must be a whole number from 1, got []."),
    ("remind_every", "x", "guidance.remind_every must be a whole number from 0, got 'x'."),
    ("loop_window", "x", "detectors.action_loop has a value of the wrong type in {'window': 'x'}"),
    ("db_path", 5, "db_path must be a path, as text or a Path, got 5."),
    ("db_path", b"a.db", "db_path must be a path, as text or a Path, got b'a.db'."),
    ("config", [], "config must be a path, as text or a Path, got []."),
    ("budget", {"steps": 5}, "budget must be a Budget, such as Budget(steps=50), got {'steps': 5}."),
    ("budget", Budget, "budget must be a Budget, such as Budget(steps=50), got <class"),
    ("detectors", list, "such as {'goal_drift': {'enabled': False}}, got <class 'list'>."),
    ("detectors", [], "detectors in the arguments must hold options by the name of a detector"),
    ("detectors", {5: {}}, "detectors in the arguments must hold options by the name of a detector"),
    ("detectors", {"goal_drift": False}, "must be a table of its options, such as {'enabled': False}, got"),
    ("settings", 5, 'settings must be a table of settings by name, such as {"mode": "guide"}, got 5.'),
    ("settings", {5: 5}, "settings must be a table of settings by name"),
    ("settings", {"tools": 5}, "tools in the arguments must hold options by the name of a tool, such as"),
    ("judge", 5, "A judge must be a function or have a method judge(question), got: int."),
    ("sinks", None, "sinks must be a list of sinks, such as sinks=[OTel()], got None."),
    ("sinks", "otel", "sinks must be a list of sinks, such as sinks=[OTel()], got 'otel'."),
    ("sinks", [5], "Each of the sinks must be an instance of a Sink, such as sinks=[OTel()], got 5."),
    ("sinks", [Callback], "Each of the sinks must be an instance of a Sink"),
    ("make_detectors", [], "make_detectors must be a function, got []."),
    ("clock", None, "clock must be a function, got None."),
]


@pytest.mark.parametrize(("argument", "value", "message"), ARGUMENTS)
def test_a_wrong_argument_of_a_monitor_is_answered_in_words(argument, value, message):
    """
    The message names the argument, shows the value, and says what is allowed.
    """
    with pytest.raises(SettingsError, match=re.escape(message)):
        DriftMonitor(**{"agent_id": "researcher"} | {argument: value})


CALLS: list[tuple[Callable[[DriftMonitor], Any], str]] = [
    (lambda it: it.on_drift(5), "The on_drift callback must be a function, got 5."),
    (lambda it: it.on_drift(print, min_severity="x"), "min_severity must be one of LOW, MED, HIGH, CRITICAL"),
    (lambda it: it.on_decision(None), "The on_decision callback must be a function, got None."),
    (lambda it: it.on_incident([]), "The on_incident callback must be a function, got []."),
    (lambda it: it.on_response("switch_model", 5), "The switch_model callback must be a function, got 5."),
    (lambda it: it.on_response("wait", print), "There is no hook 'wait'. Hooks: force_checkpoint,"),
    (lambda it: it.get_recent_alerts(min_severity=5), "min_severity must be one of LOW, MED, HIGH, CRITICAL"),
    (lambda it: it.get_findings(min_severity=5), "min_severity must be one of LOW, MED, HIGH, CRITICAL"),
    (lambda it: it.wrap(Agent(), ask=5), "ask must be a function, got 5."),
    (lambda it: it.wrap(5), "wrap() got a int, which has no method invoke,"),
    (lambda it: it.tool(5), "@monitor.tool and @monitor.model take a function, got int."),
    (lambda it: it.tool(print, kind="x"), "A tool's kind must be one of poll, read, write,"),
    (lambda it: it.tool(print, ignore="id"), "ignore must be a list of argument names, got 'id'."),
    (lambda it: it.tool(print, ignore=5), "ignore must be a list of argument names, got 5."),
    (lambda it: it.declare("get_status", "poll"), "A declaration must be a ToolDeclaration, such as"),
    (lambda _: steadyhelm.install(frameworks=5), 'must be a list of names, such as ["langchain"], got 5.'),
    (lambda _: steadyhelm.install(frameworks="crewai"), 'must be a list of names, such as ["crewai"], got'),
    (lambda _: steadyhelm.install(monitor=5), "monitor must be a DriftMonitor, got 5."),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_a_wrong_argument_of_a_method_is_answered_in_words(call, message):
    """
    What a program sets up is checked when it is set up, not when the agent works.
    """
    monitor = DriftMonitor("researcher")

    with pytest.raises(SettingsError, match=re.escape(message)):
        call(monitor)
