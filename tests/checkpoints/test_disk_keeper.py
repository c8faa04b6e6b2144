"""One folder, one file per checkpoint: private, whole, and there again after a restart."""

import os
import stat

import pytest

from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.checkpoints.packing import pack
from steadyhelm.errors import SettingsError
from steadyhelm.testing.checkpoint_checks import AT, a_checkpoint

UNREADABLE = "checkpoint could not be read"

needs_permissions = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="whoever may do everything is refused nothing"
)


def files(folder):
    """Every file below a folder."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def only(folder):
    """The one file below a folder."""
    (path,) = files(folder)
    return path


def seqs(keeper):
    return [checkpoint.seq for checkpoint in keeper.list_checkpoints("run")]


class TestKeeping:
    def test_a_restart_forgets_nothing(self, keeper, folder):
        """
        Another keeper on the same folder finds what the first one kept.
        """
        keeper.keep(a_checkpoint(3))
        keeper.close()

        assert a_checkpoint(3) == DiskKeeper(folder).get_last_checkpoint("run")

    def test_only_the_owner_can_read(self, tmp_path):
        """
        Folders are made for their owner only, those above it too, and so are files, whatever the mask.
        """
        before = os.umask(0)
        try:
            folder = tmp_path / "new" / "checkpoints"
            DiskKeeper(folder).keep(a_checkpoint())
        finally:
            os.umask(before)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.rglob("*"))]

        assert [0o700, 0o700, 0o700, 0o600] == modes

    def test_ids_are_not_in_names(self, keeper, folder):
        """
        Neither a run's id nor an agent's nor a checkpoint's stands in a path.
        """
        keeper.keep(a_checkpoint(run_id="../../secret", agent_id="secret", checkpoint_id="/secret"))

        assert "secret" not in str(only(folder).relative_to(folder))

    def test_nothing_is_left_beside(self, keeper, folder):
        """
        Keeping many leaves exactly the files that are kept, and a dropped run leaves nothing.
        """
        for seq in range(20):
            keeper.keep(a_checkpoint(seq))

        assert 5 == len(files(folder))
        keeper.drop("run")
        assert [] == list(folder.iterdir())

    def test_a_folder_taken_away_is_made_again(self, keeper, folder):
        """
        A keeper whose folder somebody removed goes on with a new one.
        """
        folder.rmdir()

        assert keeper.keep(a_checkpoint()).kept
        assert [0] == seqs(keeper)

    def test_a_folder_that_is_gone_for_good_is_a_reason(self, keeper, folder, losses):
        """
        What cannot be written is told and counted, and nothing else fails either.
        """
        folder.rmdir()
        folder.write_text("in the way")
        answer = keeper.keep(a_checkpoint())

        assert (False, ["checkpoint could not be written"]) == (answer.kept, losses)
        assert (None, [], 0) == (keeper.get_last_checkpoint("run"), seqs(keeper), keeper.prune(1e12))

    def test_a_failed_write_leaves_nothing(self, keeper, folder, losses):
        """
        When the disk gives up in the middle, the file that was there stays and no half of a new one.
        """
        resource = pytest.importorskip("resource")
        keeper.keep(a_checkpoint(1))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            answer = keeper.keep(a_checkpoint(1, label="new", session_state=b"x" * 5000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

        assert (False, ["checkpoint could not be written"]) == (answer.kept, losses)
        assert [""] == [it.label for it in keeper.list_checkpoints("run")]
        assert 1 == len(files(folder))


class TestForeignFiles:
    @pytest.mark.parametrize(
        "content", [b"", b"hello", b"steadyhelm checkpoint\n", b"steadyhelm checkpoint\n" + b"\xff" * 100]
    )
    def test_a_damaged_file_gives_way_to_the_one_before(self, keeper, folder, losses, content):
        """
        What cannot be read is left out, counted once, and left as it is.
        """
        keeper.keep(a_checkpoint(1))
        keeper.keep(a_checkpoint(2))
        newest = files(folder)[-1]
        newest.write_bytes(content)

        assert ([1], [1]) == (seqs(keeper), seqs(keeper))
        assert 1 == keeper.get_last_checkpoint("run").seq
        assert ([UNREADABLE], content) == (losses, newest.read_bytes())

    def test_a_cut_file_is_left_out(self, keeper, folder, losses):
        """
        A file whose end is missing is not a checkpoint.
        """
        keeper.keep(a_checkpoint(1))
        os.truncate(only(folder), only(folder).stat().st_size - 1)

        assert ([], None, [UNREADABLE]) == (seqs(keeper), keeper.get_last_checkpoint("run"), losses)

    def test_a_file_of_another_name_is_left_out(self, keeper, folder, losses):
        """
        Anything somebody put into a run's folder is counted, and stays.
        """
        keeper.keep(a_checkpoint(1))
        notes = only(folder).with_name("notes.txt")
        notes.write_text("mine")
        (folder / "elsewhere.txt").write_text("mine too")

        assert ([1], [UNREADABLE]) == (seqs(keeper), losses)
        assert 1 == keeper.drop("run")
        assert "mine" == notes.read_text()

    def test_a_checkpoint_of_another_run_is_left_out(self, keeper, folder, losses):
        """
        A file moved to another run, or renamed to look newer or clean, is not what its name says.
        """
        keeper.keep(a_checkpoint(1, in_incident=True))
        mine = only(folder)
        other = pack(a_checkpoint(2, run_id="other"), max_bytes=10_000).content
        mine.with_name(mine.name.replace("incident", "clean")).write_bytes(mine.read_bytes())
        mine.with_name(mine.name.replace("2-", "9-", 1)).write_bytes(other)

        assert (None, [1]) == (keeper.get_last_checkpoint("run"), seqs(keeper))
        assert [UNREADABLE] * 2 == losses

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
    def test_neither_links_nor_pipes_nor_folders_are_read(self, keeper, folder, losses, tmp_path):
        """
        A name of ours on something that is no plain file is left out, without waiting for it.
        """
        for seq in range(3):
            keeper.keep(a_checkpoint(seq))
        link, pipe, inner = files(folder)
        elsewhere = tmp_path / "elsewhere"
        link.rename(elsewhere)
        link.symlink_to(elsewhere)
        pipe.unlink()
        os.mkfifo(pipe)
        inner.unlink()
        inner.mkdir()

        assert ([], [UNREADABLE] * 3) == (seqs(keeper), losses)

    @needs_permissions
    def test_a_file_we_may_not_read_is_left_out(self, keeper, folder, losses):
        """
        A file without permission to read is left out and counted.
        """
        keeper.keep(a_checkpoint(1))
        only(folder).chmod(0)

        assert ([], [UNREADABLE]) == (seqs(keeper), losses)


class TestPruning:
    def test_what_a_killed_process_left_goes(self, keeper, folder):
        """
        A file that was never finished is swept up once it is old, and not before.
        """
        keeper.keep(a_checkpoint(1))
        half = only(folder).with_name(".0123456789abcdef.new")
        half.write_bytes(b"half")
        os.utime(half, (AT, AT))

        assert (0, True) == (keeper.prune(AT - 1), half.exists())
        assert (0, False) == (keeper.prune(AT + 1), half.exists())

    def test_empty_folders_go(self, keeper, folder):
        """
        When its last checkpoint goes, a run's folder goes too; what is not ours stays.
        """
        keeper.keep(a_checkpoint(1))
        (folder / "mine").mkdir()

        assert 1 == keeper.prune(AT + 10)
        assert ["mine"] == [path.name for path in folder.iterdir()]


class TestTheFolder:
    @pytest.mark.parametrize("given", [None, 5, "\0", ["a"]])
    def test_what_is_no_path_is_refused(self, given):
        """
        A folder that cannot be is refused with its value.
        """
        with pytest.raises(SettingsError, match=r"checkpoints\.folder must be a folder"):
            DiskKeeper(given)

    def test_a_file_is_refused(self, tmp_path):
        """
        A file is no folder, and there is none inside it.
        """
        (tmp_path / "file").write_text("")
        for path in (tmp_path / "file", tmp_path / "file" / "inside"):
            with pytest.raises(SettingsError, match=r"checkpoints\.folder must be a folder"):
                DiskKeeper(path)

    @pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")
    def test_a_folder_open_to_everybody_is_refused(self, tmp_path):
        """
        Where everybody may write, anybody could put a conversation for the agent to return to.
        """
        tmp_path.chmod(0o777)
        with pytest.raises(SettingsError, match="chmod o-w"):
            DiskKeeper(tmp_path)

        assert DiskKeeper(tmp_path / "own").keep(a_checkpoint()).kept

    def test_home_is_understood(self, tmp_path, monkeypatch):
        """
        A folder may be given from the user's home.
        """
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))

        assert tmp_path / "checkpoints" == DiskKeeper("~/checkpoints").folder
