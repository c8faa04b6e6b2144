import pytest

from steadyhelm import DriftMonitor
from steadyhelm.boundary.driver import Boundary, is_asking


@pytest.fixture
def monitor(tmp_path):
    """One that only watches."""
    made = DriftMonitor("agent", db_path=tmp_path / "watched.db")
    yield made
    made.close()


class TestRunsThatEncloseNothing:
    def test_two_of_them_join_the_hosts_run(self, monitor):
        """
        Two conversations inside a run of the host's own are both part of it, and none is the other's child.
        """
        boundary = Boundary(monitor, "client", {}, encloses=False)
        with monitor.run(goal="chat") as run:
            one, two = boundary.start_run("first"), boundary.start_run("second")

            assert [run.run_id] * 2 == [one.run_id, two.run_id]
            assert one is not two

    def test_a_model_call_of_one_does_not_hide_that_of_another(self, monitor):
        """
        While one waits for its model, the code around it is not inside that call.
        """
        boundary = Boundary(monitor, "client", {}, encloses=False)
        with monitor.run(goal="chat"):
            boundary.start_run("first").before_model(key="one")

            assert not is_asking()

    def test_a_call_of_a_run_that_encloses_others_does(self, monitor):
        """
        A framework's own model call is told by the framework, and by nobody inside it.
        """
        run = Boundary(monitor, "framework", {}).start_run("add up")
        with run.activate():
            run.before_model(key="one")

            assert is_asking()
        run.end()
