import asyncio
import gc
import time

import pytest

from steadyhelm import DriftMonitor, RunStopped, SettingsError
from steadyhelm.boundary.results import count_tokens


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("tester", db_path=tmp_path / "test.db")
    yield monitor
    monitor.close()


def traces(monitor, run_id=None):
    monitor.flush()
    run_id = run_id or monitor.store.get_run_ids(monitor.agent_id)[0]
    return monitor.store.get_run_traces(monitor.agent_id, run_id)


def wait_for(holds):
    """Wait until something holds that another thread does; return whether it does."""
    deadline = time.monotonic() + 10.0
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(holds())


class TestDecorators:
    def test_a_tool_call_is_one_event(self, monitor):
        """
        A decorated tool records its arguments by name, its result and its time, once per call.
        """

        @monitor.tool
        def search(query, limit=10):
            return f"{limit} results for {query}"

        with monitor.run() as run:
            assert "3 results for flights" == search("flights", limit=3)

        (event,) = traces(monitor, run.run_id)
        assert ("tool_call", "search") == (event.action_type, event.action_name)
        assert {"query": "flights", "limit": 3} == event.input_data
        assert {"text": "3 results for flights"} == event.output_data
        assert event.duration_ms >= 0

    def test_the_tools_own_error_passes_unchanged(self, monitor):
        """
        What the tool raises reaches its caller as the same object, and is in the event.
        """
        problem = KeyError("no such flight")

        @monitor.tool(name="book")
        def book_flight():
            raise problem

        with monitor.run() as run, pytest.raises(KeyError) as caught:
            book_flight()

        assert problem is caught.value
        (event,) = traces(monitor, run.run_id)
        assert ("book", "KeyError: 'no such flight'") == (event.action_name, event.error)

    def test_coroutines_and_generators_stay_what_they_are(self, monitor):
        """
        A coroutine, a generator and an async generator are recorded when they end.
        """

        @monitor.model
        async def answer():
            return "forty-two"

        @monitor.model
        def stream():
            yield "forty"
            yield "-two"

        @monitor.model
        async def stream_slowly():
            yield "forty"
            yield "-two"

        async def all_of_it():
            async with monitor.run() as run:
                assert "forty-two" == await answer()
                assert ["forty", "-two"] == list(stream())
                assert ["forty", "-two"] == [part async for part in stream_slowly()]
            return run.run_id

        run_id = asyncio.run(all_of_it())

        events = traces(monitor, run_id)
        assert ["answer", "stream", "stream_slowly"] == [event.action_name for event in events]
        assert {"forty-two"} == {event.text for event in events}

    def test_a_method_is_recorded_without_its_object(self, monitor):
        """
        `self` is not an argument worth keeping.
        """

        class Toolbox:
            @monitor.tool
            def cut(self, what):
                return f"cut {what}"

        with monitor.run() as run:
            Toolbox().cut("paper")

        assert {"what": "paper"} == traces(monitor, run.run_id)[0].input_data

    def test_enforce_mode_stops_the_run(self, tmp_path):
        """
        In enforce mode a loop that goes on and on ends with RunStopped, and the run's outcome says so.
        """
        monitor = DriftMonitor("tester", db_path=tmp_path / "test.db", mode="enforce")

        @monitor.tool
        def search(query):
            return "nothing"

        def work():
            with monitor.run():
                for _ in range(50):
                    search("the same")

        with pytest.raises(RunStopped) as caught:
            work()

        monitor.flush()
        run_id = caught.value.run_id
        assert "stopped" == monitor.store.find_run(run_id).outcome
        assert len(traces(monitor, run_id)) < 12
        assert "Noticed: search called " in str(caught.value)
        monitor.close()

    def test_observe_mode_never_stops_anything(self, monitor):
        """
        Without being asked to, Steadyhelm only watches.
        """

        @monitor.tool
        def search(query):
            return "nothing"

        with monitor.run():
            assert ["nothing"] * 50 == [search("the same") for _ in range(50)]


class Agent:
    """An agent as frameworks build them."""

    model = "small"

    def __init__(self, monitor=None):
        self.monitor = monitor

    def invoke(self, asked):
        if asked["input"] == "fail":
            raise RuntimeError("the agent's own error")
        if self.monitor is not None:
            self.monitor.record_event("tool_call", "inner", input_data={"q": 1})
        return {"output": f"answer to {asked['input']}", "usage": {"total_tokens": 12}}

    async def ainvoke(self, asked):
        return {"output": f"async answer to {asked['input']}"}

    def stream(self, asked):
        yield from ("one ", "two")

    async def astream(self, asked):
        yield "one "
        yield "two"


