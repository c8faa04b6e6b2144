import os
import socket
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import EntryPoint

import pytest
from whole_program import process, steadyhelm

from steadyhelm.adapters import frameworks
from steadyhelm.adapters.frameworks import Framework
from steadyhelm.cli.self_tests import SELF_TESTS
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.engine import registry
from steadyhelm.findings import Severity
from steadyhelm.sink import Loss
from steadyhelm.store_rows import Delivery
from steadyhelm.stores.opening import prepare
from steadyhelm.stores.schema import MIGRATIONS


def checked(*options):
    """What the doctor says, by check: a list of (status, message)."""
    [document] = steadyhelm(*options, "doctor", "--json").documents
    said = {}
    for check in document["checks"]:
        said.setdefault(check["name"], []).append((check["status"], check["message"]))
    return said


class TestWhenAllIsWell:
    def test_fresh_machine(self, apart):
        """
        Before the first run everything is ok, and no database appears.
        """
        answer = process("doctor")

        assert (0, "") == (answer.status, answer.err)
        assert "0 failed, 0 warnings" in answer.out
        assert [] == list(apart.glob("*.db"))

    def test_after_some_runs(self, database):
        """
        A database that is sound is shown with its size and its last event.
        """
        [(status, message)] = checked("--db", database)["database"]

        assert "ok" == status
        assert "8 runs, 32 events, last event" in message

    def test_every_detector_is_proved(self, apart):
        """
        Each detector of ours fires on its own example.
        """
        proved = {name: checks for name, checks in checked().items() if name.startswith("detector ")}

        assert {f"detector {name}" for name in registry.OWN[registry.DETECTORS]} == set(proved)
        assert {("ok", "finds its example, and nothing in a healthy run")} == {
            check for checks in proved.values() for check in checks
        }


class TestDatabase:
    def test_not_one_of_ours(self, apart):
        """
        A file that is no database FAILs with what to do, and is left as it is.
        """
        (apart / "no.db").write_text("nothing of the kind")
        answer = process("--db", "no.db", "doctor")

        assert 1 == answer.status
        assert "FAIL     database" in answer.out
        assert "Move it away to start anew" in answer.out
        assert "nothing of the kind" == (apart / "no.db").read_text()

    def test_written_by_a_newer_version(self, database):
        """
        A newer database FAILs with the advice to upgrade.
        """
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("INSERT INTO migrations VALUES ('9999_from_the_future', 0)")

        [(status, message)] = checked("--db", database)["database"]
        assert "FAIL" == status
        assert "Upgrade steadyhelm" in message

    def test_faults(self, database):
        """
        Sums that do not add up are found.
        """
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE runs SET events = events + 1 WHERE run_id = 'costly'")

        assert "FAIL" == checked("--db", database)["database"][0][0]

    def test_read_by_others(self, database):
        """
        A database that others may read is a warning.
        """
        database.chmod(0o644)

        assert ["ok", "warning"] == [status for status, _ in checked("--db", database)["database"]]

    def test_losses(self, store, database):
        """
        What was lost is shown by reason; it does not fail.
        """
        store.write([Loss("queue full", 12, 1.0)])
        answer = steadyhelm("--db", database, "doctor")

        assert 0 == answer.status
        assert "12 times: queue full" in answer.out

    @pytest.mark.parametrize(
        ("state", "words"), [("pending", "waiting for more than an hour"), ("failed", "no route")]
    )
    def test_alerts_that_did_not_go(self, store, database, state, words):
        """
        Alerts that wait too long, or were given up, are a warning.
        """
        store.enqueue(
            Delivery(
                delivery_id="d1",
                agent_id="a",
                run_id="r",
                incident_id="i",
                detector="action_loop",
                severity=Severity.MED,
                reason="opened",
                channel="webhook",
                body=b"{}",
                created_at=1.0,
            )
        )
        if state == "failed":
            store.settle_delivery("d1", "failed", error="no route")

        assert words in dict(checked("--db", database)["alert deliveries"])["warning"]


