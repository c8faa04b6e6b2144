import pytest

from steadyhelm import DriftMonitor
from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.boundary.driver import Boundary

CAN = {"before_model": {"guide", "stop"}, "before_tool": {"deny", "ask", "stop"}}


@pytest.fixture
def run(tmp_path):
    """A run whose model has just asked for something."""
    monitor = DriftMonitor("agent", db_path=tmp_path / "watched.db")
    begun = Boundary(monitor, "test", CAN).start_run("add it up")
    begun.before_model()
    begun.after_model(ModelReply(text="let me see"))
    yield begun
    monitor.close()


def events(run):
    """What is kept of a run: names, words and errors."""
    monitor = run.boundary.monitor
    monitor.flush()
    kept = monitor.store.get_run_traces("agent", run.run_id)
    return [(event.action_name, event.error or event.text) for event in kept[2:]]


class TestAnswersWhileCallsRun:
    def test_a_call_that_is_under_way_goes_on_when_the_user_answers(self, run):
        """
        The answer to a question about one call is not the end of those beside it: their results still come.
        """
        run.before_tool("c1", "lookup", {"key": "a"})
        run.apply_answer("look in the archive", Instruction(verdict="ask", text="How should it continue?"))
        run.after_tool("c1", "found")

        assert [("user", "look in the archive"), ("lookup", "found")] == events(run)

    def test_another_turn_of_the_user_gives_up_what_never_came_back(self, run):
        """
        A user who speaks of themselves does so when the agent has done its part.
        """
        run.before_tool("c1", "lookup", {"key": "a"})
        run.record_user_message("never mind")
        run.after_tool("c1", "found")

        assert [("lookup", ""), ("user", "never mind")] == events(run)


class TestErrorsAlreadyTold:
    def test_an_error_is_told_once_although_another_call_failed_after_it(self, run):
        """
        The exception that ends a run is no news when it was a call's, whatever else was given up with it.
        """
        error = ValueError("stuck")
        run.before_tool("c1", "press")
        run.before_tool("c2", "wait")
        run.after_tool("c1", error=error)
        run.after_tool("c2", error=KeyError("given up"))
        run.finish(error)

        assert ["press", "wait"] == [name for name, _ in events(run)]
