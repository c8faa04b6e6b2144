import math
import sqlite3
from contextlib import closing, suppress

import pytest
from msgspec import structs

from steadyhelm.errors import SteadyhelmError, StoreError
from steadyhelm.events import RunInfo
from steadyhelm.sink import RecordedEvent, SavedState
from steadyhelm.testing.store_records import AT, a_finding, a_summary, an_event, an_incident, an_intervention


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


class TestEvents:
    def test_an_usual_id_is_not_stored(self, store, path):
        """
        An event id that follows from run and seq takes no room, and any other is kept.
        """
        store.write([an_event(0), an_event(1, event_id="mine")])

        assert [(None,), ("mine",)] == rows(path, "SELECT event_id FROM events ORDER BY seq")

    def test_nothing_said_takes_no_payload(self, store, path):
        """
        An event without data, call id or words of its own has no payload.
        """
        store.write([an_event(0, input_data=None, output_data=None, error="error"), an_event(1)])

        assert [(0, None), (1, 1)] == rows(path, "SELECT seq, payload FROM events")
        assert "error" == store.get_run_traces("agent", "run")[0].error

    def test_what_is_no_json_comes_back_as_text(self, store):
        """
        Stored bytes are given back as they are, and read as text when they are not JSON.
        """
        event = an_event(0).event
        store.write([RecordedEvent(event, b'{"broken', b"\xff\xfe", None)])
        (recorded,) = store.iter_run_events("agent", "run")

        assert (b'{"broken', b"\xff\xfe") == (recorded.input_json, recorded.output_json)
        assert '{"broken' == recorded.event.input_data

    @pytest.mark.parametrize("text", ["a\0b", "😀", "'); DROP TABLE events; --", "%_\\", "\u202egnp"])
    def test_any_text_is_only_text(self, store, text):
        """
        Agent ids, run ids, names, goals and messages may hold anything.
        """
        store.write(
            [
                RunInfo(agent_id=text, run_id=text, goal=text, started_at=AT, metadata={text: text}),
                an_event(0, agent_id=text, run_id=text, action_name=text, error=text, call_id=text),
                a_finding(agent_id=text, run_id=text, message=text),
                an_incident(text, agent_id=text, run_id=text, message=text),
            ]
        )

        assert text == store.find_run(text).goal
        assert text == store.get_run_traces(text, text)[0].error
        assert text == store.get_drift_events(text, text)[0].message
        assert text == store.find_incident(text).message
        assert {text: text} == store.get_run_metadata(text, text)

    def test_pages_hide_nothing(self, store):
        """
        A run longer than a page is read back whole and in order, whatever its numbers are.
        """
        places = [-5, *range(0, 2000, 3), 2**62]
        store.write([an_event(seq, timestamp=AT) for seq in places])

        assert places == [event.seq for event in store.get_run_traces("agent", "run")]


class TestMending:
    @pytest.mark.parametrize(
        ("field", "value", "kept"),
        [
            ("token_count", 2**70, 2**53),
            ("token_count", "many", 0),
            ("timestamp", math.nan, 0.0),
            ("duration_ms", math.nan, 0.0),
            ("duration_ms", None, 0.0),
            ("cost_usd", math.nan, None),
            ("action_name", "lone \ud800 surrogate", "lone ? surrogate"),
            ("action_name", ["a list"], "['a list']"),
            ("call_hash", 2**64, 2**63 - 1),
            ("error", "\udc80", "?"),
        ],
    )
    def test_an_odd_value_costs_no_batch(self, store, field, value, kept):
        """
        A value that fits no column is kept as nearly as possible, and its neighbours as they are.
        """
        odd = an_event(1)
        odd = structs.replace(odd, event=structs.replace(odd.event, **{field: value}))
        store.write([an_event(0), odd, an_event(2)])
        events = store.get_run_traces("agent", "run")

        assert kept == getattr(events[1], field)
        assert [an_event(0).event, an_event(2).event] == [events[0], events[2]]
        assert [] == store.check()

    def test_an_incident_beside_it_keeps_its_evidence(self, store):
        """
        What stands in the same batch as an odd value can be read as it was written.
        """
        answer = an_intervention(guidance="half \ud800")
        incident = an_incident(event_ids=("run.0", "run.1"), interventions=(answer,))
        odd = an_event(1)
        store.write([structs.replace(odd, event=structs.replace(odd.event, error="\ud800")), incident])
        (kept,) = store.list_incidents("agent")

        assert (("run.0", "run.1"), ["half ?"]) == (
            kept.event_ids,
            [it.guidance for it in kept.interventions],
        )

    def test_what_cannot_be_mended_is_our_error(self, store):
        """
        A record that still does not fit is at fault, not the store; nothing of its batch is left behind.
        """
        hopeless = RecordedEvent(an_event(1).event, ["not bytes"])

        with pytest.raises(SteadyhelmError, match="could not be stored") as raised:
            store.write([an_event(0), hopeless])
        assert not isinstance(raised.value, StoreError)
        assert [] == store.list_runs()


