import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.goals.quality import PARTS, ContextQuality
from steadyhelm.testing.traces import healthy

GOAL = "mend the parser of the configuration"


def event(action_type, name="tool", **fields):
    return TraceEvent(
        agent_id="a",
        run_id="r",
        action_type=action_type,
        action_name=name,
        timestamp=0.0,
        event_id="e",
        **fields,
    )


FINE = event(TOOL_CALL, output_data="a result of some length")
FAILED = event(TOOL_CALL, error="it broke")
EMPTY = event(TOOL_CALL, output_data={"text": "[]"})
USER = event(USER_MESSAGE, input_data={"text": "go on"})


def reply(length):
    return event(LLM_REQUEST, output_data={"text": "x" * length})


def compacted(text=None):
    return event(STATE_TRANSITION, "context_compacted", output_data=text)


def after(*events, goal=""):
    quality = ContextQuality(goal)
    for one in events:
        quality.observe(one)
    return quality


class TestErrors:
    def test_a_run_that_begins_to_fail(self):
        """
        Failures after a good beginning are a fall.
        """
        assert after(*[FINE] * 20, *[FAILED] * 15).parts()["errors"] > 0.7

    def test_a_run_that_always_failed_a_little(self):
        """
        A run whose calls fail now and then as they always did has not become worse.
        """
        assert 0.0 == after(*[FINE, FINE, FAILED] * 20).parts()["errors"]

    def test_a_run_that_only_fails(self):
        """
        A run in which nearly everything fails is bad, however it began.
        """
        assert after(*[FAILED] * 40).parts()["errors"] > 0.9

    def test_recovered(self):
        """
        Good steps make up for bad ones.
        """
        assert 0.0 == after(*[FINE] * 20, *[FAILED] * 5, *[FINE] * 15).parts()["errors"]

    def test_who_knows_better(self):
        """
        A caller who has read the result may say that it failed.
        """
        quality = ContextQuality()
        for failed in [False] * 20 + [True] * 15:
            quality.observe(FINE, failed=failed)

        assert quality.parts()["errors"] > 0.7

    def test_too_few_to_tell(self):
        """
        Seven calls say nothing yet, and that is told.
        """
        quality = after(*[FAILED] * 7)

        assert (None, "fewer than 8 tool calls so far") == (
            quality.parts().get("errors"),
            quality.unknown()["errors"],
        )


class TestOutput:
    def test_hollow_results(self):
        """
        Results that become empty are a fall.
        """
        assert after(*[FINE] * 20, *[EMPTY] * 15).parts()["hollow_results"] > 0.7

    def test_tools_that_answer_with_nothing(self):
        """
        Where results were empty all along, as those of many commands are, nothing has changed.
        """
        assert 0.0 == after(*[FINE, EMPTY] * 20).parts()["hollow_results"]

    def test_replies_that_shrink(self):
        """
        Replies a twentieth as long as they were are a fall.
        """
        assert after(*[reply(1000)] * 20, *[reply(50)] * 15).parts()["shrinking_replies"] > 0.7

    @pytest.mark.parametrize("length", [500, 700, 1000, 5000])
    def test_half_as_long_is_ordinary(self, length):
        """
        Replies half as long, or longer, are not.
        """
        assert 0.0 == after(*[reply(1000)] * 20, *[reply(length)] * 15).parts()["shrinking_replies"]

    def test_an_agent_of_few_words(self):
        """
        An agent that always was short is not shrinking.
        """
        assert 0.0 == after(*[reply(12)] * 40).parts()["shrinking_replies"]

    def test_long_and_short_in_turn(self):
        """
        Replies that vary by nature are measured by that.
        """
        assert after(*[reply(2000), reply(60)] * 30).parts()["shrinking_replies"] < 0.2

    def test_replies_without_words(self):
        """
        A reply that only calls tools says nothing about length.
        """
        assert "shrinking_replies" not in after(*[reply(0)] * 40).parts()


