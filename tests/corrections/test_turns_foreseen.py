import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.corrections.foresight import foresee_correction
from holdfast.corrections.turns import TurnEnd, turn_end

DELIBERATES = "Option A is simpler, but B would scale. I'd recommend A. Which approach do you prefer?"
CLAIMS = "The button now shows on every page."

TURN = [
    {"type": "user_message", "text": "add a button"},
    {"type": "llm_output", "text": "Let me look."},
    {"type": "tool_call", "name": "Edit", "args": {}},
    {"type": "tool_result", "name": "Edit", "text": "no such file", "error": True},
    {"type": "llm_output", "text": CLAIMS},
]
NEXT = [{"type": "user_message", "text": "it is still not there"}, {"type": "llm_output", "text": "Sorry."}]

ENTRIES = st.lists(
    st.none()
    | st.integers()
    | st.dictionaries(
        st.sampled_from(["type", "text", "error", "name"]),
        st.none() | st.integers() | st.sampled_from(["user_message", "llm_output", "tool_call", "error", ""]),
    ),
    max_size=12,
)


class TestWhatIsKnown:
    def test_an_agent_that_asks(self):
        """
        A turn that weighs ways and asks is corrected less than one that acted and claims.
        """
        asks = foresee_correction(assistant_before=DELIBERATES, tool_calls=2)

        assert asks < foresee_correction(assistant_before=CLAIMS, tool_calls=2)

    def test_failed_calls(self):
        """
        Failed calls make a correction likelier.
        """
        clean, failed = (
            foresee_correction(assistant_before=CLAIMS, tool_calls=9, tool_errors=errors) for errors in (0, 5)
        )

        assert clean < failed

    def test_a_request_that_demands(self):
        """
        A request that says how things shall be is missed more often than one for an opinion.
        """
        demand = "I want it only on the left, not on top, and it should keep its size"

        assert foresee_correction(prompt_before="what do you think about it?", assistant_before=CLAIMS) < (
            foresee_correction(prompt_before=demand, assistant_before=CLAIMS)
        )

    def test_nothing_known(self):
        """
        With nothing known it is still a probability, and not a high one.
        """
        assert 0 < foresee_correction() < 0.5

    @given(st.text(), st.text(), st.integers(), st.floats(), st.integers())
    def test_it_is_a_probability(self, prompt, answer, calls, errors, turn):
        """
        Whatever is given, it is a probability.
        """
        found = foresee_correction(
            prompt_before=prompt, assistant_before=answer, tool_calls=calls, tool_errors=errors, turn=turn
        )

        assert 0 <= found <= 1


class TestWithARun:
    def test_it_fills_in(self):
        """
        A run gives whatever was not given.
        """
        given_by_hand = foresee_correction(
            prompt_before="add a button", assistant_before=CLAIMS, tool_calls=1, tool_errors=1, turn=2
        )

        assert given_by_hand == foresee_correction(run={"events": TURN}, event=len(TURN))

    def test_nothing_after_the_event_matters(self):
        """
        What comes at the event or after it, the reply itself above all, changes nothing.
        """
        alone = foresee_correction(run={"events": TURN}, event=len(TURN))

        assert alone == foresee_correction(run={"events": TURN + NEXT}, event=len(TURN))
        assert alone != foresee_correction(run={"events": TURN + NEXT})

    def test_what_is_given_wins(self):
        """
        What the caller says is not replaced by what the run says.
        """
        asked = foresee_correction(assistant_before=DELIBERATES, run={"events": TURN}, event=len(TURN))

        assert asked < foresee_correction(run={"events": TURN}, event=len(TURN))

    @pytest.mark.parametrize(
        "run", [{}, {"events": None}, {"events": "text"}, {"events": [None, 3, "x"]}, [], "run", 7]
    )
    def test_a_run_that_is_none(self, run):
        """
        A run without events tells nothing, and never raises.
        """
        assert foresee_correction() == foresee_correction(run=run)

    @given(ENTRIES, st.none() | st.integers(-3, 20) | st.booleans())
    def test_any_entries(self, entries, event):
        """
        Any entries can be read.
        """
        assert 0 <= foresee_correction(run={"events": entries}, event=event) <= 1


class TestTheEndOfATurn:
    def test_it_is_the_last_one(self):
        """
        The turn that counts is the last one before the event.
        """
        found = turn_end({"events": TURN + NEXT}, len(TURN))

        assert TurnEnd(prompt="add a button", answer=CLAIMS, calls=1, errors=1, turn=2) == found

    def test_before_everything(self):
        """
        Before the first event nothing is known.
        """
        assert TurnEnd() == turn_end({"events": TURN}, 0)
