"""Which detector looks at which kind of event, and what it needs for that: two tables, kept by test."""

import pytest
from msgspec import structs

from steadyhelm.baselines import BaselineStats, Spread
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.events import ACTION_TYPES
from steadyhelm.testing.traces import AGENT, events, fired_at

GOAL = "find the cheapest flight to Oslo"
POEM = {"text": "Here is a poem about the many colours of the sea."}

UNCALIBRATED = BaselineStats(agent_id=AGENT, calibration_runs=29)
CALIBRATED = BaselineStats(
    agent_id=AGENT,
    calibration_runs=30,
    is_calibrated=True,
    mean_tokens_per_run=1000.0,
    spreads={"tokens": Spread(p50=1000.0, p95=1500.0)},
    embedder="idf",
    similarities=[0.5] * 40,
    goal_peaks=[0.1] * 40,
    mean_goal_similarity=0.5,
)


def trace(action_type, pause_s=60.0, **fields):
    """The same step eight times, in even pauses, off the goal, under one type of action."""
    return [
        structs.replace(
            event,
            action_type=action_type,
            output_data=POEM,
            token_count=1000,
            timestamp=1000.0 + pause_s * event.seq,
            **fields,
        )
        for event in events("aaaaaaaa")
    ]


class TestDecisionMatrix:
    @pytest.mark.parametrize(
        ("action_type", "action_loop", "goal_drift"),
        [
            ("tool_call", True, False),
            ("llm_request", False, True),
            ("state_transition", False, False),
            ("user_message", False, False),
            ("teleport", False, False),
        ],
    )
    def test_who_looks_at_what(self, action_type, action_loop, goal_drift):
        """
        Loops are looked for in tool calls, the goal in model calls, and neither in anything else.
        """
        steps = trace(action_type, pause_s=3.0)  # who looks once a minute may be waiting

        assert action_loop == bool(fired_at(ActionLoop(), steps))
        assert goal_drift == bool(fired_at(GoalDrift(similarity_threshold=0.5, goal=GOAL), steps))

    @pytest.mark.parametrize("action_type", ACTION_TYPES)
    def test_every_kind_of_event_spends(self, action_type):
        """
        Tokens and time count whatever the event is.
        """
        tokens = ResourceSpike(absolute_token_limit=5000, absolute_duration_limit_ms=None)
        time = ResourceSpike(absolute_token_limit=None)

        assert [5, 6, 7] == fired_at(tokens, trace(action_type))
        assert [6, 7] == fired_at(time, trace(action_type))

    @pytest.mark.parametrize(
        ("action_type", "expected"),
        [("tool_call", (8, 0)), ("llm_request", (0, 8)), ("state_transition", (0, 0))],
    )
    def test_calls_are_counted_by_kind(self, action_type, expected):
        """
        Tool calls and model calls are counted apart; changes of state are neither.
        """
        detector = ResourceSpike()
        fired_at(detector, trace(action_type))

        assert expected == (detector._memory.tools, detector._memory.llm_calls)

    def test_a_reply_without_words_is_skipped(self):
        """
        A model call without output has nothing to compare with the goal.
        """
        silent = [structs.replace(event, output_data=None) for event in trace("llm_request")]

        assert [] == fired_at(GoalDrift(similarity_threshold=0.5, goal=GOAL), silent)


class TestCalibrationStates:
    @pytest.mark.parametrize("baseline", [UNCALIBRATED, CALIBRATED], ids=["uncalibrated", "calibrated"])
    def test_loops_are_looked_for_in_either_state(self, baseline):
        """
        Loops need no baseline.
        """
        assert [1, 2, 3, 4] == fired_at(ActionLoop(), "aaaaa", baseline)

    @pytest.mark.parametrize("baseline", [UNCALIBRATED, CALIBRATED], ids=["uncalibrated", "calibrated"])
    def test_hard_limits_hold_in_either_state(self, baseline):
        """
        Hard limits need no baseline.
        """
        assert 2 in fired_at(ResourceSpike(absolute_token_limit=2000), "rrr", baseline)

    def test_spikes_need_a_baseline(self):
        """
        What is usual counts only once it is known.
        """
        assert [] == fired_at(ResourceSpike(), "r" * 8, UNCALIBRATED)
        assert [2, 3, 4, 5, 6, 7] == fired_at(ResourceSpike(), "r" * 8, CALIBRATED)

    def test_a_given_threshold_holds_in_either_state(self):
        """
        With a threshold of its own goal drift is checked from the first run on.
        """
        for baseline in (UNCALIBRATED, CALIBRATED):
            assert 0 in fired_at(
                GoalDrift(similarity_threshold=0.5, goal=GOAL), trace("llm_request"), baseline
            )

    def test_without_a_threshold_the_goal_waits_for_calibration(self):
        """
        Without one only the topic is judged while the agent is learnt; then what is usual for it.
        """
        learning, learnt = GoalDrift(goal=GOAL), GoalDrift(goal=GOAL)

        assert [7] == fired_at(learning, trace("llm_request"), UNCALIBRATED)
        assert 7 in fired_at(learnt, trace("llm_request"), CALIBRATED)
        assert learnt.not_checked is None
