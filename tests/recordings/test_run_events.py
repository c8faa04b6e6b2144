from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import call, came_back, failure, result, run_of, said, user


class TestJoining:
    def test_a_result_belongs_to_the_oldest_call_of_its_name(self):
        """
        Without ids a result goes to the oldest open call of that name.
        """
        run = run_of(call("a"), call("b"), call("a"), result("b", "B"), result("a", "A1"), result("a", "A2"))
        assert {"1": "B", "0": "A1", "2": "A2"} == came_back(run)

    def test_a_result_of_another_name_goes_to_the_oldest(self):
        """
        A result whose name no open call has goes to the oldest open call.
        """
        assert {"0": "X", "1": None} == came_back(run_of(call("a"), call("b"), result("x", "X")))

    def test_ids_decide(self):
        """
        A call_id outweighs name and age.
        """
        run = run_of(call(call_id="1"), call(call_id="2"), result(text="two", call_id="2"))
        assert {"1": "two", "0": None} == came_back(run)

    def test_an_id_never_reaches_another_ids_call(self):
        """
        A second result for a call that has ended is not given to another call.
        """
        run = run_of(
            call(call_id="1"), call(call_id="2"), result(call_id="1"), result(text="late", call_id="1")
        )
        assert {"0": "ok", "1": None} == came_back(run)
        assert ["event 3 is a result without an open call; kept as a change of state"] == run.problems

    def test_an_error_after_a_result_marks_its_call(self):
        """
        An error directly after a result of the same name marks that call failed and is no step.
        """
        run = run_of(call(), result(text="exit 1"), failure(text="exit code 1"))
        [event] = run.events
        assert ("exit code 1", {"text": "exit 1"}) == (event.error, event.output_data)

    def test_an_error_after_a_result_leaves_open_calls_alone(self):
        """
        With another call of that name open, the error still belongs to the result before it.
        """
        run = run_of(call(), call(), result(), failure(), result(text="second"))
        assert ["boom", None] == [event.error for event in run.events]

    def test_an_error_ends_an_open_call(self):
        """
        An error under an open call's name is that call's result.
        """
        [event] = run_of(call(), failure()).events
        assert ("tool_call", "boom", "0") == (event.action_type, event.error, event.event_id)

    def test_an_error_without_a_name_ends_the_oldest_call(self):
        """
        An error that names nothing belongs to the oldest open call.
        """
        assert ["0"] == [event.event_id for event in run_of(call(), failure(None)).events]

    def test_an_error_of_its_own(self):
        """
        An error under a name no open call has is a change of state with its error set.
        """
        first, second = run_of(call(), failure("condensation")).events
        assert ("state_transition", "condensation", "boom") == (
            first.action_type,
            first.action_name,
            first.error,
        )
        assert None is second.output_data

    def test_an_error_not_directly_after_a_result(self):
        """
        Anything between a result and an error parts them.
        """
        run = run_of(call(), result(), said(), failure())
        assert ["tool_call", "llm_request", "state_transition"] == [event.action_type for event in run.events]
        assert [None, None, "boom"] == [event.error for event in run.events]

    def test_a_result_without_a_call_is_kept(self):
        """
        A result for which no call is open is a change of state with its words, noted, and nothing is lost.
        """
        run = run_of(result(text="hello"))
        assert ("state_transition", {"text": "hello"}) == (
            run.events[0].action_type,
            run.events[0].output_data,
        )
        assert (1, 0) == (len(run.problems), run.unread)

    def test_a_result_that_never_comes(self):
        """
        A call without a result is observed at the next user message, before it, result unknown.
        """
        run = run_of(call(), said(), user(), said())
        assert ["1", "0", "2", "3"] == [event.event_id for event in run.events]
        assert None is run.events[1].output_data

    def test_a_run_that_ends_in_a_call(self):
        """
        Calls still open at the run's end are observed there, oldest first.
        """
        assert ["2", "0", "1"] == [event.event_id for event in run_of(call("a"), call("b"), said()).events]

    def test_a_user_who_speaks_while_a_tool_works(self):
        """
        A user message does not end a call whose own result is still to come.
        """
        run = run_of(call(call_id="1"), user(), result(text="done", call_id="1"))
        assert ["1", "0"] == [event.event_id for event in run.events]
        assert {"0": "done"} == came_back(run)

    def test_error_false_alone_ends_a_call(self):
        """
        In a run without separate results, `"error": false` says that the call has ended.
        """
        run = run_of(call(error=False), said(), call(error=False))
        assert [("0", 0), ("1", 1), ("2", 2)] == [(event.event_id, event.started_seq) for event in run.events]

    def test_error_false_waits_for_a_separate_result(self):
        """
        In a run with separate results, `"error": false` on a call leaves it open for its own.
        """
        assert {"0": "ok"} == came_back(run_of(call(error=False), result()))

    def test_a_call_and_its_result_add_up(self):
        """
        Tokens and cost of a call and its result are summed; the duration is that of one of them.
        """
        run = run_of(
            call(tokens=5, cost_usd=0.25, duration_ms=10, agent="a"),
            result(tokens=2, cost_usd=0.5, duration_ms=30, agent="b"),
        )
        [event] = run.events
        assert (7, 0.75, 30.0, {"agent": "a"}) == (
            event.token_count,
            event.cost_usd,
            event.duration_ms,
            event.metadata,
        )

    def test_chunks_are_one_reply(self):
        """
        Chunks of one stream are one reply, named by the first and observed where the last stands.
        """
        run = run_of(
            said("He", stream="s", tokens=1), call(result="x"), said("llo", stream="s", tokens=2), user()
        )
        assert ["1", "0", "3"] == [event.event_id for event in run.events]
        assert ({"text": "Hello"}, 3, 0) == (
            run.events[1].output_data,
            run.events[1].token_count,
            run.events[1].started_seq,
        )

    def test_streams_do_not_mix(self):
        """
        Two streams that interleave are two replies.
        """
        run = run_of(said("a", stream=1), said("x", stream=2), said("b", stream=1), said("y", stream=2))
        assert ["ab", "xy"] == [event.text for event in run.events]


