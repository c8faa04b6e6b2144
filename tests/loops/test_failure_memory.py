import msgspec
import pytest
from agent_steps import (
    call,
    edit,
    failing,
    matches,
    names,
    reported,
    restored_copy,
    run,
    shell,
    state,
    user,
)
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory
from steadyhelm.testing.traces import events

BROKEN = "FAILED tests/test_a.py::test_one - assert 1 == 2\n1 failed in 0.{}2s"
STEPS = (
    shell("make", "Error: no rule"),
    failing("Edit", {"file_path": "a", "old_string": "x"}, "not found"),
    failing("Edit", {"file_path": "b", "old_string": "y"}, "not found"),
    failing("search", {"query": "x"}, "503 unavailable"),
    edit("a", "x", "y"),
    shell("ls", "a"),
    user("go on"),
    call("act", {}),
    state("it broke"),
)


def seen(*steps):
    return reported(FailureMemory(), run(*steps))


def found(*steps):
    return names(FailureMemory(), run(*steps))


class TestTestFailLoop:
    def test_the_fourth_time_whatever_is_edited(self):
        """
        The same test with the same error, however much is edited between, is a loop at the fourth time.
        """
        rounds = [(edit("a", f"x{n}", f"x{n + 1}"), shell("pytest", BROKEN.format(n))) for n in range(4)]

        assert [7] == seen(*[step for pair in rounds for step in pair])
        assert ["test-fail loop"] == found(*[step for pair in rounds for step in pair])

    def test_as_a_test_runner_says_it(self):
        """
        A test runner's own words will do, whoever forgot to mark the call as failed.
        """
        said = "test_a.py F..\n\nE   AssertionError: 1 != 2\ntest_a.py:3\n1 failed, 2 passed in 0.{}2s"
        rounds = [(edit("a", f"x{n}", f"x{n + 1}"), shell("pytest", said.format(n))) for n in range(4)]

        assert [7] == seen(*[step for pair in rounds for step in pair])

    def test_while_the_numbers_change(self):
        """
        Where fewer fail each time, it is progress.
        """
        rounds = [
            (edit("a", f"x{n}", f"x{n + 1}"), shell("pytest", f"FAILED: {9 - n} failed, {n} passed"))
            for n in range(8)
        ]

        assert [] == seen(*[step for pair in rounds for step in pair])

    @pytest.mark.parametrize(
        "error",
        [
            "exit 1",
            "Exit code 2",
            "process exited with status 1",
            "check failed, status 1",
            "make: *** [Makefile:12: test] Error 1",
            "CalledProcessError: Command '['pytest', '-q']' returned non-zero exit status 1.",
        ],
    )
    def test_an_exit_status_alone(self, error):
        """
        Where nothing but the status is known, something else may fail after each edit: that proves no loop.
        """
        rounds = [(edit("a", f"x{n}", f"x{n + 1}"), failing("run_tests", {}, error)) for n in range(20)]

        assert [] == seen(*[step for pair in rounds for step in pair])

    def test_a_pass_between_forgives(self):
        """
        A test that passed in between begins anew.
        """
        broken, passed = shell("pytest", BROKEN.format(1)), shell("pytest", "12 passed")
        edits = iter([edit("a", f"x{n}", f"x{n + 1}") for n in range(20)])
        steps = [
            step for result in (broken, broken, passed, broken, broken) for step in (next(edits), result)
        ]

        assert [] == seen(*steps)


class TestFailingCall:
    def test_with_other_errors(self):
        """
        The same call failing a third time is a loop, whatever the error says.
        """
        steps = [
            failing("fetch", {"url": "x"}, error) for error in ("no route", "bad name", "refused by peer")
        ]

        assert [2] == seen(*steps)
        assert ["failing call"] == found(*steps)

    def test_across_a_users_turns(self):
        """
        The same call failing again after the user spoke is still the same call failing.
        """
        call_ = failing("fetch", {"url": "x"}, "no route")

        assert 4 in seen(call_, user("try again"), call_, user("and again"), call_)

    def test_new_work_begins_anew(self):
        """
        After new work a call may fail again.
        """
        broken = [failing("run", {"path": "a"}, f"fault {word}") for word in ("one", "two", "three", "four")]

        assert [] == seen(*broken[:2], edit("a", "x", "y"), *broken[2:])

    def test_success_begins_anew(self):
        """
        So may one that has succeeded in between.
        """
        broken = [failing("run", {"path": "a"}, f"fault {word}") for word in ("one", "two", "three", "four")]

        assert [] == seen(*broken[:2], call("run", {"path": "a"}, "fine"), *broken[2:])

    def test_one_batch(self):
        """
        Calls issued together fail together: one decision.
        """
        assert [] == seen([failing("fetch", {"url": f"{n}"}, "no route") for n in range(8)])