class TestTheContext:
    @pytest.mark.parametrize(
        ("tokens", "part"), [(0, 0.0), (120_000, 0.0), (160_000, 0.5), (200_000, 1.0), (900_000, 1.0)]
    )
    def test_fullness(self, tokens, part):
        """
        A window counts as filling up from six tenths on.
        """
        quality = ContextQuality()
        quality.note_context(tokens, 200_000)

        assert pytest.approx(part) == quality.parts()["context_fullness"]

    @pytest.mark.parametrize(
        "numbers", [(1, 0), (-1, 5), (True, 5), (1.5, 5), (None, 5), (5, "8"), (5, math.nan)]
    )
    def test_odd_numbers(self, numbers):
        """
        Numbers that cannot be are passed over: it stays unknown.
        """
        quality = ContextQuality()
        quality.note_context(*numbers)

        assert "the size of the context was not reported" == quality.unknown()["context_fullness"]

    def test_the_goal_is_in_it(self):
        """
        A context that holds the goal's words has kept it.
        """
        quality = ContextQuality(GOAL)
        quality.note_context(10, 100, text="We are to mend the parser for configuration files.")

        assert 0.0 == quality.parts()["goal_retention"]

    def test_the_goal_is_gone(self):
        """
        A context that holds none of them has lost it.
        """
        quality = ContextQuality(GOAL)
        quality.note_context(10, 100, text="A recipe with beans.")

        assert 1.0 == quality.parts()["goal_retention"]

    def test_in_a_long_context(self):
        """
        The goal may stand at the end of a context far longer than what is looked at.
        """
        quality = ContextQuality(GOAL)
        quality.note_context(10, 100, text="beans " * 50_000 + GOAL)

        assert 0.0 == quality.parts()["goal_retention"]

    def test_long_ago(self):
        """
        Without the text, what counts is how much has been said since the goal.
        """
        far = event(TOOL_CALL, output_data="x" * 40_000)
        parts = [after(*[far] * number, goal=GOAL).parts()["goal_retention"] for number in (1, 5, 20)]

        assert [0.0, 0.0, 1.0] == parts

    def test_a_user_states_it_again(self):
        """
        A user's message, or a reminder, brings the goal back.
        """
        far = event(TOOL_CALL, output_data="x" * 40_000)

        assert 0.0 == after(*[far] * 20, USER, goal=GOAL).parts()["goal_retention"]

    def test_compacted_away(self):
        """
        After a compaction the goal is looked for in what was left; without a text it may be half gone.
        """
        parts = [
            after(FINE, compacted(text), goal=GOAL).parts()["goal_retention"]
            for text in (f"So far: {GOAL}", "So far: beans", None)
        ]

        assert [0.0, 1.0, 0.5] == parts

    def test_no_goal(self):
        """
        Without a goal nobody can say whether it was kept.
        """
        assert "no goal was stated so far" == after(FINE).unknown()["goal_retention"]


class TestTheWhole:
    def test_nothing_seen(self):
        """
        Before anything was seen nothing is known, and every part says why.
        """
        quality = ContextQuality(GOAL)

        assert (None, {}, set(PARTS)) == (quality.get_degradation(), quality.parts(), set(quality.unknown()))

    def test_known_and_unknown_are_all(self):
        """
        Every part is either known or has a reason.
        """
        quality = after(*[FINE] * 9, reply(9), goal=GOAL)

        assert set(PARTS) == set(quality.parts()) | set(quality.unknown())

    def test_no_part_passes_its_share(self):
        """
        One bad part alone counts for its share, and unknown ones for nothing.
        """
        quality = ContextQuality()
        quality.note_style(1.0)

        assert PARTS["style"] == quality.get_degradation()

    def test_parts_add_up_below_1(self):
        """
        Two bad parts count for more than one, and never for more than everything.
        """
        quality = ContextQuality()
        quality.note_style(1.0)
        quality.note_context(9, 9)

        assert pytest.approx(1.0 - 0.4 * 0.5) == quality.get_degradation()

    @pytest.mark.parametrize("score", [None, math.nan, True, "bad"])
    def test_no_style(self, score):
        """
        A style that is no number is unknown.
        """
        quality = ContextQuality()
        quality.note_style(score)

        assert quality.get_degradation() is None

    def test_a_healthy_run(self):
        """
        A long run without drift stays at nought.
        """
        quality, worst = ContextQuality(GOAL), 0.0
        for one in healthy(2000):
            quality.observe(one)
            worst = max(worst, quality.get_degradation())

        assert 0.0 == worst

    @given(
        st.lists(
            st.sampled_from(
                [FINE, FAILED, EMPTY, USER, reply(0), reply(5), reply(900), compacted(), compacted("x")]
            ),
            max_size=80,
        ),
        st.integers(0, 80),
    )
    def test_put_aside_anywhere(self, events, cut):
        """
        Put aside after any event and taken up again, it says the same; and it is always a share.
        """
        whole, parts = ContextQuality(GOAL), ContextQuality(GOAL)
        for place, one in enumerate(events):
            if place == cut:
                parts = msgspec.msgpack.decode(msgspec.msgpack.encode(parts), type=ContextQuality)
            whole.observe(one)
            parts.observe(one)

        assert whole == parts
        assert all(0.0 <= value <= 1.0 for value in [*whole.parts().values(), whole.get_degradation() or 0.0])

    def test_small(self):
        """
        It remembers numbers only, however long the run.
        """
        quality = after(*[event(TOOL_CALL, output_data="x" * 9999)] * 5000)

        assert len(msgspec.msgpack.encode(quality)) < 300

    @pytest.mark.parametrize(
        "odd",
        [
            event(TOOL_CALL, output_data=object()),
            event(TOOL_CALL, output_data=[1, [2]], input_data={"a": None, 3: {}}),
            event(TOOL_CALL, output_data=math.nan),
            event(LLM_REQUEST, output_data=7),
            event(USER_MESSAGE),
            event("something else"),
            event(STATE_TRANSITION, "compacting", output_data={"text": "\ud800"}),
        ],
    )
    def test_odd_events(self, odd):
        """
        Whatever an event holds, it is taken.
        """
        assert 0.0 <= (after(*[odd] * 9, goal=GOAL).get_degradation() or 0.0) <= 1.0

    def test_bad_window(self):
        """
        A window holds at least a token.
        """
        with pytest.raises(SettingsError, match="window_tokens must be 1 or more, got 0"):
            ContextQuality(GOAL, window_tokens=0)
