import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from steadyhelm import Budget, DriftMonitor, SettingsError, Severity
from steadyhelm.components import make_detector_factory
from steadyhelm.settings import home

NOT_A_SETTING = {"agent_id", "sinks", "config", "make_detectors", "clock", "unknown"}
"""Parameters that neither the environment nor a file can set."""


class Parameter(NamedTuple):
    """A parameter, its default, another value in the environment and in the file, and where it ends up."""

    default: Any
    in_file: str
    found_in: str
    in_environment: tuple[str, str] | None = None


PARAMETERS = {
    "alert_webhook": Parameter(
        "",
        '[alerts]\nwebhook = "https://a.example/x"',
        "alerts_webhook",
        ("ALERTS_WEBHOOK", "https://b.example"),
    ),
    "goal_description": Parameter("", '[detectors.goal_drift]\ngoal = "bake bread"', "goal_drift._goal"),
    "calibration_runs": Parameter(30, "calibration_runs = 7", "calibration_runs", ("CALIBRATION_RUNS", "8")),
    "db_path": Parameter("", 'db = "file.db"', "db", ("DB", "environment.db")),
    "loop_window": Parameter(None, "[detectors.action_loop]\nwindow = 9", "action_loop.window"),
    "loop_max_repeats": Parameter(
        None, "[detectors.action_loop]\nmax_repeats = 9", "action_loop.max_repeats"
    ),
    "similarity_threshold": Parameter(
        None, "[detectors.goal_drift]\nsimilarity_threshold = 0.5", "goal_drift.similarity_threshold"
    ),
    "spike_multiplier": Parameter(
        None, "[detectors.resource_spike]\nspike_multiplier = 9", "resource_spike.spike_multiplier"
    ),
    "min_alert_severity": Parameter(
        "MED", '[alerts]\nmin_severity = "LOW"', "alerts_min_severity", ("ALERTS_MIN_SEVERITY", "HIGH")
    ),
    "alert_cooldown": Parameter(
        60.0, "[alerts]\ncooldown_s = 1", "alerts_cooldown_s", ("ALERTS_COOLDOWN_S", "2")
    ),
    "absolute_token_limit": Parameter(
        50_000,
        "[detectors.resource_spike]\nabsolute_token_limit = 9",
        "resource_spike.absolute_token_limit",
    ),
    "absolute_duration_limit_ms": Parameter(
        300_000,
        "[detectors.resource_spike]\nabsolute_duration_limit_ms = 9",
        "resource_spike.absolute_duration_limit_ms",
    ),
    "mode": Parameter("observe", 'mode = "guide"', "mode", ("MODE", "enforce")),
    "version": Parameter("", 'version = "1"', "version", ("VERSION", "2")),
    "durability": Parameter("fast", 'durability = "durable"', "durability", ("DURABILITY", "durable")),
    "payloads": Parameter("redacted", 'payloads = "none"', "payloads", ("PAYLOADS", "full")),
    "sample_rate": Parameter(1.0, "sample_rate = 0.5", "sample_rate", ("SAMPLE_RATE", "0.25")),
    "remind_every": Parameter(
        0, "[guidance]\nremind_every = 5", "guidance_remind_every", ("GUIDANCE_REMIND_EVERY", "6")
    ),
    "budget": Parameter(
        Budget(steps=3), "[budget]\nsteps = 9\ntokens = 9", "budget_steps", ("BUDGET_STEPS", "8")
    ),
    "judge": Parameter("", 'judge = "openai:m"', "judge", ("JUDGE", "anthropic:m")),
    "settings": Parameter({"queue_cap": 2000}, "queue_cap = 10", "queue_cap", ("QUEUE_CAP", "20")),
    "detectors": Parameter(
        {"action_loop": {"max_repeats": None}},
        "[detectors.action_loop]\nmax_repeats = 9",
        "action_loop.max_repeats",
    ),
}


def read(monitor, found_in):
    """Return the value that a monitor uses, of a setting or of one of its detectors."""
    detector, _, attribute = found_in.partition(".")
    if not attribute:
        return getattr(monitor.settings, found_in)
    made = {it.name: it for it in make_detector_factory(monitor.settings)()}
    return getattr(made[detector], attribute)


@pytest.fixture
def build(tmp_path):
    """Builds a monitor from a settings file and arguments."""
    built = []

    def make(in_file="", **arguments):
        path = tmp_path / "given.toml"
        path.write_text(in_file)
        built.append(DriftMonitor("agent", config=path, **arguments))
        return built[-1]

    yield make
    for monitor in built:
        monitor.close()


