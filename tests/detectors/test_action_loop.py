import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.baselines import BaselineStats
from holdfast.detectors.action_loop import ActionLoop
from holdfast.errors import FormatError, SettingsError
from holdfast.events import RunInfo
from holdfast.findings import Severity
from holdfast.testing.traces import AGENT, RUN, events, fired_at

USUAL = BaselineStats(agent_id=AGENT)


def findings(detector, trace):
    trace = events(trace) if isinstance(trace, str) else trace
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [finding for event in trace if (finding := detector.check(event, USUAL))]


def batched(*batches):
    """Calls in parallel batches: those of one batch were issued before any of their answers was seen."""
    trace, seen = [], 0
    for batch in batches:
        calls = events(" " * seen + batch)[seen:]
        trace += [msgspec.structs.replace(event, started_seq=seen) for event in calls]
        seen += len(batch)
    return trace


class TestOneCall:
    def test_the_fourth_time_is_a_loop(self):
        """
        Three equal calls are nothing, the fourth is a loop, and so is every one after it.
        """
        assert [3, 4, 5] == fired_at(ActionLoop(), "aaaaaa")

    def test_other_calls_between_break_it(self):
        """
        A call of another kind, or with other arguments, begins anew.
        """
        assert [] == fired_at(ActionLoop(), "aaabaaa.aaa")

    def test_a_changed_result_is_progress(self):
        """
        The same call with another answer each time is no loop.
        """
        assert [] == fired_at(ActionLoop(), "AAAAAAAA")

    def test_names_alone_are_no_loop(self):
        """
        One tool called with other arguments each time is work.
        """
        assert [] == fired_at(ActionLoop(), "........")

    def test_failures_with_other_words_are_no_loop(self):
        """
        Steps that fail in another way each time are not the same step.
        """
        assert [] == fired_at(ActionLoop(), "xxxxxxxx")

    def test_replies_between_do_not_hide_it(self):
        """
        What the model says between equal calls changes nothing.
        """
        assert [6, 8] == fired_at(ActionLoop(), "arararara")


class TestSequences:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("abababab", [7]),
            ("abcabcabcabc", [11]),
            ("babababa.", [7]),
            ("abcdabcdabcdabcd", []),
            ("ababab.abab", []),
        ],
    )
    def test_a_sequence_of_two_or_three_repeats(self, picture, expected):
        """
        Two or three calls in the same order four times over are a loop; four calls are not looked for.
        """
        assert expected == fired_at(ActionLoop(), picture)

    def test_longer_sequences_when_asked(self):
        """
        With a longer sequence_length longer sequences are found.
        """
        assert [15] == fired_at(ActionLoop(sequence_length=4), "abcdabcdabcdabcd")

    def test_only_single_calls_when_asked(self):
        """
        With a sequence_length of 1 only the same call in a row counts.
        """
        assert [] == fired_at(ActionLoop(sequence_length=1), "abababababab")

    @given(st.text(alphabet="abc", min_size=1, max_size=3), st.integers(4, 9))
    def test_any_short_cycle_is_found_when_it_has_come_four_times(self, cycle, times):
        """
        Whatever the cycle of one to three calls is, its fourth repetition is a loop.
        """
        fired = fired_at(ActionLoop(), cycle * times)

        assert fired
        assert fired[0] <= 4 * len(cycle) - 1


class TestUsersTurns:
    def test_a_new_message_opens_a_new_scope(self):
        """
        What a user asks for again is not the agent's loop.
        """
        assert [] == fired_at(ActionLoop(), "aaa aaa aaa")

    def test_the_same_words_again_do_not(self):
        """
        A message that the harness repeats by itself opens no new scope.
        """
        trace = [
            msgspec.structs.replace(event, input_data={"text": "continue"})
            if event.action_type == "user_message"
            else event
            for event in events("aa aa aa")
        ]

        assert [7] == fired_at(ActionLoop(), trace)

    def test_a_message_after_a_failure_does_not(self):
        """
        The same call failing again after the user spoke is still the same call failing.
        """
        trace = [
            msgspec.structs.replace(event, error="no such file", output_data=None)
            if event.action_type == "tool_call"
            else event
            for event in events("a a a a")
        ]

        assert [6] == fired_at(ActionLoop(), trace)


