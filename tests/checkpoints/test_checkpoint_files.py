"""Files go into a checkpoint and come back, nothing else is touched, and all of it can be undone."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.checkpoints.files import FileSnapshot, restore_files, snapshot_files
from steadyhelm.checkpoints.sandboxed_folder import FileRefusedError, SandboxedFolder
from steadyhelm.testing.checkpoint_checks import a_checkpoint

OUT = "it leads out of the folder"
NO_LINKS = "a folder in its path is a link or not a folder"

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")
needs_permissions = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="whoever may do everything is refused nothing"
)


@pytest.fixture
def root(tmp_path):
    """A folder an agent works in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path):
    """A file that is none of our business."""
    secret = tmp_path / "outside" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("secret")
    return secret


def written(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def found(root):
    """Every file of a folder."""
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


class TestSnapshot:
    def test_files_are_taken_by_path(self, root):
        """
        A path may be relative or absolute, text or a Path, and one where nothing is counts too.
        """
        written(root, {"a.py": b"a\r\n\xff", "src/b.py": b"", "c.py": b"not asked for"})
        snapshot = snapshot_files(["a.py", root / "src" / "b.py", "./src/../new.py", "new.py"], root)

        assert {"a.py": b"a\r\n\xff", "src/b.py": b"", "new.py": None} == snapshot.state_files
        assert {"./src/../new.py": OUT} == snapshot.refused

    def test_a_folder_is_every_file_in_it(self, root):
        """
        A folder stands for its files, those of inner folders and hidden ones too; the root is a folder.
        """
        files = {"src/a.py": b"a", "src/in/.b": b"b", "src/in/deep/c": b"c", "d": b"d"}
        written(root, files)
        (root / "src" / "empty").mkdir()

        assert {**found(root), "./": None} == snapshot_files(".", root).state_files
        inner = ["src/", "src/a.py", "src/in/.b", "src/in/deep/c"]
        assert inner == sorted(snapshot_files("src", root).state_files)

    @posix
    def test_permissions_are_taken(self, root):
        """
        Whether a file can be run is part of its state.
        """
        written(root, {"run.sh": b"#!"})
        (root / "run.sh").chmod(0o755)

        assert {"run.sh": 0o755} == snapshot_files(["run.sh"], root).file_modes

    def test_a_large_file_is_refused(self, root):
        """
        A file over the limit is refused with both sizes; the others are taken.
        """
        written(root, {"a": b"x" * 10, "b": b"x" * 11})
        snapshot = snapshot_files(["a", "b"], root, max_file_bytes=10)

        assert (["a"], {"b": "it has 11 bytes, 10 are allowed"}) == (
            list(snapshot.state_files),
            snapshot.refused,
        )

    def test_too_much_in_all_is_refused(self, root):
        """
        What would go over the limit for all of them is refused; a smaller one after it still fits.
        """
        written(root, {"a": b"x" * 6, "b": b"x" * 6, "c": b"x" * 4})
        snapshot = snapshot_files(["a", "b", "c"], root, max_total_bytes=10)

        assert ["a", "c"] == list(snapshot.state_files)
        assert {"b": "with it there would be more than 10 bytes in all"} == snapshot.refused

    def test_too_many_are_refused(self, root, monkeypatch):
        """
        Of a folder with more files than anybody restores, the first are taken and the rest is named.
        """
        monkeypatch.setattr("steadyhelm.checkpoints.files._MAX_FILES", 3)
        written(root, {f"many/{number}": b"" for number in range(5)})
        snapshot = snapshot_files(["many"], root)

        assert (3, {"many": "only the first 3 files in it were taken"}) == (
            len(snapshot.state_files),
            snapshot.refused,
        )

    @pytest.mark.parametrize(
        "path", ["..", "../outside/secret.txt", "/etc/passwd", "a/../../outside/secret.txt"]
    )
    def test_paths_that_lead_out_are_refused(self, root, outside, path):
        """
        Nothing outside the folder is read, however it is spelt.
        """
        assert ({}, {path: OUT}) == (
            snapshot_files([path], root).state_files,
            snapshot_files([path], root).refused,
        )

    @pytest.mark.parametrize("path", ["nul\0", "half \udcff", None, 5, b"bytes"], ids=repr)
    def test_what_is_no_path_is_refused(self, root, path):
        """
        Anything that cannot name a file is refused, and the others are taken.
        """
        written(root, {"a": b"a"})
        snapshot = snapshot_files([path, "a"], root)

        assert ({"a": b"a"}, 1) == (snapshot.state_files, len(snapshot.refused))

    def test_links_are_refused(self, root, outside):
        """
        A link to a file or a folder is not followed, given by name or met on the way.
        """
        written(root, {"in/real": b"a"})
        (root / "in" / "link").symlink_to(outside)
        (root / "in" / "folder").symlink_to(outside.parent)
        snapshot = snapshot_files(["in", "in/folder/secret.txt", "in/link"], root)

        not_taken = {"not_taken": ["in/folder", "in/link"]}
        assert {"in/real": b"a", "in/": not_taken} == snapshot.state_files
        assert {
            "in/folder": "it is a link",
            "in/link": "it is a link",
            "in/folder/secret.txt": NO_LINKS,
        } == snapshot.refused

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
    def test_a_pipe_is_not_waited_for(self, root):
        """
        What is no plain file is refused at once.
        """
        os.mkfifo(root / "pipe")

        assert {"pipe": "it is not a plain file"} == snapshot_files(["pipe"], root).refused

    @needs_permissions
    def test_what_may_not_be_read_is_refused(self, root):
        """
        A file or folder without permission is named, and the rest is taken.
        """
        written(root, {"a": b"a", "closed/b": b"b", "c": b"c"})
        (root / "a").chmod(0)
        (root / "closed").chmod(0)
        snapshot = snapshot_files(".", root)
        (root / "closed").chmod(0o700)

        assert ({"c": b"c"}, {"a", "closed"}) == (snapshot.state_files, set(snapshot.refused))

    @posix
    def test_a_name_that_is_no_text_is_refused(self, root):
        """
        A file whose name is not UTF-8 is named as far as it can be.
        """
        Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_bytes(b"x")
        snapshot = snapshot_files(".", root)

        assert {"caf?": "its name is not text"} == snapshot.refused
        assert {"./": {"not_taken": ["caf?"]}} == snapshot.state_files

    @pytest.mark.parametrize("root", ["nowhere", None, "nul\0"], ids=repr)
    def test_a_folder_that_is_none_is_refused(self, root):
        """
        Without a folder nothing is taken or restored, and the answer says why.
        """
        snapshot = FileSnapshot(state_files={"a": b"a"})

        assert ["."] == list(snapshot_files(["a"], root).refused)
        assert ["."] == list(restore_files(snapshot, root).refused)

    def test_no_paths_are_no_error(self, root):
        """
        Whoever asks for something that is no list of paths is told so.
        """
        assert FileSnapshot() == snapshot_files([], root)
        assert ["."] == list(snapshot_files(None, root).refused)


class TestRestore:
    def test_files_come_back(self, root):
        """
        Changed files get their contents back, deleted ones are there again, those that appeared are gone.
        """
        files = {"a.py": b"a", "src/b.py": b"b", "same": b"s"}
        written(root, files)
        snapshot = snapshot_files([*files, "new"], root)
        written(root, {"a.py": b"changed", "new": b"new", "kept": b"k"})
        (root / "src" / "b.py").unlink()
        (root / "src").rmdir()
        restored = restore_files(snapshot, root)

        assert files | {"kept": b"k"} == found(root)
        assert (("a.py",), ("src/b.py",), ("new",), ("same",), {}) == (
            restored.written,
            restored.created,
            restored.removed,
            restored.unchanged,
            restored.refused,
        )

    def test_it_can_be_undone(self, root):
        """
        Restoring what was there before brings back every byte, and undoing that restores again.
        """
        written(root, {"a": b"a", "b": b"b"})
        snapshot = snapshot_files(["a", "b", "c"], root)
        written(root, {"a": b"work", "c": b"more work"})
        (root / "b").unlink()
        worked = found(root)
        restored = restore_files(snapshot, root)
        undone = restore_files(restored.before, root)

        assert worked == found(root)
        restore_files(undone.before, root)
        assert {"a": b"a", "b": b"b"} == found(root)

    def test_through_a_keeper(self, root, keeper):
        """
        Files survive in a kept checkpoint, text and bytes alike.
        """
        written(root, {"a": b"\x00\xff", "run.sh": b"#!"})
        (root / "run.sh").chmod(0o750)
        snapshot = snapshot_files(["."], root)
        keeper.keep(
            a_checkpoint(state_files=snapshot.state_files | {"text": "ü\r\n"}, file_modes=snapshot.file_modes)
        )
        for path in root.iterdir():
            path.unlink()
        restored = restore_files(keeper.get_last_checkpoint("run"), root)

        assert {"a": b"\x00\xff", "run.sh": b"#!", "text": "ü\r\n".encode()} == found(root)
        assert ("a", "run.sh", "text") == restored.created
        if os.name == "posix":
            assert 0o750 == stat.S_IMODE((root / "run.sh").stat().st_mode)

    @posix
    def test_permissions_come_back(self, root):
        """
        A file that only lost its permissions is restored; one whose were never known keeps what it has.
        """
        written(root, {"a": b"a", "b": b"b"})
        (root / "a").chmod(0o755)
        (root / "b").chmod(0o640)
        snapshot = snapshot_files(["a"], root)
        (root / "a").chmod(0o600)
        restored = restore_files(snapshot, root)
        restore_files(FileSnapshot(state_files={"b": b"new"}), root)

        assert ("a",) == restored.written
        assert (0o755, 0o640) == tuple(stat.S_IMODE((root / name).stat().st_mode) for name in "ab")

    def test_a_second_time_changes_nothing(self, root):
        """
        What is as it should be is not written again.
        """
        snapshot = FileSnapshot(state_files={"a": b"a", "b": None})
        restore_files(snapshot, root)
        before = (root / "a").stat()
        restored = restore_files(snapshot, root)

        assert (("a", "b"), before.st_ino) == (restored.unchanged, (root / "a").stat().st_ino)

    @pytest.mark.parametrize(
        "path", ["../escaped", "/tmp/escaped", "a/../../escaped", "..", ".", "", "nul\0"]
    )
    def test_paths_that_lead_out_are_refused(self, root, path):
        """
        A checkpoint from anywhere cannot write outside the folder.
        """
        before = found(root.parent)
        restored = restore_files(FileSnapshot(state_files={path: b"x", "fine": b"f"}), root)

        assert ([path], ("fine",)) == (list(restored.refused), restored.created)
        assert before | {"project/fine": b"f"} == found(root.parent)

    @pytest.mark.parametrize("content", [b"overwritten", None], ids=["write", "remove"])
    def test_links_are_refused(self, root, outside, content):
        """
        A link that has appeared since, to a file or on the way to one, is neither followed nor replaced.
        """
        (root / "link").symlink_to(outside)
        (root / "folder").symlink_to(outside.parent)
        (root / "broken").symlink_to(root / "nowhere")
        names = ("link", "folder/secret.txt", "folder/new", "folder/in/new", "broken")
        restored = restore_files(FileSnapshot(state_files=dict.fromkeys(names, content)), root)

        assert set(names) == set(restored.refused)
        assert (["secret.txt"], "secret") == (names_in(outside.parent), outside.read_text())
        assert ["broken", "folder", "link"] == names_in(root)

    def test_another_name_of_the_same_file_is_left_alone(self, root, outside):
        """
        Where a file outside has a second name inside, only the name inside gets the old contents.
        """
        (root / "a").hardlink_to(outside)
        restore_files(FileSnapshot(state_files={"a": b"restored"}), root)

        assert ("restored", "secret") == ((root / "a").read_text(), outside.read_text())

    def test_a_folder_in_the_way_is_refused(self, root):
        """
        Where a folder stands now, or a file where a folder stood, nothing is done.
        """
        written(root, {"a/inside": b"i", "b": b"b"})
        restored = restore_files(FileSnapshot(state_files={"a": b"a", "b/c": b"c"}), root)

        assert {"a", "b/c"} == set(restored.refused)
        assert {"a/inside": b"i", "b": b"b"} == found(root)

    def test_what_could_not_be_put_back_is_not_overwritten(self, root):
        """
        A file that has grown too large to be kept for an undo stays as it is.
        """
        written(root, {"a": b"x" * 100, "b": b"b"})
        restored = restore_files(FileSnapshot(state_files={"a": b"a", "b": b"old"}), root, max_file_bytes=50)

        assert ({"a": "it has 100 bytes, 50 are allowed"}, ("b",)) == (restored.refused, restored.written)
        assert 100 == (root / "a").stat().st_size

    def test_a_reference_is_the_callers(self, root):
        """
        What is only referred to cannot be restored by us, nor can what is no contents at all.
        """
        restored = restore_files(
            a_checkpoint(state_files={"a": {"git": "4f2a"}, "b": 5, "c": "\ud800"}), root
        )

        assert ({"a", "b", "c"}, {}) == (set(restored.refused), found(root))
        assert "reference" in restored.refused["a"]

    @needs_permissions
    def test_a_folder_that_may_not_be_written_is_refused(self, root):
        """
        Without permission a file stays, and the answer says so.
        """
        written(root, {"closed/a": b"a", "b": b"b"})
        (root / "closed").chmod(0o500)
        restored = restore_files(FileSnapshot(state_files={"closed/a": b"old", "b": b"old"}), root)
        (root / "closed").chmod(0o700)

        assert (["closed/a"], ("b",)) == (list(restored.refused), restored.written)

    def test_a_root_may_be_a_link(self, root, tmp_path):
        """
        The folder itself is the caller's choice, a link to it too.
        """
        (tmp_path / "link").symlink_to(root)
        written(root, {"a": b"a"})
        snapshot = snapshot_files([tmp_path / "link" / "a"], tmp_path / "link")
        (root / "a").unlink()

        assert {"a": b"a"} == snapshot.state_files
        assert ("a",) == restore_files(snapshot, tmp_path / "link").created

    @given(
        st.dictionaries(
            st.sampled_from(["a", "b", "in/a", "in/b", "in/deep/c"]),
            st.none() | st.binary(max_size=8),
            max_size=5,
        ),
        st.dictionaries(
            st.sampled_from(["a", "b", "in/a", "in/b", "in/deep/c"]),
            st.none() | st.binary(max_size=8),
            max_size=5,
        ),
    )
    def test_there_and_back(self, tmp_path_factory, stood, became):
        """
        Whatever happens to the files of a snapshot, restoring gives what stood, undoing what became of it.
        """
        root = tmp_path_factory.mktemp("project")
        names = ["a", "b", "in/a", "in/b", "in/deep/c"]
        restore_files(FileSnapshot(state_files=stood), root)
        snapshot, first = snapshot_files(names, root), found(root)
        restore_files(FileSnapshot(state_files=became), root)
        second = found(root)
        restored = restore_files(snapshot, root)

        assert first == found(root)
        restore_files(restored.before, root)
        assert second == found(root)


@pytest.fixture(params=[True, False], ids=["by descriptor", "by looking"])
def tree(request, root):
    """The same folder, on systems of either kind."""
    return SandboxedFolder(root, by_descriptor=request.param)


class TestSandboxedFolder:
    def test_it_writes_and_reads(self, tree, root):
        """
        A file is written whole with the folders it needs, read, replaced and removed.
        """
        tree.write(("in", "deep", "a"), b"a", 0o640)
        tree.write(("in", "deep", "a"), b"b", 0o640)

        assert (b"b", 0o640) == tree.read(("in", "deep", "a"), max_bytes=10)
        assert [("in", "deep", "a")] == list(tree.iter_files(()))
        assert (True, False, False) == tuple(
            map(tree.is_folder, [("in", "deep"), ("in", "deep", "a"), ("no",)])
        )
        tree.remove(("in", "deep", "a"))
        tree.remove(("in", "deep", "a"))
        assert tree.read(("in", "deep", "a"), max_bytes=10) is None
        assert [] == names_in(root / "in" / "deep")

    def test_no_link_is_followed(self, tree, root, outside):
        """
        Neither reading nor writing nor removing goes through a link, at the end of a path or inside it.
        """
        (root / "link").symlink_to(outside)
        (root / "folder").symlink_to(outside.parent)
        for parts in (("link",), ("folder", "secret.txt"), ("folder", "new", "file")):
            with pytest.raises(FileRefusedError, match="link"):
                tree.read(parts, max_bytes=100)
        for parts in (("folder", "secret.txt"), ("folder", "new", "file")):
            with pytest.raises(FileRefusedError, match="link"):
                tree.write(parts, b"x", None)
            with pytest.raises(FileRefusedError, match="link"):
                tree.remove(parts)

        assert (["secret.txt"], "secret") == (names_in(outside.parent), outside.read_text())

    def test_a_file_on_the_way_is_refused(self, tree, root):
        """
        A file is no folder to put another into.
        """
        (root / "a").write_text("a")
        with pytest.raises(FileRefusedError, match="not a folder"):
            tree.write(("a", "b"), b"x", None)

        assert "a" == (root / "a").read_text()

    def test_the_folder_itself_is_no_file(self, tree):
        """
        The root can be neither read nor written.
        """
        with pytest.raises(FileRefusedError, match="the folder itself"):
            tree.read((), max_bytes=10)


def test_a_whole_rollback(root, folder):
    """
    Conversation, goal tree, files and our own state go back to where they stood, after a restart too.
    """
    written(root, {"parser.py": b"works"})
    history, tree = [{"role": "user", "content": "mend the parser"}], {"goal": "mend the parser", "done": 0.5}
    snapshot = snapshot_files(["parser.py"], root)
    DiskKeeper(folder).keep(
        a_checkpoint(
            10,
            conversation_history=history,
            goal_tree=tree,
            state_files=snapshot.state_files,
            file_modes=snapshot.file_modes,
            session_state=b"session",
        )
    )
    history.append({"role": "assistant", "content": "let me rewrite everything"})
    tree["done"] = 0.0
    written(root, {"parser.py": b"broken"})
    DiskKeeper(folder).keep(a_checkpoint(20, in_incident=True, conversation_history=history))
    keeper = DiskKeeper(folder)
    checkpoint = keeper.get_last_checkpoint("run", before_seq=15)
    restore_files(checkpoint, root)
    keeper.drop("run", after_seq=checkpoint.seq)

    assert (10, history[:1], {"goal": "mend the parser", "done": 0.5}, b"session") == (
        checkpoint.turn,
        checkpoint.conversation_history,
        checkpoint.goal_tree,
        checkpoint.session_state,
    )
    assert {"parser.py": b"works"} == found(root)
    assert [10] == [it.seq for it in keeper.list_checkpoints("run")]
