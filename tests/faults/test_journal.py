"""The journal: what is in it when its writer dies, and what the next writer makes of it."""

import os
import stat
import threading
import time

import pytest
from fault_tools import Account, adopt, find_journals, locked, make_monitor, record, wait_until
from msgspec import structs

from steadyhelm.events import RunInfo
from steadyhelm.journal import files
from steadyhelm.journal.abandoned import claim, describe_pending, forget, list_pending
from steadyhelm.journal.files import HEADER, Journal
from steadyhelm.journal.frames import Damage, encode_frame, scan_frames
from steadyhelm.sink import Loss, RecordedEvent, SavedState
from steadyhelm.testing import events


def recorded(count):
    now = time.time()
    return [RecordedEvent.of(structs.replace(event, timestamp=now)) for event in events("." * count)]


def leave_behind(database, *groups, epoch="epoch"):
    """Leave a journal as a dead writer does; return its path and where each frame begins."""
    make_monitor(database).close()
    journal = Journal(find_journals(database), cap=1 << 30)
    (path,) = journal.paths
    places = []
    for group in groups:
        places.append(path.stat().st_size)
        journal.append(encode_frame(epoch, group), 0, may_refuse=False)
    journal.close(keep=True)
    return path, places


def try_claim(path):
    journal = claim(path)
    if journal is None:
        return False
    with journal:
        return True


def change(path, place, content):
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


class TestFrames:
    def test_records_come_back(self, tmp_path):
        """
        Records of every kind come back from a frame as they were.
        """
        (event,) = recorded(1)
        info = RunInfo(agent_id="a", run_id="r", goal="go", metadata={"k": [1, None]}, epoch="e")
        group = [info, event, SavedState("a", "r", b"\x00state", 2.0), Loss("why", 3, 1.0, "token")]
        path = tmp_path / "frames"
        path.write_bytes(encode_frame("e", group))
        with path.open("rb") as file:
            ((_, entries),) = scan_frames(file.fileno(), 0, path.stat().st_size)

        records = [record for _, record in entries]
        assert ["e"] * 4 == [epoch for epoch, _ in entries]
        assert [group[0], *group[2:]] == [records[0], *records[2:]]
        assert event.event.seq == records[1].event.seq
        assert (event.input_json, event.output_json) == (records[1].input_json, records[1].output_json)

    def test_odd_values_are_replaced(self):
        """
        Text that is no Unicode and numbers that fit nowhere do not keep a record out of the journal.
        """
        assert encode_frame("e", [RunInfo(agent_id="a\ud800", run_id="r", started_at=float("inf"))])
        assert encode_frame("e", [Loss("\udfff", 10**30, 0.0)])


class TestAppending:
    def test_only_the_owner_can_read_it(self, database):
        """
        A journal is a file of mode 0600 beside a database that is a file, or in Steadyhelm's own folder.
        """
        monitor = make_monitor(database)
        (path,) = list_pending(find_journals(database))

        assert find_journals(database).parent == path.parent
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        monitor.close()
        assert [] == list_pending(find_journals(database))

    def test_it_is_empty_once_everything_is_stored(self, database):
        """
        What is stored is deleted from the journal.
        """
        monitor = make_monitor(database)
        with monitor.run():
            record(monitor, 100)
        monitor.flush()
        (path,) = list_pending(find_journals(database))

        wait_until(lambda: path.stat().st_size == HEADER.size)
        monitor.close()

    def test_a_long_one_goes_on_in_a_new_file(self, database, monkeypatch):
        """
        A journal does not grow while records are stored: long files are deleted when they are.
        """
        monkeypatch.setattr(files, "SEGMENT_BYTES", 20_000)
        monitor = make_monitor(database)
        seen, count = set(), 6000
        with monitor.run(run_id="run"):
            with locked(database):
                record(monitor, 6000)
            until = time.monotonic() + 60
            while len(seen) < 2 and time.monotonic() < until:  # until the writer had its turn
                record(monitor, 200)
                count += 200
                seen.update(list_pending(find_journals(database)))
                time.sleep(0.05)
        monitor.flush(60)
        wait_until(
            lambda: sum(path.stat().st_size for path in list_pending(find_journals(database))) == HEADER.size
        )
        monitor.close()

        account = Account(database)
        assert len(seen) > 1
        assert ({"run": count}, 0) == (account.runs, account.lost)

    def test_reading_goes_on_behind_a_deleted_file(self, database):
        """
        The writer reads on in the next file when the one where it stopped is stored and deleted.
        """
        first, second = recorded(2)
        find_journals(database).parent.mkdir(parents=True, exist_ok=True)
        journal = Journal(find_journals(database), cap=1 << 30)
        journal.append(encode_frame("e", [first]), 1, may_refuse=False)
        journal.mark()
        journal.continue_in(journal.create_file())
        journal.append(encode_frame("e", [second]), 2, may_refuse=False)
        journal.discard(1)
        entries, damaged = journal.read(10)
        journal.close(keep=False)

        assert ([second.event.seq], 0) == ([record.event.seq for _, record in entries], damaged)

    def test_order_is_kept_beyond_the_cap(self, database):
        """
        Records that were in the file alone are stored in the order they were recorded.
        """
        monitor = make_monitor(database)
        with monitor.run(run_id="run"), locked(database):
            record(monitor, 7000)
        assert monitor.flush(60).complete
        names = [event.input_data for event in monitor.store.get_run_traces("agent", "run")]
        run = monitor.store.find_run("run")
        monitor.close()

        assert list(range(7000)) == names
        assert "ended" == run.state

    def test_a_signal_handler_records_too(self, database):
        """
        A record that is put while its thread is putting another one is kept behind it.
        """
        monitor = make_monitor(database)
        backlog = monitor._dispatch._backlog
        append, inner = backlog.journal.append, []

        def interrupted(*args, **options):
            if not inner:
                inner.append(True)
                record(monitor, 1, "inner")
            return append(*args, **options)

        backlog.journal.append = interrupted
        record(monitor, 3, "outer")
        monitor.flush(60)
        monitor.close()

        assert {"outer": 3, "inner": 1} == Account(database).runs


