import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.corrections.forecast import TurnSummary, foresee_correction, summarize_turn

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

    @pytest.mark.parametrize("event", ["5", "", 2.5, True, False, float("nan"), float("inf"), -3, [5], b"5"])
    def test_a_place_that_is_none(self, event):
        """
        A place that cannot be understood never opens what comes later: nothing is known then.
        """
        assert foresee_correction(run={}) == foresee_correction(run={"events": TURN + NEXT}, event=event)

    def test_a_place_with_a_point(self):
        """
        A whole number is a place however it is written.
        """
        whole, pointed = (
            foresee_correction(run={"events": TURN + NEXT}, event=at) for at in (len(TURN), float(len(TURN)))
        )

        assert whole == pointed

    @given(ENTRIES, st.none() | st.integers(-3, 20) | st.booleans() | st.floats() | st.text(max_size=2))
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
        found = summarize_turn({"events": TURN + NEXT}, len(TURN))

        assert TurnSummary(prompt="add a button", answer=CLAIMS, calls=1, errors=1, turn=2) == found

    def test_before_everything(self):
        """
        Before the first event nothing is known.
        """
        assert TurnSummary() == summarize_turn({"events": TURN}, 0)

    def test_its_number(self):
        """
        A turn has the number of the message that follows: those sent so far, and one.
        """
        assert [1, 2, 3] == [summarize_turn({"events": TURN + NEXT}, at).turn for at in (0, len(TURN), None)]


def failures(*entries):
    """How many calls of a turn failed; each entry is a type, a name and whether it is marked as failed."""
    events = [{"type": kind, "name": name, "error": failed} for kind, name, failed in entries]
    return summarize_turn({"events": [TURN[0], *events]}).errors


class TestFailedCalls:
    def test_one_that_is_told_three_times(self):
        """
        The call, its result and an error after it may all say that it failed; it failed once.
        """
        told = ("tool_call", "edit", True), ("tool_result", "edit", True), ("error", "edit", None)

        assert 1 == failures(*told)

    @pytest.mark.parametrize("way", ["tool_result", "error"])
    def test_one_that_is_told_once(self, way):
        """
        A result or an error alone is enough.
        """
        assert 1 == failures(("tool_call", "edit", None), (way, "edit", True))

    def test_calls_at_the_same_time(self):
        """
        Of calls whose results come later each counts by its own.
        """
        calls = [("tool_call", "read", None)] * 3
        results = ("tool_result", "read", True), ("tool_result", "read", False), ("tool_result", "read", True)

        assert 2 == failures(*calls, *results)

    def test_by_id(self):
        """
        A result with an id belongs to the call with that id.
        """
        first, second = ({"type": "tool_call", "name": "read", "call_id": it} for it in "ab")
        result = {"type": "tool_result", "name": "read", "call_id": "b", "error": True}
        told_again = {"type": "error", "name": "read"}

        assert 1 == summarize_turn({"events": [TURN[0], first, second, result, told_again]}).errors

    def test_an_error_without_a_call(self):
        """
        An error that belongs to no call is no failed call.
        """
        assert 0 == failures(("error", "network", None), ("tool_result", "edit", True))

    @given(ENTRIES)
    def test_never_more_than_calls(self, entries):
        """
        No more calls fail than were made.
        """
        end = summarize_turn({"events": entries})

        assert end.errors <= end.calls
