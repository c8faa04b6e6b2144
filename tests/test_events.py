import math

import msgspec
import pytest

from steadyhelm.events import (
    ACTION_TYPES,
    LLM_REQUEST,
    TOOL_CALL,
    USER_MESSAGE,
    RunInfo,
    RunSummary,
    TraceEvent,
    new_id,
)


class _Ambiguous:
    """Cannot say whether it is true, like an array."""

    def __bool__(self):
        raise ValueError("ambiguous")


def event(action_type=TOOL_CALL, **fields):
    return TraceEvent(agent_id="a", run_id="r", action_type=action_type, action_name="search", **fields)


class TestTraceEvent:
    def test_four_names_are_enough(self):
        """
        Agent, run, type and name make an event; time and id come by themselves.
        """
        made = event()

        assert (0, None, None, 0.0, None) == (
            made.token_count,
            made.input_data,
            made.output_data,
            made.duration_ms,
            made.error,
        )
        assert made.timestamp > 1_600_000_000

    def test_ids_are_twelve_hexadecimal_characters(self):
        """
        An id is 12 hexadecimal characters, another one for every event.
        """
        first, second = event(), event()

        assert 12 == len(first.event_id)
        assert math.isfinite(int(first.event_id, 16))
        assert first.event_id != second.event_id
        assert 12 == len(new_id())

    def test_it_cannot_be_changed(self):
        """
        An event is a record: nobody changes it.
        """
        with pytest.raises(AttributeError):
            event().token_count = 5

    def test_fields_are_keywords(self):
        """
        Fields are given by name, never by place.
        """
        with pytest.raises(TypeError):
            TraceEvent("a", "r", TOOL_CALL, "search")

    def test_a_type_we_do_not_know_is_kept(self):
        """
        An action type we do not know is no error.
        """
        assert "teleport" == event("teleport").action_type

    def test_the_types_are_pinned(self):
        """
        There are four types of action.
        """
        assert ("tool_call", "llm_request", "state_transition", "user_message") == ACTION_TYPES

    def test_to_dict_and_back(self):
        """
        An event survives the way through plain data.
        """
        made = event(timestamp=5.0, event_id="e", input_data={"q": "x"}, error="no", cost_usd=0.5, seq=3)

        assert made == TraceEvent.from_dict(made.to_dict())

    def test_from_dict_ignores_unknown_keys(self):
        """
        A key from a newer version is ignored.
        """
        plain = event(timestamp=5.0, event_id="e").to_dict()

        assert TraceEvent.from_dict(plain) == TraceEvent.from_dict(plain | {"colour": "blue"})

    def test_to_dict_has_the_seeds_names(self):
        """
        Every field of the first design has a key of the same name.
        """
        wanted = {
            "agent_id", "run_id", "action_type", "action_name", "timestamp", "event_id",
            "token_count", "input_data", "output_data", "duration_ms", "metadata",
        }  # fmt: skip

        assert wanted <= set(event().to_dict())


class TestText:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            ("plain words", "plain words"),
            ({"text": "the text"}, "the text"),
            ({"output": "the output"}, "the output"),
            ({"content": "the content"}, "the content"),
            ({"text": None, "output": "the output"}, "the output"),
            ({"output": "second", "text": "first"}, "first"),
            ({"text": 5}, ""),
            ({}, ""),
            (None, ""),
            (["words"], ""),
            (7, ""),
        ],
    )
    def test_words_are_found_wherever_they_were_put(self, data, expected):
        """
        The words of a reply are its output, or the text, output or content in it.
        """
        assert expected == event(LLM_REQUEST, output_data=data).text

    def test_a_users_words_are_input(self):
        """
        A user's message is what went in.
        """
        assert "hello" == event(USER_MESSAGE, input_data="hello", output_data="other").text

    def test_a_users_words_may_stand_in_the_output(self):
        """
        A user's message with nothing in its input is read from its output.
        """
        assert "hello" == event(USER_MESSAGE, output_data={"text": "hello"}).text

    def test_a_replys_input_is_not_its_words(self):
        """
        The prompt of a model call is not what the agent said.
        """
        assert "" == event(LLM_REQUEST, input_data={"text": "prompt"}).text

    def test_an_object_without_truth_is_survived(self):
        """
        Data that cannot say whether it is true, such as an array, has no words and does no harm.
        """
        assert "" == event(USER_MESSAGE, input_data=_Ambiguous()).text

    def test_events_read_in_turn_keep_their_own_words(self):
        """
        Several events read in any order, and again, each have their own words.
        """
        said = [event(USER_MESSAGE, input_data=str(number), output_data="other") for number in range(3)]
        said += [event(LLM_REQUEST, input_data="prompt", output_data={"content": "reply"})]

        for order in ([0, 1, 2, 3], [3, 3, 0], [1, 0, 1, 2]):
            assert [("0", "1", "2", "reply")[place] for place in order] == [said[it].text for it in order]


class TestRunRecords:
    def test_a_run_needs_agent_and_id(self):
        """
        A run is an agent and an id; goal, version and task type may be empty.
        """
        assert ("", "", "", 0.0, None) == (
            (run := RunInfo(agent_id="a", run_id="r")).goal,
            run.version,
            run.task_type,
            run.started_at,
            run.parent_run_id,
        )

    def test_summaries_share_nothing(self):
        """
        Two summaries have lists of their own.
        """
        first, second = RunSummary(agent_id="a", run_id="1"), RunSummary(agent_id="a", run_id="2")

        assert first.sequences is not second.sequences

    def test_a_summary_survives_encoding(self):
        """
        A summary can be put aside and read again.
        """
        summary = RunSummary(agent_id="a", run_id="r", tokens=5, similarities=[0.5], words=b"\x01\xff")

        assert summary == msgspec.msgpack.decode(msgspec.msgpack.encode(summary), type=RunSummary)