class TestFallingNumbers:
    LEFT = (900, 780, 660, 540, 420, 300, 180, 60, 20, 10)

    @pytest.mark.parametrize(
        "error",
        [
            "transfer closed with {} MB remaining",
            "curl: (18) transfer closed with {}000000 bytes remaining to read",
            "connection reset, {} MB remaining",
            "error: {} lockers are still unassigned",
        ],
    )
    def test_the_same_call(self, error):
        """
        Where one number in the error of a call falls each time, trying again brings it nearer to its end.
        """
        steps = [
            shell("curl -C - -O https://data.example/set.tar", error=error.format(it)) for it in self.LEFT
        ]

        assert [] == seen(*steps)
        assert [] == reported(RepetitionMemory(), run(*steps))

    def test_other_calls(self):
        """
        Falling numbers of one error are progress under other commands too, and none left is no failure.
        """
        steps = [
            step
            for n, it in enumerate((12, 9, 7, 3, 2, 0))
            for step in (shell(f"ulimit -n {n}", ""), shell(f"ab -n 50 -w {n}", f"Failed requests: {it}"))
        ]

        assert [] == seen(*steps)

    @pytest.mark.parametrize(
        "numbers", [(5, 6, 7), (900, 780, 850, 640), (900, 900, 900), (12, 3, 12, 3), (60, 60, 61, 50)]
    )
    def test_numbers_that_do_not_fall(self, numbers):
        """
        A number that rises, stays, or goes up and down counts nothing that is left.
        """
        steps = [failing("sync", {"set": "a"}, f"the store refused {it} boxes") for it in numbers]

        assert seen(*steps) or reported(RepetitionMemory(), run(*steps))

    @pytest.mark.parametrize(
        "error",
        [
            "wrong code, {} attempts remaining",
            "wrong code, attempts left: {}",
            "syntax error at line {}",
            "the account is closed for {} days",
        ],
    )
    def test_attempts_places_and_times(self, error):
        """
        What is left of attempts and time falls by itself, and a place is no count.
        """
        assert [2, 3] == seen(*[failing("sign_in", {"as": "me"}, error.format(9 - n)) for n in range(4)])

    def test_a_number_of_the_call(self):
        """
        A number that the call itself names is no news.
        """
        steps = [
            failing("rent", {"boxes": it, "name": "a", "size": "xl"}, f"no {it} boxes left to rent")
            for it in (90, 80, 70, 60)
        ]

        assert seen(*steps)


class TestSameError:
    def test_of_calls_much_alike(self):
        """
        The same error for nearly the same call is a loop at the third time.
        """
        steps = [
            failing(
                "Edit",
                {"file_path": "a.py", "old_string": f"def f{n}(x)", "new_string": "def g(x)"},
                "No match.",
            )
            for n in range(3)
        ]

        assert [2] == seen(*steps)
        assert ["same error"] == found(*steps)

    def test_proved_by_its_ends(self):
        """
        The attempts differ and the error does not: the first and the latest prove it.
        """
        steps = [
            failing("Edit", {"file_path": "a.py", "old_string": f"def f{n}()"}, "No match.") for n in range(6)
        ]
        evidence = [it.event_ids for it in matches(FailureMemory(), run(*steps)).values()]

        assert [("run.0", "run.2"), ("run.0", "run.5")] == evidence

    def test_of_calls_that_ask_next_to_nothing(self):
        """
        Where hardly anything was asked, the error alone counts.
        """
        assert [2] == seen(*[failing("open", {"door": n}, "It is locked.") for n in range(3)])

    def test_of_calls_unlike(self):
        """
        The same error of one tool wherever it is tried takes five.
        """
        places = ("north end gate", "river bank side", "old mill door", "high street shop", "lower town hall")
        steps = [failing("open", {"place": place}, f"'{place}' is locked") for place in places]

        assert [4] == seen(*steps)

    def test_a_long_time_apart(self):
        """
        The same error long ago does not count.
        """
        broken = [failing("Edit", {"path": "a.py", "old": f"some text {n}"}, "No match.") for n in range(4)]
        between = [shell(f"ls {n}", f"{n}") for n in range(40)]

        assert [] == seen(broken[0], *between[:10], broken[1], *between[10:20], broken[2], *between[20:30])

    def test_told_apart_from_the_call(self):
        """
        Where a framework tells of the failure after the call, it counts for that call.
        """
        pair = (call("act", {"what": "jump high"}), state("the floor is missing"))

        assert [5] == seen(*pair * 3)


