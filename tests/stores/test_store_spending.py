import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhelm.stores.opening import prepare
from steadyhelm.stores.schema import FIRST
from steadyhelm.stores.spending import find_quarter_hour
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, an_event

DAY = {"since": AT - AT % 86_400, "until": AT - AT % 86_400 + 86_400}


class TestSpending:
    def test_two_processes_with_one_agent_sum_right(self, store, other):
        """
        Batches of two writers that write at the same time are all counted.
        """

        def write(writer, run_id):
            for batch in range(20):
                events = [an_event(batch * 5 + place, run_id=run_id, timestamp=AT) for place in range(5)]
                writer.write(events)

        threads = [threading.Thread(target=write, args=it) for it in ((store, "one"), (other, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        (spent,) = store.list_spending(**DAY)
        assert (200, 2000) == (spent.steps, spent.tokens)

    def test_a_batch_that_is_rolled_back_is_not_counted(self, store):
        """
        What was not committed was not spent; written again, it counts once.
        """
        with suppress(RuntimeError), store.transaction():
            store.write([an_event(0)])
            raise RuntimeError
        assert [] == store.list_spending(**DAY)

        store.write([an_event(0)])
        assert 1 == store.list_spending(**DAY)[0].steps

    def test_events_of_two_days_in_one_batch_are_kept_apart(self, store):
        """
        Each event counts for the time at which it happened.
        """
        midnight = DAY["until"]
        store.write([an_event(0, timestamp=midnight - 1), an_event(1, timestamp=midnight)])

        today, tomorrow = DAY, {"since": midnight, "until": midnight + 86_400}
        assert (1, 1) == (store.list_spending(**today)[0].steps, store.list_spending(**tomorrow)[0].steps)

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["tool_call", "llm_request", "user_message"]),
                st.integers(0, 2000),
                st.integers(0, 10**6),
                st.sampled_from([None, 0.0, 0.25, 1.5]),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def test_in_one_batch_or_in_many_the_sums_are_the_same(self, tmp_path_factory, events):
        """
        However events fall into batches and quarters of an hour, each counts once and where it happened.
        """
        made = [
            an_event(seq, action_type=kind, timestamp=AT + at, token_count=tokens, cost_usd=cost)
            for seq, (kind, at, tokens, cost) in enumerate(events)
        ]
        together, apart = (SQLiteStore(tmp_path_factory.mktemp("sums") / "runs.db") for _ in range(2))
        together.write(made)
        for event in made:
            apart.write([event])
        times = [{"since": AT - AT % 900 + 900 * n, "until": AT - AT % 900 + 900 * (n + 1)} for n in range(4)]

        assert [together.list_spending(**it) for it in times] == [apart.list_spending(**it) for it in times]
        assert sum(kind == "tool_call" for kind, *_ in events) == sum(
            it.steps for period in times for it in together.list_spending(**period)
        )
        together.close()
        apart.close()

    @pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e300, 1e300, -5.0])
    def test_a_time_that_is_none_loses_nothing(self, store, at):
        """
        An event with an impossible time is stored, and counted at the beginning of time.
        """
        store.write([an_event(0, timestamp=at), an_event(1)])

        assert 2 == store.find_run("run").events
        assert 1 == store.list_spending(**DAY)[0].steps

    def test_more_than_a_column_holds_is_cut(self, store):
        """
        Huge token counts stay at a number that can be stored and added to.
        """
        for seq in range(3):
            store.write([an_event(seq, token_count=2**62)])

        assert 2**53 == store.list_spending(**DAY)[0].tokens

    def test_what_is_negative_gives_nothing_back(self, store):
        """
        A step with a negative cost or number of tokens does not refund what others spent.
        """
        store.write([an_event(0, cost_usd=1.0), an_event(1, token_count=-50, cost_usd=-1.0)])

        (spent,) = store.list_spending(**DAY)
        assert (10, 1.0) == (spent.tokens, spent.cost_usd)

    def test_a_database_of_the_first_version_gets_the_tables(self, path):
        """
        The migration adds to what is there.
        """
        prepare(path, migrations=(FIRST,))
        store = SQLiteStore(path)
        store.write([an_event(0)])

        assert 1 == store.list_spending(**DAY)[0].steps
        assert [] == store.check()
        store.close()

    @given(st.floats(0, 1e11))
    def test_a_time_lies_in_its_quarter_of_an_hour(self, at):
        """
        A quarter of an hour begins at or before the time, and ends after it.
        """
        start = find_quarter_hour(at) * 900

        assert start <= at < start + 900
