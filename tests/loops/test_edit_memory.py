import msgspec
import pytest
from agent_steps import call, edit, failing, matches, reported, restored_copy, run, user, write
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.edit_revert import EditMemory

STEPS = (
    edit("a", "x", "y"),
    edit("a", "y", "x"),
    write("a", "one"),
    write("a", "two"),
    user("hm"),
    user("no"),
)


def seen(*steps):
    return reported(EditMemory(), run(*steps))


class TestEdits:
    def test_the_second_way_back(self):
        """
        A part of a file changed back a second time goes back and forth.
        """
        there, back = edit("a", "x", "y"), edit("a", "y", "x")

        assert [2, 3] == seen(there, back, there, back)

    def test_once_is_ordinary(self):
        """
        Taking a change back once is noticed, not reported.
        """
        (found,) = matches(EditMemory(), run(edit("a", "x", "y"), edit("a", "y", "x"))).values()

        assert ("edit-revert", 0.3, ("run.0", "run.1")) == (found.pattern, found.score, found.event_ids)

    def test_ever_other_changes(self):
        """
        Changes that lead on are work.
        """
        assert [] == seen(*[edit("a", f"x{n}", f"x{n + 1}") for n in range(20)])

    def test_other_files(self):
        """
        The same change back and forth in other files each time is none.
        """
        pairs = [(edit(f"{n}", "x", "y"), edit(f"{n}", "y", "x")) for n in range(5)]

        assert [] == seen(*[step for pair in pairs for step in pair])

    def test_with_other_work_between(self):
        """
        Changes of other files in between do not hide it.
        """
        there, back = edit("a", "x", "y"), edit("a", "y", "x")

        assert [5] == seen(there, write("b", "1"), back, write("c", "2"), write("d", "3"), there)

    @pytest.mark.parametrize(
        ("path", "old", "new"),
        [
            ("file_path", "old_string", "new_string"),
            ("path", "old_str", "new_str"),
            ("filePath", "oldString", "newString"),
        ],
    )
    def test_whatever_the_arguments_are_called(self, path, old, new):
        """
        The edit tools of the coding agents are known by their arguments.
        """
        there = call("edit_file", {path: "a", old: "x", new: "y"}, "done")
        back = call("edit_file", {path: "a", old: "y", new: "x"}, "done")

        assert [2] == seen(there, back, there)


class TestContents:
    def test_two_versions_in_turn(self):
        """
        A file written in one of two versions in turn goes back and forth.
        """
        assert [3] == seen(write("a", "one"), write("a", "two"), write("a", "one"), write("a", "two"))

    def test_the_same_again_takes_nothing_back(self):
        """
        The same content written again is no way back.
        """
        assert [] == seen(*[write("a", "one")] * 9)


class TestForgiven:
    def test_a_user_may_ask_for_it(self):
        """
        A user's new words begin anew.
        """
        there, back = edit("a", "x", "y"), edit("a", "y", "x")

        assert [] == seen(there, user("take it back"), back, user("no, do it"), there, user("undo"), back)

    def test_what_failed_changed_nothing(self):
        """
        An edit that failed changed nothing, so it takes nothing back.
        """
        args = {"file_path": "a", "old_string": "y", "new_string": "x"}

        assert [] == seen(*[edit("a", "x", "y"), failing("Edit", args, "no match")] * 4)

    @pytest.mark.parametrize(
        "args", [None, "text", {}, {"path": 7, "content": "x"}, {"path": "a", "content": ["x"]}]
    )
    def test_what_is_no_edit(self, args):
        """
        Work that names no file and no text is passed over.
        """
        assert [] == seen(*[call("write_it", args, "done")] * 5)


class TestMemory:
    @given(st.lists(st.sampled_from(STEPS), max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere(self, steps, cut):
        """
        Put aside after any event and taken up again, it sees the same.
        """
        trace, first = run(*steps), EditMemory()
        before = matches(first, trace[:cut])

        assert matches(EditMemory(), trace) == before | matches(restored_copy(first), trace[cut:])

    def test_bounded(self):
        """
        Twenty thousand edits of as many files leave no more in memory than a thousand do.
        """
        pattern, sizes = EditMemory(), []
        for event in run(*[write(f"file {n % 997:05}", f"{n:06}") for n in range(20_000)]):
            pattern.observe(event)
            if event.seq in {999, 19_999}:
                sizes.append(len(msgspec.msgpack.encode(pattern)))

        assert sizes[1] < 1.2 * sizes[0]
