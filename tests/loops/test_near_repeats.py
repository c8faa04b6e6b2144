import pytest
from agent_steps import call, failing, matches, restored_copy, run, shell, user
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.near_repeats import has_extra_fields_only, has_same_words
from steadyhelm.loops.repetitions import RepetitionMemory

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FIX = {"file": "a.py", "lines": [{"at": 7, "text": "return 1"}]}
PADDED = {"file": "a.py", "lines": [{"at": 7, "text": "return 1", "marks": []}], "removed": [], "note": ""}


def noticed(*steps):
    """The places at which a run of these steps is noticed, and nothing more."""
    return [place for place, seen in matches(RepetitionMemory(), run(*steps)).items() if seen.noticed_only]


class TestTheSameWords:
    def test_empty_fields(self):
        """
        A field that holds nothing, however deep, makes no other call of it.
        """
        assert [1] == noticed(call("fix", FIX, "a"), call("fix", PADDED, "b"))

    @pytest.mark.parametrize("text", ["x = 1\n", "  x = 1", "x=1", "X = 1;"])
    def test_spacing_signs_and_capitals(self, text):
        """
        Neither do spacing, signs and capitals.
        """
        assert [1] == noticed(call("fix", {"text": "x = 1"}, "a"), call("fix", {"text": text}, "b"))

    @pytest.mark.parametrize("other", [{"text": "x = 2"}, {"text": "1 = x"}, {"words": "x = 1"}, {"text": 1}])
    def test_other_words(self, other):
        """
        Another word, another order and another field do.
        """
        assert [] == noticed(call("fix", {"text": "x = 1"}, "a"), call("fix", other, "b"))

    def test_there_and_back(self):
        """
        The same words in each other's fields ask something else.
        """
        there, back = {"origin": "OSL", "to": "ROM"}, {"origin": "ROM", "to": "OSL"}

        assert [] == noticed(call("flights", there, "a"), call("flights", back, "b"))

    def test_another_tool(self):
        """
        Another tool does something else with them.
        """
        assert [] == noticed(call("fix", FIX, "a"), call("show", PADDED, "b"))

    @given(DATA, DATA)
    def test_either_way(self, one, other):
        """
        Data says the same as itself, and what holds in one direction holds in the other.
        """
        assert has_same_words([str(one)], [str(one)])
        assert has_same_words(one, other) == has_same_words(other, one)


class TestArgumentsAddedOrLeftOut:
    def test_with_the_same_result(self):
        """
        A call with more said or less, to no effect, is the same call again.
        """
        steps = [
            failing("open", args, "path is missing") for args in ({"mode": "r"}, {"mode": "r", "lines": 9})
        ]

        assert [1] == noticed(*steps)
        assert [1] == noticed(*reversed(steps))

    def test_with_another_result(self):
        """
        One that brings something else is another call.
        """
        steps = [call("open", args, f"{args}") for args in ({"path": "a"}, {"path": "a", "lines": 9})]

        assert [] == noticed(*steps)

    def test_with_a_value_changed(self):
        """
        So is one in which anything that both say differs.
        """
        steps = [call("open", args, "none") for args in ({"path": "a"}, {"path": "b", "lines": 9})]

        assert [] == noticed(*steps)

    def test_items_of_a_list(self):
        """
        Another item in a list is something else that was asked for.
        """
        steps = [call("find", {"words": words}, "too many") for words in (["a"], ["a", "b"])]

        assert [] == noticed(*steps)

    @given(DATA, DATA)
    def test_either_way(self, one, other):
        """
        What holds in one direction holds in the other.
        """
        assert has_extra_fields_only(one, other) == has_extra_fields_only(other, one)


class TestAnotherResult:
    def test_a_look(self):
        """
        The same look again at once is noticed once, however often it goes on.
        """
        assert [1] == noticed(*[shell("git status", f"{n} files") for n in range(6)])

    def test_work(self):
        """
        Work done twice with other results is work.
        """
        assert [] == noticed(*[call("click", {"button": "next"}, f"page {n}") for n in range(3)])

    def test_waiting(self):
        """
        Waiting is no repetition.
        """
        assert [] == noticed(*[call("wait_for", {"job": 7}, f"{n} of 9") for n in range(3)])

    def test_after_an_outage(self):
        """
        Trying again after an outage is patience.
        """
        steps = [
            failing("search", {"query": "x"}, f"503 unavailable, {word}") for word in ("try", "wait", "later")
        ]

        assert [] == noticed(*steps)

    def test_something_done_between(self):
        """
        With another call between it is not the previous one.
        """
        assert [] == noticed(
            shell("git status", "1 file"), call("Read", {"file": "a"}, "x"), shell("git status", "2")
        )

    def test_a_users_new_words_between(self):
        """
        A user may ask for it again.
        """
        assert [] == noticed(shell("git status", "1 file"), user("and now?"), shell("git status", "2 files"))


class TestNotARepetition:
    def test_corrected(self):
        """
        A call that failed and was changed until it works was corrected.
        """
        broken, mended = {"text": "say 'it"}, {"text": "say 'it'"}

        assert [] == noticed(failing("fix", broken, "unclosed quote"), call("fix", mended, "done"))

    def test_one_batch(self):
        """
        Calls issued together are one decision.
        """
        assert [] == noticed([call("fix", FIX, "a"), call("fix", PADDED, "a")])


class TestHostileInput:
    @pytest.mark.parametrize(
        "args", [None, {}, "", [], {"a": "\ud800"}, {"a": float("nan")}, {"a": "x" * 9000}]
    )
    def test_anything_asked(self, args):
        """
        Whatever the arguments, comparing a call with the previous one raises nothing.
        """
        assert noticed(call("fix", args, "a"), call("fix", FIX, "b"), call("fix", args, "c")) == []

    def test_nested_without_end(self):
        """
        What is nested deeper than anyone looks is cut: calls that differ only there are the same call.
        """
        deep, deeper = [], ["x"]
        for _ in range(900):
            deep, deeper = [deep], [deeper]

        assert [1] == noticed(call("view", {"a": deep}, "a"), call("view", {"a": deeper}, "b"))

    def test_put_aside(self):
        """
        The previous call is remembered when the run is put aside.
        """
        first, trace = RepetitionMemory(), run(call("fix", FIX, "a"), call("fix", PADDED, "b"))
        first.observe(trace[0])

        assert [1] == list(matches(restored_copy(first), trace[1:]))
