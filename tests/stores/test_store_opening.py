import multiprocessing
import os
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest

from steadyhelm.errors import BrokenStoreError, NewerStoreError, SettingsError, StoreError
from steadyhelm.stores import opening
from steadyhelm.stores.schema import APPLICATION_ID, MIGRATIONS, Migration
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import an_event

NOTES = Migration("0900-notes", ("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)",))
FAILING = Migration("0901-failing", ("CREATE TABLE half (id)", "CREATE TABLE runs (id)"))
LATER = (*MIGRATIONS, NOTES)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def tables(path):
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def make_newer(path):
    SQLiteStore(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES ('0999-from-the-future', 0)")


def make_foreign(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE somebody_elses (id)")


def make_foreign_with_log(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE somebody_elses (id)")


def make_truncated(path):
    store = SQLiteStore(path)
    store.write([an_event(seq) for seq in range(500)])
    store.close()
    os.truncate(path, path.stat().st_size // 2)


def make_without_record(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("CREATE TABLE runs (id)")


class TestNewFile:
    def test_only_its_owner_may_read_it(self, tmp_path):
        """
        The file and the folders made for it are their owner's alone, whatever the umask.
        """
        before = os.umask(0)
        try:
            path = tmp_path / "a" / "b" / "runs.db"
            store = SQLiteStore(path)
            store.write([an_event()])
            modes = {file.name: mode(file) for file in path.parent.iterdir()}
            store.close()
        finally:
            os.umask(before)

        assert {0o600} == set(modes.values())
        assert [0o700, 0o700] == [mode(path.parent), mode(path.parent.parent)]

    def test_it_is_recognisable(self, path):
        """
        A file of ours says so in its header, and is written ahead.
        """
        SQLiteStore(path).close()

        with closing(sqlite3.connect(path)) as connection:
            asked = ("application_id", "user_version", "journal_mode", "auto_vacuum")
            answers = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
        assert [APPLICATION_ID, len(MIGRATIONS), "wal", 2] == answers

    def test_nothing_else_is_left_behind(self, path):
        """
        Making and closing a store leaves one file.
        """
        SQLiteStore(path).close()

        assert ["runs.db"] == [file.name for file in path.parent.iterdir()]

    def test_an_empty_file_is_a_new_one(self, path):
        """
        A file without a byte in it becomes a store.
        """
        path.touch()
        store = SQLiteStore(path)
        store.write([an_event()])
        store.close()

        assert [] == SQLiteStore(path, read_only=True).check()

    def test_many_processes_may_make_it(self, path):
        """
        Processes that all find no file end up with the same one.
        """
        context = multiprocessing.get_context("spawn")
        with context.Pool(3) as pool:
            pool.starmap(write_one, [(str(path), number) for number in range(6)])

        store = SQLiteStore(path)
        assert (6, []) == (store.find_run("run").events, store.check())
        store.close()

    @pytest.mark.parametrize("name", ["", ":memory:"])
    def test_it_must_be_a_file(self, name):
        """
        A path that names no file is refused with the setting and the value.
        """
        with pytest.raises(SettingsError, match="db must name a file"):
            SQLiteStore(name)

    def test_names_are_not_addresses(self, tmp_path):
        """
        Characters that mean something in an address are part of the file's name.
        """
        path = tmp_path / "a?b#c%20 d.db"
        SQLiteStore(path).close()

        assert path.exists()

    def test_a_folder_is_no_file(self, tmp_path):
        """
        A folder is refused with a hint.
        """
        with pytest.raises(StoreError, match="is a folder"):
            SQLiteStore(tmp_path)

    def test_an_impossible_place(self, tmp_path):
        """
        A place where nothing can be made is named together with the setting.
        """
        (tmp_path / "file").touch()

        with pytest.raises(StoreError, match=r"cannot be created.*setting db"):
            SQLiteStore(tmp_path / "file" / "runs.db")

    def test_synchronous_is_checked(self, path):
        """
        A level of safety that does not exist is refused.
        """
        with pytest.raises(SettingsError, match="synchronous must be one of NORMAL, FULL, got 'OFF'"):
            SQLiteStore(path, synchronous="OFF")

    def test_full_is_full(self, path):
        """
        The careful level reaches SQLite.
        """
        store = SQLiteStore(path, synchronous="FULL")
        with store._connections.transaction() as connection:
            level = connection.execute("PRAGMA synchronous").fetchone()
        store.close()

        assert (2,) == level


def write_one(path, number):
    store = SQLiteStore(path)
    store.write([an_event(number)])
    store.close()


class TestWrongFile:
    @pytest.mark.parametrize(
        ("make", "error", "words"),
        [
            (lambda path: path.write_bytes(b"just some words, " * 99), BrokenStoreError, "not a database"),
            (lambda path: path.write_bytes(b"short"), BrokenStoreError, "not a database"),
            (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 9000), BrokenStoreError, "not"),
            (make_foreign, BrokenStoreError, "not one of Steadyhelm's"),
            (make_foreign_with_log, BrokenStoreError, "not one of Steadyhelm's"),
            (make_truncated, BrokenStoreError, "damaged"),
            (make_without_record, BrokenStoreError, "lacks the record"),
            (make_newer, NewerStoreError, "0999-from-the-future.*Upgrade steadyhelm"),
        ],
        ids=["text", "short", "garbage", "foreign", "foreign-wal", "truncated", "no-record", "newer"],
    )  # fmt: skip
    @pytest.mark.parametrize("read_only", [False, True])
    def test_it_is_named_and_left_alone(self, path, make, error, words, read_only):
        """
        A file that is not ours to open is named with what to do, and not a byte of it or beside it changes.
        """
        make(path)
        before = contents(path.parent)

        with pytest.raises(error, match=words) as raised:
            SQLiteStore(path, read_only=read_only)
        assert str(path) in str(raised.value)
        assert before == contents(path.parent)

    def test_damage_inside_is_found_when_it_is_met(self, store, path):
        """
        A damaged page gives a clear error where it is read, and a fault in the check.
        """
        store.write([an_event(seq, run_id=f"run-{seq}") for seq in range(2000)])
        store.close()
        with path.open("r+b") as file:
            for page in range(120, 260, 3):  # behind the schema itself
                file.seek(page * 4096)
                file.write(b"\xa5" * 4096)
        damaged = SQLiteStore(path)

        assert damaged.check()
        with pytest.raises(BrokenStoreError, match="damaged"):
            [list(damaged.iter_run_events("agent", f"run-{seq}")) for seq in range(2000)]
        damaged.close()


class TestMigration:
    def test_steps_run_in_order_and_are_recorded(self, store, path):
        """
        An older file gets the steps it lacks, each recorded, and keeps what it holds.
        """
        store.write([an_event()])
        store.close()
        opening.prepare(path, migrations=LATER)

        assert [step.name for step in LATER] == opening.read_applied_migrations(path, migrations=LATER)
        with closing(sqlite3.connect(path)) as connection:
            assert (len(LATER),) == connection.execute("PRAGMA user_version").fetchone()
            assert (1,) == connection.execute("SELECT count(*) FROM events").fetchone()
        with pytest.raises(NewerStoreError):
            SQLiteStore(path)

    def test_a_backup_comes_first(self, store, path):
        """
        Before a step is applied the file as it was is put beside it, for its owner alone.
        """
        store.write([an_event()])
        store.close()
        opening.prepare(path, migrations=LATER)
        backup = path.with_name("runs.db.before-0900-notes.bak")

        assert 0o600 == mode(backup)
        assert "notes" not in tables(backup)
        shutil.move(backup, path)
        older = SQLiteStore(path)
        assert 1 == older.find_run("run").events
        older.close()

    def test_backups_are_not_overwritten(self, store, path):
        """
        A backup of that name that is there already stays.
        """
        store.close()
        path.with_name("runs.db.before-0900-notes.bak").write_text("precious")
        opening.prepare(path, migrations=LATER)

        assert "precious" == path.with_name("runs.db.before-0900-notes.bak").read_text()
        assert path.with_name("runs.db.before-0900-notes.bak.2").exists()

    def test_a_failing_step_leaves_no_half(self, store, path):
        """
        A step that fails is taken back whole; the steps before it stay.
        """
        store.close()

        with pytest.raises(StoreError, match="already exists"):
            opening.prepare(path, migrations=(*LATER, FAILING))
        assert "half" not in tables(path)
        assert [step.name for step in LATER] == opening.read_applied_migrations(
            path, migrations=(*LATER, FAILING)
        )

    def test_a_new_file_needs_no_backup(self, path):
        """
        A file that is made now has all steps and no backup.
        """
        opening.prepare(path, migrations=LATER)

        assert ["runs.db"] == [file.name for file in path.parent.iterdir()]

    def test_names_are_unique(self):
        """
        No two steps share a name, and their order is that of their names.
        """
        names = [migration.name for migration in MIGRATIONS]

        assert sorted(set(names)) == names


class TestReadOnly:
    def test_nothing_is_created(self, path):
        """
        A file that is not there is not made.
        """
        with pytest.raises(StoreError, match="no database at"):
            SQLiteStore(path, read_only=True)
        assert not path.exists()

    def test_an_empty_file_stays_empty(self, path):
        """
        An empty file holds nothing to read, and stays empty.
        """
        path.touch()

        with pytest.raises(StoreError, match="nothing has been written"):
            SQLiteStore(path, read_only=True)
        assert 0 == path.stat().st_size

    def test_it_reads_and_does_not_write(self, store, path):
        """
        A reader sees what a writer commits, and cannot write.
        """
        reader = SQLiteStore(path, read_only=True)
        store.write([an_event()])

        assert 1 == reader.find_run("run").events
        with pytest.raises(StoreError, match="for reading only"):
            reader.write([an_event(1)])
        with pytest.raises(StoreError, match="for reading only"):
            reader.prune()
        reader.close()

    def test_an_older_file_is_not_migrated(self, store, path, monkeypatch):
        """
        A reader does not bring a file up to date, and says who does.
        """
        store.close()
        monkeypatch.setattr("steadyhelm.stores.opening.MIGRATIONS", LATER)

        with pytest.raises(StoreError, match=r"lacks the step '0900-notes'.*for writing"):
            SQLiteStore(path, read_only=True)
