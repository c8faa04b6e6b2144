import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.user_correction import MIN_PROBABILITY, UserCorrection
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo, TraceEvent
from steadyhelm.testing import DETECTOR_CHECKS
from steadyhelm.testing.traces import AGENT, RUN

WRONG = "no, that is still broken"
AGAIN = "it still crashes, you changed the wrong file"
GO_ON = "now add a test for the empty case"
HOSTILE = st.text(st.characters() | st.sampled_from("\ud800\udfff\x00\u202e?!"), max_size=200)


def spoken(*messages, reply="Done, all tests pass.", calls=2, on="file_path"):
    """A run in which each message of the user is answered by calls and a reply."""
    made = []
    for number, message in enumerate(messages):
        made.append(step(len(made), "user_message", "user", input_data={"text": message}))
        for call in range(calls):
            edited = {on: f"{number}_{call}.py"}
            made.append(step(len(made), "tool_call", "edit", input_data=edited, output_data={"text": "ok"}))
        made.append(step(len(made), "llm_request", "model", output_data={"text": reply}))
    return made


def step(seq, action_type, name, **fields):
    return TraceEvent(
        agent_id=AGENT,
        run_id=RUN,
        action_type=action_type,
        action_name=name,
        timestamp=float(seq),
        event_id=f"{RUN}.{seq}",
        seq=seq,
        **fields,
    )


def found(events, **settings):
    detector = UserCorrection(**settings)
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    usual = BaselineStats(agent_id=AGENT)
    return [finding for event in events if (finding := detector.check(event, usual)) is not None]


def severities(*messages, repeats=None, **options):
    events = spoken("fix the parser", *messages, **options)
    return [str(finding.severity) for finding in found(events, repeats=repeats)]


@pytest.mark.parametrize("check", DETECTOR_CHECKS, ids=lambda check: check.__name__)
def test_it_holds_to_the_contract(check):
    """
    It passes every check of the conformance suite.
    """
    check(UserCorrection)


class TestSeverity:
    def test_one_correction_is_noticed(self):
        """
        A single correction is LOW: it happens to every agent.
        """
        assert ["LOW"] == severities(WRONG, GO_ON, "commit and push", "thanks")

    @pytest.mark.parametrize(
        "second", [AGAIN, "you did not fix the parser of dates, the parser of dates is wrong"]
    )
    def test_two_of_one_thing_in_a_row_are_reported(self, second):
        """
        A second correction that takes up the first, or says that something is still wrong, is MED.
        """
        assert ["LOW", "MED"] == severities("no, the parser of dates is wrong", second)

    def test_two_of_different_things_in_a_row_are_noticed(self):
        """
        A user who corrects one thing after another is reported at the third in a row.
        """
        different = ["no, the menu is broken", "wrong, you forgot the tests", "that is not what I asked for"]

        assert ["LOW", "LOW", "MED"] == severities(*different)
        assert ["LOW", "MED"] == severities(*different[:2], repeats=2)

    def test_two_with_another_message_between_are_not(self):
        """
        With another message between them they are two single corrections, unless `repeats` is given.
        """
        assert ["LOW", "LOW"] == severities(WRONG, GO_ON, AGAIN)
        assert ["LOW", "MED"] == severities(WRONG, GO_ON, AGAIN, repeats=2)

    def test_two_far_apart_are_not(self):
        """
        With two other messages between them they are two single corrections, whatever `repeats` is.
        """
        assert ["LOW", "LOW"] == severities(WRONG, GO_ON, "commit and push", AGAIN, repeats=2)

    def test_lost_patience_is_reported_at_once(self):
        """
        A user who is angry at an agent that works on no files is reported the first time.
        """
        assert ["MED"] == severities("what are you doing?", on="order")

    def test_lost_patience_in_a_coding_session(self):
        """
        In a coding session it is shown, and reported once `repeats` is given.
        """
        assert ["LOW"] == severities("what are you doing?")
        assert ["MED"] == severities("what are you doing?", repeats=2)

    @pytest.mark.parametrize("reply", ["holy shit it works", "wtf, that was fast, nice"])
    def test_joy_is_not_reported(self, reply):
        """
        An outburst of joy makes no finding.
        """
        assert [] == severities(reply)

    def test_an_outburst_that_may_be_none(self):
        """
        What is less likely a correction than not is LOW, however it is put.
        """
        [finding] = found(spoken("fix the parser", "nice, you broke it again wtf"))

        assert ("frustration", "LOW") == (finding.context["primary"], str(finding.severity))
        assert finding.context["probability"] < MIN_PROBABILITY

    def test_never_high(self):
        """
        However many there are, words alone never make it HIGH.
        """
        many = [f"{WRONG}, {n} tests fail" for n in range(6)]

        assert {"LOW", "MED"} == set(severities(*many))

    def test_approval_and_going_on_are_nothing(self):
        """
        What does not correct makes no finding.
        """
        assert [] == severities("thanks, that works", GO_ON, "what does the cache do?")


