import json

import msgspec
import pytest

from steadyhelm.baselines import BaselineStats
from steadyhelm.engine.session import Session
from steadyhelm.events import RunInfo
from steadyhelm.hooks.session_step import HookMemory, OpenCall, append_memory, read_memory
from steadyhelm.recordings.hook_events.transcript_usage import count_tokens_since


def session():
    return Session(RunInfo(agent_id="a", run_id="r"), [], BaselineStats(agent_id="a"))


def test_memory_travels_with_the_session():
    """
    The memory comes back out of the saved state, and the session itself is restored as if it were not there.
    """
    memory = HookMemory(
        seen=["x"], open={"c": OpenCall("Read", {"p": 1}, 3)}, words="w", read_to=9, reply="m"
    )
    state = append_memory(session().state(), memory)
    assert memory == read_memory(state)
    session().restore(state)


@pytest.mark.parametrize("keys", [1, 14, 15, 16, 300])
def test_a_state_of_any_number_of_keys(keys):
    """
    However many fields a saved session has, the memory is one more.
    """
    state = {str(key): key for key in range(keys)}
    joined = append_memory(msgspec.msgpack.encode(state), HookMemory(words="w"))

    assert "w" == read_memory(joined).words
    assert [*state, "hook"] == list(msgspec.msgpack.decode(joined))


@pytest.mark.parametrize("state", [b"", b"\x80", b"\xc1", b"\x81\xa4hook\x01", msgspec.msgpack.encode("x")])
def test_unreadable_memory_begins_anew(state):
    """
    A state without a memory, or with one that cannot be read, gives a new one.
    """
    assert HookMemory() == read_memory(state)


def test_a_notice_is_new_once():
    """
    The same notice is new once; one without a mark is always new.
    """
    memory = HookMemory()
    assert [True, False, True, True] == [memory.note_once(once) for once in ("a", "a", "", "")]


def test_memory_is_bounded():
    """
    However long a session is, only the latest notices and calls are remembered.
    """
    memory = HookMemory()
    for n in range(1000):
        memory.note_once(str(n))
        memory.announce(str(n), OpenCall("t", None, n))
    assert (256, 64) == (len(memory.seen), len(memory.open))


def line(reply, tokens):
    usage = {"input_tokens": tokens, "output_tokens": 1}
    return json.dumps({"type": "assistant", "message": {"id": reply, "usage": usage}}) + "\n"


def test_usage_counts_once_per_reply(tmp_path):
    """
    A reply repeats its usage on every line of its parts, and counts once.
    """
    file = tmp_path / "t.jsonl"
    file.write_text(line("m1", 10) + line("m1", 10) + line("m2", 5))
    assert (17, file.stat().st_size, "m2", "") == count_tokens_since(str(file), 0)


def test_a_line_being_written_waits(tmp_path):
    """
    Half a line is read when it is whole, and nothing is read twice.
    """
    file = tmp_path / "t.jsonl"
    whole, half = line("m1", 10), line("m2", 20)
    file.write_text(whole + half[:25])
    first = count_tokens_since(str(file), 0)
    assert (11, len(whole), "m1", "") == first
    file.write_text(whole + half)
    assert (21, len(whole) + len(half), "m2", "") == count_tokens_since(str(file), first.read_to)


@pytest.mark.parametrize("path", ["", "/nowhere/x.jsonl", "/", "a\0b"])
def test_a_transcript_that_cannot_be_read(path):
    """
    A transcript that is not there names no tokens.
    """
    assert (0, 7, "m", "") == count_tokens_since(path, 7, counted="m")


def test_a_shorter_file_is_another_file(tmp_path):
    """
    A transcript that became shorter is read from its beginning.
    """
    file = tmp_path / "t.jsonl"
    file.write_text(line("m1", 10))
    assert 11 == count_tokens_since(str(file), 10_000)[0]


def test_a_reply_counted_before_does_not_count_again(tmp_path):
    """
    When more lines of a reply come after its tokens were counted, they add nothing.
    """
    file = tmp_path / "t.jsonl"
    file.write_text(line("m1", 10) + line("m2", 5))
    usage = count_tokens_since(str(file), 0, counted="m1")
    assert (6, "m2") == (usage.tokens, usage.reply)


@pytest.mark.parametrize("stamp", [None, 7, "yesterday", "9999-99-99", [], "2999-01-01T00:00:00Z"])
def test_a_reply_of_an_unknown_time_counts(tmp_path, stamp):
    """
    Only a reply that says it was written before the run is left to the run before.
    """
    file = tmp_path / "t.jsonl"
    message = {"id": "m", "usage": {"input_tokens": 3}}
    file.write_text(json.dumps({"message": message, "timestamp": stamp}) + "\n")
    assert 3 == count_tokens_since(str(file), 0, since=1_700_000_000.0).tokens
    file.write_text(json.dumps({"message": message, "timestamp": "2020-01-01T00:00:00Z"}) + "\n")
    assert 0 == count_tokens_since(str(file), 0, since=1_700_000_000.0).tokens


@pytest.mark.parametrize("content", [[{"type": "text", "text": "overloaded"}], "overloaded"])
def test_a_model_that_failed_is_read_from_the_transcript(tmp_path, content):
    """
    What stands in place of the last reply is the failure; a reply after it says that it passed.
    """
    file = tmp_path / "t.jsonl"
    message = {"id": "m1", "usage": {"input_tokens": 0}, "content": content}
    file.write_text(json.dumps({"message": message, "isApiErrorMessage": True}) + "\n")
    assert "overloaded" == count_tokens_since(str(file), 0).failure
    file.write_text(file.read_text() + line("m2", 5))
    assert "" == count_tokens_since(str(file), 0).failure
