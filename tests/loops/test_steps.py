import pytest
from agent_steps import call, failing, run, shell
from hypothesis import given
from hypothesis import strategies as st

from holdfast.loops.steps import Step, error_key, kind_of, read_step, result_text, same_outcome

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def step(made):
    return Step(run(made)[0])


def alike(one, other):
    first = step(one)
    return same_outcome(first.raw, first.sample, first.size, step(other))


class TestKind:
    @pytest.mark.parametrize(
        ("name", "args", "kind"),
        [
            ("Read", {"file_path": "a.py"}, "look"),
            ("read_file", {"path": "a.py"}, "look"),
            ("Grep", {"pattern": "x"}, "look"),
            ("WebSearch", {"query": "x"}, "look"),
            ("Edit", {"file_path": "a.py"}, "work"),
            ("MultiEdit", {}, "work"),
            ("Write", {"file_path": "a.py"}, "work"),
            ("apply_patch", {"input": "*** Begin Patch"}, "work"),
            ("replace", {"file_path": "a.py"}, "work"),
            ("send_email", {"to": "me"}, "work"),
            ("cancel_reservation", {"id": "A1"}, "work"),
            ("TodoWrite", {"todos": []}, "plan"),
            ("think", {"thought": "hm"}, "plan"),
            ("update_plan", {"plan": []}, "plan"),
            ("wait_for_build", {}, "wait"),
            ("sleep", {"seconds": 5}, "wait"),
            ("calendar", {"action": "create"}, "work"),
            ("calendar", {"action": "list"}, "look"),
            ("terminal", {"action": "wait"}, "wait"),
        ],
    )
    def test_by_name(self, name, args, kind):
        """
        A tool's name says whether it looks, works, plans or waits; a tool of many trades is told by its verb.
        """
        assert kind == kind_of(name, args)

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            ("ls -la", "look"),
            ("git status --short", "look"),
            ("git log -3", "look"),
            ("pytest -q", "look"),
            ("cat a.py | head -3", "look"),
            ("pytest -q 2>&1 | tail -5", "look"),
            ("git commit -am fix", "work"),
            ("cd src && git add a.py", "work"),
            ("sudo rm -rf build", "work"),
            ("sed -i s/a/b/ a.py", "work"),
            ("sed -n 1,9p a.py", "look"),
            ("pip install msgspec", "work"),
            ("pip list", "look"),
            ("echo hi > a.txt", "work"),
            ("cat >> a.txt", "work"),
            ("sleep 30", "wait"),
            ("sleep 30 && curl localhost", "wait"),
            ("make && sleep 20 && curl localhost", "wait"),
        ],
    )
    def test_by_command(self, command, kind):
        """
        A shell is judged by what it is told to do.
        """
        assert kind == kind_of("Bash", {"command": command})
        assert kind == kind_of("shell", {"cmd": command})

    def test_a_command_in_parts(self):
        """
        A command given as a list of words is the same command.
        """
        assert "work" == kind_of("shell", {"command": ["git", "commit", "-m", "fix"]})

    @pytest.mark.parametrize(
        ("command", "kind"), [("view", "look"), ("str_replace", "work"), ("undo_edit", "work")]
    )
    def test_an_editor_of_many_trades(self, command, kind):
        """
        An editor that takes commands looks or works as it is told.
        """
        assert kind == kind_of("str_replace_editor", {"command": command, "path": "a.py"})

    @pytest.mark.parametrize(
        "result",
        [
            "still running",
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


class TestFailed:
    @pytest.mark.parametrize(
        "result",
        [
            "Error: no such user",
            "fatal: not a git repository",
            "Traceback (most recent call last):\n  File",
            "bash: foo: command not found",
            "cat: a.py: No such file or directory",
            "FAILED tests/test_a.py - assert 1 == 2",
            "No replacement was performed, old_str did not appear",
            "F..   [100%]\n=== FAILURES ===\n"
            + "x\n" * 400
            + "FAILED test_a.py::test_one\n1 failed, 2 passed in 0.1s",
            "collected 3 items\n\ntest_a.py F..\nE   AssertionError: 1 != 2",
            "started\nreading the file\nValueError: bad date",
        ],
    )
    def test_by_its_words(self, result):
        """
        A result that begins or ends with words of failure is one, whoever forgot to mark it.
        """
        assert step(shell("x", result)).failed

    @pytest.mark.parametrize(
        "result",
        [
            "0 errors",
            "12 passed, 0 failed",
            "12 passed",
            "try:\n    import x\nexcept ImportError:\n    x = None",
            "errors.py\nmain.py",
        ],
    )
    def test_the_word_alone_is_no_failure(self, result):
        """
        A text in which errors are spoken of is none.
        """
        assert not step(shell("x", result)).failed

    def test_a_siblings_fault(self):
        """
        A call that was given up because another of its batch failed has not failed itself.
        """
        assert not step(failing("Read", {}, "Sibling tool call errored")).failed

    @pytest.mark.parametrize(
        "error",
        ["429 Too Many Requests", "503 Service Unavailable", "request timed out", "rate limit reached"],
    )
    def test_an_outage_is_nobodys_fault(self, error):
        """
        A rate limit, an overload or a timeout is a failure that says nothing about the agent.
        """
        failed = step(failing("search", {}, error))

        assert (True, True, False) == (failed.failed, failed.outage, failed.is_real_failure)

    def test_work_that_failed_is_no_work(self):
        """
        An edit counts as work when it is known to have succeeded.
        """
        assert step(call("Edit", {}, "done")).is_work_done
        assert not step(failing("Edit", {}, "no")).is_work_done
        assert not step(call("Edit", {})).is_work_done


class TestCall:
    def test_the_order_of_arguments_does_not_matter(self):
        """
        The same arguments in another order are the same call.
        """
        assert (
            step(call("x", {"a": 1, "b": {"c": 2, "d": 3}})).call
            == step(call("x", {"b": {"d": 3, "c": 2}, "a": 1})).call
        )

    @pytest.mark.parametrize("aside", ["description", "reason", "timeout", "tool_call_id"])
    def test_asides_do_not_matter(self, aside):
        """
        Words that only explain a call do not make it another.
        """
        one, other = ({"command": "ls", aside: words} for words in ("look around", "see what is there"))

        assert step(call("Bash", one)).call == step(call("Bash", other)).call

    def test_other_arguments_do(self):
        """
        Another command is another call.
        """
        assert step(shell("ls")).call != step(shell("ls -a")).call


class TestOutcome:
    def test_noise_aside(self):
        """
        Results that differ in durations and process numbers alone are the same.
        """
        assert alike(shell("x", "3 files, took 9ms, pid 99"), shell("x", "3 files, took 10ms, pid 100"))

    def test_a_count_is_news(self):
        """
        A number that counts something is not noise.
        """
        assert not alike(shell("x", "step 3 of 9"), shell("x", "step 4 of 9"))

    def test_a_long_text_that_differs_in_its_middle(self):
        """
        Two long texts of one length whose beginning and end are equal are still two texts.
        """
        one, other = ("a" * 500 + middle + "b" * 500 for middle in ("north", "south"))

        assert not alike(shell("x", one), shell("x", other))

    @pytest.mark.parametrize(
        ("output", "text"),
        [("plain", "plain"), ({"text": "only"}, "only"), ({"a": 1, "b": 2}, '{"a":1,"b":2}')],
    )
    def test_the_words_of_a_result(self, output, text):
        """
        A result is read as its words, or as its canonical form.
        """
        assert text == result_text(output)


class TestErrorKey:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("no file 'a.py'", "no file 'some/where/b.py'"),
            ('KeyError: "x"', 'KeyError: "yy"'),
            ("line 9: bad", "line 10: bad"),
            ("cannot reach https://a.example/x", "cannot reach https://b.example/y/z"),
        ],
    )
    def test_what_it_quotes_does_not_matter(self, one, other):
        """
        The same complaint about another thing is the same complaint.
        """
        assert error_key(one) == error_key(other)

    def test_another_complaint(self):
        """
        Another complaint is another.
        """
        assert error_key("no file 'a'") != error_key("no right to read 'a'")


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

        assert "pwd" in read_step(other[0]).asked.decode()

    def test_seen_or_not(self):
        """
        A call of a parallel batch had not seen what came back after it was issued.
        """
        first, *_, last = run(shell("ls"), [shell("a"), shell("b")])

        assert Step(last).had_seen(first.seq)
        assert not Step(last).had_seen(last.seq - 1)

    @given(ANYTHING, ANYTHING, st.none() | st.text(max_size=40))
    def test_anything_can_be_read(self, args, result, error):
        """
        Whatever an agent hands over, it is read without an error.
        """
        taken = step(call("tool", args, result, error=error))

        assert taken.kind in {"look", "work", "wait", "plan"}
        assert taken.asked is not None
