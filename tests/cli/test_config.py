import tomllib
from pathlib import Path

import pytest
from whole_program import process, steadyhelm

from steadyhelm.cli.config import list_detectors, list_options
from steadyhelm.setting_table import SETTINGS

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def values(*options):
    [document] = steadyhelm(*options, "config", "--json").documents
    return {value["name"]: (value["value"], value["origin"]) for value in document["settings"]}


class TestValues:
    def test_every_setting_and_option(self, apart):
        """
        All settings are listed, and all options of all detectors.
        """
        options = [
            f"detectors.{name}.{option.name}" for name in list_detectors() for option in list_options(name)
        ]

        assert [setting.name for setting in SETTINGS] + options == list(values())

    def test_where_it_comes_from(self, apart, monkeypatch):
        """
        Argument, environment, file and default are told apart.
        """
        (apart / "steadyhelm.toml").write_text("queue_cap = 7\n[detectors.action_loop]\nmax_repeats = 6\n")
        monkeypatch.setenv("STEADYHELM_MODE", "guide")
        shown = values("--db", "here.db")

        assert ("here.db", "argument") == shown["db"]
        assert ("guide", "environment STEADYHELM_MODE") == shown["mode"]
        assert (7, "file steadyhelm.toml") == shown["queue_cap"]
        assert (6, "file steadyhelm.toml") == shown["detectors.action_loop.max_repeats"]
        assert ("fast", "default") == shown["durability"]

    @pytest.mark.parametrize(("set_by_user", "shown"), [("", True), ("absolute_token_limit = 9\n", False)])
    def test_options_that_follow_from_others(self, apart, set_by_user, shown):
        """
        What is shown is what is used: the limits are soft until one of them is set.
        """
        (apart / "steadyhelm.toml").write_text(f"[detectors.resource_spike]\n{set_by_user}")

        assert (shown, "default") == values()["detectors.resource_spike.soft_limits"]

    def test_the_database_is_named(self, apart):
        """
        Where no database was set, the one that will be used is shown.
        """
        assert (str(apart / "steadyhelm.db"), "default") == values()["db"]

    def test_secrets(self, apart, monkeypatch):
        """
        A secret is masked; that it is set, and where, is not.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", "https://example.org/very-secret")
        monkeypatch.setenv("STEADYHELM_ALERTS_SIGNING_SECRET", "very-secret")

        assert ("(hidden)", "environment STEADYHELM_ALERTS_WEBHOOK") == values()["alerts.webhook"]
        assert "very-secret" not in steadyhelm("config").out + steadyhelm("config", "--json").out


class TestCommand:
    def test_for_people(self, apart):
        """
        In a pipe the table is not cut.
        """
        answer = process("config", environment={"COLUMNS": "20"})

        assert (0, "") == (answer.status, answer.err)
        assert "detectors.resource_spike.absolute_duration_limit_ms" in answer.out

    def test_misspelt_variables(self, apart, monkeypatch):
        """
        A variable that looks like a setting and is none is told.
        """
        monkeypatch.setenv("STEADYHELM_MOED", "guide")

        assert "STEADYHELM_MOED is set, but there is no such setting" in steadyhelm("config").err

    def test_variables_that_are_not_settings(self, apart, monkeypatch):
        """
        A variable that Steadyhelm reads outside the settings is not called misspelt.
        """
        monkeypatch.setenv("STEADYHELM_HOOK_HOST", "0")

        assert "STEADYHELM_HOOK_HOST" not in steadyhelm("config").err

    def test_a_value_that_cannot_be(self, apart, monkeypatch):
        """
        A wrong value is a usage error that names setting, value and what is allowed.
        """
        monkeypatch.setenv("STEADYHELM_MODE", "shout")
        answer = process("config")

        assert (2, "") == (answer.status, answer.out)
        assert "mode must be one of observe, guide, enforce, got 'shout'" in answer.err

    def test_a_file_that_is_not_there(self, apart):
        """
        A settings file that was named must be there.
        """
        assert 2 == process("--config", "nowhere.toml", "config").status


class TestDocs:
    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_a_heading_for_every_setting(self, setting):
        """
        The settings page has a heading for each setting, and names its variable.
        """
        page = DOCS.read_text()

        assert f"\n## {setting.name}\n" in page
        assert f"`{setting.variable}`" in page

    def test_a_heading_for_every_option(self):
        """
        The settings page has a heading for each detector's options.
        """
        page = DOCS.read_text()
        names = [
            f"detectors.{name}.{option.name}" for name in list_detectors() for option in list_options(name)
        ]

        assert [] == [name for name in names if f"\n## {name}\n" not in page]


@pytest.fixture
def settings_file(tmp_path, monkeypatch):
    """A settings file with comments, in the working directory."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "steadyhelm.toml"
    file.write_text('# Ours.\nmode = "observe" # for now\n\n[budget]\n# Steps.\nsteps = 40\n')
    return file


