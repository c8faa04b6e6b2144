"""What the page reads: scores and limits where they change, last identical calls, patterns, changes."""

import itertools
import sqlite3
from contextlib import closing

import pytest

from steadyhelm import Budget, DriftMonitor
from steadyhelm.errors import NotFoundError
from steadyhelm.findings import Severity
from steadyhelm.incidents import Mute
from steadyhelm.people import AccessKey, AuditEntry, ToolMark
from steadyhelm.sink import SavedState
from steadyhelm.sinks.alerts.worker import AlertWorker
from steadyhelm.stores.database import KEPT_S, read_bounds, read_changes
from steadyhelm.testing.store_records import AT, a_delivery, a_summary, an_event, an_incident


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def looping(path):
    """A run of the real monitor that reads, then makes one failing call nine times, with a token budget."""
    monitor = DriftMonitor("worker", db_path=path, mode="guide", alert_webhook="")
    with monitor.run(goal="mend the parser", budget=Budget(tokens=5000)) as run:
        for place in range(6):
            name = f"src/part_{place}.py"
            run.record("tool_call", "read", input_data={"path": name}, output_data={"text": name * 9})
        for _ in range(9):
            run.record(
                "tool_call",
                "test",
                input_data={"all": True},
                output_data={"text": "1 failed"},
                error="1 failed",
                token_count=50,
            )
    monitor.close()
    return path


class TestScores:
    def test_the_score_is_known_from_the_first_step_on(self, looping):
        """A score stands at the first step; it rises with the loop and adds up from its contributions."""
        points = rows(
            looping, "SELECT seq, score, goal, loop, budget, quality, stuck FROM scores ORDER BY seq"
        )
        steps = [seq for seq, *_ in points]
        tops = [score for _, score, *_ in points]

        assert 1 == steps[0]  # the limits come before it
        assert tops[0] == 0.0
        assert max(tops) > 0.3
        assert all(
            score == pytest.approx(sum(part or 0.0 for part in parts), abs=1e-3)
            for _, score, *parts in points
        )
        assert [(max(tops), tops[-1])] == rows(looping, "SELECT top_score, last_score FROM runs")

    def test_it_is_stored_where_it_changes(self, looping):
        """Two points that follow each other differ."""
        points = rows(looping, "SELECT score, goal, loop, budget, quality, stuck FROM scores ORDER BY seq")

        assert all(before != after for before, after in itertools.pairwise(points))

    def test_the_limits_are_stored_once(self, looping):
        """Limits that do not change are stored at the first step alone."""
        assert (None, 5000) == rows(looping, "SELECT steps, tokens FROM limits")[0]


class TestLastCalls:
    def test_a_call_knows_its_last_twin(self, store, path):
        """The place of the last identical call is kept, and whether its result was the same."""
        store.write([an_event(seq, call_hash=7, result_hash=result) for seq, result in enumerate((1, 1, 2))])

        assert [(None, None), (0, 1), (1, 0)] == rows(
            path, "SELECT last_same, same_result FROM events ORDER BY seq"
        )
        assert [(2,)] == rows(path, "SELECT repeated FROM runs")

    def test_a_second_process_finds_it_too(self, store, other, path):
        """A run that another process began is looked up in the file."""
        store.write([an_event(0, call_hash=-7, result_hash=1)])
        other.write([an_event(seq, call_hash=call, result_hash=1) for seq, call in enumerate((-7, 8, 8), 1)])

        assert [(None,), (0,), (None,), (2,)] == rows(path, "SELECT last_same FROM events ORDER BY seq")

    def test_a_result_that_never_came_is_not_compared(self, store, path):
        """Without a result there is nothing to say about it."""
        store.write([an_event(seq, call_hash=7, result_hash=0) for seq in range(2)])

        assert [(None, None), (0, None)] == rows(path, "SELECT last_same, same_result FROM events")

    def test_calls_without_hashes_repeat_nothing(self, store, path):
        """Where not even hashes of arguments are kept, no call is known to repeat another."""
        store.write([an_event(seq, call_hash=0, action_name=f"tool {seq}") for seq in range(4)])

        assert [(None, None)] * 4 == rows(path, "SELECT last_same, same_result FROM events")
        assert [(0,)] == rows(path, "SELECT repeated FROM runs")

    def test_a_resumed_run_finds_what_was_before(self, store, path):
        """The calls of a suspended run are forgotten in memory, and found in the store when it goes on."""
        store.write([an_event(0, call_hash=5, result_hash=7), SavedState("agent", "run", b"s", AT)])
        store.write([an_event(1, call_hash=5, result_hash=7)])

        assert [(None, None), (0, 1)] == rows(path, "SELECT last_same, same_result FROM events")


class TestMarks:
    def test_an_ended_run_leaves_marks(self, store, path):
        """What a run had spent is kept at steps 1, 2, 4 and so on."""
        store.write([*(an_event(seq, token_count=10, cost_usd=0.5) for seq in range(5)), a_summary()])

        assert [(1, 10, 0.5), (2, 20, 1.0), (4, 40, 2.0)] == rows(
            path, "SELECT step, tokens, cost_usd FROM run_marks ORDER BY step"
        )


class TestPatterns:
    def test_a_loop_is_named_by_its_tools(self, store, path):
        """An incident is grouped by its subject, one without by its detector."""
        store.write(
            [
                an_event(0),
                an_incident(subject="read → edit", repeats=2),
                an_incident("other", kind="goal", detector="goal_drift"),
            ]
        )

        assert [("read → edit",), ("goal drift",)] == rows(path, "SELECT pattern FROM incidents ORDER BY id")
        assert [(2, 3)] == rows(path, "SELECT top_severity, kinds FROM runs")


