"""Check the upkeep of a store: transactions, deletion, retention, threads."""

# ruff: noqa: SIM300, PLR2004 - a check is a test: expected on the left, and a number is the specification

import threading
from contextlib import suppress

from steadyhelm.baselines import BaselineStats
from steadyhelm.events import RunInfo
from steadyhelm.incidents import Mute, Threshold
from steadyhelm.sink import DailyGrant, Loss, Record, RunKey, SavedState
from steadyhelm.sinks.store import StoreSink
from steadyhelm.store_rows import AgentSpending
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_delivery,
    a_finding,
    a_summary,
    an_event,
    an_incident,
    fill_store,
)


def check_losses_add_up(make_store: MakeStore) -> None:
    """Check that losses, which are totals so far, add up over processes, however often they arrive."""
    first = (
        Loss("queue full", 2, 1.0, "one"),
        Loss("queue full", 3, 2.0, "one"),
        Loss("other", 1, 1.0, "one"),
    )
    store = fill_store(make_store, *first)
    for _ in range(3):
        store.write([Loss("queue full", 5, 3.0, "two")])
        store.write(first)
    assert {"queue full": 8, "other": 1} == store.get_losses()
    store.close()


def check_what_is_recorded_is_not_lost(make_store: MakeStore) -> None:
    """Check that what was recorded or counted as lost is known, and that old marks are forgotten."""
    store = fill_store(make_store, Loss("queue full", 2, 1.0, "lost"))
    for at, token in enumerate(("first", "second", "third"), 1):
        store.mark_recorded(token, float(at))
    known = ("lost", "first", "second", "third", "fourth", "another")
    assert [True, True, True, True, False, False] == [store.is_accounted(token) for token in known]
    store.mark_recorded("fourth", 4.0, kept=["first"], before=3.0)
    assert [True, True, False, True, True, False] == [store.is_accounted(token) for token in known]
    assert {"queue full": 2} == store.get_losses()
    store.close()


def check_two_runs_of_one_id_are_two_runs(make_store: MakeStore) -> None:
    """Check that a run gets an id of its own, the same whenever it is asked for, and no other run has it."""
    store = fill_store(make_store, an_event(0))
    keys = [RunKey("agent", "run", epoch, 1.0) for epoch in ("one", "two")]
    assert {"one": "run~2", "two": "run~3"} == store.reserve_runs(keys)
    assert {"two": "run~3", "one": "run~2"} == store.reserve_runs(keys[::-1])
    assert {"three": "run"} == store.reserve_runs([RunKey("another", "run", "three", 1.0)])
    assert 1 == store.find_run("run", agent_id="agent").events
    store.close()


def check_a_run_teaches_once(make_store: MakeStore) -> None:
    """Check that a run is marked as learnt from once."""
    store = fill_store(make_store, an_event(0))
    assert [True, False] == [store.mark_taught("agent", "run") for _ in range(2)]
    assert not store.mark_taught("agent", "no such run")
    store.close()


def check_a_transaction_is_all_or_nothing(make_store: MakeStore) -> None:
    """Check that a failed transaction leaves nothing, with those inside it, and the store works on."""
    store = make_store()
    with suppress(ZeroDivisionError), store.transaction():
        store.write([an_event(0)])
        with store.transaction():
            store.enqueue(a_delivery())
        assert 1 == store.find_run("run").events
        raise ZeroDivisionError
    assert ([], []) == (store.list_runs(), store.list_deliveries())
    with store.transaction():
        store.write([an_event(0)])
        store.write([an_event(1), a_summary()])
    assert 2 == store.find_run("run").events
    store.close()


def check_a_deleted_run_leaves_nothing(make_store: MakeStore) -> None:
    """Check that everything that belongs to a run is deleted with it, and nothing else."""
    store = fill_store(
        make_store,
        an_event(0),
        an_event(1),
        a_finding(),
        an_incident(),
        SavedState("agent", "run", b"s", 1.0),
    )
    store.write([an_event(0, run_id="stays")])
    store.enqueue(a_delivery())
    assert 2 == store.delete_run("agent", "run")
    assert (["stays"], [], [], []) == (
        store.get_run_ids("agent"), store.get_drift_events(), store.list_incidents(), store.list_deliveries()
    )  # fmt: skip
    assert store.take_state("agent", "run") is None
    assert (0, []) == (store.delete_run("agent", "run"), store.check())
    store.write([an_event(0)])
    assert 1 == store.find_run("run").events
    store.close()


def check_a_deleted_agent_leaves_nothing(make_store: MakeStore) -> None:
    """Check that an agent's runs, baselines, mutes, thresholds and alerts are deleted with it."""
    store = fill_store(make_store, an_event(run_id="1"), an_event(run_id="2"), an_event(agent_id="other"))
    store.save_baseline(BaselineStats(agent_id="agent"))
    store.mute(Mute(agent_id="agent", detector="d", until=AT))
    store.save_threshold(Threshold(agent_id="agent", detector="d", min_score=0.9))
    store.enqueue(a_delivery())
    assert 2 == store.delete_agent("agent")
    assert ["other"] == [row.agent_id for row in store.list_agents()]
    assert ([], [], [], []) == (
        store.list_baselines(),
        store.list_mutes(at=0.0),
        store.list_thresholds(),
        store.list_deliveries(),
    )
    assert (0, []) == (store.delete_agent("agent"), store.check())
    store.close()