class TestSet:
    def test_comments_stay(self, settings_file):
        """
        A value is changed where it is; comments and layout stay.
        """
        steadyhelm("config", "set", "mode", "guide")

        assert (
            '# Ours.\nmode = "guide" # for now\n\n[budget]\n# Steps.\nsteps = 40\n'
            == settings_file.read_text()
        )

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("budget.steps", "50", 50),
            ("budget.utc_offset_h", "-5", -5),
            ("redaction.keys", "card,pin", ["card", "pin"]),
            ("alerts.webhook", "https://example.org/hook", "https://example.org/hook"),
            ("detectors.action_loop.enabled", "false", False),
            ("tools.job_status.kind", "poll", "poll"),
            ("tools.job_status.ignore", '["token"]', ["token"]),
        ],
    )
    def test_new_value(self, settings_file, name, text, value):
        """
        A value is stored with its type, in its table.
        """
        steadyhelm("config", "set", name, text)
        stored = tomllib.loads(settings_file.read_text())
        for part in name.split("."):
            stored = stored[part]

        assert value == stored

    def test_a_tool_with_dots_in_its_name(self, settings_file):
        """
        A tool is declared under its whole name.
        """
        steadyhelm("config", "set", "tools.files.read.kind", "read")

        assert {"files.read": {"kind": "read"}} == tomllib.loads(settings_file.read_text())["tools"]

    def test_a_file_is_created(self, tmp_path, monkeypatch):
        """
        Without a settings file one is created in the working directory.
        """
        monkeypatch.chdir(tmp_path)
        steadyhelm("config", "set", "mode", "guide")

        assert 'mode = "guide"\n' == (tmp_path / "steadyhelm.toml").read_text()

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("mode", "loud"),
            ("moed", "guide"),
            ("detectors.action_loop.max_repeats", "many"),
            ("tools.job_status.kind", "polling"),
            ("budget.steps", "-5"),
            ("tools.job_status.sort", "poll"),
        ],
    )
    def test_nothing_wrong_is_stored(self, settings_file, name, text):
        """
        A wrong name or value is refused, and the file stays as it is.
        """
        before = settings_file.read_text()

        assert 2 == process("config", "set", name, text).status
        assert before == settings_file.read_text()

    @pytest.mark.parametrize(
        ("name", "text", "why"),
        [
            ("alerts.webhook", "http://127.0.0.1/very-secret", "it would be sent unencrypted over http"),
            ("alerts.webhook", "https://10.0.0.7/very-secret", "10.0.0.7 is private"),
            ("alerts.webhook", "very-secret", "alerts.webhook must be a URL"),
            ("alerts.allow_hosts", "https://example.org", "without scheme"),
            ("redaction.patterns", "(", "redaction.patterns must be regular expressions"),
            ("policy.replan_threshold", "0.1", "must not fall from one to the next"),
            ("policy.weights", "hope=1", "policy.weights has no 'hope'"),
        ],
    )
    def test_nothing_that_a_monitor_refuses_is_stored(self, settings_file, name, text, why):
        """
        A value is held against what the monitor asks of all settings; why it is refused is said.
        """
        before = settings_file.read_text()
        answer = process("config", "set", name, text)

        assert (2, before) == (answer.status, settings_file.read_text())
        assert f"{name} stays as it was. " in answer.err
        assert why in answer.err
        assert "very-secret" not in answer.err

    def test_settings_that_belong_together(self, settings_file):
        """
        A value that another setting allows is stored.
        """
        steadyhelm("config", "set", "alerts.allow_hosts", "127.0.0.1")
        steadyhelm("config", "set", "alerts.webhook", "http://127.0.0.1/hook")

        assert "http://127.0.0.1/hook" == tomllib.loads(settings_file.read_text())["alerts"]["webhook"]

    def test_settings_that_are_refused_already(self, settings_file):
        """
        Where several values in the file do not fit together, they are corrected one after the other.
        """
        settings_file.write_text("[policy]\nremind_threshold = 0.9\nrollback_threshold = 0.2\n")
        steadyhelm("config", "set", "policy.remind_threshold", "0.2")
        steadyhelm("config", "set", "policy.rollback_threshold", "0.7")

        assert {"remind_threshold": 0.2, "rollback_threshold": 0.7} == tomllib.loads(
            settings_file.read_text()
        )["policy"]

    def test_a_wrong_value_in_the_file_is_replaced(self, settings_file):
        """
        A value that cannot be is mended with the command, though no other command works with it.
        """
        settings_file.write_text('mode = "loud"\n')
        assert "got 'loud' (file steadyhelm.toml)" in process("runs").err

        assert 0 == process("config", "set", "mode", "guide").status
        assert 'mode = "guide"\n' == settings_file.read_text()

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("mod", "mode"),
            ("webhook", "alerts.webhook"),
            ("detectors.action_lop.enabled", "detectors.action_loop.enabled"),
            ("detectors.action_loop.max_repeat", "detectors.action_loop.max_repeats"),
        ],
    )
    def test_a_misspelt_setting(self, settings_file, name, meant):
        """
        A name that is nearly right is answered with the right one.
        """
        assert f"Did you mean {meant}" in process("config", "set", name, "guide").err

    def test_environment_overrides(self, settings_file, monkeypatch):
        """
        A value that has no effect because of the environment is named.
        """
        monkeypatch.setenv("STEADYHELM_MODE", "observe")

        assert "environment STEADYHELM_MODE overrides" in steadyhelm("config", "set", "mode", "guide").err

    def test_permissions_stay(self, settings_file):
        """
        The file keeps the permissions it had.
        """
        settings_file.chmod(0o640)
        steadyhelm("config", "set", "mode", "guide")

        assert 0o640 == settings_file.stat().st_mode & 0o777


class TestUnset:
    def test_value_is_removed(self, settings_file):
        """
        The value goes, and everything else stays.
        """
        steadyhelm("config", "unset", "budget.steps")

        assert '# Ours.\nmode = "observe" # for now\n\n[budget]\n# Steps.\n' == settings_file.read_text()

    def test_value_that_is_not_set(self, settings_file):
        """
        A value that is not in the file changes nothing.
        """
        before = settings_file.read_text()

        assert "Nothing was changed" in steadyhelm("config", "unset", "budget.tokens").err
        assert before == settings_file.read_text()
