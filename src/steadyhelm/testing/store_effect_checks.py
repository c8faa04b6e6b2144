"""What every store must do with what is learnt of tasks, and with what came of answers to drift."""

# ruff: noqa: SIM300, PLR2004 - a check is a test: expected on the left, and a number is the specification

import math

from steadyhelm.testing.store_records import AT, MakeStore, a_profile, an_answer, an_event, an_incident, kept


def check_a_profile_is_replaced(make_store: MakeStore) -> None:
    """A profile saved again stands in place of the one before; others are left as they are."""
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
    """What a task took is added to the profile of its agent and type, which begins with the first."""
    store = make_store()
    store.add_tasks(a_profile(tasks=1, steps=4, tokens=100, cost_usd=0.5, wall_s=2.0))
    store.add_tasks(a_profile(tasks=1, steps=6, tokens=300, cost_usd=0.25, wall_s=3.0))
    store.add_tasks(a_profile(task_type="review", tasks=1, steps=1))
    fix, review = store.list_profiles("agent")
    assert a_profile(tasks=2, steps=10, tokens=400, cost_usd=0.75, wall_s=5.0) == fix
    assert ("review", 1) == (review.task_type, review.tasks)
    store.close()


def check_odd_profiles_are_kept(make_store: MakeStore) -> None:
    """No number and no text keeps a task from being counted."""
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
    """What was learnt of tasks stays when their runs go, and goes with the agent."""
    store = kept(make_store, an_event(0), an_event(0, agent_id="other"))
    store.add_tasks(a_profile())
    store.add_tasks(a_profile(agent_id="other"))
    store.delete_run("agent", "run")
    store.prune(runs_before=AT + 999)
    assert 2 == len(store.list_profiles())
    store.delete_agent("agent")
    assert (["other"], []) == ([profile.agent_id for profile in store.list_profiles()], store.check())
    store.close()


def check_answers_come_newest_first(make_store: MakeStore) -> None:
    """Answers of all incidents come newest first, whichever incident they belong to."""
    store = kept(
        make_store,
        an_incident("long", last_at=AT + 9, interventions=(an_answer(1), an_answer(6), an_answer(9))),
        an_incident("short", last_at=AT + 7, interventions=(an_answer(5), an_answer(7))),
        an_incident("other", agent_id="other", last_at=AT + 8, interventions=(an_answer(8),)),
        an_incident("quiet", last_at=AT + 20),
    )
    for expected, asked in (
        ([9, 8, 7, 6, 5, 1], {}),
        ([9, 7, 6, 5, 1], {"agent_id": "agent"}),
        ([9, 8, 7], {"since": AT + 7}),
        ([9, 8, 7], {"limit": 3}),
        ([], {"limit": 0}),
        ([], {"agent_id": "nobody"}),
    ):
        assert expected == [it.intervention.seq for it in store.list_interventions(**asked)], asked
    store.close()


def check_an_answer_names_its_incident(make_store: MakeStore) -> None:
    """An answer comes with its incident, its run, and what people said about the incident."""
    answer = an_answer(3, outcome="worked", wording="replan.loop", evidence=("run.1", "run.3"), window=8)
    store = kept(make_store, an_incident(interventions=(answer,)))
    store.review("incident", "false_alarm")
    (found,) = store.list_interventions()
    assert answer == found.intervention
    assert ("incident", "agent", "run", "loop", "action_loop", "false_alarm") == (
        found.incident_id, found.agent_id, found.run_id, found.kind, found.detector, found.review
    )  # fmt: skip
    store.close()