class TestChanges:
    def test_every_batch_is_numbered(self, store):
        """A reader gets what was written behind a number, and nothing twice."""
        store.write([an_event(0)])
        with store.reading() as connection:
            _, seen = read_bounds(connection)
        store.write([an_event(1)])
        with store.reading() as connection:
            (change,) = read_changes(connection, seen, 10)

        assert ("run", seen + 1) == (change.what, change.id)

    def test_too_old_a_number_is_not_known(self, store, path):
        """Where changes were deleted, and after a number that was never given, the answer is None."""
        store.write([an_event(0)])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE changes SET at = at - ?", (KEPT_S + 1,))
            connection.execute("DELETE FROM changes")
        store.write([an_event(1)])
        with store.reading() as connection:
            oldest, latest = read_bounds(connection)
            assert read_changes(connection, oldest - 2, 10) is None
            assert read_changes(connection, latest + 1, 10) is None
            assert [] == read_changes(connection, latest, 10)

    def test_old_ones_go(self, store, path):
        """A change is kept for an hour."""
        store.write([an_event(0)])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE changes SET at = at - ?", (KEPT_S + 1,))
            connection.execute("UPDATE sqlite_sequence SET seq = 1023 WHERE name = 'changes'")
        store.write([an_event(1)])

        assert [(1024,)] == rows(path, "SELECT id FROM changes")


class TestPeople:
    def test_a_declaration_reaches_the_next_run(self, path):
        """A tool declared a poll tool in the store is not reported for polling by the next run."""
        monitor = DriftMonitor("waiter", db_path=path, alert_webhook="")
        monitor.store.mark_tool(ToolMark(agent_id="waiter", tool="test", kind="schedule"))
        monitor.flush()
        findings = []
        for goal in ("first", "second"):
            with monitor.run(goal=goal) as run:
                for _ in range(8):
                    decision = run.record(
                        "tool_call", "test", input_data={}, output_data={"text": "no"}, error="no"
                    )
                    findings += [it for it in decision.findings if it.severity is not Severity.LOW]
            monitor.flush()
        monitor.close()

        assert [] == [it for it in findings if it.run_id == run.run_id and it.detector == "action_loop"]

    def test_an_empty_kind_takes_a_declaration_back(self, store):
        """A tool is declared once, and not any more."""
        for kind in ("poll", "batch"):
            store.mark_tool(ToolMark(agent_id="agent", tool="wait", kind=kind))
        assert ["batch"] == [mark.kind for mark in store.list_tool_marks("agent")]
        store.mark_tool(ToolMark(agent_id="agent", tool="wait", kind=""))
        assert [] == store.list_tool_marks("agent")

    def test_an_excluded_run_teaches_nothing(self, store):
        """Baselines learn from an ended run unless it is excluded, and again when it is taken in."""
        store.write([an_event(0), a_summary()])
        learnt = []
        for excluded in (True, False):
            store.exclude_run("agent", "run", excluded=excluded)
            learnt.append(len(store.list_run_summaries("agent")))
        assert [0, 1] == learnt
        with pytest.raises(NotFoundError):
            store.exclude_run("agent", "no such run", excluded=True)

    def test_comments_belong_to_an_incident(self, store):
        """A comment comes back with its incident, and goes with its run."""
        store.write([an_event(0), an_incident()])
        store.add_comment("incident", at=AT, author="page", content="<b>known</b>")
        assert ["<b>known</b>"] == [it.content for it in store.list_comments(["incident"])]
        with pytest.raises(NotFoundError):
            store.add_comment("none", at=AT, author="page", content="x")
        store.delete_run("agent", "run")
        assert [] == store.list_comments(["incident"])

    def test_keys_and_audit_are_kept(self, store):
        """A key is kept as a hash until it is deleted; the audit log is read from its end."""
        key = store.add_key(AccessKey(name="ci", prefix="p", digest=b"d", scopes=("read",), created_at=AT))
        store.note_key_used(key.key_id, at=AT + 1)
        assert [AT + 1] == [it.last_used_at for it in store.list_keys()]
        assert (True, False) == (store.delete_key(key.key_id), store.delete_key(key.key_id))
        for number in range(3):
            store.add_audit(AuditEntry(at=AT, author="page", action=str(number), object=""))
        newest, middle = store.list_audit(limit=2)
        assert ("2", "1") == (newest.action, middle.action)
        assert ["0"] == [it.action for it in store.list_audit(before=middle.entry_id)]


class TestMutes:
    @pytest.mark.parametrize(
        ("mute", "is_muted"),
        [
            ({}, True),
            ({"up_to": Severity.HIGH}, True),
            ({"up_to": Severity.MED}, False),
            ({"version": "2"}, True),
            ({"version": "1"}, False),
        ],
    )
    def test_a_mute_ends_with_worse_or_another_version(self, store, mute, is_muted):
        """An alert is held back up to a severity, or for runs of one version."""
        store.write([an_event(0), an_incident(), a_summary(version="2")])
        store.mute(Mute(agent_id="agent", detector="action_loop", until=AT + 99, **mute))
        store.enqueue(a_delivery(severity=Severity.HIGH, detector="action_loop"))
        worker = AlertWorker(store, {"webhook": "https://hooks.example.com/x"}, clock=lambda: AT)
        (delivery,) = store.list_deliveries()

        assert is_muted == worker._is_muted(delivery, AT)
