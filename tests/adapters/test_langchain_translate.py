from types import SimpleNamespace as Thing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.adapter import ToolResult
from steadyhelm.adapters.langchain.translate import (
    find_tool_messages,
    is_resumption,
    read_goal,
    read_reply,
    read_requested_calls,
    read_result,
    read_text,
)

HUMAN = Thing(type="human", content="add them up")
AI = Thing(type="ai", content="I will")


def answer(**message):
    """A model's result with one message in it."""
    return Thing(generations=[[Thing(message=Thing(type="ai", **message))]], llm_output=None)


def tool_message(content, call_id="c1", status="success"):
    return Thing(type="tool", content=content, tool_call_id=call_id, status=status)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside) | st.tuples(inside, inside),
    max_leaves=8,
)


class TestGoals:
    @pytest.mark.parametrize(
        "given",
        [
            "add them up",
            {"messages": [HUMAN, AI]},
            {"messages": [("system", "be brief"), ("user", "add them up")]},
            {"messages": [{"role": "user", "content": "add them up"}]},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "add them up"}]}]},
            {"messages": "add them up"},
            Thing(messages=[HUMAN]),
            [HUMAN],
            {"question": "add them up", "chat_history": []},
            Thing(update={"messages": [HUMAN]}, resume=None),
        ],
    )
    def test_the_users_last_words_are_the_goal(self, given):
        """
        However an agent is asked, what the user wants of it is found.
        """
        assert "add them up" == read_goal(given)

    def test_the_last_of_several_counts(self):
        """
        In a conversation the user's latest words say what is to be done now.
        """
        assert "and now this" == read_goal({"messages": [HUMAN, AI, ("human", "and now this")]})

    @given(anything)
    def test_anything_may_be_given(self, given):
        """
        What says nothing has no goal, and is no error.
        """
        assert isinstance(read_goal(given), str)

    def test_an_answer_lets_a_graph_go_on(self):
        """
        An answer to an interrupt, or nothing at all, goes on with what was there.
        """
        assert is_resumption(None)
        assert is_resumption(Thing(resume="yes", update=None))
        assert not is_resumption({"messages": []})


class TestReplies:
    def test_words_model_and_tokens(self):
        """
        What a reply tells about itself is read.
        """
        reply = read_reply(
            answer(
                content=[{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "three"}],
                usage_metadata={"input_tokens": 10, "output_tokens": 5},
                response_metadata={"model_name": "small-1"},
            ),
            "small",
        )

        assert ("three", "small-1", 10, 5) == (
            reply.text,
            reply.model,
            reply.input_tokens,
            reply.output_tokens,
        )

    def test_old_models_count_elsewhere(self):
        """
        Models that complete text tell their tokens beside their answers.
        """
        usage = {"token_usage": {"prompt_tokens": 3, "completion_tokens": 4}}
        reply = read_reply(Thing(generations=[[Thing(text="three")]], llm_output=usage), "old")

        assert ("three", "old", 3, 4) == (reply.text, reply.model, reply.input_tokens, reply.output_tokens)

    @pytest.mark.parametrize("response", [None, Thing(), Thing(generations=[]), Thing(generations=[[]])])
    def test_no_answer_is_an_empty_one(self, response):
        """
        A model that failed has said nothing.
        """
        assert "" == read_reply(response).text
        assert [] == read_requested_calls(response)

    @given(anything, anything, anything)
    def test_a_reply_may_hold_anything(self, content, usage, told):
        """
        Nothing a model sends makes reading it fail.
        """
        response = answer(
            content=content, usage_metadata=usage, response_metadata=told, content_blocks=content
        )

        assert read_reply(response).input_tokens >= 0
        read_requested_calls(response)

    def test_calls_with_no_id_cannot_be_told_apart(self):
        """
        Only calls that somebody can answer are kept.
        """
        calls = [{"id": "c1", "name": "add", "args": {"a": 1}}, {"id": None, "name": "add", "args": {}}]

        assert ["c1"] == [
            asked.call_id for asked in read_requested_calls(answer(content="", tool_calls=calls))
        ]

    def test_a_providers_own_failure_is_one(self):
        """
        A call that the provider made and that failed is a failed call.
        """
        blocks = [
            {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "x"}},
            {"type": "server_tool_result", "tool_call_id": "s1", "status": "error", "output": "too many"},
        ]
        (asked,) = read_requested_calls(answer(content=[{"type": "text"}], content_blocks=blocks))

        assert ("web_search", ToolResult(error="too many")) == (asked.name, asked.result)


class TestResults:
    @pytest.mark.parametrize(
        "output",
        [
            tool_message("3"),
            [tool_message("7", "c2"), tool_message("3")],
            {"messages": [tool_message("3")]},
            Thing(update={"messages": [tool_message("3")]}),
            [Thing(update={"messages": [tool_message("3")]}), {"messages": [tool_message("7", "c2")]}],
        ],
    )
    def test_the_message_that_answers_the_call_is_its_result(self, output):
        """
        Wherever a tool or its node puts the message, it is found by the call's id.
        """
        assert ToolResult(value="3") == read_result(output, "c1")

    def test_an_error_is_no_result(self):
        """
        A message that says it is an error makes the call a failed one.
        """
        assert ToolResult(error="no such tool") == read_result(tool_message("no such tool", status="error"))
        assert ToolResult(error="failed") == read_result(tool_message("", status="error"))

    def test_what_is_no_message_is_the_result_itself(self):
        """
        A tool that was called without an id gives what it gives.
        """
        assert ToolResult(value={"total": 3}) == read_result({"total": 3})
        assert ToolResult(value={"seen": True}) == read_result(Thing(update={"seen": True}), "c1")

    @given(anything)
    def test_a_tool_may_give_anything(self, output):
        """
        Nothing a tool gives makes reading it fail.
        """
        read_result(output, "c1")
        assert [] == list(find_tool_messages(output))
        assert isinstance(read_text(output), str)


class TestForeignResults:
    def test_a_result_of_a_tool_is_not_asked_for_anything(self):
        """
        A tool may return a remote proxy: no attribute of it is looked up, and it is the result itself.
        """
        asked = []

        class Proxy:
            __class__ = property(lambda self: asked.append("class"))

            def __getattr__(self, name):
                asked.append(name)

        proxy = Proxy()

        assert read_result(proxy).value is proxy
        assert [] == find_tool_messages([proxy, {"messages": proxy}])
        assert [] == asked
