import pytest

from steadyhelm.compat.multi_resolution import LoopType, MultiResolutionLoopDetector

STATE = {"task": "work"}


def judged(steps, **settings):
    """The verdict after these (action, result) or (action, result, state) steps."""
    detector = MultiResolutionLoopDetector(**settings)
    for turn, (action, result, *state) in enumerate(steps, start=1):
        detector.record_step(turn, action, state[0] if state else STATE, result)
    return detector.detect_loop()


def kind(steps, **settings):
    return judged(steps, **settings).type


class TestExactRepetition:
    def test_neighbours(self):
        """
        Two equal steps in a row are a loop, with certainty.
        """
        loop = judged([("ls", "a b"), ("ls", "a b")])

        assert (LoopType.EXACT_HASH, 1.0, [1, 2]) == (loop.type, loop.confidence, loop.loop_sequence)

    @pytest.mark.parametrize(
        "second",
        [("ls /tmp", "a b"), ("ls", "a b c"), ("ls", "a b", {"task": "other"})],
    )
    def test_anything_that_changed_is_progress(self, second):
        """
        Another action, another result or another state is another step.
        """
        assert kind([("ls", "a b"), second]) is None

    def test_noise_is_not_a_change(self):
        """
        A duration or a process number in the result does not make it another result.
        """
        assert "EXACT_HASH" == kind(
            [("make", "built in 83ms, pid 4001"), ("make", "built in 1213ms, pid 4077")]
        )

    def test_a_clock_in_the_state_is_not_a_change(self):
        """
        A timestamp or a turn number in the state does not make it another state.
        """
        steps = [("ls", "a", {"cwd": "/", "turn": turn, "updated_at": 1e9 + turn}) for turn in (1, 2)]

        assert "EXACT_HASH" == kind(steps)

    def test_only_neighbours_count(self):
        """
        A step that comes back after another one is not a repetition.
        """
        assert kind([("read a.py", "x"), ("edit a.py", "ok"), ("read a.py", "x")]) is None

    def test_a_loop_that_ended_is_none(self):
        """
        The newest step has to be part of it.
        """
        assert kind([("ls", "a"), ("ls", "a"), ("cat b", "c")]) is None

    def test_what_changes_later_does_not_change_the_past(self):
        """
        A state is taken as it was when the step was recorded.
        """
        detector, state = MultiResolutionLoopDetector(), {"files": 1}
        detector.record_step(1, "ls", state, "a")
        state["files"] = 2
        detector.record_step(2, "ls", state, "a")

        assert not detector.detect_loop().detected


class TestRewording:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("Analyzing the log", "Found 3 issues"), ("Still analyzing the log", "Found 3 problems")),
            (("Search for the answers in docs", "no luck"), ("Searching docs for answer again", "no luck")),
            (("Check users", "Returned 12 rows"), ("Checking the users once more", "Returned 12 entries")),
            (("connect to db", "Unable to connect"), ("Connecting to the db", "Could not connect")),
            (("Run the tests", "2 failed in 0.41s"), ("Running tests again", "2 failed in 12.03s")),
            (
                ('search {"query": "python tutorials"}', "[]"),
                ('search {"query": "tutorials for python"}', "[]"),
            ),
        ],
    )
    def test_the_same_question_and_the_same_answer(self, first, second):
        """
        Filler, endings, order and noise aside, the same was asked and the same came back.
        """
        assert "SEMANTIC" == kind([first, second])

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("Analyze the log", "Found 3 issues"), ("Still analyzing the log", "Found 2 issues")),
            (("Read src/a.py", "ok"), ("Reading src/b.py", "ok")),
            (("Read page 1", "10 rows"), ("Read page 2", "10 rows")),
            (("Search the web for python", "No results"), ("Search the web for rust", "No results")),
            (("Find flights to Oslo", "No flights"), ("Find flights to Bergen", "No flights")),
            (("Run the tests", "3 tests failed"), ("Run the tests again", "3 tests passed")),
            (("Check build 12", "Build 12 is queued"), ("Check build 12 again", "Build 12 is running")),
            (("Check node 3", "Disk usage high"), ("Check node 3 again", "Disk usage normal")),
            (("Copy a.txt to b.txt", "Done"), ("Copy b.txt to a.txt", "Done!")),
            (("Start the service", "Done"), ("Stop the service", "Done")),
            (("Fix the bug", "Found 3 issues"), ("Fixing the bug", "Found 3 issues, fixed")),
            (("Open it", "file missing, error"), ("Opening it", "file denied, error")),
            (('grep "foo" here', "no match"), ('grep "bar" here', "no match")),
            (("Count", "Found 3 issues in 2 files"), ("Counting", "Found 2 issues in 3 files")),
            (("List", "Found 3 open tickets"), ("Listing", "Found 3 closed tickets")),
        ],
    )
    def test_progress_is_left_in_peace(self, first, second):
        """
        Another number, file, name, quoted word, outcome or word that says something else is progress.
        """
        assert kind([first, second]) is None

    def test_another_state_is_progress(self):
        """
        The same words in another state are another step.
        """
        assert kind([("Fix it", "ok", {"bugs": 2}), ("Fixing it", "ok", {"bugs": 1})]) is None

    def test_the_threshold_is_what_must_be_the_same_of_the_question(self):
        """
        One word of four swapped is .6: a loop from there down, not at .85.
        """
        steps = [("search web python tutorials", "no luck"), ("search web ruby tutorials", "no luck")]

        assert kind(steps) is None
        assert "SEMANTIC" == kind(steps, semantic_threshold=0.6)

    def test_a_longer_run_is_surer(self):
        """
        Each further rewording takes doubt away; the turns name all of it.
        """
        steps = [
            ("Analyzing the log", "Found 3 issues"),
            ("Still analyzing the log", "Found 3 problems"),
            ("Analyze log again", "Found 3 bugs"),
            ("Now analyzing this log", "Found 3 flaws"),
        ]
        loops = [judged(steps[:count]) for count in (2, 3, 4)]

        assert sorted({loop.confidence for loop in loops}) == [loop.confidence for loop in loops]
        assert [1, 2, 3, 4] == loops[-1].loop_sequence

    def test_without_results_it_is_less_sure(self):
        """
        When nobody knows what came back, the words alone count for less.
        """
        assert 0.8 == judged([("Analyzing the log", None), ("Still analyzing the log", None)]).confidence

    def test_a_long_text_is_not_read_for_its_meaning(self):
        """
        Two files that differ in one word are two files.
        """
        assert (
            kind([("Read it", "word " * 200 + "issues"), ("Reading it", "word " * 200 + "problems")]) is None
        )


