import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.components import make_detector_factory
from steadyhelm.corrections.conversation import ReplyTracker
from steadyhelm.corrections.deferred import (
    TurnContent,
    collect_content,
    find_corrections,
    find_turn,
    score_findings,
)
from steadyhelm.detectors.user_correction import UserCorrection
from steadyhelm.engine.session import Session
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.settings import Settings

WRONG = "no, that is still broken"
HOSTILE = st.text(st.characters() | st.sampled_from("\ud800\udfff\x00\u202e`?!'\n "), max_size=200)


def conversation(*steps):
    """Events from pairs: `u` what the user says, `r` a reply, `c` a call that edits a file, `s` a state."""
    return [event(place, kind, words) for place, (kind, words) in enumerate(steps)]


def event(place, kind, words):
    types = {"u": "user_message", "r": "llm_request", "c": "tool_call", "s": "state_transition"}
    data = {
        "u": {"input_data": {"text": words}},
        "r": {"output_data": {"text": words}},
        "c": {"input_data": {"file_path": words}, "output_data": {"text": f"edited {place}"}},
        "s": {},
    }[kind]
    return TraceEvent(
        agent_id="a",
        run_id="r",
        action_type=types[kind],
        action_name=words if kind == "s" else "edit",
        timestamp=float(place),
        event_id=str(place),
        seq=place,
        **data,
    )


TWO_FILES = (
    ("u", "speed up the parser"),
    ("c", "src/parser.py"),
    ("r", "The parser is faster now."),
    ("u", "thanks, now write the changelog"),
    ("c", "CHANGELOG.md"),
    ("r", "Done, the changelog has an entry."),
)


def corrected(*steps):
    return [(it.turn, it.distance) for it in find_corrections(conversation(*steps)).corrections]


class TestAttribution:
    def test_the_turn_just_before_by_default(self):
        """
        A correction that names nothing is about the turn just before it.
        """
        assert [(2, 1)] == corrected(*TWO_FILES, ("u", WRONG))

    def test_an_earlier_turn_by_the_file_it_names(self):
        """
        A correction that names a file only an earlier turn touched is about that turn.
        """
        assert [(1, 2)] == corrected(*TWO_FILES, ("u", "no, parser.py is still broken"))

    def test_an_earlier_turn_by_words_when_it_points_back(self):
        """
        Where it says "earlier" and shares two words with an earlier turn alone, it is about that turn.
        """
        reply = "the earlier change to make the parser faster was wrong"

        assert [(1, 2)] == corrected(*TWO_FILES, ("u", reply))

    def test_what_the_latest_turn_touched_too(self):
        """
        A name that the latest turn has as well points no further back.
        """
        steps = (*TWO_FILES, ("u", "now the docs of parser.py"), ("c", "src/parser.py"))

        assert [(3, 1)] == corrected(*steps, ("u", "no, parser.py is still broken"))

    def test_pasted_lines_name_nothing(self):
        """
        File names in a pasted log say little about which turn is meant.
        """
        pasted = f"{WRONG}\n[12:00:01] parser.py failed\nat 12:00:02 parser.py gave up"

        assert [(2, 1)] == corrected(*TWO_FILES, ("u", pasted))

    def test_what_ties_it_is_told(self):
        """
        A correction of an earlier turn says by what it was tied to it.
        """
        [found] = find_corrections(
            conversation(*TWO_FILES, ("u", "no, parser.py is still broken"))
        ).corrections

        assert ("parser.py",) == found.by

    def test_no_turn_to_choose_from(self):
        """
        With one turn, or none, there is nothing to choose.
        """
        assert (0, 0) == (
            find_turn("parser.py", []).turns_back,
            find_turn("parser.py", [TurnContent()]).turns_back,
        )

    @given(HOSTILE, st.lists(HOSTILE, max_size=4))
    def test_hostile_text(self, message, texts):
        """
        Whatever is said, some turn is named.
        """
        turns = [collect_content([text]) for text in texts]

        assert 0 <= find_turn(message, turns).turns_back < max(1, len(turns))


class TestReach:
    def later(self, messages):
        chat = [
            ("u", f"explain part {n}") if n % 2 else ("r", f"part {n}") for n in range(1, 2 * messages - 1)
        ]
        return (*TWO_FILES[:3], *chat, ("u", "no, parser.py is still broken"))

    def test_ten_messages_later(self):
        """
        The tenth message after a turn can still correct it.
        """
        assert [(1, 10)] == corrected(*self.later(10))

    def test_the_eleventh_is_too_late(self):
        """
        The eleventh cannot: then it is about the turn just before.
        """
        assert [(11, 1)] == corrected(*self.later(11))


