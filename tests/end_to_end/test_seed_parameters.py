"""Every parameter of the source design's monitor has the effect that its table names, with its own value."""

import time

import pytest

from steadyhelm import DriftMonitor, Severity

GOAL = "book a flight to Oslo"


@pytest.fixture
def watch(tmp_path):
    """Makes monitors, all on one database."""
    made = []

    def make(**options):
        made.append(DriftMonitor("agent", db_path=tmp_path / "steadyhelm.db", **options))
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


def search(monitor, query="Oslo", result="none"):
    """Make one call."""
    return monitor.record_event(
        "tool_call", "search", input_data={"q": query}, output_data={"text": result}, token_count=10
    )


def reply(monitor, text, tokens=10):
    """Make one model call."""
    return monitor.record_event("llm_request", "model", output_data={"text": text}, token_count=tokens)


def detectors(decision):
    """The detectors that reported something."""
    return {it.detector for it in decision.findings if it.severity is not Severity.LOW}


class TestLoops:
    def test_loop_max_repeats(self, watch):
        """
        Consecutive repeats before flagging: with 4 the fourth equal call is flagged, with 6 the sixth.
        """
        flagged = {}
        for repeats in (4, 6):
            monitor = watch(loop_max_repeats=repeats)
            with monitor.run(goal=GOAL):
                found = ["action_loop" in detectors(search(monitor)) for _ in range(8)]
            flagged[repeats] = found.index(True) + 1

        assert {4: 4, 6: 6} == flagged

    @pytest.mark.parametrize(("window", "is_found"), [(20, True), (5, False)])
    def test_loop_window(self, watch, window, is_found):
        """
        Recent actions to scan: equal calls eight apart are a loop in a window of 20, and none in one of 5.
        """
        monitor = watch(loop_window=window, loop_max_repeats=4)
        found = set()
        with monitor.run(goal=GOAL):
            for turn in range(6):
                found |= detectors(search(monitor))
                for n in range(7):
                    search(monitor, f"city {turn}-{n}", f"flight {turn}-{n}")

        assert is_found == ("action_loop" in found)


class TestGoals:
    def test_similarity_threshold(self, watch):
        """
        The cutoff counts from the first output on, before anything is learnt.
        """
        monitor = watch(goal_description=GOAL, similarity_threshold=0.5)
        with monitor.run():
            on_goal = reply(monitor, "A flight to Oslo can be booked: book the flight to Oslo now.")
            off_goal = reply(monitor, "Let the sourdough rest for hours, then bake it until it is golden.")

        assert ("goal_drift" in detectors(on_goal), "goal_drift" in detectors(off_goal)) == (False, True)


class TestSpending:
    def test_calibration_runs_and_spike_multiplier(self, watch):
        """
        After so many runs the baseline counts, and `mean + N x std` is the limit: 2.5 flags, 50 does not.
        """
        flagged = {}
        for multiplier in (2.5, 50.0):
            monitor = watch(calibration_runs=3, spike_multiplier=multiplier, version=f"of {multiplier}")
            for _ in range(3):
                with monitor.run(goal=GOAL):
                    reply(monitor, "The flight to Oslo is booked.", tokens=1000)
            monitor.flush()
            assert monitor.get_baseline().is_calibrated
            with monitor.run(goal=GOAL):
                flagged[multiplier] = "resource_spike" in detectors(reply(monitor, "Booked.", tokens=4000))

        assert {2.5: True, 50.0: False} == flagged

    def test_absolute_limits(self, watch):
        """
        The hard limits of tokens and of time hold without a baseline, and None is no limit.
        """
        tokens = watch(absolute_token_limit=100)
        duration = watch(absolute_duration_limit_ms=1000)
        free = watch(absolute_token_limit=None, absolute_duration_limit_ms=None)
        found = []
        for monitor in (tokens, duration, free):
            with monitor.run(goal=GOAL):
                began = time.time()
                monitor.record_event("llm_request", "model", timestamp=began, token_count=10)
                decision = monitor.record_event(
                    "llm_request", "model", timestamp=began + 2, token_count=60_000
                )
            found.append("resource_spike" in detectors(decision))

        assert [True, True, False] == found