class TestDeadEnd:
    def test_one_approach_after_another(self):
        """
        Six calls in a row that fail, each in its own way, are a dead end.
        """
        words = ("missing", "locked", "refused", "broken", "unknown", "empty")
        steps = [failing(f"tool_{word}", {word: word}, f"it is {word}") for word in words]

        assert [5] == seen(*steps)
        assert ["dead end"] == found(*steps)

    def test_one_success_forgives(self):
        """
        One call that works clears those before it.
        """
        words = ("missing", "locked", "refused", "broken", "unknown", "empty")
        steps = [failing(f"tool_{word}", {word: word}, f"it is {word}") for word in words]

        assert [] == seen(*steps[:4], shell("ls", "a"), *steps[4:])

    def test_not_of_a_loop_already_told(self):
        """
        What was told as the same error again and again is not told as a dead end too.
        """
        steps = [
            failing("Edit", {"file_path": "a.py", "old_string": f"def f{n}()"}, "No match.") for n in range(9)
        ]

        assert ["same error"] == found(*steps)

    def test_after_a_loop_was_told(self):
        """
        Other failures after it lead into a dead end of their own.
        """
        words = ("missing", "locked", "refused", "broken", "unknown", "empty")
        same_error = [
            failing("Edit", {"file_path": "a.py", "old_string": f"def f{n}()"}, "No match.") for n in range(4)
        ]
        steps = [failing(f"tool_{word}", {word: word}, f"it is {word}") for word in words]

        assert ["same error", "dead end"] == found(*same_error, *steps)

    def test_told_when_it_doubles(self):
        """
        A dead end that goes on is told again when it has doubled, with its true length.
        """
        letters = "abcdefghijklmnopqrstuvwxyz"
        steps = [
            failing(f"tool {one}{other}", {one: other}, f"it is {one * 3} {other * 4}")
            for one in letters
            for other in letters
        ]
        counts = [(place, it.count) for place, it in matches(FailureMemory(), run(*steps[:60])).items()]

        assert [(5, 6), (11, 12), (23, 24), (47, 48)] == counts


class TestNobodysFault:
    @pytest.mark.parametrize("error", ["429 Too Many Requests", "503 unavailable", "the request timed out"])
    def test_an_outage(self, error):
        """
        An outage is not the agent's failing.
        """
        assert [] == seen(*[failing("search", {"query": "x"}, error)] * 20)

    def test_one_outage_after_another(self):
        """
        A call that meets other outages again and again is a loop at the eighth; a success between forgives.
        """
        errors = ["502 Bad Gateway", "request timed out", "try again later"]
        steps = [failing("submit", {"form": 1}, errors[n % 3]) for n in range(9)]

        assert [7, 8] == seen(*steps)
        assert [] == seen(*steps[:6], call("submit", {"form": 1}, "accepted"), *steps[:6])

    def test_trying_again_helps(self):
        """
        An error that went away when its call was made again counts no more, for whatever call.
        """
        error = "error: no route to the mirror"
        steps = [
            step
            for n in range(5)
            for step in (*[failing("fetch", {"mirror": n}, error)] * 2, call("fetch", {"mirror": n}, "done"))
        ]

        assert [] == seen(*steps)
        assert seen(*[failing("fetch", {"mirror": n}, error) for n in range(5)])

    def test_a_test_that_fails_at_each_commit(self):
        """
        A test that fails at every commit of a bisection fails at another thing each time.
        """
        fails = failing("Bash", {"command": "./smoke.sh"}, "upload: FAIL")
        bisects = [shell("git bisect bad", f"Bisecting: {n} revisions left") for n in (90, 45, 22, 11, 5)]

        assert [] == seen(*[step for it in bisects for step in (fails, it)])
        assert seen(*[step for n in range(5) for step in (fails, edit("a.py", f"v{n}", f"v{n + 1}"))])

    def test_searching_by_halving(self):
        """
        Attempts that each go half as far as the last search for something; one more each time does not.
        """
        halves = [
            shell(f"deploy --build {n} && smoke", "smoke: FAILED", error="exit 1")
            for n in (800, 400, 200, 100, 50, 25, 13)
        ]
        ports = [
            shell(f"serve --port {n} && smoke", "smoke: FAILED", error="exit 1") for n in range(3000, 3007)
        ]

        assert [] == seen(*halves)
        assert seen(*ports)

    def test_waiting(self):
        """
        Neither is waiting for what is not there yet.
        """
        assert [] == seen(*[failing("wait_for", {"file": "a"}, "not there")] * 20)


class TestMemory:
    @given(st.lists(st.sampled_from(STEPS), max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere(self, steps, cut):
        """
        Put aside after any event and taken up again, it sees the same.
        """
        trace, first = run(*steps), FailureMemory()
        before = matches(first, trace[:cut])

        assert matches(FailureMemory(), trace) == before | matches(restored_copy(first), trace[cut:])

    def test_bounded(self):
        """
        Twenty thousand failures leave no more in memory than a thousand do.
        """
        pattern, sizes = FailureMemory(), []
        for event in events("x" * 20_000):
            pattern.observe(event)
            if event.seq in {999, 19_999}:
                sizes.append(len(msgspec.msgpack.encode(pattern)))

        assert sizes[1] < 1.2 * sizes[0]
