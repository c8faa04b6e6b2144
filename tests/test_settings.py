from pathlib import Path

import pytest

from steadyhelm.errors import SettingsError
from steadyhelm.setting_table import SETTINGS
from steadyhelm.settings import Settings, home, load

EMPTY: dict[str, str] = {}


@pytest.fixture
def file(tmp_path):
    """Writes a settings file."""

    def write(text, name="steadyhelm.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


class TestOrder:
    def test_without_anything_the_defaults_hold(self):
        """
        Nothing given means observe, fast, redacted, thirty runs.
        """
        loaded = load(environment=EMPTY)

        assert Settings() == loaded.settings
        assert {"default"} == set(loaded.origins.values())

    def test_argument_before_environment_before_file(self, file):
        """
        An argument counts more than the environment, the environment more than the file.
        """
        path = file('mode = "guide"\nqueue_cap = 10\ncalibration_runs = 10')
        loaded = load(
            {"calibration_runs": 30},
            path=path,
            environment={"STEADYHELM_QUEUE_CAP": "20", "STEADYHELM_CALIBRATION_RUNS": "20"},
        )

        assert ("guide", 20, 30) == (
            loaded.settings.mode,
            loaded.settings.queue_cap,
            loaded.settings.calibration_runs,
        )
        assert [f"file {path}", "environment STEADYHELM_QUEUE_CAP", "argument"] == [
            loaded.origins[name] for name in ("mode", "queue_cap", "calibration_runs")
        ]

    def test_none_means_not_given(self):
        """
        An argument that is None leaves the word to the others.
        """
        assert "guide" == load({"mode": None}, environment={"STEADYHELM_MODE": "guide"}).settings.mode

    def test_the_file_in_the_working_directory_is_found(self, file):
        """
        A steadyhelm.toml in the working directory is read.
        """
        file('mode = "guide"')

        assert "guide" == load(environment=EMPTY).settings.mode

    def test_the_file_in_our_own_folder_is_found(self, file):
        """
        Without one in the working directory, config.toml in Steadyhelm's own folder is read.
        """
        file('mode = "enforce"', f"{home().name}/config.toml")

        assert "enforce" == load(environment=EMPTY).settings.mode

    def test_a_named_file_counts_most(self, file):
        """
        The file STEADYHELM_CONFIG names counts more than the one in the working directory.
        """
        file('mode = "guide"')
        named = file('mode = "enforce"', "other.toml")

        assert "enforce" == load(environment={"STEADYHELM_CONFIG": str(named)}).settings.mode

    def test_tables_are_dots(self, file):
        """
        A table in the file is the part of a setting's name before the dot.
        """
        loaded = load(path=file('[alerts]\nwebhook = "https://example.org/hook"\nallow_hosts = ["a", "b"]'))

        assert ("https://example.org/hook", ("a", "b")) == (
            loaded.settings.alerts_webhook,
            loaded.settings.alerts_allow_hosts,
        )


class TestDetectorOptions:
    def test_options_come_from_the_file_and_the_arguments(self, file):
        """
        A detector's options are a table of their own; arguments are laid over it.
        """
        path = file("[detectors.action_loop]\nmax_repeats = 6\nwindow = 30")
        loaded = load({"detectors": {"action_loop": {"max_repeats": 3}}}, path=path, environment=EMPTY)

        assert {"action_loop": {"max_repeats": 3, "window": 30}} == loaded.settings.detectors
        assert ("argument", f"file {path}") == (
            loaded.origins["detectors.action_loop.max_repeats"],
            loaded.origins["detectors.action_loop.window"],
        )

    @pytest.mark.parametrize("text", ["detectors = 3", "[detectors]\naction_loop = 3"])
    def test_what_is_no_table_is_refused(self, file, text):
        """
        A detector's options that are no table are refused by name and value.
        """
        with pytest.raises(SettingsError, match=r"detectors.* must .*got 3"):
            load(path=file(text))

    @pytest.mark.parametrize("options", [{"goal_drift": False}, {"goal_drift": None}, ["goal_drift"]])
    def test_arguments_that_are_no_table_are_refused(self, options):
        """
        The same for options given as an argument.
        """
        with pytest.raises(SettingsError, match=r"detectors"):
            load({"detectors": options}, environment=EMPTY)


class TestBadValues:
    @pytest.mark.parametrize(
        ("name", "value", "allowed"),
        [
            ("mode", "shout", "one of observe, guide, enforce"),
            ("mode", 3, "one of observe"),
            ("durability", "slow", "one of fast, durable"),
            ("synchronous", "OFF", "one of NORMAL, FULL"),
            ("payloads", "some", "one of none, hashes, redacted, full"),
            ("embedder", "word2vec", "one of idf, minilm"),
            ("alerts.min_severity", "MEDIUM", "one of LOW, MED, HIGH, CRITICAL"),
            ("disabled", "perhaps", "true or false"),
            ("sample_rate", 1.5, "a number from 0 to 1"),
            ("sample_rate", "nan", "a number"),
            ("sample_rate", "much", "a number"),
            ("sample_rate", None, ""),
            ("queue_cap", 0, "a whole number from 1 to 10000000"),
            ("queue_cap", 2.5, "a whole number"),
            ("queue_cap", True, "a whole number"),
            ("queue_cap", 10**400, "a whole number"),
            ("most_live_runs", "inf", "a whole number from 1"),
            ("calibration_runs", float("inf"), "a whole number from 1"),
            ("calibration_runs", -1, "a whole number from 1"),
            ("alerts.cooldown_s", float("inf"), "a number from 0"),
            ("alerts.digest_s", 0, "a number from 1"),
            ("alerts.cooldown_s", [], "a number from 0"),
            ("retention.run_days", -1, "a number from 0"),
            ("db", 5, "text"),
            ("redaction.keys", [1], "a list of texts"),
            ("redaction.patterns", 1, "a list of texts"),
        ],
    )
    def test_an_error_names_setting_value_and_what_is_allowed(self, name, value, allowed):
        """
        A setting that cannot be is refused by its name, its value, and with what is allowed.
        """
        if value is None:
            assert load({name: value}, environment=EMPTY)
            return
        with pytest.raises(SettingsError) as caught:
            load({name: value}, environment=EMPTY)

        assert str(caught.value).startswith(f"{name} must be {allowed}")
        assert repr(value) in str(caught.value)

    def test_a_secret_is_not_repeated(self):
        """
        The wrong value of a secret setting is not shown.
        """
        with pytest.raises(SettingsError, match=r"alerts\.signing_secret must be text, got \(hidden\)"):
            load({"alerts.signing_secret": 12345}, environment=EMPTY)

    @pytest.mark.parametrize("text", ["colour = 1", "[alerts]\ncolour = 1", "[paint]\nx = 1", "alerts = 5"])
    def test_an_unknown_setting_is_refused(self, file, text):
        """
        A setting nobody knows is refused, with the file it stands in and the names there are.
        """
        path = file(text)
        with pytest.raises(SettingsError, match=r"There is no setting .*steadyhelm.toml.*Settings: mode, "):
            load(path=path)

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("[alerts]\nwebhok = 'x'\n", r"Did you mean alerts\.webhook\?"),
            ("[budgets]\nsteps = 5\n", r"Did you mean budget\.steps\?"),
            ("min_severity = 'LOW'\n", r"Did you mean alerts\.min_severity\?"),
        ],
    )
    def test_a_misspelt_name_is_answered_with_the_right_one(self, tmp_path, written, meant):
        """
        A name that is nearly right, or stands in the wrong table, is answered with the setting that is meant.
        """
        path = tmp_path / "steadyhelm.toml"
        path.write_text(written)
        with pytest.raises(SettingsError, match=meant):
            load({}, environment={}, path=path)

    @pytest.mark.parametrize("text", ["mode = ", "\0", "mode = 'a'\nmode = 'b'"])
    def test_a_broken_file_is_named(self, file, text):
        """
        A file that is no TOML is named, with the reason.
        """
        path = file(text)
        with pytest.raises(SettingsError, match=f"The settings file {path} cannot be read"):
            load(path=path)

    def test_a_missing_file_is_named(self, tmp_path):
        """
        A file that was asked for and is not there is an error, not a default.
        """
        with pytest.raises(SettingsError, match=r"There is no settings file at .*absent\.toml"):
            load(environment={"STEADYHELM_CONFIG": str(tmp_path / "absent.toml")})

    def test_bad_values_in_the_environment_are_refused(self):
        """
        The environment is checked like everything else.
        """
        expected = (
            r"mode must be one of observe, guide, enforce, got 'loud' \(environment STEADYHELM_MODE\)\."
        )
        with pytest.raises(SettingsError, match=expected):
            load(environment={"STEADYHELM_MODE": "loud"})

    def test_bad_values_in_a_file_are_refused(self, file):
        """
        The message names the file that holds the value.
        """
        path = file("[budget]\nsteps = -1\n")
        with pytest.raises(SettingsError, match=rf"budget\.steps must be .*, got -1 \(file {path}\)\."):
            load(path=path)