class TestRuns:
    def test_events_alone_open_a_run(self, store):
        """
        A run whose start was never told begins with its earliest event.
        """
        store.write([an_event(5)])
        store.write([an_event(3), an_event(7)])
        run = store.find_run("run")

        assert ("running", AT + 3, AT + 7) == (run.state, run.started_at, run.last_at)

    def test_a_told_start_holds(self, store):
        """
        A start that was told is not moved by events that claim to be earlier.
        """
        store.write([an_event(5), RunInfo(agent_id="agent", run_id="run", started_at=AT + 4)])
        store.write([an_event(1), an_event(2)])

        assert AT + 4 == store.find_run("run").started_at

    def test_a_start_without_time_waits_for_the_first_event(self, store):
        """
        A run opened without a time begins with its first event.
        """
        store.write([RunInfo(agent_id="agent", run_id="run", goal="g")])
        store.write([an_event(2)])

        assert (AT + 2, "g") == (store.find_run("run").started_at, store.find_run("run").goal)

    def test_opening_again_keeps_what_was_known(self, store):
        """
        A second opening without a goal does not take the first one's away.
        """
        store.write([RunInfo(agent_id="agent", run_id="run", goal="g", started_at=AT, metadata={"a": 1})])
        store.write([RunInfo(agent_id="agent", run_id="run", started_at=AT + 9, parent_run_id="p")])
        run = store.find_run("run")

        assert ("g", "p", AT) == (run.goal, run.parent_run_id, run.started_at)
        assert {"a": 1} == store.get_run_metadata("agent", "run")

    def test_a_repeated_event_wakes_nobody(self, store):
        """
        An event already kept does not make a suspended run running.
        """
        store.write([an_event(0), SavedState("agent", "run", b"s", AT)])
        store.write([an_event(0)])

        assert "suspended" == store.find_run("run").state

    def test_an_event_after_the_end_ends_nothing(self, store):
        """
        A late event is kept and counted, and the run stays ended.
        """
        store.write([an_event(0), a_summary(), an_event(1)])
        store.write([an_event(2)])
        run = store.find_run("run")

        assert ("ended", 3) == (run.state, run.events)

    def test_a_run_opened_again_does_not_teach(self, store):
        """
        An ended run that is opened again teaches only when it has ended again.
        """
        store.write([a_summary()])
        store.write([RunInfo(agent_id="agent", run_id="run", started_at=AT)])
        assert [] == store.list_run_summaries("agent")

        store.write([a_summary(events=9)])
        assert [9] == [summary.events for summary in store.list_run_summaries("agent")]

    def test_the_end_drops_a_saved_session(self, store):
        """
        An ended run has no session to go on with.
        """
        store.write([SavedState("agent", "run", b"s", AT), a_summary()])

        assert store.take_state("agent", "run") is None

    def test_findings_seen_twice_count_once(self, store):
        """
        The same finding written again changes nothing.
        """
        store.write([a_finding(0), a_finding(1)])
        store.write([a_finding(1)])

        assert (2, 2) == (store.find_run("run").findings, len(store.get_drift_events()))

    def test_an_unreadable_summary_teaches_nobody(self, store, path):
        """
        A damaged summary is left out of learning, and the check names it.
        """
        store.write([a_summary("good"), a_summary("bad")])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE runs SET summary = x'c1' WHERE run_id = 'bad'")

        assert ["good"] == [summary.run_id for summary in store.list_run_summaries("agent")]
        assert ["1 baselines or summaries of runs cannot be read"] == store.check()