class TestBatches:
    def test_calls_of_one_batch_do_not_repeat_each_other(self):
        """
        Six equal calls issued at once are one decision, not six.
        """
        assert [] == fired_at(ActionLoop(), batched("aaaaaa"))

    def test_batches_repeat_each_other(self):
        """
        The same batch four times over is a loop.
        """
        assert [6] == fired_at(ActionLoop(), batched("aa", "aa", "aa", "aa"))

    def test_calls_issued_one_by_one_count(self):
        """
        Each call issued after the answer before was seen counts.
        """
        assert [3] == fired_at(ActionLoop(), batched("a", "a", "a", "a"))


class TestSettings:
    def test_max_repeats(self):
        """
        max_repeats says from which repetition on it is a loop.
        """
        assert [1, 2] == fired_at(ActionLoop(max_repeats=2), "aaa")

    def test_a_window_limits_what_counts(self):
        """
        With a window of six calls a pair can repeat three times at most, whatever came before.
        """
        assert [] == fired_at(ActionLoop(window=6), "abababababab")
        assert [3, 4] == fired_at(ActionLoop(window=6), "aaaaa")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"max_repeats": 1}, r"action_loop\.max_repeats must be 2 or more, got 1"),
            ({"sequence_length": 0}, r"action_loop\.sequence_length must be from 1 to 8, got 0"),
            ({"sequence_length": 9}, r"action_loop\.sequence_length must be from 1 to 8, got 9"),
            ({"window": 3}, r"action_loop\.window must be None or at least max_repeats \(4\), got 3"),
        ],
    )
    def test_impossible_settings_are_refused(self, settings, words):
        """
        A setting that cannot be is refused by name, value and what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            ActionLoop(**settings)


class TestFinding:
    def test_the_score_is_the_seeds(self):
        """
        The score is the repetitions over twice the limit, at most 1.
        """
        assert [0.5, 0.625, 0.75, 0.875, 1.0, 1.0] == [
            finding.score for finding in findings(ActionLoop(), "aaaaaaaaa")
        ]

    def test_a_call_in_a_row_is_explained(self):
        """
        A single call's loop names the tool, how often, what came before, and the events that prove it.
        """
        (finding,) = findings(ActionLoop(), ".aaaa")

        assert "a called 4 times in a row with the same arguments and the same result" == finding.message
        assert {
            "tool_name": "a",
            "recent_actions": ["work", "a", "a", "a", "a"],
            "repeat_count": 4,
            "period": 1,
            "event_ids": ["run.1", "run.2", "run.3", "run.4"],
        } == finding.context
        assert ("loop", Severity.MED) == (finding.kind, finding.severity)

    def test_a_sequence_is_explained(self):
        """
        A sequence's loop names its calls in order.
        """
        (finding,) = findings(ActionLoop(max_repeats=3), "ababab")

        assert finding.message.startswith("a → b repeated 3 times")
        assert (["a", "b"], 3, 2) == tuple(
            finding.context[key] for key in ("sequence", "repeat_count", "period")
        )

    def test_a_repeated_error_is_called_one(self):
        """
        Where the answer was an error, the message says so.
        """
        trace = [msgspec.structs.replace(event, error="no", output_data=None) for event in events("aaaa")]

        assert findings(ActionLoop(), trace)[0].message.endswith("the same error")

    def test_a_very_long_loop_keeps_some_proof(self):
        """
        After a thousand repetitions the newest events prove it, not a thousand of them.
        """
        last = findings(ActionLoop(), "a" * 1000)[-1]

        assert (1000, 48, "run.999") == (
            last.context["repeat_count"],
            len(last.event_ids),
            last.event_ids[-1],
        )


class TestState:
    @given(st.text(alphabet="abA. x", max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        whole, cut = findings(ActionLoop(), picture), min(cut, len(picture))
        first, second = ActionLoop(), ActionLoop()
        before = findings(first, picture[:cut])
        second.restore(first.state())

        assert whole == before + findings(second, events(picture)[cut:])

    @pytest.mark.parametrize("length", [1, 2, 8])
    def test_another_sequence_length_is_survived(self, length):
        """
        A state kept with another sequence_length is taken up, and loops are found as before.
        """
        first, second = ActionLoop(), ActionLoop(sequence_length=length)
        findings(first, "aa")
        second.restore(first.state())

        assert [3, 4] == fired_at(second, events("aaaaa")[2:])

    def test_garbage_is_refused(self):
        """
        A state that is none is refused with the detector's name.
        """
        with pytest.raises(FormatError, match="action_loop"):
            ActionLoop().restore(b"\x92\x01\xa2\xff\xff")