class TestAdopting:
    def test_a_killed_writer_between_commit_and_truncation(self, database):
        """
        What is stored already and still in the journal is not stored twice.
        """
        monitor = make_monitor(database)
        with monitor.run(run_id="run"):
            record(monitor, 30)
        backlog = monitor._dispatch._backlog
        (path,) = list_pending(find_journals(database))
        wait_until(lambda: path.stat().st_size > HEADER.size)
        kept = path.read_bytes()
        monitor.close()
        path.write_bytes(kept)
        assert backlog.remaining == 0
        adopt(database)

        account = Account(database)
        assert ({"run": 30}, 0, []) == (account.runs, account.lost, account.faults)

    def test_a_torn_last_frame(self, database):
        """
        A frame that was not finished was never answered: everything before it is stored.
        """
        path, places = leave_behind(database, *([it] for it in recorded(5)))
        os.truncate(path, places[4] + 20)
        adopt(database)

        account = Account(database)
        assert (4, 0) == (account.stored, account.lost)

    def test_a_damaged_frame_in_the_middle(self, database):
        """
        A damaged frame costs the records in it, which are counted, and no others.
        """
        group = recorded(7)
        path, places = leave_behind(database, group[:2], group[2:5], group[5:])
        change(path, places[1] + 30, b"\x00\xff\x00")
        adopt(database)

        account = Account(database)
        assert (4, 3) == (account.stored, account.lost)

    def test_damage_in_a_journal_from_which_records_are_deleted(self, database):
        """
        When records are deleted from a damaged journal, those that cannot be read are still counted.
        """
        group = recorded(7)
        path, places = leave_behind(database, group[:2], group[2:5], group[5:])
        change(path, places[1] + 30, b"\x00\xff\x00")
        forget(find_journals(database), lambda it: it.event.seq == 0)
        adopt(database)

        account = Account(database)
        assert (3, 3) == (account.stored, account.lost)

    def test_one_that_cannot_be_read_keeps_none_behind_it(self, database):
        """
        What the disk does not read, as a pipe in place of a journal, is left alone; the next one is stored.
        """
        path, _ = leave_behind(database, recorded(3))
        pipe = path.with_name(f"{find_journals(database).name}.00000000000first.pending")
        os.mkfifo(pipe)
        try:
            adopter = make_monitor(database, "adopter")
            wait_until(lambda: not path.exists())
            adopter.close(60)
            assert [False] == [it.is_readable for it in describe_pending(find_journals(database))]
        finally:
            pipe.unlink()

        assert 3 == Account(database).stored

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    def test_a_child_keeps_no_lock(self, database):
        """
        A child that was forked while a journal was being read does not keep it from others.
        """
        path, _ = leave_behind(database, recorded(3))
        waiting, releasing = os.pipe()
        with claim(path):
            child = os.fork()
            if child == 0:
                os.close(releasing)
                os.read(waiting, 1)
                os._exit(0)
        wait_until(lambda: try_claim(path))
        os.write(releasing, b"x")
        os.waitpid(child, 0)

    @pytest.mark.parametrize("count", [b"\x00\x00", b"\xff\xff"])
    def test_a_damaged_count(self, database, count):
        """
        A frame whose count of records alone is damaged is whole, and stored.
        """
        path, places = leave_behind(database, *([it] for it in recorded(3)))
        change(path, places[1] + 2, count)
        adopt(database)

        account = Account(database)
        assert (3, 0) == (account.stored, account.lost)

    def test_a_damaged_head(self, database):
        """
        Of a frame whose head is damaged as a whole, the records behind it are counted.
        """
        group = recorded(6)
        path, places = leave_behind(database, group[:1], group[1:5], group[5:])
        change(path, places[1], b"\xff" * 12)
        adopt(database)

        account = Account(database)
        assert (2, 4) == (account.stored, account.lost)

    def test_a_journal_of_the_first_version(self, database):
        """
        A journal that an older version left is stored as well.
        """
        path, places = leave_behind(database, recorded(3))
        content = path.read_bytes()
        path.write_bytes(content[:8] + b"\x01\x00\x00\x00" + content[places[0] :])
        adopt(database)

        account = Account(database)
        assert (3, 0) == (account.stored, account.lost)

    def test_a_damaged_length(self, database):
        """
        After a frame whose length is damaged the next one is found again.
        """
        group = recorded(6)
        path, places = leave_behind(database, *([it] for it in group))
        change(path, places[2], b"\xff" * 12)
        adopt(database)

        account = Account(database)
        assert (5, 1) == (account.stored, account.lost)

    def test_damage_is_counted_once(self, database):
        """
        A damaged journal that is read several times is counted as one.
        """
        path, places = leave_behind(database, *([it] for it in recorded(3)))
        change(path, places[1] + 30, b"\x00\xff\x00")
        content = path.read_bytes()
        for _ in range(3):
            path.write_bytes(content)
            adopt(database)

        account = Account(database)
        assert (2, 1) == (account.stored, account.lost)

    def test_a_newer_version(self, database):
        """
        A journal of a newer version is left as it is, and named.
        """
        path, _ = leave_behind(database, recorded(3))
        change(path, 8, b"\x09")
        monitor = make_monitor(database)
        wait_until(monitor.health.totals)
        monitor.close()

        (pending,) = describe_pending(find_journals(database))
        assert {"journal that cannot be read was left as it is": 1} == monitor.health.totals()
        assert (str(path), False, False) == (pending.path, pending.is_readable, pending.is_live)

    def test_a_live_writers_journal_is_left_alone(self, database):
        """
        Nothing takes the journal of a writer that is alive.
        """
        first, second = make_monitor(database, "first"), make_monitor(database, "second")
        with locked(database):
            record(first, 20)
            record(second, 20)
            pending = describe_pending(find_journals(database))
            assert [True, True] == [it.is_live for it in pending]
            assert [None, None] == [claim(path) for path in list_pending(find_journals(database))]
        first.close()
        second.close()

        assert 40 == Account(database).stored

    def test_two_adopters(self, database):
        """
        Several monitors that find the same journal store it once.
        """
        leave_behind(database, *([it] for it in recorded(200)))
        threads = [threading.Thread(target=adopt, args=(database,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        account = Account(database)
        assert (200, 0, []) == (account.stored, account.lost, account.faults)

    def test_a_writer_that_died_at_once(self, database):
        """
        A journal with less than a header in it is deleted.
        """
        make_monitor(database).close()
        beside = find_journals(database)
        beside.with_name(beside.name + ".dead.pending").write_bytes(b"STDY")
        adopt(database)

        assert [] == list_pending(find_journals(database))


class TestReading:
    def test_any_damage_ends(self, tmp_path):
        """
        Whatever bytes are in a journal, reading it ends, and what is whole is found.
        """
        frames = [encode_frame("e", [it]) for it in recorded(4)]
        for place in range(0, len(frames[0]) * 3, 7):
            content = bytearray(b"".join(frames))
            content[place : place + 3] = b"\xf5\x9d\xf5"
            path = tmp_path / "frames"
            path.write_bytes(content)
            with path.open("rb") as file:
                found = [it for _, it in scan_frames(file.fileno(), 0, len(content))]
            whole = sum(len(it) for it in found if not isinstance(it, Damage))
            damaged = sum(it.records for it in found if isinstance(it, Damage))
            assert whole >= 2
            assert damaged or whole == 4 or place == 0