class TestWhatCounts:
    def test_the_first_message_corrects_nobody(self):
        """
        Before the agent has done anything there is nothing to correct.
        """
        assert [] == found(spoken(WRONG))

    def test_a_harness_that_repeats_itself(self):
        """
        The same text again is the harness's, not the user's.
        """
        assert ["LOW"] == severities(WRONG, WRONG, WRONG)

    def test_answers_to_a_question_do_not_count(self):
        """
        What answers an agent that did nothing but ask is no repeated correction.
        """
        asking = {"reply": "Which order is it about?", "calls": 0}

        assert "MED" not in severities("no, I do not know it", "no, it is not that one", **asking)

    def test_state_and_other_steps_are_silent(self):
        """
        Only a user's message can make a finding.
        """
        at = {finding.event_id for finding in found(spoken("fix it", WRONG, AGAIN))}

        assert {f"{RUN}.{place}/user_correction" for place in (4, 8)} == at

    def test_an_interruption_speaks_for_a_correction(self):
        """
        The same words weigh more from a user who has just stopped the agent.
        """
        plain = spoken("fix it", "only the parser, not the cache")
        stopped = list(plain)
        stopped.insert(4, step(4, "state_transition", "interrupted"))

        def probability(events):
            return max((it.context["probability"] for it in found(events)), default=0.0)

        assert probability(stopped) >= probability(plain)


class TestFinding:
    def test_evidence(self):
        """
        It names the turn's steps and the message, and where it is repeated the earlier correction too.
        """
        single, repeated = found(spoken("fix the parser", WRONG, AGAIN))

        assert [f"{RUN}.{place}" for place in (1, 2, 3, 4)] == single.event_ids
        assert [f"{RUN}.{place}" for place in (4, 5, 6, 7, 8)] == repeated.event_ids

    def test_words(self):
        """
        It says what the user does, how often, what spoke for it, and what to do.
        """
        _, repeated = found(spoken("fix the parser", WRONG, AGAIN))

        assert "the user corrects what was done: 2 corrections in a row" == repeated.message
        assert repeated.suggested_action.startswith("Say back")
        assert any("still" in cue for cue in repeated.context["cues"])

    def test_long_turns_keep_their_latest_steps(self):
        """
        Of a long turn only the latest steps are kept as evidence.
        """
        [finding] = found(spoken("fix the parser", WRONG, calls=50))

        assert 9 == len(finding.event_ids)


class TestSettings:
    @pytest.mark.parametrize("repeats", [0, 4, -1, True, 1.5, "2"])
    def test_repeats_are_one_to_three(self, repeats):
        """
        Anything else is refused with the value.
        """
        with pytest.raises(SettingsError, match=r"user_correction\.repeats must be 1, 2 or 3"):
            UserCorrection(repeats=repeats)

    def test_one_is_enough_when_asked_for(self):
        """
        With `repeats` 1 a single likely correction is reported.
        """
        assert ["MED"] == [str(it.severity) for it in found(spoken("fix it", WRONG), repeats=1)]


class TestBlindness:
    def test_without_messages_it_says_so(self):
        """
        A run without messages about the work was not checked.
        """
        detector = UserCorrection()
        for event in spoken("fix the parser"):
            detector.check(event, BaselineStats(agent_id=AGENT))

        assert "no message of the user about the agent's work seen yet" == detector.not_checked

    @given(st.lists(HOSTILE, max_size=6))
    def test_hostile_messages(self, messages):
        """
        Whatever a user sends, findings can be stored and scores stay below HIGH.
        """
        for finding in found(spoken(*messages)):
            assert finding.score < 0.7
            assert msgspec.json.encode(finding.score)
