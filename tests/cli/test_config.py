from pathlib import Path

import pytest
from whole_program import process, steadyhelm

from steadyhelm.cli.config import list_detectors, list_options
from steadyhelm.settings import SETTINGS

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

        assert ("here.db", "argument") == shown["db_path"]
        assert ("guide", "environment STEADYHELM_MODE") == shown["mode"]
        assert (7, "file steadyhelm.toml") == shown["queue_cap"]
        assert (6, "file steadyhelm.toml") == shown["detectors.action_loop.max_repeats"]
        assert ("fast", "default") == shown["durability"]

    def test_the_database_is_named(self, apart):
        """
        Where no database was set, the one that will be used is shown.
        """
        assert (str(apart / "steadyhelm.db"), "default") == values()["db_path"]

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
