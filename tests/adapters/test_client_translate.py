from hypothesis import example, given
from hypothesis import strategies as st
from lookalike import asks, came, user

from steadyhelm.adapters.clients.fingerprints import fingerprint_messages
from steadyhelm.adapters.clients.formats import ChatFormat, MessagesFormat, ResponsesFormat
from steadyhelm.adapters.clients.translate import find_last_turn, read_steps

WORDS = st.text(max_size=20)
NAMES = """role type content text tool_calls function_call function custom id call_id name arguments
    input output error choices message delta index finish_reason usage model status response item
    content_block refusal"""
KINDS = """user assistant tool message text tool_use tool_result function_call function_call_output
    web_search_call message_start content_block_start content_block_delta message_delta message_stop
    response.created response.completed response.output_item.done response.output_text.delta"""
WORDS_KNOWN = st.sampled_from(KINDS.split())
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS_KNOWN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner | WORDS_KNOWN, max_size=5)
    ),
    max_leaves=20,
)


class TestReading:
    @given(ANYTHING)
    def test_anything_can_be_read(self, item):
        """
        Whatever stands in a request, reading it does not fail.
        """
        assert isinstance(list(read_steps(item)), list)
        assert 1 == len(fingerprint_messages([item]))
        find_last_turn([item])

    @given(ANYTHING)
    def test_any_reply_can_be_read(self, reply):
        """
        Whatever comes back, whole or in pieces, is a reply or none.
        """
        for api_format in (ChatFormat(), ResponsesFormat(), MessagesFormat()):
            api_format.read_reply(reply)
            builder = api_format.make_reply_builder({})
            builder.add(reply)
            builder.build(is_over=True)

    def test_a_response_stream_that_ends_with_an_error_has_failed(self):
        """
        An error event ends a streamed response: what came before it is no good reply.
        """
        builder = ResponsesFormat().make_reply_builder({})
        events = [
            {"type": "response.created", "response": {"id": "r1", "model": "m", "output": []}},
            {"type": "response.output_text.delta", "delta": "so f"},
            {"type": "error", "code": "server_error", "message": "overloaded"},
        ]
        assert [False, False, True] == [builder.add(event) for event in events]

        reply = builder.build(is_over=True)
        assert ("overloaded", "so f", False) == (reply.error, reply.text, reply.is_final)

    @given(st.lists(ANYTHING, max_size=3), WORDS)
    @example([{"role": "user", "content": True}], "")
    @example([{"role": "user", "content": {"type": "text"}}], "")
    def test_words_can_be_placed_anywhere(self, items, words):
        """
        Whatever stands there, words find a place, and what was there before is not changed itself.
        """
        for api_format in (ChatFormat(), ResponsesFormat(), MessagesFormat()):
            before, placed = repr(items), list(items)
            api_format.add_guidance(placed, words)

            assert before == repr(items)
            assert before != repr(placed)

    def test_a_picture_of_a_screen_is_named_not_read(self):
        """
        What came of a call to the screen is megabytes of letters that say nothing.
        """
        output = {"type": "computer_screenshot", "image_url": "data:" + "x" * 1_000_000}
        (step,) = read_steps({"type": "computer_call_output", "call_id": "c1", "output": output})

        assert "[computer_screenshot]" == step.words

    def test_a_users_message_may_bring_results_and_words(self):
        """
        Results are told first, then what the user says beside them.
        """
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": True}
        words = {"type": "text", "text": "Go on."}
        steps = read_steps({"role": "user", "content": [result, words, {"type": "image"}]})

        assert [("result", True), ("text", False)] == [(step.kind, step.is_error) for step in steps]
        assert "Go on.\n[image]" == steps[1].words


class TestBeginning:
    def test_the_latest_turn_of_the_user_is_what_it_is_about(self):
        """
        Several messages in a row are one turn; what was answered before is not part of it.
        """
        system = {"role": "system", "content": "Be kind."}
        answer = {"role": "assistant", "content": "hello"}
        asked = asks("lookup", "c1")["choices"][0]["message"]

        assert 0 == find_last_turn([user("a"), user("b")])
        assert 0 == find_last_turn([system, user("a")])
        assert 2 == find_last_turn([user("a"), answer, user("b"), system, user("c")])
        assert 0 == find_last_turn([user("a"), asked, came("c1", "x")])
        assert 0 == find_last_turn([system])
