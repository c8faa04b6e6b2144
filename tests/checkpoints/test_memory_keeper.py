import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.checkpoints.memory import MemoryKeeper
from steadyhelm.checkpoints.packed_keeper import CheckpointKey
from steadyhelm.errors import SettingsError
from steadyhelm.testing.checkpoint_checks import a_checkpoint

ROOM = "checkpoint dropped to make room in memory"


def large(seq, **fields):
    return a_checkpoint(seq, session_state=b"x" * 1000, **fields)


class TestMemoryKeeper:
    def test_the_room_is_bounded(self):
        """
        When the room is full, the run that had no checkpoint for the longest time loses its oldest.
        """
        losses = []
        keeper = MemoryKeeper(max_bytes=2000, max_total_bytes=5000, on_loss=losses.append)
        for seq, run_id in enumerate(["idle", "idle", "busy", "busy", "busy"]):
            keeper.keep(large(seq, run_id=run_id))

        assert [] == keeper.list_checkpoints("idle")
        assert [4, 3, 2] == [it.seq for it in keeper.list_checkpoints("busy")]
        assert [ROOM, ROOM] == losses

    def test_one_run_alone_is_bounded_too(self):
        """
        A single run keeps its newest, as many as there is room for.
        """
        keeper = MemoryKeeper(max_bytes=2000, max_total_bytes=3000)
        for seq in range(6):
            assert keeper.keep(large(seq)).kept
            assert keeper.keep(large(seq)).kept

        assert [5, 4] == [it.seq for it in keeper.list_checkpoints("run")]

    def test_what_goes_gives_its_room_back(self):
        """
        After dropping, pruning and replacing there is as much room as before.
        """
        keeper = MemoryKeeper(max_bytes=2000, max_total_bytes=3000)
        for _ in range(5):
            keeper.keep(large(1))
            keeper.keep(large(2, checkpoint_id="checkpoint-1"))
            keeper.drop("run")
            keeper.keep(large(3))
            keeper.prune(1e12)

        assert (0, {}) == (keeper._total_bytes, keeper._runs)

    def test_a_large_one_is_refused(self):
        """
        One that is larger than allowed is refused with a reason, and counted.
        """
        losses = []
        keeper = MemoryKeeper(max_bytes=500, on_loss=losses.append)
        answer = keeper.keep(large(1))

        assert (False, ["checkpoint too large to keep"]) == (answer.kept, losses)
        assert "too large" in answer.reason
        assert [] == keeper.list_checkpoints("run")

    def test_one_older_than_all_that_are_kept_is_refused(self):
        """
        A run that counts its events anew must drop what it has left behind: it is told so.
        """
        keeper = MemoryKeeper(per_run=2)
        for seq in (10, 20, 30):
            keeper.keep(a_checkpoint(seq))
        keeper.keep(a_checkpoint(5))

        answer = keeper.keep(a_checkpoint(15))

        assert (False, "checkpoint older than the 2 that are kept") == (answer.kept, answer.reason)
        assert [30, 20, 5] == [it.seq for it in keeper.list_checkpoints("run")]

    def test_who_counts_may_fail(self):
        """
        An `on_loss` that raises does not reach the agent.
        """

        def fail(reason):
            raise RuntimeError(reason)

        assert not MemoryKeeper(max_bytes=100, on_loss=fail).keep(large(1)).kept

    def test_threads_may_share_it(self):
        """
        Several threads keep, read and drop at once, and nothing is lost or counted twice.
        """
        keeper = MemoryKeeper(per_run=5)

        def work(number):
            for seq in range(30):
                keeper.keep(a_checkpoint(seq, run_id=f"run-{number}"))
                keeper.keep(a_checkpoint(seq, run_id="shared", checkpoint_id=f"{number}.{seq}"))
                keeper.get_last_checkpoint("shared")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [6] * 4 == [len(keeper.list_checkpoints(f"run-{number}")) for number in range(4)]
        assert len(keeper.list_checkpoints("shared")) == 6
        keeper.prune(1e12)
        assert 0 == keeper._total_bytes

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("per_run", 0),
            ("per_run", -1),
            ("per_run", "5"),
            ("per_run", True),
            ("max_bytes", 0),
            ("max_bytes", 1.5),
            ("max_bytes", 1 << 40),
            ("max_total_bytes", 10),
            ("max_total_bytes", None),
        ],
    )
    def test_settings_are_checked(self, setting, value):
        """
        A setting that cannot be is refused, by name and with its value.
        """
        with pytest.raises(SettingsError, match=rf"checkpoints\.{setting} .*{value!r}"):
            MemoryKeeper(**{setting: value})


