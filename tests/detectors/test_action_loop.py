import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at

USUAL = BaselineStats(agent_id=AGENT)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


def findings(detector, trace):
    trace = events(trace) if isinstance(trace, str) else trace
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [finding for event in trace if (finding := detector.check(event, USUAL))]


def reported(detector, trace):
    """The places at which it said more than that it had noticed something."""
    proofs = [it.event_ids[-1] for it in findings(detector, trace) if it.severity is not Severity.LOW]
    return [int(proof.removeprefix(f"{RUN}.")) for proof in proofs]


def batched(*batches):
    """Calls in parallel batches: those of one batch were issued before any of their answers was seen."""
    trace, seen = [], 0
    for batch in batches:
        calls = events(" " * seen + batch)[seen:]
        trace += [msgspec.structs.replace(event, started_seq=seen) for event in calls]
        seen += len(batch)
    return trace


class TestOneCall:
    def test_the_third_in_a_row_is_a_loop(self):
        """
        The third equal call with an equal result in a row is a loop, and so is every one after it.
        """
        assert [2, 3, 4, 5] == reported(ActionLoop(), "aaaaaa")

    def test_the_second_is_noticed(self):
        """
        The second is noticed as LOW, and not reported.
        """
        assert [(0.3, Severity.LOW)] == [(it.score, it.severity) for it in findings(ActionLoop(), "aa")]

    def test_with_other_calls_between_the_fourth_is(self):
        """
        With other calls between, it takes a fourth.
        """
        assert [6] == reported(ActionLoop(), "abacada")

    def test_without_results_the_fourth_is(self):
        """
        Where no results are known, it takes a fourth.
        """
        trace = [msgspec.structs.replace(event, output_data=None) for event in events("aaaa")]

        assert [3] == reported(ActionLoop(), trace)

    def test_a_changed_result_is_progress(self):
        """
        The same call with another answer each time is no loop.
        """
        assert [] == reported(ActionLoop(), "AAAAAAAA")

    def test_a_changed_result_is_noticed_once(self):
        """
        That the same was asked again at once is noticed the first time.
        """
        assert [1] == fired_at(ActionLoop(), "AAAAAAAA")

    def test_names_alone_are_no_loop(self):
        """
        One tool called with other arguments each time is work.
        """
        assert [] == reported(ActionLoop(), "........")

    def test_failures_with_other_words_are_no_loop(self):
        """
        Steps that fail in another way each time are not the same step.
        """
        assert [] == reported(ActionLoop(), "xxxxxxxx")

    def test_replies_between_do_not_hide_it(self):
        """
        What the model says between equal calls changes nothing.
        """
        assert [4, 6, 8] == reported(ActionLoop(), "arararara")


class TestSequences:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("ababab", [5]),
            ("abcabcabc", [8]),
            (".ababab.", [6]),
            ("abcdabcdabcd", [11]),
            ("abcdeabcdeabcde", [14]),
            ("aBaBaB", []),
            ("abab", []),
        ],
    )
    def test_two_to_five_calls(self, picture, expected):
        """
        Two to five calls in the same order, three times over, are a loop if all results are the same.
        """
        assert expected == reported(ActionLoop(), picture)


class TestUsersTurns:
    def test_a_new_message_opens_a_new_scope(self):
        """
        What a user asks for again is not the agent's loop.
        """
        assert [] == reported(ActionLoop(), "aa aa aa aa")

    def test_the_same_words_again_do_not(self):
        """
        A message that the harness repeats by itself opens no new scope.
        """
        trace = [
            msgspec.structs.replace(event, input_data={"text": "continue"})
            if event.action_type == "user_message"
            else event
            for event in events(" a a a")
        ]

        assert [5] == reported(ActionLoop(), trace)


class TestBatches:
    def test_calls_of_one_batch_do_not_repeat_each_other(self):
        """
        Six equal calls issued at once are one decision, not six.
        """
        assert [] == fired_at(ActionLoop(), batched("aaaaaa"))

    def test_batches_repeat_each_other(self):
        """
        The same batch three times over is a loop.
        """
        assert [4] == reported(ActionLoop(), batched("aa", "aa", "aa"))
        assert [5] == reported(ActionLoop(), batched("ab", "ab", "ab"))

    def test_calls_issued_one_by_one_count(self):
        """
        Each call issued after the answer before was seen counts.
        """
        assert [2, 3] == reported(ActionLoop(), batched("a", "a", "a", "a"))


class TestNoise:
    def test_what_was_taken_for_noise_is_said(self):
        """
        A loop whose results differ in noise alone says what it took for noise.
        """
        trace = [
            msgspec.structs.replace(
                event, output_data={"text": f"12 dashboards [{event.seq + 80}ms, pid {event.seq}]"}
            )
            for event in events("aaa")
        ]
        detector, usual = ActionLoop(), BaselineStats(agent_id="tested")
        *_, finding = [detector.check(event, usual) for event in trace]

        assert 0.5 == finding.score
        assert ["82ms", "pid 2"] == finding.context["ignored"]