class TestOscillation:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("ABAB", None),
            ("ABABA", "OSCILLATION"),
            ("ABCABCA", "OSCILLATION"),
            ("ABCABC", None),
            ("ABCADA", None),
        ],
    )
    def test_the_same_steps_in_turn(self, picture, expected):
        """
        Two to four steps in turn are a loop once the first has come three times.
        """
        assert expected == kind([(f"Approach {letter}", "no", {"method": letter}) for letter in picture])

    def test_other_results_are_progress(self):
        """
        Editing and testing in turn with another result each time is work.
        """
        steps = [(action, f"result {n}") for n, action in enumerate(["edit", "test"] * 4)]

        assert kind(steps) is None

    def test_one_more_round_is_surer(self):
        """
        At the threshold it is .95 sure, later more.
        """
        loops = [judged([(letter, None, {"m": letter}) for letter in "AB" * n + "A"]) for n in (2, 3)]

        assert [0.95, 0.96] == [loop.confidence for loop in loops]

    def test_it_shows_the_pattern(self):
        """
        The evidence draws the circle.
        """
        loop = judged([(f"Approach {letter}", None, {"m": letter}) for letter in "ABABA"])

        assert loop.evidence.startswith("Pattern: Approach A → Approach B → Approach A")


class TestDeadEnd:
    def test_failing_approaches(self):
        """
        Five different failures in one state are a dead end; four are not yet.
        """
        steps = [(f"Try approach {n}", f"Error: {n} is wrong") for n in range(5)]

        assert kind(steps[:4]) is None
        assert ("DEAD_END", 0.8) == (judged(steps).type, judged(steps).confidence)

    def test_nothing_new_is_less_sure_than_failure(self):
        """
        Steps that keep bringing the same answer are a dead end too, with more doubt.
        """
        looks = ["List tasks", "Read the log", "Ask the index", "Check rules", "Open mail", "Look at history"]

        assert ("DEAD_END", 0.65) == (
            judged([(look, "Found 3 issues") for look in looks]).type,
            judged([(look, "Found 3 issues") for look in looks]).confidence,
        )

    def test_new_answers_are_progress(self):
        """
        Reading file after file leaves the state as it is and is work all the same.
        """
        assert kind([(f"Read {n}.py", f"def part_{n}(): ...") for n in range(10)]) is None

    def test_a_changed_state_is_progress(self):
        """
        Failures while the state moves on are no dead end.
        """
        assert kind([(f"Try {n}", "Failed", {"progress": n}) for n in range(8)]) is None

    def test_a_success_between_opens_a_new_count(self):
        """
        Only the steps since the last new answer count.
        """
        steps = [(f"Try {n}", "Failed") for n in range(4)]

        assert kind([*steps, ("Ask", "Use port 80"), *steps]) is None

    def test_waiting_is_no_dead_end(self):
        """
        A job that is still running is waited for.
        """
        assert kind([(f"Poll job {n}", "still running") for n in range(8)]) is None

    def test_a_batch_is_no_dead_end(self):
        """
        Step after step that says it worked is work, even if the state does not show it.
        """
        assert kind([(f"Send mail {n}", "ok") for n in range(10)]) is None

    def test_a_state_never_given_cannot_stay(self):
        """
        Without a state, only failures count.
        """
        assert kind([(f"Step {n}", None, {}) for n in range(8)]) is None
        assert "DEAD_END" == kind([(f"Step {n}", "Failed", {}) for n in range(5)])

    @pytest.mark.parametrize(
        "failure",
        ["Failed", "bash: foo: command not found", "ValueError: bad", {"error": "boom"}, {"ok": False},
         RuntimeError("boom"), "collected 3 items\n...\n1 failed", "exit code 2", "It couldn't connect"],
    )  # fmt: skip
    def test_failure_has_many_faces(self, failure):
        """
        Words, records and exceptions that say a step failed.
        """
        assert 0.8 == judged([(f"Try {n}", failure) for n in range(5)]).confidence

    @pytest.mark.parametrize("fine", ["0 errors", "no errors", '{"error": null, "rows": 1}', {"error": None}])
    def test_no_error_is_no_failure(self, fine):
        """
        A result that says there was no error did not fail.
        """
        assert 0.65 == judged([(f"Try {n}", fine) for n in range(6)]).confidence
