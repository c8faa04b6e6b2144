"""What is read from items of the OpenAI Agents SDK, without the SDK."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.adapters.openai_agents.translate import (
    SDKCall,
    find_calls,
    find_results,
    has_matching_results,
    is_named_in,
    read_goal,
    read_json,
    read_text,
    read_unannounced_call,
    simplify,
)

TYPES = (
    "message",
    "function_call",
    "function_call_output",
    "web_search_call",
    "shell_call",
    "shell_call_output",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["role", "content", "call_id", "id", "name", "arguments", "output", "status", "action"]
)
items = (
    st.fixed_dictionaries({"type": st.sampled_from(TYPES) | values})
    | st.dictionaries(fields, values)
    | values
)
conversations = st.lists(items, max_size=6)


def asked(name, call_id="c1"):
    return SDKCall(call_id=call_id, name=name, args={}, maker="tool", item=None)


class TestHostileItems:
    @given(conversations)
    def test_whatever_stands_there_is_read(self, items):
        """
        No item, however odd, makes reading fail.
        """
        find_calls(items, ["transfer_to_other"])
        read_text(items)
        find_results(items)
        has_matching_results(items)

        assert isinstance(read_goal(items), str)

    @given(values)
    def test_whatever_is_given_as_a_whole_is_read(self, value):
        """
        Nor does anything else that a host may give as input or arguments.
        """
        read_json(value)
        simplify(value)

        assert isinstance(read_goal(value), str)


class TestForeignResults:
    def test_a_result_of_a_tool_is_not_asked_for_anything(self):
        """
        A proxy that has every method, as it says, is the result itself: none is called.
        """
        asked = []

        class Proxy:
            def __getattr__(self, name):
                asked.append(name)
                return asked.append

        proxy = Proxy()

        assert simplify(proxy) is proxy
        assert [proxy] == simplify([proxy])
        assert [] == asked


class TestCalls:
    def test_items_may_be_objects_or_dicts(self):
        """
        What a model gives and what it is given are read alike.
        """
        told = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}

        for item in (told, SimpleNamespace(**told)):
            (found,) = find_calls([item])
            assert ("c1", "add", {"a": 1}, "tool") == (found.call_id, found.name, found.args, found.maker)

    def test_a_handover_is_no_call(self):
        """
        A call that hands over to another agent is left out, one of a tool is not.
        """
        items = [
            {"type": "function_call", "call_id": name, "name": name} for name in ("add", "transfer_to_b")
        ]

        assert ["add"] == [it.name for it in find_calls(items, ["transfer_to_b"])]

    def test_a_namespace_tells_tools_apart(self):
        """
        Two tools of one name in two namespaces are two tools.
        """
        spaces = ({"namespace": "bank"}, {"namespace": "add"}, {})
        items = [{"type": "function_call", "call_id": "c1", "name": "add", **space} for space in spaces]

        assert ["bank.add", "add", "add"] == [it.name for it in find_calls(items)]

    def test_a_call_of_the_provider_that_failed(self):
        """
        A call that the provider made itself has its result with it, or its error.
        """
        fine = {"type": "mcp_call", "id": "m1", "name": "page", "arguments": '{"n": 1}', "output": "empty"}
        failed = {"type": "file_search_call", "id": "f1", "queries": ["x"], "status": "failed"}

        found = find_calls([fine, failed])
        assert [("page", "empty", None), ("file_search", None, "failed")] == [
            (it.name, it.result, it.error) for it in found
        ]

    def test_a_shell_of_the_provider(self):
        """
        A shell call that comes with its output was made by the provider; one without is still to be made.
        """
        call = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}}
        output = {"type": "shell_call_output", "call_id": "s1", "output": "ledger.txt"}

        assert ["runner"] == [it.maker for it in find_calls([call])]
        assert [("provider", "ledger.txt")] == [(it.maker, it.result) for it in find_calls([call, output])]

    def test_arguments_that_cannot_be_read_stay_as_they_are(self):
        """
        Empty arguments are none; what is no JSON is kept as it was written.
        """
        assert [{}, {}, "{a", None] == [read_json(text) for text in ("", " ", "{a", None)]

    def test_a_call_nobody_announced(self):
        """
        What its context says is all that is known of it.
        """
        context = SimpleNamespace(tool_call_id="c1", tool_name="add", tool_arguments='{"a": 1}')

        assert ("c1", "add", {"a": 1}) == (
            read_unannounced_call(context).call_id,
            read_unannounced_call(context).name,
            read_unannounced_call(context).args,
        )


class TestErrors:
    def test_an_error_that_names_its_tool(self):
        """
        Of several calls an error speaks of the one whose tool it names as a whole word.
        """
        add, add_all = asked("add"), asked("add_all", "c2")

        assert [False, True] == [is_named_in("Error running tool add_all: ink", it) for it in (add, add_all)]
        assert [True, False] == [is_named_in("Error running tool add: ink", it) for it in (add, add_all)]


class TestWords:
    def test_the_goal_is_what_the_user_said_last(self):
        """
        What was said before an answer is not the goal any more, however the conversation ends.
        """
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

        assert "a" == read_goal(talk)
        assert "c" == read_goal([*talk, {"role": "user", "content": "c"}, {"type": "function_call"}])
        assert "hello" == read_goal("hello")

    def test_a_refusal_is_an_answer(self):
        """
        What a model refuses with is what it says.
        """
        message = {"type": "message", "content": [{"text": "No."}, {"refusal": "I will not."}]}

        assert "No.\nI will not." == read_text([message])

    def test_a_call_without_its_result_is_not_whole(self):
        """
        A conversation is whole when every call has its result and every result its call.
        """
        call, output = ({"type": f"function_call{end}", "call_id": "c1"} for end in ("", "_output"))

        assert [True, True, False, False] == [
            has_matching_results(it) for it in ([], [call, output], [call], [output])
        ]
