"""What earlier runs of an agent teach about its tools: how long one waits, and which arguments only vary."""

import pytest

from steadyhelm.assembly import DriftMonitor

FORECAST = "Oslo, " + "rain in the morning, sun later on, wind from the west. " * 6


@pytest.fixture
def monitor(tmp_path):
    watching = DriftMonitor("operator", db_path=tmp_path / "runs.db")
    yield watching
    watching.close()


def play(monitor, run_id, steps):
    """Play one run of (name, arguments, result, time), and return its findings of MED and above."""
    monitor.start_run(run_id)
    found = []
    for name, arguments, result, at in steps:
        decision = monitor.record_event(
            "tool_call", name, input_data=arguments, output_data=result, timestamp=at
        )
        found += [it for it in decision.findings if it.severity.rank > 0 and it.kind == "loop"]
    monitor.end_run()
    monitor.flush()
    return found


def wait(minutes, start=1_000_000.0):
    """Look every minute at a build that is done after so many."""
    looks = [
        ("build_status", {"id": 7}, "<status>running</status>", start + 60 * place)
        for place in range(minutes)
    ]
    return [*looks, ("build_status", {"id": 7}, "done: 41 artefacts were written", start + 60 * minutes)]


class TestWaits:
    def test_a_wait_that_is_usual_is_no_loop(self, monitor):
        """
        Builds of this agent take half an hour: after two runs that were not reported, one of an hour is not
        either. A newcomer would be reported after 25 looks and ten minutes.
        """
        assert play(monitor, "newcomer", wait(60))
        for number in range(2):
            play(monitor, f"usual-{number}", wait(24))

        assert [] == play(monitor, "longer", wait(60))

    def test_a_wait_far_beyond_the_usual_is_reported(self, monitor):
        """
        Three times as long as ever before is too long.
        """
        play(monitor, "usual", wait(24))

        assert play(monitor, "endless", wait(100))


def ask(tags, results=None):
    """Ask the same forecast with ever other tags."""
    return [
        (
            "get_forecast",
            {"city": "Oslo", "tag": tag},
            FORECAST if results is None else results[place],
            1_000_000.0 + place,
        )
        for place, tag in enumerate(tags)
    ]


class TestAsides:
    def test_an_argument_that_never_changed_a_result_makes_no_other_call(self, monitor):
        """
        In three runs `tag` varied alone, and the forecast stayed: from then on, asking again with another
        tag is asking again.
        """
        before = play(monitor, "first", ask(["red", "blue", "green", "white", "black"]))
        for number in range(3):
            play(monitor, f"clean-{number}", ask(["red", "blue", "green"]))

        found = play(monitor, "again", ask(["amber", "teal", "plum", "rose", "lime"]))

        assert [] == [it for it in before if it.detector == "action_loop"]
        assert "get_forecast called 3 times" in found[0].message

    def test_an_argument_that_changed_one_result_is_a_target(self, monitor):
        """
        Where another value once brought another forecast, it is what the call is about.
        """
        results = [FORECAST, FORECAST, FORECAST, f"{FORECAST} Snow."]
        for number in range(4):
            play(monitor, f"clean-{number}", ask(["a", "b", "c", "d"], results))

        assert [] == play(monitor, "again", ask(["north", "south"]))
        assert {} == monitor.get_baseline().asides

    def test_a_batch_with_equal_short_answers_teaches_nothing(self, monitor):
        """
        Rows that are all answered with "updated" do not make their number an aside.
        """
        rows = [("update_row", {"table": "t", "row": row}, "updated", 1_000_000.0 + row) for row in range(12)]
        for number in range(4):
            assert [] == play(monitor, f"batch-{number}", rows)

        assert {} == monitor.get_baseline().asides

    def test_a_declaration_is_the_last_word(self, tmp_path):
        """
        Arguments that the user lists as ignored take the place of what was learnt.
        """
        settings = tmp_path / "steadyhelm.toml"
        settings.write_text('[tools.get_forecast]\nignore = ["units"]\n')
        monitor = DriftMonitor("operator", db_path=tmp_path / "runs.db", config=settings)
        for number in range(3):
            play(monitor, f"clean-{number}", ask(["red", "blue", "green"]))

        found = play(monitor, "again", ask(["amber", "teal", "plum", "rose", "lime"]))

        assert [] == [it for it in found if it.detector == "action_loop"]
        monitor.close()