class TestNumbersRemembered:
    def test_what_is_over_takes_no_memory(self, store):
        """
        Runs that ended are forgotten; open ones and those that go on after their end are remembered.
        """
        for number in range(20):
            run_id = f"run-{number}"
            store.write([an_event(0, run_id=run_id), an_event(1, run_id=run_id)])
            store.write([a_summary(run_id=run_id)])
        store.write([an_event(0, run_id="open")])
        store.write([an_event(2, run_id="run-7")])

        assert {("agent", "open"), ("agent", "run-7")} == set(store._row_ids.runs)

    def test_a_call_after_the_end_still_finds_the_one_before(self, store, path):
        """
        A run that goes on after its end is compared with what it did before.
        """
        store.write([an_event(0, call_hash=7, result_hash=9)])
        store.write([a_summary()])
        store.write([an_event(1, call_hash=7, result_hash=9)])

        assert [(0, 1)] == rows(path, "SELECT last_same, same_result FROM events WHERE seq = 1")

    def test_another_writer_opened_the_run(self, store, other):
        """
        Two writers that meet the same new agent, run and name give them one number.
        """
        store.write([an_event(0)])
        other.write([an_event(1)])
        store.write([an_event(2)])

        assert [0, 1, 2] == [event.seq for event in store.get_run_traces("agent", "run")]
        assert (3, []) == (store.find_run("run").events, store.check())

    def test_another_writer_kept_the_event(self, store, other):
        """
        An event that another writer has kept meanwhile is not counted twice.
        """
        store.write([an_event(0)])
        other.write([an_event(1), an_event(2)])
        store.write([an_event(2), an_event(3)])

        assert (4, []) == (store.find_run("run").events, store.check())

    @pytest.mark.parametrize("delete", ["run", "agent"])
    def test_another_writer_deleted_it(self, store, other, delete):
        """
        A run goes on as a new one after another process has deleted it or its agent.
        """
        store.write([an_event(0), an_event(0, run_id="second")])
        if delete == "run":
            other.delete_run("agent", "run")
        else:
            other.delete_agent("agent")
        store.write([an_event(1), an_incident(), a_finding()])
        store.write([an_event(0, run_id="third")])

        assert [1] == [event.seq for event in store.get_run_traces("agent", "run")]
        assert [] == store.check()

    def test_a_rollback_is_forgotten_too(self, store):
        """
        Numbers given in a transaction that was taken back are not used again.
        """
        with suppress(ZeroDivisionError), store.transaction():
            store.write([an_event(0, action_name="new")])
            raise ZeroDivisionError
        store.write([an_event(0, agent_id="someone", run_id="else", action_name="other")])
        store.write([an_event(0, action_name="new")])

        assert ["new"] == store.get_recent_actions("agent", "run")
        assert [] == store.check()

    def test_an_inner_rollback_leaves_the_outer(self, store):
        """
        What an inner transaction took back is gone, what the outer wrote stays.
        """
        with store.transaction():
            store.write([an_event(0)])
            with suppress(ZeroDivisionError), store.transaction():
                store.write([an_event(0, run_id="inner"), an_event(1)])
                raise ZeroDivisionError
            store.write([an_event(2)])

        assert [0, 2] == [event.seq for event in store.get_run_traces("agent", "run")]
        assert (["run"], []) == (store.get_run_ids("agent"), store.check())
