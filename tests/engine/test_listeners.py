"""Callbacks for findings, decisions and incidents, and guidance for a loop that the user drives."""

import pytest

from steadyhelm import DriftMonitor


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("researcher", db_path=tmp_path / "runs.db", mode="guide")
    yield monitor
    monitor.close()


def search(monitor, times):
    for _ in range(times):
        monitor.record_event("tool_call", "search", input_data={"q": "oslo"}, output_data={"text": "none"})


def work(monitor, times):
    for n in range(times):
        monitor.record_event("tool_call", "open", input_data={"page": n}, output_data=f"page {n}")


class TestDecisions:
    def test_each_that_calls_for_something_is_heard(self, monitor):
        """
        A callback hears what is to be done, with the words for the model, and nothing of ordinary steps.
        """
        heard = []
        monitor.on_decision(heard.append)
        with monitor.run():
            work(monitor, 5)
            assert [] == heard
            search(monitor, 3)

        assert ["guide"] == [decision.verdict for decision in heard]
        assert heard[0].guidance.startswith("Before you go on:")

    @pytest.mark.usefixtures("quiet")
    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
    def test_what_one_raises_goes_no_further(self, monitor, error):
        """
        A callback that fails is counted; the others are called, and the agent goes on.
        """
        heard = []

        def fail(_):
            raise error("of the callback")

        for listen in (monitor.on_decision, monitor.on_incident):
            listen(fail)
            listen(heard.append)
        with monitor.run():
            search(monitor, 3)

        assert 3 == len(heard)
        assert 3 == sum(count for reason, count in monitor.health.totals().items() if "callback" in reason)


class TestIncidents:
    def test_opened_worse_and_closed(self, monitor):
        """
        One loop is heard of when it opens, each time it gets worse, and when it closes.
        """
        heard = []
        monitor.on_incident(lambda incident: heard.append((incident.state, incident.severity.name)))
        with monitor.run():
            search(monitor, 12)
            work(monitor, 40)

        states = [state for state, _ in heard]
        assert (["open"] * (len(heard) - 1), "closed") == (states[:-1], states[-1])
        assert "MED" == heard[0][1]
        assert len(heard) == len(set(heard))

    def test_one_that_is_open_at_the_end_is_closed(self, monitor):
        """
        A run that ends in a loop ends its incident, and that is heard too.
        """
        heard = []
        monitor.on_incident(heard.append)
        with monitor.run():
            search(monitor, 3)

        assert ["open", "closed"] == [incident.state for incident in heard]


class TestGuidance:
    def test_it_is_given_once(self, monitor):
        """
        What the model should hear is there for the next request, and is gone when it was taken.
        """
        with monitor.run(goal="find a flight") as run:
            assert "" == run.guidance()
            search(monitor, 3)
            first, second = run.guidance(), run.guidance()

        assert "find a flight" in first
        assert "" == second == run.guidance()

    def test_whoever_records(self, monitor):
        """
        Steps of decorated functions count for the run around them, by its object as by its id.
        """

        @monitor.tool
        def lookup(key):
            return f"no {key}"

        with monitor.run() as run:
            for _ in range(3):
                lookup("a")
            assert "guide" == run.last_decision.wanted
            assert monitor.guidance().startswith("Before you go on:")
        assert "guide" == run.last_decision.wanted

    def test_before_and_after_the_run(self, monitor):
        """
        A run that has not begun has nothing to say, nor has one that ended.
        """
        run = monitor.run()
        assert ("proceed", "") == (run.last_decision.verdict, run.guidance())
        with run:
            pass
        assert ("proceed", "") == (run.last_decision.verdict, run.guidance())
        assert "" == monitor.guidance()

    def test_in_observe_mode_there_is_none(self, tmp_path):
        """
        A monitor that only observes has no words for the model.
        """
        monitor = DriftMonitor("researcher", db_path=tmp_path / "observed.db")
        with monitor.run() as run:
            search(monitor, 6)
            assert "" == run.guidance()
        monitor.close()
