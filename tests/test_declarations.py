import pytest

from steadyhelm import DriftMonitor, SettingsError
from steadyhelm.declarations import ToolDeclaration, parse_declarations
from steadyhelm.testing import events


class TestDeclared:
    def test_settings_become_declarations(self):
        """
        A table per tool says its kind and the arguments to ignore.
        """
        known = parse_declarations({"status": {"kind": "poll", "ignore": ["nonce"]}, "look": {}})

        assert {
            "status": ToolDeclaration(kind="poll", ignore=("nonce",)),
            "look": ToolDeclaration(),
        } == known

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"kind": "slow"},
                r"tools\.status\.kind must be one of poll, read, .*, idempotent, got 'slow'",
            ),
            ({"ignore": "nonce"}, r"tools\.status\.ignore must be a list of argument names, got 'nonce'"),
            ({"kinds": "poll"}, r"tools\.status\.kinds is not a setting\. Allowed: kind, ignore"),
        ],
    )
    def test_what_cannot_be_is_refused_with_words(self, options, words):
        """
        An unknown kind, a text for a list, a misspelt option: each is named, with what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            parse_declarations({"status": options})

    def test_an_ignored_argument_makes_no_other_call(self):
        """
        Two calls that differ only in an ignored argument have the same fingerprint; the event itself stays.
        """
        event = events("a")[0]
        declaration = ToolDeclaration(ignore=("of",))
        applied = declaration.apply_to(event)

        assert {} == applied.input_data
        assert {"of": "a"} == event.input_data


class TestWatching:
    @pytest.fixture
    def watch(self, tmp_path):
        """Watches six calls of a tool declared in this way, and gives what was found."""

        def watch(declaration, args=lambda n: {"job": 7}, result=lambda n: "41 of 90"):
            config = tmp_path / "steadyhelm.toml"
            config.write_text(f"[tools.job_status]\n{declaration}\n")
            monitor = DriftMonitor("operator", db_path=tmp_path / "test.db", config=config)
            monitor.start_run()
            decisions = [
                monitor.record_event("tool_call", "job_status", input_data=args(n), output_data=result(n))
                for n in range(6)
            ]
            monitor.close()
            return [decision.drifting for decision in decisions]

        return watch

    def test_a_poll_may_ask_often(self, watch):
        """
        Six equal answers are a loop for any tool, but not for one declared to poll.
        """
        assert any(watch(""))
        assert not any(watch('kind = "poll"'))

    def test_ignored_arguments_do_not_hide_a_loop(self, watch):
        """
        A value that changes with every call hides the loop, unless it is declared not to matter.
        """

        def args(n):
            return {"job": 7, "page": f"{n}-{'abcdef'[n] * 8}"}

        assert not any(watch("", args)[:4])
        assert watch('ignore = ["page"]', args)[2]

    def test_a_write_is_progress(self, watch):
        """
        Calls that change something do not stagnate, whatever they answer.
        """
        assert not any(watch('kind = "write"', args=lambda n: {"row": n}))

    def test_the_decorator_declares_too(self, tmp_path):
        """
        What the settings file says of a tool, its decorator can say.
        """
        monitor = DriftMonitor("operator", db_path=tmp_path / "test.db")

        @monitor.tool(kind="poll", ignore=["token"])
        def job_status(job, token):
            return "training"

        with monitor.run():
            for n in range(6):
                job_status(7, f"token-{n}")

        assert [] == monitor.get_recent_alerts()
        monitor.close()
