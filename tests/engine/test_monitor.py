import asyncio
import datetime as dt
import gc
import logging
import os
import sys
import threading
from contextlib import closing

import pytest
from msgspec import Struct

from steadyhelm import DriftAction, DriftMonitor, Severity
from steadyhelm.detector import Detector
from steadyhelm.engine import live_runs
from steadyhelm.incidents import Incident
from steadyhelm.sink import SavedState, Sink
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def database(tmp_path):
    return tmp_path / "test.db"


@pytest.fixture
def monitor(database):
    monitor = DriftMonitor("researcher", db_path=database)
    yield monitor
    monitor.close()


@pytest.fixture
def limited(database):
    monitor = DriftMonitor("researcher", db_path=database, absolute_token_limit=50_000)
    yield monitor
    monitor.close()


def loop(monitor, times, **fields):
    """The same search, again and again, with the same answer."""
    return [
        monitor.record_event(
            "tool_call", "search", input_data={"query": "flights"}, output_data={"text": "none"}, **fields
        )
        for _ in range(times)
    ]


def stored(monitor, run_id):
    monitor.flush()
    return monitor.store.get_run_traces(monitor.agent_id, run_id)


class TestRecording:
    def test_a_loop_is_reported_at_the_third_call(self, monitor):
        """
        The third call in a row with the same arguments and the same answer is a loop, with its proof.
        """
        run_id = monitor.start_run(goal="find a flight")
        decisions = loop(monitor, 3)

        assert [False, False, True] == [decision.drifting for decision in decisions]
        (finding,) = decisions[-1].findings
        assert ("action_loop", "loop", Severity.MED, 0.5) == (
            finding.detector,
            finding.kind,
            finding.severity,
            finding.score,
        )
        assert [f"{run_id}.{seq}" for seq in range(3)] == finding.event_ids

    def test_the_answer_grows_stronger_while_it_goes_on(self, monitor):
        """
        A reminder first, then a new plan, a return, and in the end a question to the user.
        """
        monitor.start_run()
        answers = [decision.action for decision in loop(monitor, 8) if decision.guidance]

        assert [
            DriftAction.INJECT_REMINDER,
            DriftAction.SUMMARIZE_REPLAN,
            DriftAction.CHECKPOINT_RESET,
            DriftAction.ASK_USER,
        ] == answers

    def test_observe_mode_says_nothing(self, monitor):
        """
        By default the verdict is always to proceed, whatever was noticed.
        """
        monitor.start_run()

        assert {"proceed"} == {decision.verdict for decision in loop(monitor, 8)}

    def test_guide_mode_has_words_for_the_model(self, database):
        """
        In guide mode the guidance names what repeats and the goal.
        """
        monitor = DriftMonitor("researcher", db_path=database, mode="guide")
        monitor.start_run(goal="find a flight to Oslo")
        decision = loop(monitor, 3)[-1]

        assert "guide" == decision.verdict
        assert "search called 3 times in a row" in decision.guidance
        assert "find a flight to Oslo" in decision.guidance
        monitor.close()

    def test_events_are_kept(self, monitor):
        """
        Everything recorded is in the store, in order, with its numbers.
        """
        run_id = monitor.start_run()
        monitor.record_event(
            "tool_call",
            "search",
            input_data={"query": "x"},
            output_data={"hits": 3},
            token_count=7,
            duration_ms=12.5,
            metadata={"tab": 2},
            cost_usd=0.01,
        )
        monitor.record_event("llm_request", "model", output_data={"text": "three hits"}, token_count=100)
        first, second = stored(monitor, run_id)

        assert ({"query": "x"}, {"hits": 3}, {"tab": 2}) == (
            first.input_data,
            first.output_data,
            first.metadata,
        )
        assert (7, 12.5, 0.01) == (first.token_count, first.duration_ms, first.cost_usd)
        assert ("llm_request", "three hits") == (second.action_type, second.text)
        stats = monitor.store.get_run_stats("researcher", run_id)
        assert (2, 107, 1, 1) == (
            stats["event_count"],
            stats["total_tokens"],
            stats["tool_calls"],
            stats["llm_calls"],
        )

    def test_a_misspelt_kind_is_said_once(self, monitor, caplog):
        """
        A step of a kind that no detector reads is stored, and the log names the kinds there are.
        """
        with monitor.run() as run:
            for _ in range(3):
                run.record("toolcall", "search", input_data={"query": "x"})

        assert ["toolcall"] * 3 == [event.action_type for event in stored(monitor, run.run_id)]
        [line] = [it.getMessage() for it in caplog.records]
        assert "the kinds are tool_call, llm_request, state_transition, user_message" in line

    def test_recent_alerts_are_at_hand(self, monitor):
        """
        The incidents of the last hours can be asked for at once: one for each loop, newest first.
        """
        first = monitor.start_run()
        loop(monitor, 4)
        second = monitor.start_run()
        loop(monitor, 5)
        alerts = monitor.get_recent_alerts(hours=24, limit=50)

        assert [(second, 0.83), (first, 0.67)] == [(it.run_id, round(it.peak, 2)) for it in alerts]
        assert [second] == [it.run_id for it in monitor.get_recent_alerts(limit=1)]
        assert [] == monitor.get_recent_alerts(min_severity="CRITICAL")

    def test_recent_alerts_are_one_a_loop_and_of_this_agent(self, monitor, database):
        """
        A loop of fourteen calls is one alert, also in the next program; another agent's are not among them.
        """
        other = DriftMonitor("writer", db_path=database)
        for watched in (monitor, other):
            watched.start_run()
            loop(watched, 14)
            watched.end_run()
        other.close()
        monitor.flush()
        later = DriftMonitor("researcher", db_path=database)
        later.flush()
        [alert] = later.get_recent_alerts()
        later.close()

        assert [alert.incident_id] == [it.incident_id for it in monitor.get_recent_alerts()]
        assert "researcher" == alert.agent_id

    def test_a_review_is_seen_in_them(self, monitor):
        """
        What a person says about an incident is part of it as soon as it was read again.
        """
        with monitor.run():
            loop(monitor, 4)
        [alert] = monitor.get_recent_alerts()
        monitor.flush()
        monitor.store.acknowledge(alert.incident_id, at=5.0)
        monitor.flush()

        assert [5.0] == [it.acknowledged_at for it in monitor.get_recent_alerts()]

    def test_one_copy_of_each_is_in_memory(self, monitor):
        """
        What was recorded here is dropped once it was read from the store, and is still returned.
        """
        with monitor.run() as run:
            loop(monitor, 4)
        monitor.flush()
        in_memory = [
            it.incident_id for it in gc.get_objects() if type(it) is Incident and it.run_id == run.run_id
        ]

        assert 1 == len(in_memory)
        assert in_memory == [it.incident_id for it in monitor.get_recent_alerts()]

    def test_every_finding_can_be_read(self, monitor):
        """
        Findings are read from the store, with what is only noticed, newest first.
        """
        monitor.start_run()
        loop(monitor, 4)
        reported = monitor.get_findings(min_severity="MED")

        assert [0.67, 0.5] == [round(finding.score, 2) for finding in reported]
        assert [0.67, 0.5, 0.3] == [round(finding.score, 2) for finding in monitor.get_findings()]
        assert 1 == len(monitor.get_findings(limit=1))

    def test_callbacks_hear_every_finding(self, monitor):
        """
        A callback is called before `record_event` returns; with what is only noticed when it asks for that.
        """
        heard, everything = [], []
        monitor.on_drift(heard.append)
        monitor.on_drift(everything.append, min_severity="LOW")
        monitor.start_run()
        loop(monitor, 2)
        assert [] == heard
        loop(monitor, 1)

        assert ["MED"] == [finding.severity for finding in heard]
        assert ["LOW", "MED"] == [finding.severity for finding in everything]

    def test_a_limit_that_stays_passed_is_stored_now_and_then(self, limited):
        """
        Past a limit every decision has it and the incident goes on; few findings are stored and called back.
        """
        heard = []
        limited.on_drift(heard.append)
        run_id = limited.start_run()
        decisions = [
            limited.record_event("tool_call", f"step_{i}", token_count=1_000, input_data={"page": i})
            for i in range(60)
        ]
        limited.flush()

        past = [it for it in decisions for found in it.findings if found.detector == "resource_spike"]
        kept = limited.store.get_drift_events(limited.agent_id, run_id=run_id)
        assert (10, 1, 1) == (len(past), len(kept), len(heard))
        incident = limited.store.list_incidents(agent_id=limited.agent_id, run_id=run_id)[0]
        assert (50, 59, 10) == (incident.opened_seq, incident.last_seq, incident.findings)

    def test_callbacks_may_ask_for_the_worse_ones(self, monitor):
        """
        A callback that named a severity hears nothing milder.
        """
        heard = []
        monitor.on_drift(heard.append, min_severity="MED")
        monitor.start_run()
        loop(monitor, 3)

        assert ["MED"] == [finding.severity for finding in heard]

    def test_a_callback_may_record_events_itself(self, monitor):
        """
        A callback that records events is not called for what they show: no endless chain.
        """
        calls = []

        def again(finding):
            calls.append(finding)
            loop(monitor, 1)

        monitor.on_drift(again)
        monitor.start_run()
        loop(monitor, 3)

        assert 1 == len(calls)