class TestOrder:
    def test_a_batch_shares_its_start(self):
        """
        Calls issued before any of their results came share `started_seq`.
        """
        run = run_of(said(), call(), call(), result(), result(), call(), result())
        assert [0, 1, 1, 3] == [event.started_seq for event in run.events]
        assert [0, 1, 2, 3] == [event.seq for event in run.events]

    def test_durations_make_the_clock(self):
        """
        Without times, an event's time is the run's start plus the durations so far.
        """
        run = run_of(said(duration_ms=500), call(duration_ms=1500), result(), started_at=1_700_000_000)
        assert [1_700_000_000.5, 1_700_000_002.0] == [event.timestamp for event in run.events]

    def test_relative_times(self):
        """
        A small `t` counts from the run's start.
        """
        run = run_of(said(t=1.5), said(t=4), started_at=1_700_000_000)
        assert [1_700_000_001.5, 1_700_000_004.0] == [event.timestamp for event in run.events]

    @pytest.mark.parametrize(
        "t", [1_700_000_000, "1700000000", 1_700_000_000_000, "1700000000000", "2023-11-14T22:13:20Z"]
    )
    def test_epoch_times(self, t):
        """
        A large `t` is an epoch time, in whatever unit, and the first one is the run's start.
        """
        run = run_of(said(t=t))
        assert (1_700_000_000.0, 1_700_000_000.0) == (run.info.started_at, run.events[0].timestamp)

    def test_time_never_runs_backwards(self):
        """
        An entry older than the one before it happens at the same time.
        """
        assert [9.0, 9.0, 9.0] == [event.timestamp for event in run_of(said(t=9), said(t=3), said()).events]

    def test_a_call_happens_when_its_result_is_known(self):
        """
        A call's time is its result's.
        """
        assert [12.0] == [event.timestamp for event in run_of(call(t=10), result(t=12)).events]


kinds = st.sampled_from(["user_message", "llm_output", "tool_call", "tool_result", "error", "state", "?"])
short = st.sampled_from(["a", "b", "c", None])
entry = st.fixed_dictionaries(
    {"type": kinds, "name": short, "call_id": short, "text": st.just("w")},
    optional={"result": st.just("w"), "error": st.booleans(), "stream": short, "t": st.integers(0, 9)},
)


class TestProperties:
    @given(st.lists(entry, min_size=1, max_size=20))
    def test_every_call_is_one_event(self, events):
        """
        Every tool_call entry gives exactly one event, and no index is used twice.
        """
        run = run_of({"type": "state"}, *events)
        calls = [event.event_id for event in run.events if event.action_type == "tool_call"]
        written = [str(i) for i, entry in enumerate(events, start=1) if entry["type"] == "tool_call"]
        assert written == sorted(calls, key=int)
        assert len(run.events) == len({event.event_id for event in run.events})

    @given(st.lists(entry, min_size=1, max_size=20))
    def test_order_of_completion(self, events):
        """
        Events are numbered as they complete, begin no later than they end, and time never runs back.
        """
        events = run_of({"type": "state"}, *events).events
        assert list(range(len(events))) == [event.seq for event in events]
        assert all(event.started_seq <= event.seq for event in events)
        assert all(one.timestamp <= two.timestamp for one, two in pairwise(events))

    @given(st.data(), st.integers(1, 8))
    def test_ids_join_whatever_the_interleaving(self, data, count):
        """
        Results with ids find their calls in any order, with users and replies speaking in between.
        """
        moves = [("call", n) for n in range(count)] + [("result", n) for n in range(count)]
        moves += [("user", 0), ("said", 0)] * 3
        shuffled = data.draw(st.permutations(moves))
        place = {move: i for i, move in enumerate(shuffled)}
        for n in range(count):
            at, then = place["call", n], place["result", n]
            if then < at:
                shuffled[at], shuffled[then] = shuffled[then], shuffled[at]
        build = {
            "call": lambda n: call(call_id=f"c{n}", args={"n": n}),
            "result": lambda n: result(text=f"w{n}", call_id=f"c{n}"),
            "user": lambda n: user(),
            "said": lambda n: said(),
        }
        run = run_of(*(build[kind](n) for kind, n in shuffled))
        calls = [event for event in run.events if event.action_type == "tool_call"]
        assert count == len(calls)
        assert all({"text": f"w{event.input_data['n']}"} == event.output_data for event in calls)
