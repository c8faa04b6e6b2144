import io
import json
import warnings

import pytest
from msgspec import structs
from test_training import labelled

from steadyhelm.corrections.model import load_weights
from steadyhelm.lab.evaluation.false_alarms import (
    count_false_alarms,
    format_false_alarms,
    learn_baseline,
    learn_weights_by_run,
)
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.settings import Settings

CALL = {"type": "tool_call", "name": "find", "args": {"q": "x"}, "result": "nothing was found"}


def run(name, *entries):
    line = json.dumps({"run_id": name, "goal": "Find x", "events": list(entries)})
    [read] = RunFile(io.BytesIO(line.encode()))
    return read


def calm(n):
    return run(f"calm-{n}", *(CALL | {"args": {"q": i}, "result": f"row {i} of table {n}"} for i in range(5)))


STUCK = run("stuck", *[CALL] * 9)


class TestCounting:
    def test_by_kind(self):
        """
        A run that loops is counted under loops and under any; the calm ones are not.
        """
        counted = count_false_alarms("set", [calm(1), calm(2), STUCK], Settings())

        assert (3, 0, {"loop": 1}, 1) == (
            counted.runs,
            counted.learnt_from,
            counted.flagged,
            counted.flagged_any,
        )
        assert ["stuck: loop"] == counted.wrong

    def test_what_was_not_checked(self):
        """
        A detector that could not look is counted, so that silence is not taken for health.
        """
        assert 2 == count_false_alarms("set", [calm(1), calm(2)], Settings()).not_checked["goal_drift"]

    def test_runs_learnt_from_are_not_judged(self):
        """
        With a baseline of two runs, only the others are judged.
        """
        counted = count_false_alarms("set", [calm(n) for n in range(5)], Settings(), learn_from=2)

        assert (3, 2) == (counted.runs, counted.learnt_from)

    def test_the_baseline_is_that_of_production(self):
        """
        Clean runs teach one agent, whatever names their files have; a run with an incident does not.
        """
        settings = Settings(calibration_runs=3)
        with learn_baseline([calm(1), STUCK, calm(2), calm(3)], settings) as store:
            [baseline] = store.list_baselines()

        assert (3, True) == (baseline.calibration_runs, baseline.is_calibrated)

    def test_for_people(self):
        """
        The text names the set, how it was judged, and each flagged run on request.
        """
        counted = count_false_alarms("sessions", [calm(1), STUCK], Settings())

        assert "sessions: 2 runs, each judged alone" in format_false_alarms(counted)
        assert "stuck: loop" not in format_false_alarms(counted)
        assert "stuck: loop" in format_false_alarms(counted, wrong=True)


CORRECTED = run(
    "corrected",
    {"type": "user_message", "text": "make the parser accept tabs"},
    {"type": "llm_output", "text": "Done, the parser accepts tabs now."},
    {"type": "user_message", "text": "no, the parser still does not accept tabs"},
    {"type": "llm_output", "text": "You are right. Now the parser accepts tabs."},
    {"type": "user_message", "text": "that is wrong, the parser still fails on tabs"},
)


class TestWeightsThatNeverSawTheRun:
    @pytest.mark.parametrize(("drift", "flagged"), [(0.0, {"correction": 1}), (-9.0, {})])
    def test_messages_are_read_by_the_weights_of_the_run(self, drift, flagged):
        """
        The messages of a run are classified by its own weights, whatever the shipped ones say.
        """
        shipped = load_weights()
        correction = shipped.reply.classes.index("correction")
        intercepts = [
            one + drift * (place == correction) for place, one in enumerate(shipped.reply.intercepts)
        ]
        own = structs.replace(shipped, reply=structs.replace(shipped.reply, intercepts=tuple(intercepts)))

        assert (
            flagged == count_false_alarms("set", [CORRECTED], Settings(), weights={"corrected": own}).flagged
        )

    @pytest.mark.parametrize(("held_out", "left_out"), [("session", 6), ("project", 24)])
    def test_what_they_learn_from(self, held_out, left_out):
        """
        They are learnt without the replies of the run's own session, or of its whole project.
        """
        pytest.importorskip("sklearn", reason="the lab extra is not installed")
        replies = [
            structs.replace(it, run_id="corrected") if it.session == "session-0" else it for it in labelled()
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = learn_weights_by_run([CORRECTED], replies, held_out)

        assert weights["corrected"].replies <= len(replies) - left_out