class TestSettings:
    def test_a_wrong_value(self, apart):
        """
        A setting that cannot be FAILs, and the rest is checked all the same.
        """
        (apart / "steadyhelm.toml").write_text('mode = "shout"\n')
        answer = steadyhelm("doctor")

        assert 1 == answer.status
        assert "mode must be one of observe, guide, enforce, got 'shout'" in answer.out
        assert "detector action_loop     finds" in answer.out

    def test_misspelt_variables(self, apart, monkeypatch):
        """
        A variable that is no setting is a warning.
        """
        monkeypatch.setenv("STEADYHELM_MOED", "guide")

        assert ("warning", "STEADYHELM_MOED is set, but there is no such setting") in checked()["settings"]

    def test_disabled(self, apart, monkeypatch):
        """
        That everything is turned off is a warning.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")

        assert [("warning", "disabled is set")] == checked()["settings"]

    def test_an_address_that_is_none(self, apart, monkeypatch):
        """
        An address that alerts cannot go to FAILs, and is not shown.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", "very-secret")
        [(status, message)] = checked()["alert address"]

        assert "FAIL" == status
        assert "very-secret" not in message

    def test_weights_that_are_missing(self, apart, monkeypatch):
        """
        An embedder without its weights FAILs; the default stands in, and goal drift still works.
        """
        monkeypatch.setenv("STEADYHELM_EMBEDDER", "minilm")
        said = checked()

        assert "FAIL" == said["embedder"][0][0]
        assert "ok" == said["detector goal_drift"][0][0]


class TestDetectors:
    def test_wrong_options(self, apart):
        """
        A detector whose options cannot be FAILs; the others are proved.
        """
        (apart / "steadyhelm.toml").write_text("[detectors.action_loop]\nmax_repeats = 1\n")
        said = checked()

        assert "max_repeats must be 2 or more, or None, got 1" in said["detector action_loop"][0][1]
        assert "ok" == said["detector goal_drift"][0][0]

    def test_switched_off(self, apart):
        """
        A detector that is switched off is a warning.
        """
        (apart / "steadyhelm.toml").write_text("[detectors.action_loop]\nenabled = false\n")

        assert [("warning", "off in the settings")] == checked()["detector action_loop"]

    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("action_loop", lambda: ActionLoop(max_repeats=2)),
            ("action_loop", lambda: ActionLoop(max_repeats=40, window=50)),
            ("goal_drift", lambda: GoalDrift(similarity_threshold=0.1)),
            ("goal_drift", GoalDrift),
            ("resource_spike", lambda: ResourceSpike(absolute_token_limit=None)),
            ("resource_spike", lambda: ResourceSpike(absolute_token_limit=9_000_000, soft_limits=True)),
            (
                "resource_spike",
                lambda: ResourceSpike(absolute_token_limit=float("inf"), spike_multiplier=3.0),
            ),
        ],
    )
    def test_proved_as_configured(self, name, make):
        """
        A detector is proved with the options it will really have.
        """
        assert "" == SELF_TESTS[name](make)

    def test_a_deaf_detector_is_found_out(self):
        """
        A detector that says nothing does not pass.
        """

        class Deaf(ActionLoop):
            def check(self, event, baseline):
                return None

        assert "no finding at step 4 of a run that drifts" == SELF_TESTS["action_loop"](Deaf)

    def test_a_detector_that_cries_wolf_is_found_out(self):
        """
        A detector that speaks on a healthy run does not pass.
        """
        strict = lambda: GoalDrift(similarity_threshold=1.0)  # noqa: E731 - one line says it best

        assert "of a healthy run" in SELF_TESTS["goal_drift"](strict)


class TestFrameworks:
    def test_none_is_fine(self, apart):
        """
        An environment without any framework is healthy.
        """
        assert [("ok", "no supported framework is installed")] == checked()["frameworks"]

    def test_one_that_is_too_old_is_a_warning(self, apart, monkeypatch):
        """
        A framework that can only be watched from outside is named, with what would help.
        """
        old = Framework("x", "Old Framework", "x", {"msgspec": "99.1"})
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (old,))

        [(status, message)] = checked()["frameworks"]
        assert "warning" == status
        assert "Old Framework needs msgspec 99.1 or newer" in message


