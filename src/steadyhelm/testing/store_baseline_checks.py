"""Check the baselines and task profiles of a store."""

# ruff: noqa: SIM300, PLR2004 - a check is a test: expected on the left, and a number is the specification

import math

from steadyhelm.baselines import BaselineStats
from steadyhelm.testing.store_records import (
    AT,
    MakeStore,
    a_profile,
    a_summary,
    an_event,
    an_incident,
    fill_store,
)


def check_clean_runs_teach(make_store: MakeStore) -> None:
    """Check that baselines learn only from ended runs without incidents, false alarms apart; oldest first."""
    summaries = [
        a_summary(f"run-{n}", had_incident=n in (1, 2), words=bytes([n]), similarities=[0.5])
        for n in range(4)
    ]
    store = fill_store(make_store, *summaries, an_event(run_id="running"), a_summary("other", version="2"))
    store.write([an_incident("i1", run_id="run-1"), an_incident("i2", run_id="run-2")])
    assert [summaries[0], summaries[3]] == store.list_run_summaries("agent")
    store.review("i1", "false_alarm")
    assert ["run-0", "run-1", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert ["run-1", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent", limit=2)]
    store.review("i1", "")
    assert ["run-0", "run-3"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert ["other"] == [summary.run_id for summary in store.list_run_summaries("agent", version="2")]
    store.close()


def check_a_reset_starts_learning_anew(make_store: MakeStore) -> None:
    """Check that after a reset the baseline is gone, and it no longer learns from earlier runs."""
    baseline = BaselineStats(
        agent_id="agent", calibration_runs=3, word_counts=b"\0\2", common_sequences=[["a", "b"]]
    )
    store = fill_store(make_store, a_summary("before"))
    store.save_baseline(baseline, updated_at=AT)
    other = BaselineStats(agent_id="agent", version="2")
    store.save_baseline(other)
    assert baseline == store.get_baseline("agent")
    assert [baseline, other] == store.list_baselines("agent")
    assert (True, False) == (store.reset_baseline("agent"), store.reset_baseline("agent"))
    assert (None, [other]) == (store.get_baseline("agent"), store.list_baselines())
    assert [] == store.list_run_summaries("agent")
    store.write([a_summary("after")])
    assert ["after"] == [summary.run_id for summary in store.list_run_summaries("agent")]
    assert store.reset_baseline("nobody") is False
    store.close()


def check_a_profile_is_replaced(make_store: MakeStore) -> None:
    """Check that a profile saved again replaces the one before; others are left unchanged."""
    store = make_store()
    store.save_profile(a_profile(tasks=9))
    other = a_profile(agent_id="other")
    store.save_profile(other)
    replaced = a_profile(tasks=1, steps=4, tokens=700, cost_usd=0.25, wall_s=12.5)
    store.save_profile(replaced)
    assert [replaced, other] == store.list_profiles()
    assert [replaced] == store.list_profiles("agent")
    assert [] == store.list_profiles("nobody")
    store.close()


def check_tasks_are_added(make_store: MakeStore) -> None:
    """Check that the totals of a task are added to the profile of its agent and type."""
    store = make_store()
    store.add_tasks(a_profile(tasks=1, steps=4, tokens=100, cost_usd=0.5, wall_s=2.0))
    store.add_tasks(a_profile(tasks=1, steps=6, tokens=300, cost_usd=0.25, wall_s=3.0))
    store.add_tasks(a_profile(task_type="review", tasks=1, steps=1))
    fix, review = store.list_profiles("agent")
    assert a_profile(tasks=2, steps=10, tokens=400, cost_usd=0.75, wall_s=5.0) == fix
    assert ("review", 1) == (review.task_type, review.tasks)
    store.close()


def check_odd_profiles_are_fill_keeper(make_store: MakeStore) -> None:
    """Check that a task with odd numbers and texts is counted all the same."""
    store = make_store()
    odd = a_profile(
        task_type="half \ud800", tasks=1, steps=-1, tokens=10**30, cost_usd=math.nan, wall_s=math.inf
    )
    for _ in range(3):
        store.add_tasks(odd)
    (found,) = store.list_profiles()
    assert ("half ?", 3, 0, 0.0, 0.0) == (
        found.task_type, found.tasks, found.steps, found.cost_usd, found.wall_s
    )  # fmt: skip
    assert isinstance(found.tokens, int)
    store.close()


def check_profiles_outlive_runs(make_store: MakeStore) -> None:
    """Check that profiles stay when their runs are deleted, and are deleted with the agent."""
    store = fill_store(make_store, an_event(0), an_event(0, agent_id="other"))
    store.add_tasks(a_profile())
    store.add_tasks(a_profile(agent_id="other"))
    store.delete_run("agent", "run")
    store.prune(runs_before=AT + 999)
    assert 2 == len(store.list_profiles())
    store.delete_agent("agent")
    assert (["other"], []) == ([profile.agent_id for profile in store.list_profiles()], store.check())
    store.close()
