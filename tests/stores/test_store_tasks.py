"""What a run teaches about its type of task, in the transaction that keeps it."""

import pytest

from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import StoreError
from steadyhelm.sinks.store import StoreSink, to_completed_task
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, a_summary, an_event, an_incident


def ended(run_id="run", **fields):
    """A clean run of a known type that came to its end."""
    taken = {"task_type": "fix", "tool_calls": 4, "tokens": 700, "duration_ms": 2500.0, "outcome": "done"}
    return a_summary(run_id, **taken | fields)


@pytest.fixture
def sink(store):
    return StoreSink(store, clock=lambda: AT)


class TestProfile:
    def test_a_to_completed_task_is_added(self, sink, store):
        """
        Steps, tokens and time come from the run's summary, the cost from the run's own sum.
        """
        sink.write([an_event(0, cost_usd=0.25), an_event(1, cost_usd=0.5), ended()])

        assert [
            TaskProfile(
                agent_id="agent",
                task_type="fix",
                tasks=1,
                steps=4,
                tokens=700,
                cost_usd=0.75,
                wall_s=2.5,
            )
        ] == store.list_profiles()

    def test_each_run_is_a_task(self, sink, store):
        """
        Runs of one type add up, those of another have a profile of their own.
        """
        sink.write([ended("1"), ended("2", tool_calls=6), ended("3", task_type="review")])

        assert [("fix", 2, 10), ("review", 1, 4)] == [
            (p.task_type, p.tasks, p.steps) for p in store.list_profiles()
        ]

    def test_it_is_kept_with_the_run_or_not_at_all(self, path):
        """
        When a task cannot be added, its batch is not kept either.
        """

        class Full(SQLiteStore):
            def add_tasks(self, profile):
                super().add_tasks(profile)
                raise StoreError("disk full")

        store = Full(path)
        with pytest.raises(StoreError):
            StoreSink(store).write([an_event(0), ended()])

        assert ([], [], []) == (store.list_profiles(), store.list_runs(), store.list_baselines())
        store.close()

    def test_a_run_with_an_incident_teaches_nothing(self, sink, store):
        """
        What a drifting run took is not what its task takes.
        """
        sink.write([an_incident(), ended(had_incident=True)])

        assert [] == store.list_profiles()

    def test_an_id_that_is_no_text(self, sink, store):
        """
        A run whose id had to be mended is a task like any other.
        """
        sink.write([an_event(0, run_id="half \ud800"), ended("half \ud800")])

        assert [1] == [profile.tasks for profile in store.list_profiles()]


class TestCompletedTask:
    @pytest.mark.parametrize("outcome", ["", "done", "Done.", "SUCCESS", " completed ", "resolved", "ok!"])
    def test_success(self, outcome):
        """
        No outcome at all, and every word for success, count as completed.
        """
        assert 1 == to_completed_task(ended(outcome=outcome)).tasks

    @pytest.mark.parametrize(
        "outcome",
        ["stopped", "left early", "error: ValueError", "failed", "success: false", "not done", "0", "\ud800"],
    )
    def test_anything_else(self, outcome):
        """
        What is not plainly success is no completed task.
        """
        assert to_completed_task(ended(outcome=outcome)) is None

    def test_nobody_said_what_kind(self):
        """
        A run without a type of task belongs to no profile.
        """
        assert to_completed_task(ended(task_type="")) is None

    def test_nothing_happened(self):
        """
        A run without a single event took nothing, and says nothing about its task.
        """
        assert to_completed_task(ended(events=0)) is None


class TestUnusualRuns:
    ORDER = an_incident("order", kind="transition", detector="unusual_order")
    SPENDING = an_incident("spending", kind="resource", detector="resource_spike")
    LIMIT = an_incident("limit", kind="resource", detector="resource_spike", hard_limit=True)
    LOOP = an_incident("loop")

    @pytest.mark.parametrize(
        ("incidents", "counted"),
        [
            ([ORDER], [1]),
            ([SPENDING, ORDER], [1]),
            ([LOOP], []),
            ([ORDER, LOOP], []),
            ([ORDER, LIMIT], []),
            ([], []),
        ],
    )
    def test_a_run_that_only_differs_is_counted(self, sink, store, incidents, counted):
        """
        A run that was reported only for differing from earlier runs is counted, once, and teaches nothing.
        """
        for _ in range(2):
            sink.write([an_event(0), *incidents, ended(had_incident=True)])

        assert counted == [it.unusual_runs for it in store.list_baselines()]
        assert not any(it.calibration_runs for it in store.list_baselines())
        assert [] == store.list_profiles()