def check_retention(make_store: MakeStore) -> None:
    """Check that old payloads are deleted before their events, then old runs; what is new stays."""
    store = fill_store(make_store, an_event(0, run_id="old"), an_event(0, run_id="new", timestamp=AT + 100))
    store.write([an_event(1, run_id="new", timestamp=AT + 300, error="in words")])
    pruned = store.prune(payloads_before=AT + 200)
    assert (2, 0, 0) == (pruned.payloads, pruned.runs, pruned.events)
    assert [None, {"text": "words"}] == [event.output_data for event in store.get_run_traces("agent", "new")]
    pruned = store.prune(payloads_before=AT + 200, runs_before=AT + 200)
    assert (0, 1, 1) == (pruned.payloads, pruned.runs, pruned.events)
    assert (["new"], []) == (store.get_run_ids("agent"), store.check())
    store.write([an_event(2, run_id="new", output_data={"text": "fresh"})])
    assert [None, "words", "fresh"] == [
        event.output_data and event.output_data["text"] for event in store.get_run_traces("agent", "new")
    ]
    store.close()


def check_spending_is_summed_once(make_store: MakeStore) -> None:
    """Check that the spending of an agent's runs is summed, and that a batch that comes twice counts once."""
    grant = DailyGrant("agent", "run", "g1", AT, tokens=7, reason="the user said so")
    batch: list[Record] = [
        an_event(0, cost_usd=0.25),
        an_event(1, action_type="llm_request", token_count=100),
        an_event(0, run_id="second"),
        an_event(0, agent_id="other"),
        grant,
    ]
    store = fill_store(make_store, *batch)
    store.write(batch)
    store.write([an_event(2), grant])
    start = AT - AT % 900
    spent = AgentSpending(agent_id="agent", steps=3, tokens=130, cost_usd=0.25, granted_tokens=7)
    assert [spent, AgentSpending(agent_id="other", steps=1, tokens=10)] == store.list_spending(
        since=start, until=start + 900
    )
    assert [spent] == store.list_spending(since=start, until=start + 900, agent_id="agent")
    assert [] == store.list_spending(since=start + 900, until=start + 1800)
    assert [] == store.list_spending(since=start, until=start + 900, agent_id="nobody")
    store.close()


def check_a_batch_that_comes_again_changes_nothing(make_store: MakeStore) -> None:
    """Check that a batch whose acknowledgement was lost, and which comes twice more, counts once."""
    store = make_store()
    sink = StoreSink(store, channels=("webhook",))
    batches: list[list[Record]] = [
        [
            RunInfo(agent_id="agent", run_id="run", goal="mend it", started_at=AT, task_type="fix"),
            an_event(0, cost_usd=0.25),
            an_event(1, action_name="edit", error="no such file"),
            a_finding(1),
            Loss("queue full", 3, AT, "one"),
            DailyGrant("agent", "run", "g1", AT, tokens=7),
        ],
        [
            an_incident("i", agent_id="other", run_id="drifted"),
            an_event(0, agent_id="other", run_id="drifted"),
        ],
        [an_event(2), a_summary(task_type="fix", outcome="done", tool_calls=3)],
    ]
    for batch in batches:
        for _ in range(3):
            sink.write(batch)
    run = store.find_run("run")
    assert (3, 30, 1, 1, 0.25) == (run.events, run.tokens, run.errors, run.findings, run.cost_usd)
    assert [1] == [baseline.calibration_runs for baseline in store.list_baselines()]
    assert [(1, 3)] == [(profile.tasks, profile.steps) for profile in store.list_profiles()]
    assert ({"queue full": 3}, 1) == (store.get_losses(), len(store.list_deliveries()))
    (spent,) = store.list_spending(since=AT - AT % 900, until=AT - AT % 900 + 900, agent_id="agent")
    assert (3, 30, 7) == (spent.steps, spent.tokens, spent.granted_tokens)
    assert [(1, 0), (1, 1)] == sorted((it.runs, it.open_incidents) for it in store.list_agents())
    assert [] == store.check()
    store.close()


def check_an_expired_lease_settles_nothing(make_store: MakeStore) -> None:
    """Check that a sender that was slower than its lease does not overwrite what its successor recorded."""
    store = make_store()
    store.enqueue(a_delivery(next_at=1.0))
    (first,) = store.claim_deliveries(now=2.0, lease_s=5.0)
    (second,) = store.claim_deliveries(now=8.0, lease_s=5.0)
    assert store.settle_delivery("delivery", "sent", attempts=second.attempts)
    assert not store.settle_delivery("delivery", "failed", attempts=first.attempts)
    assert ["sent"] == [delivery.state for delivery in store.list_deliveries()]
    store.close()


def check_spending_outlives_runs(make_store: MakeStore) -> None:
    """Check that spending stays when a run is deleted, and goes with its agent and with old runs."""
    store = fill_store(make_store, an_event(0), an_event(0, agent_id="other"))
    since, until = AT - AT % 900, AT - AT % 900 + 900
    store.delete_run("agent", "run")
    assert ["agent", "other"] == [it.agent_id for it in store.list_spending(since=since, until=until)]
    store.delete_agent("agent")
    assert ["other"] == [it.agent_id for it in store.list_spending(since=since, until=until)]
    store.prune(runs_before=AT + 86_400)
    assert [] == store.list_spending(since=since, until=until)
    store.close()


def check_threads_may_read_while_one_writes(make_store: MakeStore) -> None:
    """Check that other threads read whole batches while one writes."""
    store = make_store()
    seen: list[int] = []
    faults: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                seen.extend(run.events for run in store.list_runs())
        except BaseException as exc:  # noqa: BLE001 - it is raised below, on the thread that asked
            faults.append(exc)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for batch in range(20):
        store.write([an_event(batch * 10 + place) for place in range(10)])
    done.set()
    for reader in readers:
        reader.join()
    assert [] == faults
    assert {0} == {count % 10 for count in seen} | {0}
    assert 200 == store.find_run("run").events
    store.close()