steps = st.lists(
    st.tuples(
        st.sampled_from(["keep", "keep", "keep", "keep", "drop", "prune"]),
        st.integers(-1, 12),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(["agent", "other"]),
    ),
    max_size=25,
)


class TestKeepers:
    @given(steps)
    def test_they_agree(self, tmp_path_factory, steps):
        """
        Whatever is kept, dropped and pruned, memory and disk hold the same checkpoints in the same order.
        """
        folder = tmp_path_factory.mktemp("checkpoints")
        memory, disk = MemoryKeeper(per_run=3), DiskKeeper(folder, per_run=3)
        for what, seq, number, in_incident, agent in steps:
            given_fields = {"checkpoint_id": str(number), "in_incident": in_incident, "agent_id": agent}
            answers = []
            for keeper in (memory, disk):
                if what == "keep":
                    answers.append(keeper.keep(a_checkpoint(seq, **given_fields)))
                elif what == "drop":
                    answers.append(keeper.drop("run", agent_id=agent, after_seq=seq))
                else:
                    answers.append(keeper.prune(a_checkpoint(seq).taken_at))
            assert answers[0] == answers[1]
            assert memory.list_checkpoints("run") == disk.list_checkpoints("run")
            assert memory.get_last_checkpoint("run", before_seq=seq) == disk.get_last_checkpoint(
                "run", before_seq=seq
            )

    @given(st.lists(st.tuples(st.integers(-1, 40), st.booleans()), max_size=40, unique_by=lambda it: it[0]))
    def test_what_is_returned_to_is_clean_and_bounded(self, taken):
        """
        The one to return to is the newest clean one, and the number kept has an upper bound.
        """
        keeper = MemoryKeeper(per_run=3)
        for seq, in_incident in sorted(taken):
            keeper.keep(a_checkpoint(seq, in_incident=in_incident))
        clean = [seq for seq, in_incident in sorted(taken) if not in_incident]
        last = keeper.get_last_checkpoint("run")

        assert (clean[-1] if clean else None) == (last.seq if last else None)
        kept = keeper.list_checkpoints("run")
        assert len(kept) <= 7
        assert not clean or clean[0] in [it.seq for it in kept]


class TestMark:
    @given(
        st.integers(-1, 2**62),
        st.floats(0, 1e12),
        st.text(max_size=10),
        st.text(max_size=10),
        st.booleans(),
    )
    def test_a_name_says_what_the_record_says(self, seq, at, agent, name, in_incident):
        """
        A mark is read back from the file's name, whatever the ids.
        """
        checkpoint = a_checkpoint(
            seq, taken_at=at, agent_id=agent, checkpoint_id=name, in_incident=in_incident
        )
        mark = CheckpointKey.of(checkpoint)

        assert mark == CheckpointKey.parse(mark.file_name)
        assert len(mark.file_name) < 120

    def test_names_sort_like_marks(self):
        """
        A list of names in order is a list of checkpoints from oldest to newest.
        """
        marks = [
            CheckpointKey.of(a_checkpoint(seq, taken_at=at))
            for seq in (-1, 0, 9, 10, 2**62)
            for at in (0.5, 1e9)
        ]

        assert [mark.file_name for mark in marks] == sorted(mark.file_name for mark in marks)

    @pytest.mark.parametrize("name", ["", "x", ".checkpoint", "../a.checkpoint", "1-2-3-4-clean.checkpoint"])
    def test_other_names_are_not_ours(self, name):
        """
        A name we would not have given gives no mark.
        """
        assert CheckpointKey.parse(name) is None
