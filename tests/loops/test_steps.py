import pytest
from agent_steps import call, failing, run, shell
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.fingerprints import cache_arguments, encode_canonical, fingerprint
from steadyhelm.loops.outcomes import UNKNOWN
from steadyhelm.loops.steps import ToolStep, identify_call, read_step, works_on_files

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def step(made):
    return ToolStep(run(made)[0])


class TestKind:
    @pytest.mark.parametrize(
        "result",
        [
            "still running",
            "running",
            "Deploying ...",
            '{"state": "RUNNING"}',
            "<status>running</status>",
            '{"status": "in_progress"}',
            '{"status": "running"}',
            "web-1  0/1  Pending",
            "The job is queued.",
        ],
    )
    def test_a_look_at_what_is_not_ready_is_waiting(self, result):
        """
        A short answer that says "not yet" makes a look a wait.
        """
        assert "wait" == step(call("BashOutput", {"bash_id": "1"}, result)).kind

    def test_a_long_text_with_such_a_word_is_not(self):
        """
        A long text in which the word occurs is something to read.
        """
        assert "look" == step(call("Read", {"file_path": "a"}, "pending " + "x" * 300)).kind

    def test_a_user_who_knows_better(self):
        """
        What a user has declared about a tool counts more than its name.
        """
        assert "wait" == step(call("read_file", {}, "x", tool_kind="poll")).kind
        assert "work" == step(call("read_file", {}, "x", tool_kind="write")).kind

    def test_work_that_failed_is_no_work(self):
        """
        An edit counts as work when it is known to have succeeded.
        """
        assert step(call("Edit", {}, "done")).is_work_done
        assert not step(failing("Edit", {}, "no")).is_work_done
        assert not step(call("Edit", {})).is_work_done

    def test_an_outage_is_no_real_failure(self):
        """
        What failed by nobody's fault is no failure of the agent, and neither is a wait that failed.
        """
        assert step(failing("search", {}, "it broke")).is_real_failure
        assert not step(failing("search", {}, "429 Too Many Requests")).is_real_failure
        assert not step(failing("wait_for_build", {}, "it broke")).is_real_failure


class TestCall:
    def test_the_order_of_arguments_does_not_matter(self):
        """
        The same arguments in another order are the same call.
        """
        assert (
            step(call("x", {"a": 1, "b": {"c": 2, "d": 3}})).call_key
            == step(call("x", {"b": {"d": 3, "c": 2}, "a": 1})).call_key
        )

    @pytest.mark.parametrize("aside", ["description", "reason", "timeout", "tool_call_id"])
    def test_asides_do_not_matter(self, aside):
        """
        Words that only explain a call do not make it another.
        """
        one, other = ({"command": "ls", aside: words} for words in ("look around", "see what is there"))

        assert step(call("Bash", one)).call_key == step(call("Bash", other)).call_key

    def test_other_arguments_do(self):
        """
        Another command is another call.
        """
        assert step(shell("ls")).call_key != step(shell("ls -a")).call_key

    def test_a_fingerprint_given_is_used(self):
        """
        A call that carries its fingerprint is the same call as one that does not.
        """
        made = shell("ls", "a.py")
        call_hash, result_hash = fingerprint(run(made)[0])
        given_with = step(made | {"call_hash": call_hash, "result_hash": result_hash})

        assert step(made).call_key == given_with.call_key == identify_call(run(made)[0])
        assert step(made).outcome == given_with.outcome


class TestReading:
    def test_read_once(self):
        """
        Several patterns that look at one event share its reading.
        """
        (event,) = run(shell("ls"))

        assert read_step(event) is read_step(event)

    def test_equal_events_are_not_confused(self):
        """
        Another event is read anew, even an equal one.
        """
        one, other = run(shell("ls")), run(shell("pwd"))
        read_step(one[0])

        assert "pwd" in read_step(other[0]).arguments.decode()

    def test_arguments_encoded_before_are_taken_as_they_are(self):
        """
        Whoever made the event has encoded its arguments: what was asked is the beginning of that.
        """
        event = structs.replace(run(shell("ls"))[0], call_hash=1)
        cache_arguments(event, b"x" * 3000)

        assert b"x" * 2048 == ToolStep(event).arguments

    def test_those_of_another_event_are_not(self):
        """
        Arguments noted for one event say nothing about another with the same arguments.
        """
        (noted,), (event,) = run(shell("ls")), run(shell("ls"))
        cache_arguments(noted, b"x")

        assert encode_canonical(event.input_data) == ToolStep(event).arguments

    def test_seen_or_not(self):
        """
        A call of a parallel batch had not seen what came back after it was issued.
        """
        first, *_, last = run(shell("ls"), [shell("a"), shell("b")])

        assert ToolStep(last).has_seen(first.seq)
        assert not ToolStep(last).has_seen(last.seq - 1)

    @given(ANYTHING, ANYTHING, st.none() | st.text(max_size=40))
    def test_anything_can_be_read(self, args, result, error):
        """
        Whatever an agent hands over, it is read without an error.
        """
        taken = step(call("tool", args, result, error=error))

        assert taken.kind in {"look", "work", "wait", "plan"}
        assert taken.arguments is not None

    def test_had_it_come_to_something_else(self):
        """
        A call can be read as if something else had come of it.
        """
        (event,) = run(call("Edit", {}, "done"))

        assert (True, False) == (ToolStep(event).is_work_done, ToolStep(event, UNKNOWN).is_work_done)


class TestCodingSession:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({"file_path": "src/parser.py"}, True),
            ({"command": "make test"}, True),
            ({"command": ["bash", "-lc", "make test"]}, True),
            ({"cmd": "git status"}, True),
            ({"path": ""}, False),
            ({"order_id": "#W42", "reason": "no longer needed"}, False),
            ("src/parser.py", False),
            (None, False),
        ],
    )
    def test_a_call_that_names_a_file_or_runs_a_command(self, arguments, expected):
        """
        Such a call makes a run a coding session; calls about anything else do not.
        """
        [event] = run(call("tool", arguments))

        assert expected is works_on_files(event)

    def test_only_calls_count(self):
        """
        A reply about a file is no work on it.
        """
        [event] = run({**call("tool", {"path": "a.py"}), "action_type": "llm_request"})

        assert not works_on_files(event)
