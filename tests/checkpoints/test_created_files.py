"""Files that a run has created since a checkpoint: a rollback removes them, and no others."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm import DriftMonitor
from steadyhelm.checkpoints.files import restore_files, snapshot_files
from steadyhelm.testing.checkpoint_checks import a_checkpoint


@pytest.fixture
def root(tmp_path):
    """A folder an agent works in."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a")
    return folder


def list_files(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


class TestRemoved:
    def test_what_the_run_created_is_removed(self, root):
        """
        A new file in a folder of the snapshot is removed if the run is known to have created it.
        """
        before = snapshot_files("src", root)
        (root / "src" / "new.py").write_text("new")
        (root / "src" / "in").mkdir()
        (root / "src" / "in" / "deep.py").write_text("deep")
        restored = restore_files(before, root, created=["src/new.py", root / "src" / "in" / "deep.py"])

        assert ["src/a.py"] == list_files(root)
        assert ("src/in/deep.py", "src/new.py") == restored.removed
        assert () == restored.left

    def test_others_are_left_and_named(self, root):
        """
        A new file that nobody is known to have created in the run stays, and the result says so.
        """
        before = snapshot_files("src", root)
        (root / "src" / "mine.txt").write_text("somebody else's")
        restored = restore_files(before, root)

        assert ["src/a.py", "src/mine.txt"] == list_files(root)
        assert (("src/mine.txt",), ()) == (restored.left, restored.removed)

    def test_outside_the_snapshot_nothing_is_removed(self, root):
        """
        A file that the run created where the snapshot did not look stays: it may have been there before.
        """
        before = snapshot_files("src", root)
        (root / "notes.txt").write_text("notes")
        restored = restore_files(before, root, created=["notes.txt"])

        assert "notes.txt" in list_files(root)
        assert ((), ()) == (restored.left, restored.removed)

    def test_single_files_cover_no_folder(self, root):
        """
        A snapshot of a file says nothing about the files beside it.
        """
        before = snapshot_files("src/a.py", root)
        (root / "src" / "b.py").write_text("b")
        restore_files(before, root, created=["src/b.py"])

        assert "src/b.py" in list_files(root)

    def test_it_can_be_undone(self, root):
        """
        A file that was removed comes back as it was.
        """
        before = snapshot_files(".", root)
        (root / "new.sh").write_text("#!")
        (root / "new.sh").chmod(0o755)
        restored = restore_files(before, root, created=["new.sh"])
        assert ["src/a.py"] == list_files(root)
        restore_files(restored.before, root)

        assert "#!" == (root / "new.sh").read_text()
        assert os.name != "posix" or 0o755 == (root / "new.sh").stat().st_mode & 0o777

    def test_a_file_too_large_to_come_back_stays(self, root):
        """
        What could not be restored again is not removed.
        """
        before = snapshot_files(".", root)
        (root / "big").write_bytes(b"x" * 100)
        restored = restore_files(before, root, created=["big"], max_file_bytes=99)

        assert (root / "big").exists()
        assert {"big": "it has 100 bytes, 99 are allowed"} == restored.refused

    def test_a_preview_changes_nothing(self, root):
        """
        With `dry_run` the result is the same, and every file stays as it is.
        """
        before = snapshot_files(".", root)
        (root / "new").write_text("new")
        (root / "src" / "a.py").write_text("changed")
        preview = restore_files(before, root, created=["new"], dry_run=True)

        assert preview.is_preview
        assert (("new",), ("src/a.py",)) == (preview.removed, preview.written)
        assert ("new", "changed") == ((root / "new").read_text(), (root / "src" / "a.py").read_text())
        assert restore_files(before, root, created=["new"]).removed == preview.removed


class TestHostile:
    @pytest.mark.parametrize(
        "path",
        ["../outside.txt", "/etc/hostname", "src/../../outside.txt", "src/\0", "", ".", 7, None, b"src/x"],
    )
    def test_paths_that_lead_elsewhere_remove_nothing(self, root, tmp_path, path):
        """
        Whatever is said to have been created, nothing outside the folder is touched.
        """
        (tmp_path / "outside.txt").write_text("outside")
        before = snapshot_files(".", root)
        restored = restore_files(before, root, created=[path])

        assert () == restored.removed
        assert (tmp_path / "outside.txt").exists()
        assert ["src/a.py"] == list_files(root)

    def test_links_are_left_alone(self, root, tmp_path):
        """
        A link that was created since is neither followed nor removed, nor is anything behind it.
        """
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.txt").write_text("secret")
        before = snapshot_files(".", root)
        (root / "link.txt").symlink_to(outside / "secret.txt")
        (root / "folder").symlink_to(outside)
        restored = restore_files(before, root, created=["link.txt", "folder", "folder/secret.txt"])

        assert () == restored.removed
        assert {"link.txt", "folder"} <= restored.refused.keys()
        assert "secret" == (outside / "secret.txt").read_text()

    def test_a_folder_that_became_a_link_is_not_searched(self, root, tmp_path):
        """
        Where a folder of the snapshot is a link by now, nothing behind it counts as new.
        """
        outside = tmp_path / "outside"
        outside.mkdir()
        before = snapshot_files("src", root)
        (root / "src" / "a.py").unlink()
        (root / "src").rmdir()
        (outside / "b.py").write_text("b")
        (root / "src").symlink_to(outside)
        restored = restore_files(before, root, created=["src/b.py"])

        assert (outside / "b.py").exists()
        assert () == restored.removed

    @given(
        then=st.sets(st.sampled_from("abcdef")),
        new=st.sets(st.sampled_from("abcdef")),
        claimed=st.sets(st.sampled_from("abcdef")),
    )
    def test_only_new_and_claimed_files_go(self, tmp_path_factory, then, new, claimed):
        """
        Whatever was there and whatever is claimed: exactly the new files that are claimed are removed.
        """
        root = tmp_path_factory.mktemp("files")
        for name in then:
            (root / name).write_text("then")
        before = snapshot_files(".", root)
        for name in new - then:
            (root / name).write_text("new")
        restore_files(before, root, created=claimed)

        assert sorted(then | ((new - then) - claimed)) == list_files(root)


class TestTheRunsOwn:
    def test_a_rollback_removes_what_its_calls_wrote(self, root, tmp_path):
        """
        The monitor knows which files the run's calls wrote since the checkpoint, and no others are removed.
        """
        monitor = DriftMonitor("careful", db_path=tmp_path / "runs.db", mode="enforce")

        def write(path, content):
            (root / path).write_text(content)
            args = {"file_path": str(root / path), "content": content}
            monitor.record_event("tool_call", "write_file", input_data=args, output_data="saved")

        with monitor.run(goal="mend it"):
            write("early.txt", "early")
            snapshot = snapshot_files(".", root)
            monitor.checkpoint(state_files=snapshot.state_files, file_modes=snapshot.file_modes)
            write("late.txt", "late")
            write("early.txt", "changed")
            (root / "other.txt").write_text("somebody else's")
            call = {"input_data": {"only": "x"}, "output_data": "1 failed", "error": "1 failed"}
            for _ in range(6):
                monitor.record_event("tool_call", "run_tests", **call)
            checkpoint = monitor.roll_back()
            restored = restore_files(checkpoint, root, created=monitor.list_written_files(checkpoint))
        monitor.close()

        assert ["early.txt", "other.txt", "src/a.py"] == list_files(root)
        assert "early" == (root / "early.txt").read_text()
        assert (("late.txt",), ("other.txt",)) == (restored.removed, restored.left)

    def test_it_is_bounded_and_needs_a_checkpoint(self, tmp_path):
        """
        Without a checkpoint nothing is noted, and with one at most 500 paths are.
        """
        monitor = DriftMonitor("careful", db_path=tmp_path / "runs.db")
        with monitor.run():
            args = {"path": "first.txt", "content": "x"}
            monitor.record_event("tool_call", "write_file", input_data=args, output_data="saved")
            assert [] == monitor.list_written_files()
            monitor.checkpoint()
            for n in range(700):
                args = {"path": f"{n}.txt", "content": "x"}
                monitor.record_event("tool_call", "write_file", input_data=args, output_data="saved")
            assert 500 == len(monitor.list_written_files())
        assert [] == monitor.list_written_files()
        monitor.close()


class TestNotTaken:
    def test_what_was_there_and_could_not_be_taken_is_not_new(self, root):
        """
        A file that was too large for the snapshot was there all the same: it is never removed.
        """
        (root / "big").write_bytes(b"x" * 100)
        before = snapshot_files(".", root, max_file_bytes=50)
        assert "big" in before.refused
        (root / "big").write_bytes(b"x")
        restored = restore_files(before, root, created=["big"])

        assert b"x" == (root / "big").read_bytes()
        assert ((), ()) == (restored.removed, restored.left)

    def test_it_survives_being_kept(self, root, keeper):
        """
        Which folders a checkpoint covers is kept with it.
        """
        (root / "big").write_bytes(b"x" * 100)
        snapshot = snapshot_files(".", root, max_file_bytes=50)
        keeper.keep(a_checkpoint(state_files=snapshot.state_files))
        (root / "new").write_text("new")
        restored = restore_files(keeper.get_last_checkpoint("run"), root, created=["new", "big"])

        assert ("new",) == restored.removed
        assert (root / "big").exists()

    @pytest.mark.parametrize("content", [{"not_taken": 5}, {"not_taken": [None, 7]}, {}, b"x", "text", None])
    def test_a_damaged_entry_is_no_error(self, root, content):
        """
        Whatever a checkpoint says about a folder, nothing is raised.
        """
        (root / "new").write_text("new")
        checkpoint = a_checkpoint(state_files={"./": content, "../": None, "nowhere/": None})
        restored = restore_files(checkpoint, root)

        assert {"../": "it leads out of the folder"} == restored.refused
