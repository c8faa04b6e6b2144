import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import encoded, fed, read, run_of, told, wild_objects

from steadyhelm.recordings.message_lists import Messages
from steadyhelm.recordings.run_file import BrokenLine, ReadRun


def user(content) -> dict:
    return {"role": "user", "content": content}


def assistant(content=None, **keys) -> dict:
    return {"role": "assistant", "content": content, **keys}


def call(call_id: str, name: str = "ls", arguments: str = "{}") -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(call_id: str | None, content="ok", **keys) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **keys}


class TestConversation:
    def test_a_list(self):
        """
        A list of messages is one run, its calls joined with the tools' messages by their ids.
        """
        calls = [call("c1", "ls", '{"path": "."}'), call("c2", "cat")]
        run = run_of(
            Messages(name="talk"),
            [
                {"role": "system", "content": "You are kind."},
                user("look"),
                assistant("I look.", tool_calls=calls, model="gpt"),
                tool("c2", "words"),
                tool("c1", "a.py"),
            ],
        )
        assert [
            ("state_transition", "system", "You are kind."),
            ("user_message", "user", "look"),
            ("llm_request", "gpt", "I look."),
            ("tool_call", "cat", "words"),
            ("tool_call", "ls", "a.py"),
        ] == told(run)
        assert {"path": "."} == run.events[4].input_data
        assert (3, 3) == (run.events[3].started_seq, run.events[4].started_seq)
        assert ("talk", "look", 7) == (run.info.run_id, run.info.goal, run.entries)

    def test_content_blocks(self):
        """
        Calls and results may stand in the content as blocks, thoughts are only noted.
        """
        use = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
        came = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
        run = run_of(
            Messages(),
            [
                user("look"),
                assistant([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I do."}, use]),
                user([came, {"type": "text", "text": "and now?"}]),
            ],
        )
        assert ["look", "I do.", "no", "and now?"] == [event.text for event in run.events]
        assert ("no", {"thinking": True}) == (run.events[2].error, run.events[1].metadata)

    def test_an_object(self):
        """
        An object with `messages` may name the run, the agent and the model.
        """
        run = run_of(
            Messages(),
            {"id": "r7", "agent_id": "desk", "model": "gpt", "messages": [user("hi"), assistant("yes")]},
        )
        assert ("r7", "desk", "gpt") == (run.info.run_id, run.info.agent_id, run.events[1].action_name)

    def test_a_conversation_a_line(self):
        """
        Of several conversations each line is a run, handed out before the next is read.
        """
        lines = encoded({"messages": [user("a")]}, [user("b")], {"id": "c", "messages": [user("c")]})
        assert ["talk", "talk:2", "c"] == [run.info.run_id for run in read(Messages(name="talk"), *lines)]
        reader = Messages()
        assert ["a"] == [event.text for event in reader.feed(lines[0])]
        assert ["line-1"] == [run.run_id for run in reader.finished]

    def test_a_message_a_line(self):
        """
        Messages that stand on lines of their own are one run.
        """
        run = run_of(Messages(), user("a"), assistant("b"), user("c"))
        assert ["a", "b", "c"] == [event.text for event in run.events]

    def test_functions_as_they_were(self):
        """
        The older single function call has no id; its answer is found by the name.
        """
        run = run_of(
            Messages(),
            [
                assistant(function_call={"name": "ls", "arguments": '{"p": 1}'}),
                {"role": "function", "name": "ls", "content": "a.py"},
            ],
        )
        assert [("tool_call", "ls", "a.py")] == told(run)

    def test_other_spellings(self):
        """
        Kinds in place of roles, and content one level down, are understood.
        """
        run = run_of(
            Messages(),
            [
                {"type": "human", "data": {"content": "hi"}},
                {"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "ls", "args": {"p": 1}}]},
                {"type": "tool", "tool_call_id": "c1", "content": "no", "status": "error"},
            ],
        )
        assert [("user", None), ("ls", "no")] == [(e.action_name, e.error) for e in run.events]

    def test_usage(self):
        """
        What a message cost is counted, by whichever names, once per message id.
        """
        run = run_of(
            Messages(),
            [
                assistant("a", usage={"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}),
                assistant("b", id="m1", usage={"input_tokens": 5, "output_tokens": 1}),
                assistant("c", id="m1", usage={"input_tokens": 5, "output_tokens": 1}),
            ],
        )
        assert [12, 6, 0] == [event.token_count for event in run.events]

    @pytest.mark.parametrize("odd", [{"role": "narrator", "content": "x"}, {"content": "x"}, 5, None, []])
    def test_odd_messages(self, odd):
        """
        What is no message is passed over and named.
        """
        run = run_of(Messages(), [user("a"), odd])
        assert (1, 1, 0) == (len(run.events), len(run.problems), run.unread)

    def test_calls_without_an_answer(self):
        """
        A call at the end has no result.
        """
        run = run_of(Messages(), [assistant(tool_calls=[call("c1")])])
        assert [("tool_call", None)] == [(event.action_type, event.output_data) for event in run.events]


talk = st.lists(
    st.sampled_from(
        [user("a"), assistant("b"), assistant(tool_calls=[call("c1"), call("c2")]), tool("c1"), tool("c2")]
    ),
    max_size=10,
)
kinds = ["user", "assistant", "tool", "system", "text", "tool_use", "tool_result"]
keys = [
    *("role", "content", "tool_calls", "tool_call_id", "function", "name", "arguments", "id", "type", "text"),
    *("messages", "function_call", "usage", "total_tokens", "timestamp", "data", "parts"),
]


class TestProperties:
    @given(talk, st.integers(0, 10))
    def test_reading_in_two_parts(self, lines, cut):
        """
        Messages that are read up to any line, and on from there later, give the events of one reading.
        """
        written = encoded(*lines)
        reader = Messages()
        first = [event for line in written[:cut] for event in reader.feed(line)]
        at_once = [event for run in read(Messages(), *lines) for event in run.events]
        assert at_once == first + fed(reader, written[cut:])

    @given(st.lists(wild_objects(kinds, keys), max_size=6))
    def test_no_content_raises(self, lines):
        """
        Whatever stands in the lines, reading them gives records and no error.
        """
        assert all(isinstance(item, (ReadRun, BrokenLine)) for item in read(Messages(), *lines, lines))
