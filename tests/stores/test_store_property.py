"""Whatever the batches, and however often an event is repeated: the sums are those of the events kept."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhelm.sink import RecordedEvent, SavedState
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, a_finding, a_summary, an_event, an_incident, an_intervention

EVENT = st.builds(
    an_event,
    st.integers(0, 12),
    run_id=st.sampled_from(["r", "s"]),
    action_type=st.sampled_from(["tool_call", "llm_request", "state_transition", "odd"]),
    action_name=st.sampled_from(["read", "edit", "grep"]),
    token_count=st.integers(0, 1000),
    duration_ms=st.integers(0, 1000).map(float),
    cost_usd=st.none() | st.integers(0, 8).map(lambda eighths: eighths / 8),
    timestamp=st.integers(0, 99).map(lambda second: AT + second),
    error=st.none() | st.sampled_from(["error", "words"]),
    output_data=st.none() | st.just({"text": "t"}),
)
OTHER = st.one_of(
    st.builds(a_finding, st.integers(0, 5), run_id=st.just("r")),
    st.builds(a_summary, st.sampled_from(["r", "s"])),
    st.builds(SavedState, st.just("agent"), st.just("r"), st.just(b"s"), st.just(AT)),
)
BATCHES = st.lists(st.lists(EVENT | OTHER, max_size=12), max_size=8)


@given(batches=BATCHES, reopened=st.booleans())
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_the_events(batches, reopened):
    """
    A run's row and its tools equal what its events say, whatever the batches and repeats.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "runs.db")
        for batch in batches:
            store.write(batch)
            if reopened:
                store.close()
                store = SQLiteStore(Path(folder) / "runs.db")
        for run in store.list_runs():
            events = store.get_run_traces("agent", run.run_id)
            calls = [event for event in events if event.action_type == "tool_call"]
            assert (
                len(events),
                sum(event.token_count for event in events),
                len(calls),
                sum(event.action_type == "llm_request" for event in events),
                sum(event.error is not None for event in events),
                sum(event.duration_ms for event in events),
                sum(event.cost_usd or 0.0 for event in events),
            ) == (
                run.events,
                run.tokens,
                run.tool_calls,
                run.llm_calls,
                run.errors,
                run.duration_ms,
                run.cost_usd,
            )
            tools = store.list_run_tools("agent", run.run_id)
            assert Counter(event.action_name for event in calls) == {t.action_name: t.calls for t in tools}
        assert [] == store.check()
        store.close()


@given(events=st.lists(EVENT, max_size=30))
@settings(max_examples=40, deadline=None)
def test_the_first_of_equals_is_kept(events):
    """
    Of several events under one run and seq the first is kept, in one batch as in many.
    """
    first = {}
    for recorded in events:
        first.setdefault((recorded.event.run_id, recorded.event.seq), recorded)
    with tempfile.TemporaryDirectory() as folder:
        at_once, singly = (SQLiteStore(Path(folder) / name) for name in ("a.db", "b.db"))
        at_once.write(events)
        for recorded in events:
            singly.write([recorded])
        for store in (at_once, singly):
            kept = [it for run_id in ("r", "s") for it in store.iter_run_events("agent", run_id)]
            assert [first[key] for key in sorted(first)] == kept
        assert at_once.list_runs() == singly.list_runs()
        at_once.close()
        singly.close()


@given(
    places=st.lists(st.sampled_from(["a/r", "a/s", "a/t", "b/r"]), max_size=40),
    agent=st.none() | st.sampled_from("abc"),
    since=st.none() | st.integers(0, 40),
    limit=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_are_those_of_all_runs(places, agent, since, limit):
    """
    However runs and agents take turns, the newest events are what sorting all of them would give.
    """
    seqs = Counter()
    events = []
    for second, place in enumerate(places):
        agent_id, run_id = place.split("/")
        at = AT + second
        events.append(an_event(seqs[place], agent_id=agent_id, run_id=run_id, timestamp=at).event)
        seqs[place] += 1
    after = None if since is None else AT + since
    wanted = [
        it for it in reversed(events) if agent in (None, it.agent_id) and it.timestamp >= (after or 0.0)
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "runs.db")
        store.write([RecordedEvent.of(event) for event in events])
        assert wanted[:limit] == store.get_traces(agent, since=after, limit=limit)
        store.close()


@given(
    incidents=st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=8),
    since=st.none() | st.integers(0, 50),
    limit=st.integers(0, 12),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_answers_are_those_of_all_incidents(incidents, since, limit):
    """
    However the answers to several incidents take turns, the newest are what sorting all of them would give.
    """
    after = None if since is None else AT + since
    records = [
        an_incident(
            str(n), last_at=AT + max(seqs, default=0), interventions=tuple(map(an_intervention, sorted(seqs)))
        )
        for n, seqs in enumerate(incidents)
    ]
    wanted = sorted((seq for seqs in incidents for seq in seqs if seq >= (since or 0)), reverse=True)
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "runs.db")
        store.write(records)
        found = [it.intervention.seq for it in store.list_interventions(since=after, limit=limit)]
        assert wanted[:limit] == found
        store.close()
