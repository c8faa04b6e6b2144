import copy
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookalike import asks, came, user

from steadyhelm.adapters.clients.fingerprints import (
    FingerprintCache,
    fingerprint_messages,
    group_by_fingerprint,
)

MESSAGES = st.builds(
    lambda role, words: {"role": role, "content": words},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.text(max_size=3),
)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.lists(MESSAGES, max_size=12)), max_size=8
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", None, "narrator"])
WORDS = st.text(max_size=20)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "thinking", "tool_use", "image"]), "text": WORDS}
    ),
    max_size=3,
)
CONVERSATIONS = st.lists(
    st.fixed_dictionaries(
        {"role": ROLES, "content": WORDS | PARTS | st.none()},
        optional={"tool_call_id": WORDS, "tool_calls": st.lists(st.fixed_dictionaries({"id": WORDS}))},
    ),
    max_size=8,
)


class Message(dict):
    """A message that knows whether somebody has looked at it."""

    is_looked_at = False

    def get(self, *args):
        self.is_looked_at = True
        return super().get(*args)


def said(*numbers):
    return [Message(user(f"message {number}")) for number in numbers]


def looked_at(cache, messages):
    """How many of the messages are read for their fingerprints."""
    for message in messages:
        message.is_looked_at = False
    cache.fingerprint(messages)
    return sum(message.is_looked_at for message in messages)


class TestFingerprints:
    @given(CONVERSATIONS, CONVERSATIONS)
    def test_what_is_added_changes_nothing_before_it(self, messages, more):
        """
        A conversation that has grown is known by its beginning.
        """
        assert fingerprint_messages(messages) == fingerprint_messages(messages + more)[: len(messages)]

    @given(CONVERSATIONS, CONVERSATIONS)
    def test_a_reply_continues_the_chain(self, messages, reply):
        """
        What a request ends at and its reply together are what the next request will have.
        """
        at = fingerprint_messages(messages)[-1] if messages else 0

        assert fingerprint_messages(messages + reply)[len(messages) :] == fingerprint_messages(reply, at)

    def test_a_librarys_own_message_has_the_fingerprint_of_a_plain_one(self):
        """
        Whether a host keeps replies as they came or as plain objects, the conversation is the same.
        """
        call = asks("lookup", "c1", key="a")["choices"][0]["message"]
        own = SimpleNamespace(role="assistant", content=None, tool_calls=[SimpleNamespace(id="c1")])

        assert fingerprint_messages([call]) == fingerprint_messages([own])

    def test_one_text_has_the_fingerprint_of_its_words(self):
        """
        Words are the same alone and as the only part of a message, with or without a cache setting.
        """
        part = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}

        assert fingerprint_messages([user("hello")]) == fingerprint_messages(
            [{"role": "user", "content": [part]}]
        )

    def test_other_words_have_another_fingerprint(self):
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

        assert len(messages) == len({fingerprint_messages([message])[0] for message in messages})

    @given(CONVERSATIONS)
    def test_groups_have_all_that_has_a_fingerprint(self, messages):
        """
        Nothing is lost between groups, and each ends with a message that has a fingerprint.
        """
        groups = group_by_fingerprint(messages, fingerprint_messages(messages))
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
        groups = [group_by_fingerprint(it, fingerprint_messages(it)) for it in (without, with_it)]

        assert [2, 2] == [len(it) for it in groups]


class TestFingerprintCache:
    @given(REQUESTS)
    def test_they_are_those_of_a_full_look(self, requests):
        """
        However a host adds to its messages, drops some of them or begins anew, the fingerprints are the same.
        """
        cache, messages = FingerprintCache(), []
        for first, last, more in requests:
            messages = [*messages[:first], *messages[last:], *more]

            assert fingerprint_messages(messages) == cache.fingerprint(messages)

    def test_a_request_that_goes_on_is_looked_at_where_it_is_new(self):
        """
        What a request costs does not grow with its conversation.
        """
        cache, messages = FingerprintCache(), said(*range(500))
        cache.fingerprint(messages)

        assert 6 == looked_at(cache, [*messages, *said(500, 501)])

    def test_a_message_that_was_replaced_is_seen(self):
        """
        Messages are known by what they are, not by how many there are.
        """
        cache, messages = FingerprintCache(), said(*range(50))
        cache.fingerprint(messages)
        rewritten = [*messages[:20], user("other"), *messages[21:]]

        assert fingerprint_messages(rewritten) == cache.fingerprint(rewritten)

    @pytest.mark.parametrize("place", [0, 1, 48, 49])
    def test_a_message_that_was_written_into_is_seen(self, place):
        """
        A host may write into the first and the last of the messages that it has sent.
        """
        cache, messages = FingerprintCache(), said(*range(50))
        cache.fingerprint(messages)
        messages[place]["content"] = "other"
        messages += said(50)

        assert fingerprint_messages(messages) == cache.fingerprint(messages)

    def test_equal_messages_of_another_conversation_are_looked_at_in_full(self):
        """
        A copy may be written into later, so only the very same objects are known.
        """
        cache, messages = FingerprintCache(), said(*range(50))
        cache.fingerprint(messages)

        assert 50 == looked_at(cache, copy.deepcopy(messages))

    def test_a_conversation_that_is_over_is_not_kept(self):
        """
        Nobody's messages are kept alive for longer than there is something open in them.
        """
        cache, messages = FingerprintCache(), said(*range(50))
        cache.fingerprint(messages)
        cache.forget(messages, len(messages))

        assert 50 == looked_at(cache, messages)

    def test_only_the_latest_are_kept(self):
        """
        A client with many conversations at once remembers the fingerprints of some of them.
        """
        cache = FingerprintCache()
        conversations = [said(*range(20)) for _ in range(100)]
        for messages in conversations:
            cache.fingerprint(messages)

        assert 20 == looked_at(cache, conversations[0])

    def test_nothing_was_said(self):
        """
        A request without messages has no fingerprints.
        """
        cache = FingerprintCache()
        cache.forget([], 0)

        assert [] == cache.fingerprint([])
