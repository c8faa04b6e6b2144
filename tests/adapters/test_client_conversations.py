from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from lookalike import asks, came, user

from steadyhelm.adapters.clients.anthropic import MessagesDialect
from steadyhelm.adapters.clients.chat import ChatDialect
from steadyhelm.adapters.clients.items import beginning, chain, grouped, steps_of
from steadyhelm.adapters.clients.responses import ResponsesDialect

ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", None, "narrator"])
WORDS = st.text(max_size=20)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "thinking", "tool_use", "image"]), "text": WORDS}
    ),
    max_size=3,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": ROLES, "content": WORDS | PARTS | st.none()},
        optional={"tool_call_id": WORDS, "tool_calls": st.lists(st.fixed_dictionaries({"id": WORDS}))},
    ),
    max_size=8,
)
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


class TestMarks:
    @given(MESSAGES, MESSAGES)
    def test_what_is_added_changes_nothing_before_it(self, messages, more):
        """
        A conversation that has grown is known by its beginning.
        """
        assert chain(messages) == chain(messages + more)[: len(messages)]

    @given(MESSAGES, MESSAGES)
    def test_a_reply_continues_the_chain(self, messages, reply):
        """
        What a request ends at and its reply together are what the next request will have.
        """
        at = chain(messages)[-1] if messages else 0

        assert chain(messages + reply)[len(messages) :] == chain(reply, at)

    def test_a_librarys_own_message_has_the_mark_of_a_plain_one(self):
        """
        Whether a host keeps replies as they came or as plain objects, the conversation is the same.
        """
        call = asks("lookup", "c1", key="a")["choices"][0]["message"]
        own = SimpleNamespace(role="assistant", content=None, tool_calls=[SimpleNamespace(id="c1")])

        assert chain([call]) == chain([own])

    def test_one_text_has_the_mark_of_its_words(self):
        """
        Words are the same alone and as the only part of a message, with or without a mark for a cache.
        """
        part = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}

        assert chain([user("hello")]) == chain([{"role": "user", "content": [part]}])

    def test_other_words_have_another_mark(self):
        """
        Who speaks, what they say and which calls they ask for tell conversations apart.
        """
        messages = [
            user("a"),
            user("b"),
            {"role": "assistant", "content": "a"},
            asks("lookup", "c1")["choices"][0]["message"],
            asks("lookup", "c2")["choices"][0]["message"],
            came("c1", "no entry"),
        ]

        assert len(messages) == len({chain([message])[0] for message in messages})

    @given(MESSAGES)
    def test_groups_have_all_that_left_a_mark(self, messages):
        """
        Nothing is lost between groups, and each ends with a message that left a mark.
        """
        groups = grouped(messages, chain(messages))
        flat = [message for group in groups for message in group]

        assert flat == messages[: len(flat)]
        assert all(it["role"] in {"system", "developer"} for it in messages[len(flat) :])

    def test_places_do_not_move_when_instructions_come_and_go(self):
        """
        A reminder that the host adds for one request does not move what stands behind it.
        """
        reminder = {"role": "system", "content": "Be brief."}
        without = [user("a"), {"role": "assistant", "content": "b"}]
        with_it = [user("a"), reminder, {"role": "assistant", "content": "b"}]

        assert 2 == len(grouped(without, chain(without))) == len(grouped(with_it, chain(with_it)))


class TestReading:
    @given(ANYTHING)
    def test_anything_can_be_read(self, item):
        """
        Whatever stands in a request, reading it does not fail.
        """
        assert isinstance(list(steps_of(item)), list)
        assert 1 == len(chain([item]))
        beginning([item])

    @given(ANYTHING)
    def test_any_reply_can_be_read(self, reply):
        """
        Whatever comes back, whole or in pieces, is a reply or none.
        """
        for dialect in (ChatDialect(), ResponsesDialect(), MessagesDialect()):
            dialect.read(reply)
            gathering = dialect.gathering({})
            gathering.take(reply)
            gathering.answer(is_over=True)

    @given(st.lists(ANYTHING, max_size=3), WORDS)
    def test_words_can_be_placed_anywhere(self, items, words):
        """
        Whatever stands there, words find a place, and what was there before is not changed itself.
        """
        for dialect in (ChatDialect(), ResponsesDialect(), MessagesDialect()):
            before, placed = repr(items), list(items)
            dialect.place(placed, words)

            assert before == repr(items)
            assert before != repr(placed)

    def test_a_picture_of_a_screen_is_named_not_read(self):
        """
        What came of a call to the screen is megabytes of letters that say nothing.
        """
        output = {"type": "computer_screenshot", "image_url": "data:" + "x" * 1_000_000}
        (step,) = steps_of({"type": "computer_call_output", "call_id": "c1", "output": output})

        assert "[computer_screenshot]" == step.words

    def test_a_users_message_may_bring_results_and_words(self):
        """
        Results are told first, then what the user says beside them.
        """
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": True}
        words = {"type": "text", "text": "Go on."}
        steps = steps_of({"role": "user", "content": [result, words, {"type": "image"}]})

        assert [("result", True), ("text", False)] == [(step.kind, step.is_error) for step in steps]
        assert "Go on.\n[image]" == steps[1].words


class TestBeginning:
    def test_the_latest_turn_of_the_user_is_what_it_is_about(self):
        """
        Several messages in a row are one turn; what was answered before is not part of it.
        """
        system = {"role": "system", "content": "Be kind."}
        answer = {"role": "assistant", "content": "hello"}

        assert 0 == beginning([user("a"), user("b")])
        assert 0 == beginning([system, user("a")])
        assert 2 == beginning([user("a"), answer, user("b"), system, user("c")])
        assert 0 == beginning([user("a"), asks("lookup", "c1")["choices"][0]["message"], came("c1", "x")])
        assert 0 == beginning([system])
