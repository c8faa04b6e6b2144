import asyncio

import pytest

from steadyhelm import DriftMonitor
from steadyhelm.boundary.driver import Boundary
from steadyhelm.boundary.entry_points import WatchedCall, WatchedObject


@pytest.fixture
def boundary(tmp_path):
    monitor = DriftMonitor("agent", db_path=tmp_path / "seen.db")
    yield Boundary(monitor, "test", {"before_model": {"guide", "stop"}, "before_tool": {"deny"}})
    monitor.close()


def calls(boundary, run):
    boundary.monitor.flush()
    events = boundary.monitor.store.get_run_traces("agent", run.run_id)
    return [(it.action_name, it.text, it.error) for it in events if it.action_type == "tool_call"]


class TestCallsNobodyAskedAbout:
    def test_a_call_that_was_made_already(self, boundary):
        """
        A call that the model's provider made itself is told with its result, and only once.
        """
        run = boundary.start_run("find it")
        run.record_call("c1", "web_search", {"query": "x"}, "nothing")
        run.record_call("c1", "web_search", {"query": "x"}, "nothing", surface="another")
        run.end()

        assert [("web_search", "nothing", None)] == calls(boundary, run)

    def test_an_announced_call_that_was_not_made(self, boundary):
        """
        A call that was announced and then dropped is nowhere, also not with an unknown result.
        """
        run = boundary.start_run("find it")
        run.before_tool("c1", "lookup", {"key": "a"})
        run.before_tool("c2", "lookup", {"key": "b"})
        run.drop_call("c1")
        run.drop_call("never heard of")
        run.end()

        assert [("lookup", "", None)] == calls(boundary, run)

    def test_a_call_whose_tool_was_not_called(self, boundary):
        """
        Its record says why, whether that was known at once or turned out since; any other says nothing.
        """
        run = boundary.start_run("find it")
        run.record_call("c1", "nowhere", {}, error="There is no such tool.", not_run="no such tool")
        run.before_tool("c2", "lookup", {"key": "a"})
        run.mark_not_run("c2", "answered")
        run.mark_not_run("never heard of", "answered")
        run.after_tool("c2", "out of a cache")
        run.record_call("c3", "lookup", {"key": "a"}, "no entry")
        run.end()

        boundary.monitor.flush()
        events = boundary.monitor.store.get_run_traces("agent", run.run_id)
        assert [("nowhere", "no such tool"), ("lookup", "answered"), ("lookup", "")] == [
            (it.action_name, it.not_run) for it in events if it.action_type == "tool_call"
        ]


class Agent:
    async def run(self, goal):
        return goal

    async def stream(self, goal):
        yield goal


class TestCallsThatDoNotFit:
    @pytest.mark.parametrize("method", ["run", "stream"])
    def test_wrong_arguments_end_the_run(self, boundary, method):
        """
        A call whose arguments do not fit fails before it is awaited, and its run is over all the same.
        """

        class Watched(WatchedObject):
            ENTRY_POINTS = ("run", "stream")

            def open(self, method, args, kwargs):
                return WatchedCall.for_run(boundary.start_run("find it"), args, kwargs)

        async def work():
            called = getattr(Watched(Agent()), method)("a", "b", "c")
            if method == "run":
                await called
            else:
                [part async for part in called]

        with pytest.raises(TypeError, match="positional"):
            asyncio.run(work())

        assert 0 == boundary.monitor.status()["live_runs"]