class TestSettings:
    @pytest.mark.parametrize(("most", "expected"), [(2, [1, 2, 3, 4]), (3, [2, 3, 4]), (5, [4])])
    def test_max_repeats(self, most, expected):
        """
        max_repeats says from which repetition on it is a loop.
        """
        assert expected == reported(ActionLoop(max_repeats=most), "aaaaa")

    def test_max_repeats_counts_for_every_loop(self):
        """
        It counts for sequences as well; a call with others between needs one more.
        """
        assert [9] == reported(ActionLoop(max_repeats=5), "ababababab")

    def test_a_window_limits_what_counts(self):
        """
        With a window only the latest calls count.
        """
        assert [12] == reported(ActionLoop(), "abcdaefgahija")[:1]
        assert [] == reported(ActionLoop(window=4), "abcdaefgahija")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"max_repeats": 1}, r"action_loop\.max_repeats must be 2 or more, or None, got 1"),
            (
                {"max_repeats": 4, "window": 3},
                r"action_loop\.window must be None or at least max_repeats \(4\), got 3",
            ),
            ({"window": 0}, r"action_loop\.window must be None or at least max_repeats .*, got 0"),
        ],
    )
    def test_impossible_settings_are_refused(self, settings, words):
        """
        A setting that cannot be is refused by name, value and what is allowed.
        """
        with pytest.raises(SettingsError, match=words):
            ActionLoop(**settings)


class TestFinding:
    def test_the_score_grows_with_the_repetitions(self):
        """
        The score is the repetitions over twice the number that makes a loop, at most 1.
        """
        assert [0.3, 0.5, 0.67, 0.83, 1.0, 1.0] == [
            round(finding.score, 2) for finding in findings(ActionLoop(), "aaaaaaa")
        ]

    def test_a_call_in_a_row_is_explained(self):
        """
        A single call's loop names the tool, how often, what came before, and the events that prove it.
        """
        *_, finding = findings(ActionLoop(), "baaa")

        assert "a called 3 times in a row with the same arguments and the same result" == finding.message
        assert {
            "pattern": "repetition",
            "subject": "a",
            "tool_name": "a",
            "recent_actions": ["b", "a", "a", "a"],
            "repeat_count": 3,
            "event_ids": ["run.1", "run.2", "run.3"],
        } == finding.context
        assert ("loop", Severity.MED) == (finding.kind, finding.severity)

    def test_a_slow_loop_is_explained(self):
        """
        A loop with other calls between says so.
        """
        *_, finding = findings(ActionLoop(), "abacada")

        assert "a called 4 times without new work between with the same arguments and the same result" == (
            finding.message
        )
        assert "slow loop" == finding.context["pattern"]

    def test_a_sequence_is_explained(self):
        """
        A sequence's loop names its calls in order.
        """
        *_, finding = findings(ActionLoop(), "ababab")

        assert "a → b repeated 3 times, results and all" == finding.message
        assert ("cycle", ["a", "b"], 3) == tuple(
            finding.context[key] for key in ("pattern", "sequence", "repeat_count")
        )

    def test_a_repeated_error_is_called_one(self):
        """
        Where the answer was an error, the message says so.
        """
        trace = [msgspec.structs.replace(event, error="no", output_data=None) for event in events("aaa")]

        assert findings(ActionLoop(), trace)[-1].message.endswith("the same error")

    def test_a_very_long_loop_keeps_some_proof(self):
        """
        After a thousand repetitions the newest events prove it, not a thousand of them.
        """
        last = findings(ActionLoop(), "a" * 1000)[-1]

        assert (1000, 24, "run.999") == (
            last.context["repeat_count"],
            len(last.event_ids),
            last.event_ids[-1],
        )


class TestAnything:
    @given(st.lists(st.tuples(ANYTHING, ANYTHING), max_size=12))
    def test_any_data_is_survived(self, steps):
        """
        Whatever an agent hands over, nothing is raised, and every finding stands at an event of the run.
        """
        trace = [
            msgspec.structs.replace(event, input_data=args, output_data=result)
            for event, (args, result) in zip(events("a" * len(steps)), steps, strict=True)
        ]

        seen = {event.event_id for event in trace}
        assert all(seen.issuperset(finding.event_ids) for finding in findings(ActionLoop(), trace))

    @given(st.text(alphabet="ABCDEFGH", max_size=60))
    def test_where_every_result_is_new(self, picture):
        """
        A run in which every result is new is never reported.
        """
        assert [] == reported(ActionLoop(), picture)

    @given(st.permutations(["path", "line", "deep", "how"]), st.integers(1, 6))
    def test_the_order_of_keys_changes_nothing(self, order, times):
        """
        Arguments and results whose keys change places give the same findings.
        """
        plain = ["path", "line", "deep", "how"]

        def trace(keys):
            data = {key: dict.fromkeys(keys, 1) for key in keys}
            return [
                msgspec.structs.replace(it, input_data=data, output_data=data) for it in events("a" * times)
            ]

        assert findings(ActionLoop(), trace(plain)) == findings(ActionLoop(), trace(order))


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

    def test_other_settings_are_survived(self):
        """
        A state kept with other settings is taken up, and loops are found by the new ones.
        """
        first, second = ActionLoop(), ActionLoop(max_repeats=5)
        findings(first, "aa")
        second.restore(first.state())

        assert [4] == reported(second, events("aaaaa")[2:])

    def test_a_state_of_the_first_version_is_left_aside(self):
        """
        What an older version remembered meant something else: the detector begins afresh.
        """
        older = {"keys": [[1, 2]] * 3, "runs": [2, 0, 0], "names": ["a"] * 3, "ids": ["run.0"] * 3}
        detector = ActionLoop()
        detector.restore(msgspec.msgpack.encode((1, older)))

        assert [2] == reported(detector, "aaa")

    def test_garbage_is_refused(self):
        """
        A state that is none is refused with the detector's name.
        """
        with pytest.raises(FormatError, match="action_loop"):
            ActionLoop().restore(msgspec.msgpack.encode(ActionLoop.version).join((b"\x92", b"\xa2\xff\xff")))
