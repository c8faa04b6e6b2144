"""What is kept of agents between requests: never older than the store, whoever wrote to it."""

import time

import pytest
from written_runs import DAY_S, NOON, write_run

from steadyhelm.baselines import BaselineStats
from steadyhelm.people import ToolMark
from steadyhelm.server import agent_views
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.queries.overview import read_overview
from steadyhelm.server.queries.runs import list_runs
from steadyhelm.settings import Settings
from steadyhelm.stores import open_store
from steadyhelm.testing.store_records import a_summary, an_event

pytestmark = pytest.mark.usefixtures("noon")


def show(views, store, days=1):
    return read_overview(views, store, days, None)


def list_all(views, limit=50):
    with views.reading() as connection:
        return list_runs(views, connection, {}, limit, Settings()).runs


class TestOverview:
    def test_what_another_process_writes_is_shown_at_once(self, views, store, other):
        """
        A run that is written between two requests is in the second.
        """
        write_run(store, "a")
        before = show(views, store)
        write_run(other, "b")
        after = show(views, store)

        assert [(1, 1), (2, 2)] == [(it.runs.value, it.open_incidents) for it in (before, after)]
        assert 2.0 == after.agents[0].spend.value

    def test_a_deleted_run_is_gone(self, views, store, other):
        """
        Deleting a run in another process takes it out of the figures, and its incident with it.
        """
        write_run(store, "a")
        write_run(store, "b")
        show(views, store)
        other.delete_run("agent", "a")

        shown = show(views, store)
        assert (1, 1, 1) == (shown.runs.value, shown.open_incidents, shown.agents[0].runs.value)

    def test_only_agents_that_changed_are_read(self, views, store):
        """
        The row of an agent that nothing was written about is the one that was read before.
        """
        write_run(store, "a", agent_id="idle")
        write_run(store, "b", agent_id="busy")
        first = {it.name: it for it in show(views, store).agents}
        write_run(store, "c", agent_id="busy")
        second = {it.name: it for it in show(views, store).agents}

        assert first["idle"] is second["idle"]
        assert (1, 2) == (first["busy"].runs.value, second["busy"].runs.value)

    def test_a_new_baseline_is_shown(self, views, store):
        """
        An agent that has learnt is healthy in the next answer, and learning again after a reset.
        """
        write_run(store, "a", incident=False)
        states = [show(views, store).agents[0].state]
        store.save_baseline(BaselineStats(agent_id="agent", calibration_runs=50, is_calibrated=True))
        states.append(show(views, store).agents[0].state)
        store.reset_baseline("agent")
        states.append(show(views, store).agents[0].state)

        assert ["learning", "healthy", "learning"] == states

    def test_an_agent_falls_silent_by_itself(self, views, store, monkeypatch):
        """
        Nothing is written, and a week later the agent is silent, each day for one day longer.
        """
        write_run(store, "a", incident=False)
        seen = []
        for days in (0, 7, 8):
            monkeypatch.setattr(time, "time", lambda days=days: NOON + days * DAY_S)
            agent = show(views, store).agents[0]
            seen.append((agent.state, agent.reason if agent.state == "silent" else "", agent.runs.value))

        assert [
            ("learning", "", 1),
            ("silent", "no run for 7 days", 0),
            ("silent", "no run for 8 days", 0),
        ] == seen


class TestDays:
    def test_figures_are_those_of_the_days(self, views, store):
        """
        Runs and spend are summed over 1, 7 or 30 days; the days before are counted beside them.
        """
        for days_ago in (0, 1, 1, 8, 20, 40):
            write_run(store, f"run {time.perf_counter_ns()}", days_ago=days_ago)
        shown = [show(views, store, days) for days in (1, 7, 30)]

        assert [1, 3, 5] == [it.runs.value for it in shown]
        assert (
            [1.0, 3.0, 5.0] == [it.spend.value for it in shown] == [it.agents[0].spend.value for it in shown]
        )
        assert [2, 1, 1] == [it.runs_before for it in shown]

    def test_a_day_stands_beside_normal_days(self, views, store):
        """
        From five days on, today's runs and spend stand beside those of the days before.
        """
        for days_ago in range(6):
            for number in range(3 if days_ago else 1):
                write_run(store, f"run {days_ago} {number}", days_ago=days_ago)
        shown = show(views, store)

        assert (1, 3.0, 3.0) == (shown.runs.value, shown.runs.normal.p5, shown.runs.normal.p95)
        assert 3.0 == shown.spend.normal.p50 == shown.agents[0].runs.normal.p50
        assert show(views, store, 7).runs.normal is None

    def test_the_rest_of_the_day_is_forecast_from_the_days_before(self, views, store):
        """
        Yesterday two dollars were spent after noon: today ends at what was spent so far, and two more.
        """
        write_run(store, "today")
        assert show(views, store).spend_forecast_usd is None
        write_run(store, "before noon", days_ago=1)
        for number in range(2):
            write_run(store, f"after noon {number}", days_ago=1 - (3600 + number) / DAY_S)

        assert 3.0 == show(AgentViews(store), store).spend_forecast_usd


class TestRuns:
    @pytest.mark.parametrize(
        "change",
        [
            lambda store: write_run(store, "b"),
            lambda store: store.delete_run("agent", "a"),
            lambda store: store.mark_tool(ToolMark(agent_id="agent", tool="read", kind="poll", set_at=NOON)),
            lambda store: store.write([a_summary("a", started_at=NOON - 60, ended_at=NOON)]),
        ],
        ids=["written", "deleted", "declared", "ended"],
    )
    def test_the_list_follows_every_change(self, running_server, database, change):
        """
        A list that is asked for twice is the same, and another one after a change by another process.
        """
        other = open_store(database)
        write_run(other, "a", incident=False)
        for seq in range(1, 4):
            other.write([an_event(seq, run_id="a", event_id=f"a.{seq}", timestamp=NOON - 50 + seq)])
        with running_server.client(authorization=f"Bearer {running_server.token}") as client:
            before = [client.get("/api/v1/runs").content for _ in range(2)]
            change(other)
            after = client.get("/api/v1/runs").content
        other.close()

        assert before[0] == before[1] != after

    def test_only_runs_of_agents_that_changed_are_read(self, views, store, other):
        """
        A row stays the one that was read before, until anything is written about its agent.
        """
        write_run(store, "a", agent_id="idle")
        write_run(store, "b", agent_id="busy", incident=False)
        first = {it.run_id: it for it in list_all(views)}
        write_run(other, "b", agent_id="busy")
        second = {it.run_id: it for it in list_all(views)}

        assert first["a"] is second["a"]
        assert (0, 1) == (first["b"].incidents, second["b"].incidents)

    def test_a_deleted_run_is_gone(self, views, store, other):
        """
        Deleting a run in another process takes it out of the list; the others stay.
        """
        write_run(store, "a")
        write_run(store, "b")
        list_all(views)
        other.delete_run("agent", "a")

        assert ["b"] == [it.run_id for it in list_all(views)]

    def test_rows_that_are_kept_are_limited(self, views, store, monkeypatch):
        """
        A list that has more rows than are kept is complete.
        """
        monkeypatch.setattr(agent_views, "_MOST_RUNS_KEPT", 3)
        for number in range(4):
            write_run(store, f"run-{number}", agent_id=f"agent-{number}", days_ago=number)
        list_all(views, limit=2)

        assert [f"run-{number}" for number in range(4)] == [it.run_id for it in list_all(views)]
