"""A call that was refused is no step: nothing was done, and nothing moved."""

import pytest
from agent_steps import call, edit, failing, names, reported, restored_copy, run, says, shell, user, write
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.edit_revert import EditMemory
from steadyhelm.detectors.repetitive_text import ReplyMemory
from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.events import CALL_REFUSED, STATE_TRANSITION
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.loop_detector import SegmentTracker
from steadyhelm.loops.repetitions import RepetitionMemory

LOOK = call("Read", {"file_path": "a.py"}, "x = 1")
REFUSED = {
    "action_type": STATE_TRANSITION,
    "action_name": CALL_REFUSED,
    "call_id": "call-7",
    "metadata": {"reason": "the same call again"},
}
STEPS = [
    LOOK,
    shell("ls", "a.py"),
    failing("Bash", {"command": "pytest"}, "1 failed"),
    write("a.py", "x"),
    edit("a.py", "x", "y"),
    edit("a.py", "y", "x"),
    says("I shall look into it once more."),
    user("go on"),
    call("search", {"query": "cheap flights Oslo"}, "none"),
    call("Read", {"file_path": "b.py"}),
]


class TestARefusal:
    def test_it_starts_no_segment(self):
        """
        It is neither work nor a message.
        """
        assert [False] == [SegmentTracker().record_message(event) for event in run(REFUSED)]

    def test_equal_calls_stay_in_a_row(self):
        """
        Equal calls with a refused one between them are still in a row.
        """
        pattern = RepetitionMemory()

        assert [4] == reported(pattern, run(LOOK, REFUSED, LOOK, REFUSED, LOOK))
        assert ["repetition"] == names(RepetitionMemory(), run(LOOK, REFUSED, LOOK, REFUSED, LOOK))

    def test_nothing_was_done_between_two_replies(self):
        """
        The same reply after every refusal is a repeated reply.
        """
        reply = says("I will read the file again now.")

        assert [4] == reported(ReplyMemory(), run(reply, REFUSED, reply, REFUSED, reply))

    def test_its_reason_is_no_failure_of_the_call_before(self):
        """
        What the refusal says is not taken for the error of a call that has not been answered yet.
        """
        unanswered = call("Bash", {"command": "pytest"})
        refusal = REFUSED | {"error": "refused: the same call again"}

        assert [] == reported(FailureMemory(), run(*[unanswered, refusal] * 8))

    @pytest.mark.parametrize(
        "pattern", [RepetitionMemory, FailureMemory, StagnationMemory, EditMemory, ReplyMemory]
    )
    @given(steps=st.lists(st.sampled_from(STEPS), max_size=25), data=st.data())
    def test_it_might_as_well_not_be_there(self, pattern, steps, data):
        """
        With refusals anywhere between the steps, every pattern sees what it would have seen without them.
        """
        refused = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
        without, within = pattern(), pattern()
        seen, seen_within = [], []
        for step, has_refusal in zip(steps, refused, strict=True):
            seen += [(it.pattern, it.count) for it in map(without.observe, run(step)) if it is not None]
            between = [REFUSED | {"error": "no"}] if has_refusal else []
            seen_within += [
                (it.pattern, it.count) for it in map(within.observe, run(*between, step)) if it is not None
            ]
            within = restored_copy(within)

        assert seen == seen_within
