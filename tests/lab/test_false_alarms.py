import io
import json

from steadyhelm.lab.evaluation.false_alarms import count_false_alarms, format_false_alarms, learn_baseline
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
