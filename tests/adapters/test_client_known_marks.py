import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookalike import user

from steadyhelm.adapters.clients.items import chain
from steadyhelm.adapters.clients.known_marks import KnownMarks

MESSAGES = st.builds(
    lambda role, words: {"role": role, "content": words},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.text(max_size=3),
)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.lists(MESSAGES, max_size=12)), max_size=8
)


class Message(dict):
    """A message that knows whether somebody has looked at it."""

    is_looked_at = False

    def get(self, *args):
        self.is_looked_at = True
        return super().get(*args)


def said(*numbers):
    return [Message(user(f"message {number}")) for number in numbers]


def looked_at(marks, messages):
    """How many of the messages are looked at for their marks."""
    for message in messages:
        message.is_looked_at = False
    marks.of(messages)
    return sum(message.is_looked_at for message in messages)


class TestKnownMarks:
    @given(REQUESTS)
    def test_they_are_those_of_a_full_look(self, requests):
        """
        However a host adds to its messages, drops some of them or begins anew, the marks are the same.
        """
        marks, messages = KnownMarks(), []
        for first, last, more in requests:
            messages = [*messages[:first], *messages[last:], *more]

            assert chain(messages) == marks.of(messages)

    def test_a_request_that_goes_on_is_looked_at_where_it_is_new(self):
        """
        What a request costs does not grow with its conversation.
        """
        marks, messages = KnownMarks(), said(*range(500))
        marks.of(messages)

        assert 10 == looked_at(marks, [*messages, *said(500, 501)])

    def test_a_message_that_was_replaced_is_seen(self):
        """
        Messages are known by what they are, not by how many there are.
        """
        marks, messages = KnownMarks(), said(*range(50))
        marks.of(messages)
        rewritten = [*messages[:20], user("other"), *messages[21:]]

        assert chain(rewritten) == marks.of(rewritten)

    @pytest.mark.parametrize("place", [0, 1, 48, 49])
    def test_a_message_that_was_written_into_is_seen(self, place):
        """
        A host may write into the first and the last of the messages that it has sent.
        """
        marks, messages = KnownMarks(), said(*range(50))
        marks.of(messages)
        messages[place]["content"] = "other"
        messages += said(50)

        assert chain(messages) == marks.of(messages)

    def test_equal_messages_of_another_conversation_are_looked_at_in_full(self):
        """
        A copy may be written into later, so only the very same objects are known.
        """
        marks, messages = KnownMarks(), said(*range(50))
        marks.of(messages)

        assert 50 == looked_at(marks, copy.deepcopy(messages))

    def test_a_conversation_that_is_over_is_not_kept(self):
        """
        Nobody's messages are kept alive for longer than there is something open in them.
        """
        marks, messages = KnownMarks(), said(*range(50))
        marks.of(messages)
        marks.forget(messages, len(messages))

        assert 50 == looked_at(marks, messages)

    def test_only_the_latest_are_kept(self):
        """
        A client with many conversations at once remembers the marks of some of them.
        """
        marks = KnownMarks()
        conversations = [said(*range(20)) for _ in range(100)]
        for messages in conversations:
            marks.of(messages)

        assert 20 == looked_at(marks, conversations[0])

    def test_nothing_was_said(self):
        """
        A request without messages has no marks.
        """
        marks = KnownMarks()
        marks.forget([], 0)

        assert [] == marks.of([])