class TestWrap:
    def test_a_call_becomes_a_run(self, monitor):
        """
        Calling a wrapped agent is a run with the input as its goal; its tools' events belong to it.
        """
        answer = monitor.wrap(Agent(monitor)).invoke({"input": "flights to Oslo"})

        assert "answer to flights to Oslo" == answer["output"]
        events = traces(monitor)
        assert ["agent_invoke", "inner", "agent_complete"] == [event.action_name for event in events]
        assert 12 == events[-1].token_count
        run = monitor.store.list_runs("tester")[0]
        assert ("flights to Oslo", "ended", "done") == (run.goal, run.state, run.outcome)

    def test_a_result_that_is_dropped_is_warned_of(self, monitor, caplog):
        """
        `monitor.wrap(agent)` whose result nobody keeps watches nothing: that is logged, once.
        """
        for _ in range(2):
            monitor.wrap(Agent())

        assert wait_for(lambda: "Write agent = monitor.wrap(agent)." in caplog.text)
        assert 1 == len(caplog.records)

    @pytest.mark.parametrize("use", [lambda it: it.invoke({"input": "Oslo"}), lambda it: it.model])
    def test_what_was_used_may_be_dropped(self, monitor, use):
        """
        A watched agent that was called, or asked for anything, may go without a warning.
        """
        dropped = []
        used, unused = monitor.wrap(Agent(monitor)), monitor.wrap(Agent())
        used.call_if_unused(lambda: dropped.append("used"))
        unused.call_if_unused(lambda: dropped.append("unused"))
        use(used)
        del used, unused
        gc.collect()

        assert wait_for(lambda: "unused" in dropped)
        assert ["unused"] == dropped

    def test_attributes_pass_through(self, monitor):
        """
        Everything but the call that runs it stays as it is.
        """
        assert "small" == monitor.wrap(Agent()).model

    def test_special_methods_pass_through(self, monitor):
        """
        An agent that is also a container is used as one, and what it cannot do stays impossible.
        """

        class Crew(Agent):
            members = ("a", "b")

            def __getitem__(self, place):
                return self.members[place]

            def __len__(self):
                return len(self.members)

        watched, plain = monitor.wrap(Crew()), monitor.wrap(Agent())

        assert ("b", 2, ["a", "b"]) == (watched[1], len(watched), list(watched))
        with pytest.raises(TypeError):
            len(plain)
        assert not callable(plain)

    def test_a_block_of_the_agent(self, monitor):
        """
        An agent that opens and closes what it uses in a block is watched within it.
        """

        class Session(Agent):
            is_open = False

            def __enter__(self):
                self.is_open = True
                return self

            def __exit__(self, *_):
                self.is_open = False
                return True

            async def __aenter__(self):
                return self.__enter__()

            async def __aexit__(self, *_):
                return self.__exit__()

        async def use(session):
            async with session as inside:
                return inside.invoke({"input": "hotels in Oslo"})["output"]

        watched = monitor.wrap(Session())
        with watched as inside:
            assert "answer to flights to Oslo" == inside.invoke({"input": "flights to Oslo"})["output"]
            raise RuntimeError
        assert "answer to hotels in Oslo" == asyncio.run(use(watched))

        assert not watched.is_open
        monitor.flush()
        run_ids = monitor.store.get_run_ids("tester")
        names = [[event.action_name for event in traces(monitor, run_id)] for run_id in run_ids]
        assert [["agent_invoke", "agent_complete"]] * 2 == names

    def test_truth_and_deleted_attributes(self, monitor):
        """
        The agent says whether it is true, and its attributes are deleted where they are set.
        """

        class Closed(Agent):
            def __bool__(self):
                return False

        watched = monitor.wrap(Closed())
        watched.note = "a note"
        del watched.note

        assert (False, False) == (bool(watched), hasattr(watched, "note"))

    def test_calling_the_agent_itself_is_a_run(self, monitor):
        """
        An agent that is called like a function, beside its method, is watched in the same way.
        """

        class Callable(Agent):
            def __call__(self, asked):
                return self.invoke(asked)

        answer = monitor.wrap(Callable())({"input": "flights to Oslo"})

        assert "answer to flights to Oslo" == answer["output"]
        assert ["agent_call", "agent_complete"] == [event.action_name for event in traces(monitor)]

    def test_the_agents_own_error_passes(self, monitor):
        """
        What the agent raises reaches the caller, and ends the run.
        """
        with pytest.raises(RuntimeError, match="the agent's own error"):
            monitor.wrap(Agent()).invoke({"input": "fail"})

        events = traces(monitor)
        assert "RuntimeError: the agent's own error" == events[-1].error
        assert "error: RuntimeError" == monitor.store.list_runs("tester")[0].outcome

    def test_async_and_streams_are_runs_too(self, monitor):
        """
        Awaited and streamed answers arrive as they would without Steadyhelm.
        """
        watched = monitor.wrap(Agent())

        async def both():
            answer = await watched.ainvoke({"input": "x"})
            return answer, [part async for part in watched.astream({"input": "y"})]

        answer, parts = asyncio.run(both())
        assert "async answer to x" == answer["output"]
        assert ["one ", "two"] == parts == list(watched.stream({"input": "z"}))
        monitor.flush()
        assert ["done"] * 3 == [run.outcome for run in monitor.store.list_runs("tester")]

    def test_a_stream_left_early_still_ends_its_run(self, monitor):
        """
        A caller who stops reading ends the run; nothing hangs.
        """
        stream = monitor.wrap(Agent()).stream({"input": "z"})
        assert "one " == next(stream)
        stream.close()
        monitor.flush()

        assert "left early" == monitor.store.list_runs("tester")[0].outcome

    def test_what_cannot_be_wrapped_is_refused_with_words(self, monitor):
        """
        An object without a method we know is refused at once, with what to use instead.
        """
        with pytest.raises(SettingsError, match=r"got a int.*monitor\.record_event"):
            monitor.wrap(7)

    @pytest.mark.parametrize("decorate", ["tool", "model"])
    def test_what_is_no_function_is_not_decorated(self, monitor, decorate):
        """
        A decorator that is given something else says so, instead of failing when it is called.
        """
        with pytest.raises(SettingsError, match=r"take a function, got int"):
            getattr(monitor, decorate)(5)


class TestTokens:
    @pytest.mark.parametrize(
        ("result", "tokens"),
        [
            ({"usage": {"total_tokens": 7}}, 7),
            ({"usage": {"input_tokens": 5, "output_tokens": 6}}, 11),
            ({"token_usage": {"prompt_tokens": 1, "completion_tokens": 2}}, 3),
            ("x" * 40, 10),
            (None, 0),
        ],
    )
    def test_tokens_are_read_where_they_are_told(self, result, tokens):
        """
        What the result says it took counts; only without it do we estimate.
        """
        assert tokens == count_tokens(result)
