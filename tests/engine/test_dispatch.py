import threading

import pytest

from steadyhelm.engine.dispatch import Dispatch
from steadyhelm.engine.health import Health
from steadyhelm.sink import Loss, RecordedEvent, Sink
from steadyhelm.testing import events


class Kept(Sink):
    """Keeps every batch; may be told to wait or to fail first."""

    name = "kept"

    def __init__(self, *, failures=0, refuses=None):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.failures = failures
        self.refuses = refuses
        self.closed = 0

    def write(self, records):
        self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("no space left")
        if self.refuses is not None and any(self.refuses(record) for record in records):
            raise ValueError("a record I cannot take")
        self.batches.append(list(records))

    def close(self):
        self.closed += 1

    @property
    def seqs(self):
        records = [record for batch in self.batches for record in batch]
        return [record.event.seq for record in records if isinstance(record, RecordedEvent)]


def recorded(picture):
    return [RecordedEvent.of(event) for event in events(picture)]


@pytest.fixture
def health():
    return Health()


class TestDispatch:
    def test_every_sink_gets_every_record_in_order(self, health):
        """
        What is put in comes out at every sink, in the order it was put in.
        """
        first, second = Kept(), Kept()
        dispatch = Dispatch([first, second], health=health)
        for record in recorded("." * 30):
            dispatch.put("", record)

        assert dispatch.flush().complete
        assert list(range(30)) == first.seqs == second.seqs

    def test_one_failing_sink_does_not_starve_the_others(self, health):
        """
        A sink that always fails costs the others nothing, and its losses are counted by reason.
        """
        broken, sound = Kept(refuses=lambda record: True), Kept()
        dispatch = Dispatch([broken, sound], health=health)
        dispatch.put("", *recorded("..."))
        dispatch.flush()

        assert [0, 1, 2] == sound.seqs
        assert {"sink kept failed: ValueError": 3} == health.totals()

    def test_a_passing_failure_loses_nothing(self, health):
        """
        A sink that fails and recovers gets the same batch again.
        """
        sink = Kept(failures=2)
        dispatch = Dispatch([sink], health=health)
        dispatch.put("", *recorded("..."))
        dispatch.flush()

        assert [0, 1, 2] == sink.seqs
        assert {} == health.totals()

    def test_one_bad_record_does_not_take_its_batch_with_it(self, health):
        """
        When a batch cannot be written, each of its records is tried alone.
        """
        sink = Kept(refuses=lambda record: isinstance(record, RecordedEvent) and record.event.seq == 1)
        dispatch = Dispatch([sink], health=health)
        dispatch.put("", *recorded("...."))
        dispatch.flush()

        assert [0, 2, 3] == sink.seqs
        assert {"sink kept failed: ValueError": 1} == health.totals()

    def test_a_full_queue_drops_and_counts(self, health):
        """
        When sinks cannot keep up, further events are dropped and counted: the agent never waits.
        """
        sink = Kept()
        sink.gate.clear()
        dispatch = Dispatch([sink], health=health, cap=5, batch=1)
        kept = [dispatch.put("", record) for record in recorded("." * 20)]
        sink.gate.set()
        dispatch.flush()

        dropped = kept.count(False)
        assert dropped >= 14
        assert dropped == health.totals()["queue full"]
        assert kept.count(True) == len(sink.seqs)

    def test_what_is_not_an_event_is_never_dropped(self, health):
        """
        Findings, incidents and ends of runs go in even when the queue is full.
        """
        sink = Kept()
        sink.gate.clear()
        dispatch = Dispatch([sink], health=health, cap=1, batch=1)
        for record in recorded("." * 10):
            dispatch.put("", record)

        assert dispatch.put("", Loss("anything", 1, 0.0))
        sink.gate.set()
        dispatch.close()

    def test_losses_reach_the_sinks_too(self, health):
        """
        What was counted since the last batch is handed on with the next.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health)
        health.count("queue full", 7)
        dispatch.put("", *recorded("."))
        dispatch.flush()

        losses = [record for record in sink.batches[0] if isinstance(record, Loss)]
        assert [("queue full", 7)] == [(loss.reason, loss.count) for loss in losses]

    def test_flush_says_when_time_ran_out(self, health):
        """
        A flush that could not finish in time says so, and how much is left.
        """
        sink = Kept()
        sink.gate.clear()
        dispatch = Dispatch([sink], health=health)
        dispatch.put("", *recorded(".."))
        result = dispatch.flush(timeout_s=0.05)
        sink.gate.set()

        assert not result.complete
        assert 2 == result.remaining
        assert dispatch.flush().complete

    def test_durable_acknowledges_after_the_write(self, health):
        """
        In durable mode an acknowledged record has been written.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health, durable=True)
        for record in recorded("." * 5):
            dispatch.put("", record)
            dispatch.acknowledge()

            assert record.event.seq == sink.seqs[-1]

    def test_closing_writes_what_is_queued(self, health):
        """
        Closing writes what is left, closes each sink once, and may be done twice.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health)
        dispatch.put("", *recorded("..."))
        dispatch.close()
        dispatch.close()

        assert [0, 1, 2] == sink.seqs
        assert 1 == sink.closed

    def test_after_closing_records_are_counted_as_lost(self, health):
        """
        A record that comes after the close is not kept, and that is counted.
        """
        dispatch = Dispatch([Kept()], health=health)
        dispatch.close()

        assert not dispatch.put("", *recorded(".."))
        assert {"recorded after close": 2} == health.totals()

    def test_runs_that_begin_while_it_closes_are_refused(self, health):
        """
        What a run records that begins while the monitor closes is counted as lost; live runs are saved.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health)
        dispatch.refuse("new")
        before, after = recorded("..")

        assert dispatch.put("live", before)
        assert not dispatch.put("new", after)
        dispatch.close()
        assert 1 == len(sink.seqs)
        assert {"recorded after close": 1} == health.totals()

    def test_many_threads_lose_nothing(self, health):
        """
        Records put in from eight threads at once all come out once.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health, cap=10_000)
        records = recorded("." * 100)
        threads = [
            threading.Thread(target=lambda: [dispatch.put("", record) for record in records])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        dispatch.flush()

        assert sorted(list(range(100)) * 8) == sorted(sink.seqs)

    def test_what_comes_during_a_batch_waits_for_company(self, health):
        """
        Records that come while a batch is written are written together, with what follows them.
        """
        writing, written = threading.Event(), threading.Event()

        class Slow(Kept):
            def write(self, records):
                writing.set()
                super().write(records)
                written.set()

        sink = Slow()
        sink.gate.clear()
        dispatch = Dispatch([sink], health=health, linger_s=60.0)
        first, second, third = recorded("...")
        dispatch.put("", first)
        assert writing.wait(60)
        dispatch.put("", second)
        sink.gate.set()
        assert written.wait(60)
        dispatch.put("", third)

        assert dispatch.flush(60).complete
        assert [[first], [second, third]] == sink.batches

    def test_a_job_runs_on_the_writers_thread(self, health):
        """
        A job runs on the writer's thread without anything being queued.
        """
        dispatch = Dispatch([Kept()], health=health, linger_s=60.0)
        ran, names = threading.Event(), []

        def job():
            names.append(threading.current_thread().name)
            ran.set()

        assert dispatch.run_on_writer(job)
        assert ran.wait(60)
        assert ["steadyhelm-writer"] == names

    @pytest.mark.usefixtures("quiet")
    def test_a_job_that_fails_does_not_end_the_writer(self, health):
        """
        What a job raises is counted, and the writer goes on.
        """
        sink = Kept()
        dispatch = Dispatch([sink], health=health)
        dispatch.run_on_writer(lambda: 1 / 0)
        dispatch.put("", *recorded("."))

        assert dispatch.flush().complete
        assert [0] == sink.seqs
        assert {"error in job of the writer": 1} == health.totals()

    def test_no_job_after_the_close(self, health):
        """
        After the close no job is taken.
        """
        dispatch = Dispatch([Kept()], health=health)
        dispatch.close()

        assert not dispatch.run_on_writer(lambda: None)

    def test_a_repeated_job_runs_without_any_record(self, health):
        """
        The repeated job runs again and again on the writer's thread, also while nothing is recorded.
        """
        dispatch = Dispatch([Kept()], health=health)
        ran = threading.Semaphore(0)
        dispatch.repeated_job = ran.release
        dispatch.run_on_writer(lambda: None)

        assert ran.acquire(timeout=60)
        assert ran.acquire(timeout=60)
        dispatch.close()

    def test_a_mark_says_what_is_written(self, health):
        """
        A mark is written once everything that was put before it is.
        """
        sink = Kept()
        sink.gate.clear()
        dispatch = Dispatch([sink], health=health)
        dispatch.put("", *recorded("."))
        mark = dispatch.get_mark()

        assert not dispatch.is_written(mark)
        sink.gate.set()
        assert dispatch.flush().complete
        assert dispatch.is_written(mark)