class TestValues:
    @pytest.mark.parametrize(("text", "expected"), [("1", True), ("TRUE", True), ("off", False), ("", False)])
    def test_switches_in_words(self, text, expected):
        """
        A switch in the environment is a word.
        """
        assert expected is load(environment={"STEADYHELM_DISABLED": text}).settings.disabled

    def test_names_in_any_case(self):
        """
        A word from a list may be written in any case.
        """
        loaded = load({"mode": "Guide", "alerts.min_severity": "high"}, environment=EMPTY).settings

        assert ("guide", "HIGH") == (loaded.mode, loaded.alerts_min_severity)

    def test_lists_in_the_environment_have_commas(self):
        """
        A list in the environment is separated by commas.
        """
        loaded = load(environment={"STEADYHELM_REDACTION_KEYS": "badge, pin ,"})

        assert ("badge", "pin") == loaded.settings.redaction_keys

    def test_the_database_is_in_our_own_folder(self, monkeypatch):
        """
        Without a path the database is in Steadyhelm's own folder; a path may begin with a tilde.
        """
        monkeypatch.setenv("STEADYHELM_HOME", "/somewhere")

        assert Path("/somewhere/steadyhelm.db") == Settings().database.path
        assert Path.home() / "x.db" == Settings(db="~/x.db").database.path

    def test_the_former_name_of_the_database_is_accepted(self, file):
        """
        `db_path` means `db`, in a file, in the environment and among arguments; the new variable wins.
        """
        path = file('db_path = "a.db"')
        both = {"STEADYHELM_DB": "c.db", "STEADYHELM_DB_PATH": "b.db"}

        assert "a.db" == load(path=path, environment=EMPTY).settings.db
        assert "b.db" == load(path=path, environment={"STEADYHELM_DB_PATH": "b.db"}).settings.db
        assert "c.db" == load(path=path, environment=both).settings.db
        assert "d.db" == load({"db_path": "d.db"}, path=path, environment=both).settings.db


class TestTable:
    def test_every_field_has_a_setting(self):
        """
        Every field of Settings can be set, and every setting has a field.
        """
        assert set(Settings.__struct_fields__) - {"detectors", "tools"} == {it.attribute for it in SETTINGS}

    def test_every_default_is_allowed(self):
        """
        Every default passes its own check.
        """
        defaults = Settings()

        assert [getattr(defaults, it.attribute) for it in SETTINGS] == [
            it.check(getattr(defaults, it.attribute)) for it in SETTINGS
        ]

    def test_every_setting_says_what_it_is_for(self):
        """
        Every setting has a line about it and a variable of its own.
        """
        assert all(it.about for it in SETTINGS)
        assert len(SETTINGS) == len({it.variable for it in SETTINGS})