class TestSettingsByName:
    def test_any_setting_may_be_given(self, build, monkeypatch):
        """
        What has no argument of its own is given by its name, and wins over environment and file.
        """
        monkeypatch.setenv("STEADYHELM_POLICY_REPLAN_THRESHOLD", "0.4")
        given = {
            "policy.replan_threshold": 0.5,
            "policy.weights": {"stuck_time": 0.0},
            "alerts.allow_hosts": ["127.0.0.1"],
            "tools": {"ci_status": {"kind": "poll"}},
        }
        settings = build("[policy]\nreplan_threshold = 0.6", settings=given).settings

        assert (0.5, {"stuck_time": 0.0}, ("127.0.0.1",), {"ci_status": {"kind": "poll"}}) == (
            settings.policy_replan_threshold,
            settings.policy_weights,
            settings.alerts_allow_hosts,
            settings.tools,
        )

    def test_an_argument_that_is_not_given_does_not_hide_it(self, build):
        """
        Settings that could have been arguments may be given by name.
        """
        given = {"db_path": "by-name.db", "alerts.webhook": "https://a.example/x", "budget.steps": 7}
        settings = build(settings=given).settings

        assert ("by-name.db", "https://a.example/x", 7) == (
            settings.db,
            settings.alerts_webhook,
            settings.budget_steps,
        )

    def test_an_argument_of_its_own_counts_more(self, build):
        """
        The same setting given twice is the one of its own argument.
        """
        assert "observe" == build(mode="observe", settings={"mode": "enforce"}).settings.mode

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"policy.replan_treshold": 0.5}, "Did you mean policy.replan_threshold?"),
            ({"policy.replan_threshold": 5}, "policy.replan_threshold must be a number from 0 to 1, got 5."),
            ({"detectors": {}}, "as the argument detectors"),
            (["mode"], "settings must be a table of settings by name"),
        ],
    )
    def test_what_is_no_setting_is_refused(self, build, given, words):
        """
        A misspelt name, a wrong value and the wrong place are errors that say what to do.
        """
        with pytest.raises(SettingsError, match=re.escape(words)):
            build(settings=given)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (
                {"goal": "book a flight"},
                "takes no goal: a goal belongs to a run. Write monitor.run(goal=...)",
            ),
            ({"on_decision": print}, "takes no on_decision. Write monitor.on_decision(...)"),
            ({"moode": "guide"}, "takes no moode. Did you mean mode?"),
            ({"xyzzy": 1}, "takes no xyzzy. Other settings go into settings={...}"),
        ],
    )
    def test_an_argument_that_there_is_none_of_is_refused(self, build, given, words):
        """
        An argument that belongs elsewhere, a misspelt and an unknown one are errors that say what to write.
        """
        with pytest.raises(SettingsError, match=re.escape(words)):
            build(**given)

    def test_a_budget_is_a_budget(self, build):
        """
        Limits that are no Budget are refused with an example, not with an error from inside.
        """
        with pytest.raises(SettingsError, match=r"budget must be a Budget, such as Budget\(steps=50\)"):
            build(budget={"steps": 3})


class TestArgumentsWin:
    def test_every_parameter_is_tried_here(self):
        """
        A parameter that is added must be added here too.
        """
        assert {*PARAMETERS, *NOT_A_SETTING} == set(inspect.signature(DriftMonitor).parameters)

    @pytest.mark.parametrize("name", PARAMETERS)
    def test_an_argument_wins_though_it_equals_the_default(self, name, build, monkeypatch):
        """
        What the program says counts, whatever environment and file say, also where it says the default.
        """
        parameter = PARAMETERS[name]
        if parameter.in_environment is not None:
            variable, value = parameter.in_environment
            monkeypatch.setenv(f"STEADYHELM_{variable}", value)
        monitor = build(parameter.in_file, **{name: parameter.default})

        expected = {"budget": 3, "detectors": None, "settings": 2000}.get(name, parameter.default)
        assert expected == read(monitor, parameter.found_in)

    @pytest.mark.parametrize("name", PARAMETERS)
    def test_without_the_argument_the_file_counts(self, name, build):
        """
        The same file without the argument gives another value: the test above can fail.
        """
        parameter = PARAMETERS[name]

        assert read(build(), parameter.found_in) != read(build(parameter.in_file), parameter.found_in)

    @pytest.mark.parametrize("name", [name for name, it in PARAMETERS.items() if it.in_environment])
    def test_the_environment_wins_over_the_file(self, name, build, monkeypatch):
        """
        Without an argument the environment counts more than the file.
        """
        parameter = PARAMETERS[name]
        variable, value = parameter.in_environment
        monkeypatch.setenv(f"STEADYHELM_{variable}", value)
        monitor = build(parameter.in_file)

        assert value == str(read(monitor, parameter.found_in)).removesuffix(".0")

    @pytest.mark.parametrize("name", ["alert_webhook", "db_path", "budget"])
    def test_none_leaves_it_to_the_settings(self, name, build):
        """
        Where None is no value of its own, it stands for "not given".
        """
        parameter = PARAMETERS[name]
        without, given = build(parameter.in_file), build(parameter.in_file, **{name: None})

        assert read(without, parameter.found_in) == read(given, parameter.found_in)

    def test_limits_that_a_budget_does_not_name_come_from_the_settings(self, build):
        """
        `Budget(steps=3)` says nothing about tokens.
        """
        settings = build("[budget]\nsteps = 9\ntokens = 9", budget=Budget(steps=3)).settings

        assert (3, 9) == (settings.budget_steps, settings.budget_tokens)

    def test_a_hard_limit_that_equals_the_default_is_the_users_own(self, build):
        """
        A limit that is given is acted on, and not only noticed, also when it is 50,000; the other default
        limit is then out of use.
        """
        soft, given = build(), build(absolute_token_limit=50_000)

        assert (True, False) == (
            read(soft, "resource_spike.soft_limits"),
            read(given, "resource_spike.soft_limits"),
        )
        assert (300_000, None) == (
            read(soft, "resource_spike.absolute_duration_limit_ms"),
            read(given, "resource_spike.absolute_duration_limit_ms"),
        )

    def test_a_loop_of_four_can_be_asked_for(self, build):
        """
        With `loop_max_repeats=4` three equal calls are no loop.
        """
        monitor = build(loop_max_repeats=4)
        call = {"input_data": {"q": "Oslo"}, "output_data": "none"}
        with monitor.run(goal="find a flight") as run:
            decisions = [run.record("tool_call", "search", **call) for _ in range(4)]

        found = [any(it.severity is not Severity.LOW for it in made.findings) for made in decisions]
        assert [False, False, False, True] == found

    def test_the_empty_path_is_the_default_one(self, build):
        """
        An empty path stands for the file in Steadyhelm's own folder.
        """
        assert home() / "steadyhelm.db" == build('db_path = "file.db"', db_path="").settings.database.path
        assert not Path("file.db").exists()
