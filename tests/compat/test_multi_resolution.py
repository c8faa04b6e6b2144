import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.compat.multi_resolution import LoopType, MultiResolutionLoopDetector
from steadyhelm.errors import SettingsError

STATE = {"task": "work"}
STRATEGIES = ["exact_hash", "semantic", "oscillation", "dead_end"]


def judged(steps, **settings):
    """The verdict after these (action, result) or (action, result, state) steps."""
    detector = MultiResolutionLoopDetector(**settings)
    for turn, (action, result, *state) in enumerate(steps, start=1):
        detector.record_step(turn, action, state[0] if state else STATE, result)
    return detector.detect_loop()


def kind(steps, **settings):
    return judged(steps, **settings).type


class TestTheVerdict:
    def test_nothing_recorded(self):
        """
        Without a step there is no loop, and every strategy says so.
        """
        loop = MultiResolutionLoopDetector().detect_loop()

        assert (False, None, 0.0, None, [], "") == (
            *(loop.detected, loop.type, loop.confidence, loop.detection_strategy),
            *(loop.loop_sequence, loop.suggestion),
        )
        assert dict.fromkeys(STRATEGIES) == loop.all_detections

    def test_the_surest_speaks(self):
        """
        All strategies report; the one with the highest confidence is the verdict.
        """
        looks = ["List the tasks", "Read the log", "Ask the index", "Check the rules", "Check all the rules"]
        loop = judged([(look, "Found 3 issues") for look in looks] * 2, dead_end_threshold=3)
        fired = {name: found.confidence for name, found in loop.all_detections.items() if found}

        assert loop.confidence == max(fired.values())
        assert loop.detection_strategy == max(fired, key=fired.get)

    def test_asking_changes_nothing(self):
        """
        The same question twice has the same answer.
        """
        detector = MultiResolutionLoopDetector()
        for turn in (1, 2):
            detector.record_step(turn, "ls", STATE, "a b")

        assert detector.detect_loop() == detector.detect_loop()

    def test_tells_what_was_tried(self):
        """
        The verdict names the loop's different actions, so that a new plan can leave them out.
        """
        loop = judged([(f"Try approach {n}", "Failed") for n in range(5)])

        assert [f"Try approach {n}" for n in range(5)] == loop.tried_approaches
        assert 5 == loop.turn

    def test_an_action_is_shown_on_one_short_line(self):
        """
        An agent's text cannot break out of the suggestion: no line breaks, no control characters, no novels.
        """
        loop = judged([("rm \x1b[31m\n\n" + "x" * 5000, "done")] * 2)

        assert loop.suggestion.isprintable()
        assert len(loop.suggestion) < 250

    def test_starting_afresh(self):
        """
        After an intervention counting starts anew.
        """
        detector = MultiResolutionLoopDetector()
        detector.record_step(1, "ls", STATE, "a")
        detector.reset()
        detector.record_step(2, "ls", STATE, "a")

        assert not detector.detect_loop().detected


class TestSettings:
    @pytest.mark.parametrize(
        "name", ["window_size", "exact_hash_threshold", "oscillation_threshold", "dead_end_threshold"]
    )
    @pytest.mark.parametrize("value", [1, 0, -3, 2.5, "many", True, None])
    def test_counts_are_two_or_more(self, name, value):
        """
        A number of steps below two is refused with its name and its value.
        """
        with pytest.raises(SettingsError, match=f"{name} must be 2 or more"):
            MultiResolutionLoopDetector(**{name: value})

    @pytest.mark.parametrize("value", [0, -1, 1.01, float("nan"), "high", None, True])
    def test_the_semantic_threshold_is_a_share(self, value):
        """
        A semantic threshold lies above 0 and goes up to 1.
        """
        with pytest.raises(SettingsError, match="semantic_threshold must be"):
            MultiResolutionLoopDetector(semantic_threshold=value)

    def test_a_strategy_that_cannot_fire_says_so(self):
        """
        A window too small for a threshold is named: nobody is silently blind.
        """
        detector = MultiResolutionLoopDetector(window_size=4)

        assert ["oscillation", "dead_end"] == list(detector.not_checked)
        assert [
            None,
            None,
            "needs 5 steps, and window_size holds 4",
            "needs 5 steps, and window_size holds 4",
        ] == [signal.not_checked for signal in detector.detect_loop().signals]

    def test_switching_strategies_off(self):
        """
        With enable_all_strategies=False only identical steps are looked for.
        """
        steps = [(f"Try {n}", "Failed") for n in range(5)]

        assert kind(steps, enable_all_strategies=False) is None
        assert "EXACT_HASH" == kind([("a", "b")] * 2, enable_all_strategies=False)


class Hostile:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no comparing")

    def __str__(self):
        raise RuntimeError("no words")

    def __bool__(self):
        raise RuntimeError("no truth")


class TestAnythingMayArrive:
    @pytest.mark.parametrize(
        "thing",
        [
            Hostile(),
            [Hostile()],
            {"error": Hostile()},
            {Hostile: 1},
            b"\xff",
            "\ud800",
            float("nan"),
            object(),
            {1, 2},
        ],
    )
    def test_as_action_state_or_result(self, thing):
        """
        Any object is taken as it comes and never raised at.
        """
        detector = MultiResolutionLoopDetector()
        for turn in (1, 2):
            detector.record_step(turn, thing, thing, thing)

        assert LoopType.EXACT_HASH == detector.detect_loop().type


ACTIONS = st.sampled_from(["read a", "reading a", "read b", "edit a", "", "x" * 3000])
RESULTS = st.sampled_from(
    [None, "", "ok", "Failed", "Found 3 issues", "Found 3 problems", "running", {"error": "e"}]
)
STEPS = st.lists(st.tuples(ACTIONS, RESULTS, st.sampled_from([{}, {"s": 1}, {"s": 2}])), max_size=30)


class TestWhateverIsRecorded:
    @given(STEPS, st.integers(min_value=2, max_value=12))
    def test_the_window_holds(self, steps, window):
        """
        A loop is never longer than the window, its turns are the latest ones, and confidence is a share.
        """
        loop = judged(steps, window_size=window)
        latest = list(range(1, len(steps) + 1))[-window:]

        assert 0.0 <= loop.confidence <= 1.0
        assert loop.loop_sequence == latest[len(latest) - len(loop.loop_sequence) :]

    @given(STEPS)
    def test_the_same_steps_give_the_same_verdict(self, steps):
        """
        Nothing but the steps counts.
        """
        assert judged(steps) == judged(steps)

    @given(STEPS)
    def test_what_left_the_window_is_forgotten(self, steps):
        """
        Only the steps in the window count, whatever came before them.
        """
        window = 6
        recent = steps[-window:]
        first = len(steps) - len(recent)
        shifted = [turn + first for turn in judged(recent, window_size=window).loop_sequence]

        assert shifted == judged(steps, window_size=window).loop_sequence

    @given(STEPS)
    def test_the_verdict_is_the_surest_detection(self, steps):
        """
        No strategy is surer than the verdict.
        """
        loop = judged(steps)
        fired = [found.confidence for found in loop.all_detections.values() if found]

        assert loop.detected == bool(fired)
        assert loop.confidence == max(fired, default=0.0)

    @given(st.text(max_size=700), st.text(max_size=700))
    def test_any_text(self, action, result):
        """
        Any text is an action or a result, and the same twice is a repetition.
        """
        assert "EXACT_HASH" == kind([(action, result)] * 2)