class TestRuns:
    def test_without_a_run_one_begins(self, monitor):
        """
        An event outside of any run opens one.
        """
        monitor.record_event("tool_call", "search")
        monitor.flush()

        assert 1 == len(monitor.store.get_run_ids("researcher"))

    def test_a_context_manager_ends_its_run(self, monitor):
        """
        Leaving the block ends the run; an exception passes and becomes the outcome.
        """
        with pytest.raises(ZeroDivisionError), monitor.run(goal="divide") as run:
            raise ZeroDivisionError
        monitor.flush()

        kept = monitor.store.find_run(run.run_id)
        assert ("ended", "error: ZeroDivisionError", "divide") == (kept.state, kept.outcome, kept.goal)

    def test_runs_in_threads_do_not_mix(self, monitor):
        """
        Each thread has its own current run.
        """
        seen = {}
        barrier = threading.Barrier(4)

        def work(name):
            with monitor.run() as run:
                barrier.wait()
                for step in range(20):
                    monitor.record_event("tool_call", name, input_data={"step": step})
                seen[name] = run.run_id

        threads = [threading.Thread(target=work, args=(f"tool-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        for name, run_id in seen.items():
            assert [name] * 20 == [event.action_name for event in stored(monitor, run_id)]

    def test_runs_in_tasks_do_not_mix(self, monitor):
        """
        Each task has its own current run.
        """

        async def work(name):
            async with monitor.run() as run:
                for step in range(5):
                    await asyncio.sleep(0)
                    monitor.record_event("tool_call", name, input_data={"step": step})
            return run.run_id

        async def all_of_them():
            return await asyncio.gather(*(work(f"task-{n}") for n in range(5)))

        for n, run_id in enumerate(asyncio.run(all_of_them())):
            assert [f"task-{n}"] * 5 == [event.action_name for event in stored(monitor, run_id)]

    def test_a_run_inside_a_run_is_its_child(self, monitor, database):
        """
        A run that begins inside another names it as its parent, whichever monitor watches it.
        """
        helper = DriftMonitor("helper", db_path=database)
        with monitor.run() as outer, helper.run() as inner:
            helper.record_event("tool_call", "look")
        helper.flush()

        assert outer.run_id == helper.store.find_run(inner.run_id).parent_run_id
        helper.close()

    def test_thousands_of_live_runs_in_one_context(self, monitor):
        """
        However many runs a context has begun, the next one looks at few of them, and is the current one.
        """
        looked = []

        def count(frame, event, _):
            looked.extend([1] * (event == "call" and frame.f_code is live_runs._is_live.__code__))

        sys.setprofile(count)
        try:
            for n in range(500):
                monitor.start_run(f"run{n}")
        finally:
            sys.setprofile(None)

        assert len(looked) < 2 * 500
        assert "run499" == monitor.current_run
        for n in reversed(range(1, 500)):
            monitor.end_run(f"run{n}")
        assert "run0" == monitor.current_run

    def test_an_inner_run_gives_the_word_back(self, monitor):
        """
        After an inner run has ended, events belong to the outer one again.
        """
        with monitor.run() as outer:
            with monitor.run():
                monitor.record_event("tool_call", "inner")
            monitor.record_event("tool_call", "outer")

        assert ["outer"] == [event.action_name for event in stored(monitor, outer.run_id)]

    def test_a_run_put_aside_goes_on_elsewhere(self, database):
        """
        A loop begun in one process is found in the next: the run's memory survives.
        """
        first = DriftMonitor("researcher", db_path=database)
        first.start_run("session-1", goal="find it")
        loop(first, 3)
        first.suspend()
        first.close()
        second = DriftMonitor("researcher", db_path=database)
        assert "session-1" == second.start_run("session-1")
        second.flush()

        assert loop(second, 1)[0].drifting
        assert [0, 1, 2, 3] == [event.seq for event in stored(second, "session-1")]
        second.close()

    def test_a_run_taken_up_keeps_its_goal(self, database):
        """
        What a run was for, and when it began, is known when it goes on.
        """
        first = DriftMonitor("researcher", db_path=database)
        first.start_run("session-1", goal="find it")
        loop(first, 1)
        first.close()
        second = DriftMonitor("researcher", db_path=database, mode="guide")
        second.start_run("session-1")
        second.flush()

        assert "find it" in loop(second, 2)[-1].guidance
        second.close()

    @pytest.mark.usefixtures("quiet")
    def test_a_memory_that_cannot_be_read_is_a_new_run(self, database):
        """
        When the saved memory is of another version, the run goes on under another id: nothing is overwritten.
        """
        first = DriftMonitor("researcher", db_path=database)
        first.start_run("session-1")
        loop(first, 2)
        first.flush()
        first.store.write([SavedState("researcher", "session-1", b"not a state", 1.0)])
        first.runs.remove("session-1", ended=False)
        first.close()
        second = DriftMonitor("researcher", db_path=database)

        assert "session-1" == second.start_run("session-1")
        loop(second, 1)
        assert 2 == len(stored(second, "session-1"))
        assert 1 == len(stored(second, "session-1~2"))
        assert 1 == second.health.totals()["saved session of another version"]
        second.close()

    def test_closing_puts_live_runs_aside(self, database):
        """
        A run that is live when the monitor closes is not lost.
        """
        first = DriftMonitor("researcher", db_path=database)
        first.start_run("session-1")
        loop(first, 3)
        first.close()
        second = DriftMonitor("researcher", db_path=database)
        second.start_run("session-1")
        second.flush()

        assert loop(second, 1)[0].drifting
        second.close()

    def test_sampling_watches_a_share_of_the_runs(self, database):
        """
        With a rate of a half, about half of the runs are kept, and the same ones every time.
        """
        monitor = DriftMonitor("researcher", db_path=database, sample_rate=0.5)
        for n in range(200):
            with monitor.run(run_id=f"run-{n}"):
                monitor.record_event("tool_call", "search")
        monitor.flush()
        kept = set(monitor.store.get_run_ids("researcher", limit=1000))

        assert 60 < len(kept) < 140
        monitor.close()

    def test_detectors_can_be_switched_off_one_by_one(self, database):
        """
        A detector that is switched off finds nothing.
        """
        monitor = DriftMonitor("researcher", db_path=database, detectors={"action_loop": {"enabled": False}})
        monitor.start_run()

        assert not any(decision.findings for decision in loop(monitor, 10))
        monitor.close()


class Unspeakable:
    def __str__(self):
        raise RuntimeError("I do not speak")

    __repr__ = __str__


@pytest.mark.usefixtures("quiet")
class TestTheAgentNeverNotices:
    def test_any_object_may_arrive(self, monitor):
        """
        Whatever an argument is, it is reduced to something that can be kept, and nothing is raised.
        """
        endless = {}
        endless["itself"] = endless
        run_id = monitor.start_run()
        for odd in (
            dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            {1, "two", 3.0},
            b"\x00\xff",
            Unspeakable(),
            endless,
            {("a", 1): 2},
            float("nan"),
            10**400,
            "\ud800 half a pair",
            lambda: None,
            open,
        ):
            monitor.record_event("tool_call", "odd", input_data={"value": odd}, output_data=odd)

        assert 11 == len(stored(monitor, run_id))
        assert {} == monitor.health.totals()

    def test_a_name_or_an_error_without_a_text_is_kept(self, monitor):
        """
        A name or an error whose own text fails is recorded under the name of its type.
        """
        run_id = monitor.start_run()
        monitor.record_event("tool_call", Unspeakable(), error=Unspeakable())
        [event] = stored(monitor, run_id)

        assert ("Unspeakable", "Unspeakable") == (event.action_name, event.error)
        assert {} == monitor.health.totals()

    def test_wrong_numbers_are_survived(self, monitor):
        """
        A token count that is none, a negative time, a missing name: counted as nothing.
        """
        run_id = monitor.start_run()
        monitor.record_event("tool_call", "a", token_count="many", duration_ms=None)
        monitor.record_event("tool_call", "b", token_count=-5, duration_ms=float("nan"), timestamp="now")
        monitor.record_event("tool_call", None)

        assert [0, 0, 0] == [event.token_count for event in stored(monitor, run_id)]

    def test_a_callback_that_raises_is_counted(self, monitor):
        """
        A callback's error is ours to count, not the agent's to see.
        """

        def broken(finding):
            raise RuntimeError("in a callback")

        monitor.on_drift(broken, min_severity="MED")
        monitor.start_run()
        assert loop(monitor, 3)[-1].drifting

        assert {"error in on_drift callback": 1} == monitor.health.totals()

    def test_events_after_the_end_are_counted(self, monitor):
        """
        An event for a run that has ended is not kept, and that is counted.
        """
        run_id = monitor.start_run()
        monitor.end_run(run_id)
        decision = monitor.record_event("tool_call", "late", run_id=run_id)

        assert not decision.drifting
        assert {"event after the run's end": 1} == monitor.health.totals()

    def test_a_run_id_seen_twice_is_two_runs(self, monitor, database):
        """
        An id that this monitor used before gets a number behind it; another one returns it as it is.
        """
        assert "same" == monitor.start_run("same")
        assert "same~2" == monitor.start_run("same")
        monitor.end_run("same")
        monitor.end_run("same~2")
        assert "same~3" == monitor.start_run("same")
        monitor.end_run()
        monitor.close()
        again = DriftMonitor("researcher", db_path=database)

        assert "same" == again.start_run("same")
        loop(again, 1)
        assert 1 == len(stored(again, "same~4"))
        again.close()

    def test_a_failing_sink_is_counted(self, database):
        """
        A sink that always fails never reaches the agent; the store still gets everything.
        """

        class Broken(Sink):
            name = "broken"

            def write(self, records):
                raise OSError("gone")

        monitor = DriftMonitor("researcher", db_path=database, sinks=[Broken()])
        run_id = monitor.start_run()
        loop(monitor, 2)

        assert 2 == len(stored(monitor, run_id))
        assert "sink broken failed: OSError" in monitor.health.totals()
        monitor.close()

    def test_a_database_that_cannot_be_used_keeps_nobody_from_working(self, tmp_path, caplog):
        """
        With a damaged database the agent is still watched; nothing is kept, and that is said.
        """
        broken = tmp_path / "broken.db"
        broken.write_bytes(b"this is not a database" * 100)
        with caplog.at_level(logging.WARNING, logger="steadyhelm"):
            monitor = DriftMonitor("researcher", db_path=broken)
        monitor.start_run()

        assert loop(monitor, 4)[-1].drifting
        assert not monitor.flush().complete
        assert {"store cannot be opened": 4} == monitor.health.totals()
        assert "Steadyhelm keeps nothing" in caplog.text
        assert broken.read_bytes() == b"this is not a database" * 100
        monitor.close()

    def test_a_folder_that_is_gone(self, tmp_path, monkeypatch, caplog):
        """
        A relative path in a deleted working directory stops no agent; nothing is kept, and that is logged.
        """
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        monitor = DriftMonitor("agent", db_path="steadyhelm.db")
        monitor.record_event("tool_call", "search")
        monitor.close()

        assert "steadyhelm.db has no place" in caplog.text

    def test_losses_survive_the_process(self, monitor):
        """
        What was counted is in the store, for `steadyhelm doctor` to show.
        """
        monitor.health.count("queue full", 3)
        monitor.record_event("tool_call", "search")
        monitor.flush()

        assert 3 == monitor.store.get_losses()["queue full"]

    def test_disabled_means_off(self, database, monkeypatch):
        """
        `STEADYHELM_DISABLED=1` turns everything off, and leaves no trace.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = DriftMonitor("researcher", db_path=database)
        with monitor.run():
            assert not any(decision.drifting for decision in loop(monitor, 10))
        monitor.close()

        assert not database.exists()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_child_goes_on_as_a_child_run(self, monitor, database):
        """
        After a fork both processes record, each into a run of its own, and nothing is lost or doubled.
        """
        run_id = monitor.start_run()
        loop(monitor, 2)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                loop(monitor, 1)
                status = 0 if monitor.flush(60).complete else 2
            finally:
                os._exit(status)
        loop(monitor, 1)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        assert 3 == len(stored(monitor, run_id))
        child = monitor.store.find_run(f"{run_id}.{pid}")
        assert (run_id, 1) == (child.parent_run_id, child.events)


class TestPayloads:
    SECRET = "sk-abcdefghijklmnopqrstuvwx"

    def test_secrets_never_reach_the_disk(self, monitor, database):
        """
        A key in an argument, a result, an error, a goal or metadata is taken out before it is queued.
        """
        run_id = monitor.start_run(goal=f"use {self.SECRET}", metadata={"api_key": self.SECRET})
        monitor.record_event(
            "tool_call",
            "call",
            input_data={"api_key": "hunter2", "header": f"Bearer {self.SECRET}"},
            output_data={"text": f"ok {self.SECRET}"},
            error=f"refused {self.SECRET}",
            metadata={"note": self.SECRET},
        )
        monitor.flush()
        monitor.close()

        everything = b"".join(path.read_bytes() for path in database.parent.glob("test.db*"))
        assert self.SECRET.encode() not in everything
        assert b"hunter2" not in everything
        assert run_id.encode() in everything

    @pytest.mark.parametrize(("payloads", "text"), [("none", None), ("hashes", None), ("full", SECRET)])
    def test_what_is_kept_can_be_chosen(self, database, payloads, text):
        """
        Nothing, fingerprints only, or everything as it came.
        """
        monitor = DriftMonitor("researcher", db_path=database, payloads=payloads)
        run_id = monitor.start_run()
        decisions = [
            monitor.record_event("tool_call", "call", input_data={"q": self.SECRET}, output_data="same")
            for _ in range(4)
        ]
        event = stored(monitor, run_id)[0]

        assert text == (event.input_data or {}).get("q")
        assert (payloads == "none") == (event.call_hash == 0)
        assert decisions[-1].drifting, "detection works whatever is kept"
        monitor.close()


class TestLearning:
    def test_runs_teach_the_baseline(self, database):
        """
        After enough clean runs the baseline counts; until then it says how far it is.
        """
        monitor = DriftMonitor("researcher", db_path=database, calibration_runs=3)
        for n in range(3):
            with monitor.run(goal="count"):
                for step in range(4):
                    monitor.record_event("tool_call", "work", input_data={"n": step}, token_count=10)
            monitor.flush()
            expected = f"learning {n + 1}/3" if n < 2 else "calibrated on 3 runs"
            assert expected == monitor.get_baseline().progress

        baseline = monitor.get_baseline()
        assert (40.0, 4.0) == (baseline.mean_tokens_per_run, baseline.mean_tools_per_run)
        assert ["work", "work", "work", "work"] in baseline.common_sequences
        monitor.close()

    def test_a_run_with_an_incident_teaches_nothing(self, database):
        """
        What is wrong must not become what is normal.
        """
        monitor = DriftMonitor("researcher", db_path=database)
        with monitor.run():
            loop(monitor, 6)
        monitor.flush()

        assert 0 == monitor.get_baseline().calibration_runs
        monitor.close()

    def test_versions_and_tasks_learn_apart(self, database):
        """
        A new version, or another kind of task, starts a baseline of its own.
        """
        monitor = DriftMonitor("researcher", db_path=database, version="v1")
        with monitor.run():
            monitor.record_event("tool_call", "work")
        with monitor.run(task_type="report"):
            monitor.record_event("tool_call", "work")
        with monitor.run(version="v2"):
            monitor.record_event("tool_call", "work")
        monitor.flush()

        learnt = {
            (b.version, b.task_type): b.calibration_runs for b in monitor.store.list_baselines("researcher")
        }
        assert {("v1", ""): 1, ("v1", "report"): 1, ("v2", ""): 1} == learnt
        monitor.close()

    def test_the_status_says_what_is_not_checked(self, monitor):
        """
        A detector that cannot look yet says why.
        """
        status = monitor.status()

        assert "learning 0/30" == status["baseline"]
        assert "no goal was given" == status["not_checked"]["goal_drift"]

    def test_a_spike_is_seen_once_the_agent_is_known(self, database):
        """
        Ten times what this agent's runs take is reported, though no hard limit was passed.
        """
        monitor = DriftMonitor("researcher", db_path=database, calibration_runs=10)
        for n in range(10):
            with monitor.run():
                monitor.record_event("llm_request", "model", token_count=1000 + 20 * n)
        monitor.flush()
        with monitor.run():
            decision = monitor.record_event("llm_request", "model", token_count=10_000)

        assert ["resource_spike"] == [finding.detector for finding in decision.findings]
        monitor.close()


class TestWithStatement:
    def test_it_is_closed_at_the_end_of_the_block(self, database):
        """
        What was recorded is stored when the block ends, also by an error of the host's, which goes through.
        """

        def fail():
            with DriftMonitor("researcher", db_path=database) as monitor, monitor.run(run_id="r"):
                monitor.record_event("tool_call", "search")
                raise KeyError

        with pytest.raises(KeyError):
            fail()

        with closing(SQLiteStore(database, read_only=True)) as store:
            assert ["search"] == [it.action_name for it in store.get_run_traces("researcher", "r")]


class TestIncidents:
    def test_a_loop_is_one_incident(self, monitor):
        """
        However many findings a loop has, it is one incident, with its peak and what was answered.
        """
        monitor.start_run()
        loop(monitor, 12)
        monitor.end_run()
        monitor.flush()
        (incident,) = monitor.store.list_incidents("researcher")

        assert (10, 1.0, "closed") == (incident.findings, incident.peak, incident.state)
        assert Severity.CRITICAL == incident.severity
        assert DriftAction.INJECT_REMINDER == incident.interventions[0].action

    def test_quiet_steps_close_it(self, monitor):
        """
        After ten steps without a finding the incident is over, and the next loop is a new one.
        """
        monitor.start_run()
        loop(monitor, 4)
        for step in range(12):
            monitor.record_event("tool_call", "work", input_data={"step": step})
        loop(monitor, 4)
        monitor.flush()

        assert ["open", "closed"] == [
            incident.state for incident in monitor.store.list_incidents("researcher")
        ]


class TestReentry:
    def test_an_event_recorded_inside_another_is_let_through(self, database):
        """
        What the host's code records while we record an event of the same run comes behind it.

        What it records during that event in turn is counted: it would never end.
        """
        inner = []

        class Greedy(Detector):
            """Records an event of its own, as a finalizer or a log handler of the host may."""

            name = "greedy"
            kind = "loop"
            _memory = Struct()

            def check(self, event, baseline):
                inner.append(monitor.record_event("tool_call", "inside", run_id=event.run_id))

        monitor = DriftMonitor("researcher", db_path=database, make_detectors=lambda: [Greedy()])
        monitor.start_run("session-1")
        monitor.record_event("tool_call", "outside")
        monitor.record_event("tool_call", "outside")

        assert ["proceed"] * 4 == [decision.verdict for decision in inner]
        assert 4 == monitor.count_events("session-1")
        assert {"event recorded while another event was being recorded": 2} == monitor.health.totals()
        assert not monitor.flush().complete
        monitor.close()

    def test_asking_before_a_call_in_the_middle_of_an_event_loses_nothing(self, database):
        """
        What code inside an event asks before a call of its own is answered with "proceed", and noted.
        """
        answers = []

        class Asking(Detector):
            """Asks before a call, as a finalizer of the host may that uses a watched tool."""

            name = "asking"
            kind = "loop"
            _memory = Struct()

            def check(self, event, baseline):
                answers.append(monitor.before_tool("search", run_id=event.run_id).verdict)

        monitor = DriftMonitor("researcher", db_path=database, make_detectors=lambda: [Asking()])
        monitor.start_run("session-1")
        monitor.record_event("tool_call", "outside")

        assert ["proceed"] == answers
        assert {"call looked at while an event was being recorded": 1} == monitor.health.totals()
        assert monitor.flush().complete
        monitor.close()

    def test_the_hosts_objects_are_read_before_the_lock_is_taken(self, database):
        """
        An error whose text waits for another thread of the same run holds up nobody.
        """
        monitor = DriftMonitor("researcher", db_path=database)
        monitor.start_run("session-1")

        class SlowError(Exception):
            """Its text is there once another thread has recorded an event."""

            def __str__(self):
                other = threading.Thread(
                    target=monitor.record_event, args=("tool_call", "other"), kwargs={"run_id": "session-1"}
                )
                other.start()
                other.join(60)
                return "hung" if other.is_alive() else "done"

        monitor.record_event("tool_call", "fetch", error=SlowError())
        monitor.flush()
        names = [event.action_name for event in monitor.store.get_run_traces("researcher", "session-1")]

        assert "fetch" == names[-1]
        assert "other" in names
        monitor.close()


class TestTheGoal:
    @pytest.mark.parametrize("options", [{}, {"goal_drift": {"enabled": False}}])
    def test_the_engine_keeps_it(self, database, options):
        """
        Goal and user's words are followed whether or not a detector of goal drift looks.
        """
        monitor = DriftMonitor("researcher", db_path=database, detectors=options)
        monitor.start_run("session-1", goal="Book a flight to Oslo")
        reply = "I have looked for flights to Oslo, and there is one on Monday morning."
        monitor.record_event("user_message", "user", input_data={"text": "Book a flight to Oslo"})
        monitor.record_event("llm_request", "model", output_data={"text": reply})
        monitor.record_event(
            "user_message", "user", input_data={"text": "The flight must leave in the evening."}
        )
        drift = monitor.runs.get("session-1").session.drift
        before = (drift.goal, drift.user_words)
        monitor.record_event("llm_request", "model", output_data={"text": reply})
        said = "Forget the flight. New task: translate the rental contract into French."
        monitor.record_event("user_message", "user", input_data={"text": said})

        assert ("Book a flight to Oslo", "The flight must leave in the evening.") == before
        assert (said, "") == (drift.goal, drift.user_words)
        monitor.close()
