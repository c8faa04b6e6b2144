import msgspec
import pytest
from agent_steps import (
    call,
    edit,
    in_turn,
    matches,
    names,
    reported,
    restored_copy,
    run,
    says,
    shell,
    user,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.repetitions import RepetitionMemory
from steadyhelm.testing.traces import events, healthy

PICTURES = st.text(alphabet="aabbccA. x", max_size=60)


def seen(*steps, **settings):
    """The places at which a run of these steps is reported."""
    pattern = RepetitionMemory()
    found = ((event.seq, pattern.observe(event, **settings)) for event in run(*steps))
    return [place for place, match in found if match is not None and match.score >= 0.5]


class TestInARow:
    def test_the_third_time(self):
        """
        The third equal call with an equal result in a row is a loop, and so is every one after it.
        """
        assert [2, 3, 4] == reported(RepetitionMemory(), events("aaaaa"))

    def test_the_second_is_noticed(self):
        """
        The second is noticed, not reported.
        """
        assert {1: 0.3} == {
            place: match.score for place, match in matches(RepetitionMemory(), events("aa")).items()
        }

    def test_without_results(self):
        """
        Where results are not known it takes a fourth.
        """
        assert [3] == seen(*[call("search", {"query": "x"})] * 4)

    def test_what_the_model_says_does_not_hide_it(self):
        """
        Replies between equal calls change nothing.
        """
        assert [4] == reported(RepetitionMemory(), events("arara"))

    def test_verifying_again_without_an_edit(self):
        """
        A test that passes, run again and again with nothing changed, goes in circles.
        """
        assert [3] == seen(edit("a", "x", "y"), *[shell("pytest -q", "3 passed in 0.12s")] * 3)

    @pytest.mark.parametrize(
        "results",
        [
            ["ok, took 9ms", "ok, took 10ms", "ok, took 1.5s"],
            ["started, pid 99", "started, pid 100", "started, pid 7321"],
            ["[10:00:00] idle", "[10:00:31] idle", "[10:01:02] idle"],
            ["2024-01-01T10:00:00Z idle", "2024-01-01T10:00:01Z idle", "2024-01-02T10:00:00Z idle"],
            [
                '{"request_id": "ab1", "hits": 0}',
                '{"request_id": "9c2", "hits": 0}',
                '{"request_id": "d33", "hits": 0}',
            ],
            ["attempt 1: no", "attempt 2: no", "attempt 3: no"],
            ["wrote /tmp/kx1/o", "wrote /tmp/zz2/o", "wrote /tmp/q/o"],
            ["Login [ref=e9]", "Login [ref=e10]", "Login [ref=e11]"],
        ],
    )
    def test_noise_does_not_hide_it(self, results):
        """
        Durations, process numbers, clocks, ids, counters, temporary paths and element references are no news.
        """
        assert [2] == seen(*[shell("check", result) for result in results])

    def test_a_reason_does_not_hide_it(self):
        """
        The same command with another explanation each time is the same command.
        """
        steps = [call("Bash", {"command": "ls", "description": f"look, {n}"}, "a b") for n in range(3)]

        assert [2] == seen(*steps)

    def test_keys_in_another_order_do_not_hide_it(self):
        """
        Neither is it hidden by arguments that change places.
        """
        turned = call("search", {"b": 2, "a": 1}, {"y": 1, "x": 2})

        assert [2] == seen(call("search", {"a": 1, "b": 2}, {"x": 2, "y": 1}), turned, turned)


class TestProgress:
    def test_polling_with_changing_results(self):
        """
        The same question with another answer each time is progress.
        """
        assert [] == seen(*[shell("gh run view 7", f"step {n} of 20 done") for n in range(20)])

    def test_progress_by_size(self):
        """
        A download that grows is progress.
        """
        assert [] == seen(*[shell("du", f"{n}0 MB of 100 MB") for n in range(10)])

    def test_batch_work(self):
        """
        One tool over many things is work.
        """
        assert [] == seen(*[call("Read", {"file_path": f"{n}.py"}, f"class C{n}") for n in range(30)])

    def test_test_and_fix(self):
        """
        The same test after each new edit is how one works.
        """
        rounds = [(edit("a", f"x{n}", f"x{n + 1}"), shell("pytest", "1 failed")) for n in range(8)]

        assert [] == seen(*[step for pair in rounds for step in pair])

    def test_looking_around_between_edits(self):
        """
        The same look at the state of things after each new edit is no loop.
        """
        rounds = [(edit(f"{n}.py", "x", "y"), shell("git status -s", " M a.py")) for n in range(8)]

        assert [] == seen(*[step for pair in rounds for step in pair])

    def test_the_same_edit_again_is_none(self):
        """
        An edit that was made before opens nothing.
        """
        rounds = [(write("a", "same"), shell("pytest", "1 failed")) for _ in range(3)]

        assert [5] == seen(*[step for pair in rounds for step in pair])

    def test_a_users_new_words(self):
        """
        What a user asks for again is not the agent's loop.
        """
        assert [] == reported(RepetitionMemory(), events("aa aa aa aa"))

    def test_the_same_words_again(self):
        """
        What a harness says again by itself opens nothing.
        """
        assert [5] == seen(*[user("go on"), shell("ls", "a")] * 3)

    def test_plans_are_no_steps(self):
        """
        A list of things to do is no work and no step; written down alike four times, it is a loop of its own.
        """
        assert [3, 4, 5] == seen(*[call("TodoWrite", {"todos": ["a"]}, "ok")] * 6)
        assert [4] == seen(*[shell("ls", "a"), call("TodoWrite", {"todos": ["a"]}, "ok")] * 3)[:1]

    @given(st.lists(st.sampled_from(["ls", "pwd", "cat a", "pytest"]), max_size=60))
    def test_where_every_result_is_new(self, commands):
        """
        A run in which every result is new is never a loop.
        """
        assert [] == seen(*[shell(command, f"result number {n}") for n, command in enumerate(commands)])


class TestSpreadOut:
    def test_the_fourth_time(self):
        """
        With other calls between, the fourth equal call with an equal result is a slow loop.
        """
        assert [9] == reported(RepetitionMemory(), events("abcadeafga"))
        assert ["slow loop"] == names(RepetitionMemory(), events("abcadeafga"))

    def test_read_again_and_again(self):
        """
        One file read again and again among others is a loop.
        """
        other = [call("Read", {"file_path": f"{n}.py"}, f"text {n}") for n in range(4)]

        assert [6] == seen(*in_turn([call("Read", {"file_path": "a.py"}, "the text")] * 4, other))

    def test_two_slow_loops_at_once(self):
        """
        Two questions asked in turn, with other work between, are found each.
        """
        others = [shell(f"ls {n}", f"{n}") for n in range(4)]
        steps = in_turn([shell("cat a", "aa")] * 4, others, [shell("cat b", "bb")] * 4)

        assert [9, 11] == seen(*steps)

    def test_with_a_long_way_between(self):
        """
        Thirty other calls between do not hide it.
        """
        others = ([shell(f"ls {part}/{n}", f"result {part}/{n}") for n in range(30)] for part in range(3))
        steps = [step for stretch in others for step in (shell("cat goal", "text"), *stretch)]

        assert [93] == seen(*steps, shell("cat goal", "text"))


class TestCycles:
    @pytest.mark.parametrize("period", range(2, 6))
    def test_of_every_period_up_to_five(self, period):
        """
        Two to five calls in the same order, three times over, are a cycle.
        """
        assert [3 * period - 1] == reported(RepetitionMemory(), events("abcdef"[:period] * 3))

    @pytest.mark.parametrize("period", range(6, 13))
    def test_of_more_is_found_when_it_is_redone(self, period):
        """
        Six looks in a row that were all made before are noticed in the second lap, the cycle in the third.
        """
        memory = RepetitionMemory()
        seen = matches(memory, events("abcdefghijkl"[:period] * 3))
        first = min(place for place, match in seen.items() if match.score >= 0.5)

        assert (period + 5, "redone") == (first, seen[first].pattern)
        assert "cycle" == seen[3 * period - 1].pattern

    def test_of_thirteen_is_a_slow_loop(self):
        """
        Longer ones are found as the slow loops they are made of.
        """
        assert "slow loop" in names(RepetitionMemory(), events("abcdefghijklm" * 4))

    def test_with_a_changing_result(self):
        """
        A cycle in which one result is new each time is progress.
        """
        assert [] == reported(RepetitionMemory(), events("aBaBaB"))

    def test_broken_by_new_work(self):
        """
        New work in the middle begins it anew.
        """
        turn = [shell("ls", "a"), shell("pwd", "/")]

        assert [] == seen(*turn * 2, edit("a", "x", "y"), *turn * 2)

    def test_said_in_words(self):
        """
        It is told with its calls, how often they came, and that the results were the same.
        """
        match = matches(RepetitionMemory(), events("ababab"))[5]

        assert "a → b repeated 3 times, results and all" == match.message
        assert (("a", "b"), 3) == (match.sequence, match.count)

    @pytest.mark.parametrize(
        ("picture", "proof"), [("ababab", [0, 1, 3, 5]), ("xyabcabcabc", [2, 3, 4, 7, 10])]
    )
    def test_proved_lap_by_lap(self, picture, proof):
        """
        Its first lap proves it, and the latest step in each lap since: that is what the step repeats.
        """
        match = matches(RepetitionMemory(), events(picture))[len(picture) - 1]

        assert tuple(f"run.{n}" for n in proof) == match.event_ids

    def test_a_very_long_one(self):
        """
        However often it went round, the proof is bounded and ends with the latest step.
        """
        last = matches(RepetitionMemory(), events("abc" * 100))[299]

        assert ("run.299", "run.296") == (last.event_ids[-1], last.event_ids[-2])
        assert len(last.event_ids) <= 24

    @given(st.text(alphabet="abc", min_size=1, max_size=3), st.integers(3, 6))
    def test_any_short_cycle(self, cycle, times):
        """
        Whatever the cycle of one to three calls is, it is found by its fourth round at the latest.
        """
        found = reported(RepetitionMemory(), events(cycle * (times + 1)))

        assert found
        assert found[0] < 4 * len(cycle)


class TestBatches:
    def test_calls_of_one_batch(self):
        """
        Six equal calls issued at once are one decision, not six.
        """
        assert [] == seen([shell("ls", "a")] * 6)

    def test_batches_repeat_each_other(self):
        """
        The same batch three times over is a loop.
        """
        batch = [shell("ls", "a"), shell("pwd", "/")]

        assert [5] == seen(batch, batch, batch)

    def test_batches_of_equal_calls(self):
        """
        However often a call stands in its batch, the batch counts once.
        """
        batch = [shell("ls", "a")] * 3

        assert [6] == seen(batch, batch, batch)


class TestNearRepetition:
    def test_spaced_otherwise(self):
        """
        A call that is only spaced otherwise is noticed, not reported.
        """
        steps = [call("search", {"query": query}, query) for query in ("oslo, cheap", "oslo cheap")]
        (found,) = matches(RepetitionMemory(), run(*steps)).values()

        assert ("near repetition", 0.3, ("run.0", "run.1")) == (found.pattern, found.score, found.event_ids)

    def test_one_thing_after_another_is_not(self):
        """
        Things looked at one by one are none, however little is asked of each.
        """
        assert {} == matches(RepetitionMemory(), run(*[call("read", {"n": n}, f"{n}") for n in range(20)]))

    def test_other_words_are_not(self):
        """
        A call with other words is another call.
        """
        steps = [
            call("search", {"query": query}, query) for query in ("cheap flights oslo", "cheap hotels rome")
        ]

        assert {} == matches(RepetitionMemory(), run(*steps))


class TestSettings:
    def test_patience(self):
        """
        A number of one's own replaces the usual ones.
        """
        assert [1, 2] == seen(*[shell("ls", "a")] * 3, patience=2)
        assert [5] == seen(*[shell("ls", "a")] * 6, patience=6)

    def test_a_window(self):
        """
        With a window only the latest steps count.
        """
        steps = in_turn(
            [shell("cat list", "a")] * 4,
            *([shell(f"cat {k}{n}", f"{k}{n}") for n in range(4)] for k in "xyz"),
        )

        assert [12] == seen(*steps)
        assert [] == seen(*steps, window=3)


class TestMemory:
    @given(PICTURES, st.integers(0, 60))
    def test_put_aside_anywhere(self, picture, cut):
        """
        Put aside after any event and taken up again, it sees the same.
        """
        trace, first = events(picture), RepetitionMemory()
        before = matches(first, trace[:cut])

        assert matches(RepetitionMemory(), trace) == before | matches(restored_copy(first), trace[cut:])

    def test_bounded(self):
        """
        Twenty thousand events leave no more in memory than a thousand do.
        """
        pattern, sizes = RepetitionMemory(), []
        for event in healthy(20_000):
            pattern.observe(event)
            if event.seq in {999, 19_999}:
                sizes.append(len(msgspec.msgpack.encode(pattern)))

        assert sizes[1] < 2 * sizes[0]

    def test_a_long_loop_keeps_some_proof(self):
        """
        After a thousand repetitions the newest events prove it.
        """
        last = matches(RepetitionMemory(), events("a" * 1000))[999]

        assert (1000, 24, "run.999") == (last.count, len(last.event_ids), last.event_ids[-1])

    def test_replies_alone(self):
        """
        A run without a call is no repetition.
        """
        assert {} == matches(RepetitionMemory(), run(*[says("the same words again")] * 9))