class TestTurns:
    def test_steps_between_two_messages(self):
        """
        A turn holds the agent's steps between two messages, and the place of the message before them.
        """
        turns = find_corrections(conversation(*TWO_FILES)).turns

        assert [(1, 0, 1, 2), (2, 3, 4, 5)] == [(it.number, it.asked, it.first, it.last) for it in turns]

    def test_an_agent_that_begins_by_itself(self):
        """
        Steps before the first message are turn 0, and the first message may correct them.
        """
        assert [(0, 1)] == corrected(("c", "a.py"), ("r", "Done."), ("u", WRONG))

    def test_nothing_was_done_yet(self):
        """
        A first message corrects nobody, whatever it says.
        """
        assert [] == corrected(("u", WRONG), ("u", "no, wrong again"))

    def test_a_harness_that_repeats_itself(self):
        """
        The same text sent again is no message, and opens no turn.
        """
        steps = (("u", "go"), ("c", "a.py"), ("u", WRONG), ("c", "b.py"), ("u", WRONG), ("c", "c.py"))

        assert [(1, 1)] == corrected(*steps)
        assert [1, 2] == [turn.number for turn in find_corrections(conversation(*steps)).turns]

    @pytest.mark.parametrize("signal", ["###STOP###", "[DONE]", "<END>\n"])
    def test_a_signal_is_no_message(self, signal):
        """
        A mark that ends a conversation was written by no person.
        """
        assert [] == corrected(*TWO_FILES, ("u", signal))

    def test_an_interruption_is_known(self):
        """
        A user who stopped the agent is known to have done so, until the next message.
        """
        talk = ReplyTracker()
        for one in conversation(("u", "go"), ("c", "a.py"), ("s", "interrupted")):
            talk.record(one)

        assert talk.interrupted
        talk.record(event(3, "u", "wait"))
        assert not talk.interrupted


class TestDelayedOutcome:
    def test_precision_and_recall_of_what_was_noticed(self):
        """
        Findings are compared with corrections turn by turn.
        """
        history = find_corrections(
            conversation(*TWO_FILES, ("u", WRONG), ("r", "Fixed."), ("u", "great, thanks"))
        )

        right, wrong, none = (score_findings(history, places) for places in ({4}, {1}, ()))

        assert (1.0, 1.0, []) == (right.precision, right.recall, right.unnoticed)
        assert (0.0, 0.0, [2]) == (wrong.precision, wrong.recall, wrong.unnoticed)
        assert (None, 0.0, [2]) == (none.precision, none.recall, none.unnoticed)

    def test_the_last_turn_is_not_judged(self):
        """
        Nobody knows what came of a turn that no message follows.
        """
        history = find_corrections(conversation(*TWO_FILES))

        assert (1, []) == (score_findings(history, {5}).judged, score_findings(history, {5}).noticed)

    @given(st.lists(st.tuples(st.sampled_from("urcs"), HOSTILE | st.just(WRONG)), max_size=25))
    def test_places_are_in_order(self, steps):
        """
        A correction comes after its turn, at most ten messages later, whatever the run.
        """
        for it in find_corrections(conversation(*steps)).corrections:
            assert 0 <= it.first <= it.last < it.message < len(steps)
            assert 1 <= it.distance <= 10
            assert 0.0 <= it.probability <= 1.0


class TestNeverAnInput:
    """A user's later message is a label of the turn before it, and must not reach a decision about it."""

    STEPS = (*TWO_FILES, ("u", WRONG), ("c", "CHANGELOG.md"), ("r", "Fixed."), ("u", "no, it still crashes"))

    def decisions(self, steps, until):
        installed = [one for one in make_detector_factory(Settings())() if one.name != UserCorrection.name]
        info = RunInfo(agent_id="a", run_id="r", goal="speed up the parser")
        session = Session(info, [*installed, UserCorrection()], BaselineStats(agent_id="a"))
        return [session.observe(one).decision for one in conversation(*steps)][: until + 1]

    def test_the_session_reads_messages(self):
        """
        A message does reach the decision at itself: the tests below would show it if it went further back.
        """
        found = [len(decision.findings) for decision in self.decisions(self.STEPS, 9)]

        assert [1, 1] == [found[6], found[9]]

    @pytest.mark.parametrize("end", [2, 5, 8])
    @pytest.mark.parametrize("later", [[], [("u", "perfect, thank you")], [("u", "wtf, useless")] * 3])
    def test_later_messages_change_nothing_before_them(self, end, later):
        """
        With later messages removed or replaced, every finding and decision up to the turn's end is the same.
        """
        whole = self.decisions(self.STEPS, end)

        assert whole == self.decisions((*self.STEPS[: end + 1], *later), end)

    def test_shuffled_messages_change_nothing_before_them(self):
        """
        With what the user says later exchanged, every finding and decision before it is the same.
        """
        said = [place for place, (kind, _) in enumerate(self.STEPS) if kind == "u"]
        shuffled = list(self.STEPS)
        shuffled[said[-1]], shuffled[said[-2]] = shuffled[said[-2]], shuffled[said[-1]]

        assert self.decisions(self.STEPS, said[-2] - 1) == self.decisions(shuffled, said[-2] - 1)

    def test_the_outcome_does_change(self):
        """
        The delayed outcome of the same turn follows the later message: that is what it is for.
        """
        events = conversation(*self.STEPS)
        thanked = structs.replace(events[6], input_data={"text": "perfect, thank you"})

        assert {2, 3} == find_corrections(events).corrected
        assert {3} == find_corrections([*events[:6], thanked, *events[7:]]).corrected