class TestMonitor:
    def test_it_starts(self, apart):
        """
        With good settings a monitor starts and stores a step, elsewhere: no database appears here.
        """
        assert [("ok", "starts with these settings, and stores a step")] == checked()["monitor"]
        assert [] == [it for it in apart.rglob("*") if it.is_file()]

    def test_the_database_is_only_read(self, database):
        """
        Not a byte of the user's database is changed.
        """
        before = database.read_bytes()
        checked("--db", database)

        assert before == database.read_bytes()

    @pytest.mark.parametrize(
        ("settings", "check", "words"),
        [
            ("[detectors.action_lop]\nenabled = true", "monitor", "Did you mean action_loop?"),
            (
                "[detectors.action_loop]\nmax_repeat = 5",
                "detector action_loop",
                "max_repeat is not a setting",
            ),
            ("[policy]\nreplan_threshold = 0.1", "steering", "policy"),
            ('[alerts]\nwebhook = "http://127.0.0.1:9/x"', "alert address", "allow_hosts"),
            ('[alerts]\nwebhook = "an address"', "alert address", "alerts.webhook must be a URL"),
            ("[otel]\nenabled = true", "monitor", "pip install 'steadyhelm[otel]'"),
            ("[budget]\nprices = true", "monitor", "pip install 'steadyhelm[prices]'"),
            ('redaction.patterns = ["("]', "monitor", "redaction"),
            ('[tools.search]\nkind = "drill"', "monitor", "kind"),
        ],
    )
    def test_what_keeps_a_monitor_from_its_work_fails(self, apart, monkeypatch, settings, check, words):
        """
        Where a program would meet an error or a warning, the doctor FAILs with the same words, once.
        """
        for package in ("opentelemetry", "genai_prices"):
            monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, "steadyhelm.sinks.otel", raising=False)  # another test may use it
        (apart / "steadyhelm.toml").write_text(settings + "\n")
        answer = steadyhelm("doctor", "--json")
        failed = [it for it in answer.documents[0]["checks"] if it["status"] == "FAIL"]

        assert 1 == answer.status
        assert [check] == [it["name"] for it in failed]
        assert words in failed[0]["message"]

    def test_each_check_has_a_name_of_its_own(self, database):
        """
        No two rows have one name, so that a program can choose by it.
        """
        answer = steadyhelm("--db", database, "doctor", "--json")
        names = [it["name"] for it in answer.documents[0]["checks"]]

        assert {"alert address", "alert deliveries"} <= set(names)
        assert sorted(set(names)) == sorted(names)

    def test_nothing_is_looked_up_or_sent(self, apart, monkeypatch):
        """
        An address for alerts is checked without a connection.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", "https://alerts.example.com/x")
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
        monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was made"))

        assert "ok" == checked()["monitor"][0][0]

    def test_a_database_that_cannot_be_written(self, database, monkeypatch):
        """
        A monitor would watch and store nothing: that FAILs.
        """
        allowed = os.access

        def refuse_writing(path, mode, **how):
            return not (path == database and mode == os.W_OK) and allowed(path, mode, **how)

        monkeypatch.setattr(os, "access", refuse_writing)

        assert "cannot be written" in dict(checked("--db", database)["database"])["FAIL"]

    def test_a_database_of_an_older_version_is_a_warning(self, apart):
        """
        The next monitor brings it up to date: no reason to fail.
        """
        prepare(apart / "old.db", migrations=MIGRATIONS[:1])
        [(status, message)] = checked("--db", apart / "old.db")["database"]

        assert ("warning", True) == (status, "lacks the step" in message)

    def test_a_plug_in_that_does_not_import(self, apart, monkeypatch):
        """
        A sink of another package that cannot be imported FAILs by its name.
        """
        broken = EntryPoint(name="pager", value="no_such_package:Pager", group=registry.SINKS)
        monkeypatch.setattr(
            registry, "_find_foreign_entries", lambda group: [broken] if group == registry.SINKS else []
        )

        [(status, message)] = checked()["sink pager"]
        assert ("FAIL", True) == (status, "ModuleNotFoundError" in message)


class TestMisspelt:
    @pytest.mark.parametrize(
        ("line", "meant"),
        [("docter", "doctor"), ("budget recomend", "recommend"), ("alerts dleiveries", "deliveries")],
    )
    def test_a_command(self, apart, line, meant):
        """
        A misspelt command, of a group too, names the one that is meant.
        """
        answer = process(*line.split())

        assert (2, True) == (answer.status, f"Did you mean '{meant}'?" in answer.err)

    @pytest.mark.parametrize(
        "line", ["db info --db other.db", "runs --db other.db", "alerts --config a.toml"]
    )
    def test_an_option_of_all_commands(self, apart, line):
        """
        Given behind the command, it is refused with its place.
        """
        answer = process(*line.split())
        command, option = line.split()[0], line.split()[-2]

        assert 2 == answer.status
        assert f"{option} goes before the command: steadyhelm {option} ... {command}" in answer.err

    def test_a_value_that_is_none_of_those_allowed(self, apart):
        """
        The error names the value and those allowed, in plain words.
        """
        answer = process("export", "--format", "xml")

        assert 2 == answer.status
        assert "Invalid value for '--format': 'xml' is not one of 'jsonl', 'csv', 'parquet'." in answer.err

    def test_a_variable(self, apart, monkeypatch):
        """
        So does a misspelt environment variable.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_STEP", "5")

        assert "Did you mean STEADYHELM_BUDGET_STEPS?" in steadyhelm("doctor").out
