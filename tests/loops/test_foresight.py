import msgspec
import pytest
from agent_steps import call, edit, failing, run, says, shell, user, write
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.edit_revert import EditRevert
from steadyhelm.detectors.failing_loop import FailingLoop
from steadyhelm.detectors.repetitive_text import RepetitiveText
from steadyhelm.detectors.stagnation import Stagnation
from steadyhelm.findings import Severity

USUAL = BaselineStats(agent_id="coder")
LOOK = call("Read", {"file_path": "a.py"}, "x = 1")
LIST = shell("ls", "a.py")
TEST = failing("Bash", {"command": "pytest"}, "1 failed: test_one")
DETECTORS = [ActionLoop, FailingLoop, Stagnation, EditRevert, RepetitiveText]


def watching(detector, *steps):
    """The detector after these steps, and the place the next one will have."""
    trace = run(*steps)
    for event in trace:
        detector.check(event, USUAL)
    return detector, len(trace)


def probe(made, seq):
    """A call not yet made: nothing has come of it."""
    (event,) = run(made)
    return msgspec.structs.replace(
        event, output_data=None, error=None, seq=seq, timestamp=1000.0 + seq, event_id="probe"
    )


def foreseen(detector, *steps, then):
    detector, seq = watching(detector, *steps)
    return detector.foresee(probe(then, seq), USUAL)


def is_reported(finding):
    return finding is not None and finding.severity is not Severity.LOW


class TestRepetition:
    def test_the_third_in_a_row(self):
        """
        The third equal call in a row would be a loop if it came to the same, and so would the fifth.
        """
        assert [False, False, True, True, True] == [
            is_reported(foreseen(ActionLoop(), *[LOOK] * times, then=LOOK)) for times in range(5)
        ]

    def test_the_next_of_a_cycle(self):
        """
        The call that would close a cycle for the third time is foreseen, with the whole cycle.
        """
        finding = foreseen(ActionLoop(), LOOK, LIST, LOOK, LIST, LOOK, then=LIST)

        assert ("cycle", ["Read", "Bash"]) == (finding.context["pattern"], finding.context["sequence"])
        assert is_reported(finding)

    def test_words_that_only_explain_it(self):
        """
        It is the same call whatever is said about it.
        """
        explained = call("Bash", {"command": "ls", "description": "look around"}, "a.py")

        assert is_reported(foreseen(ActionLoop(), LIST, LIST, then=explained))

    @pytest.mark.parametrize("between", [write("b.py", "y"), user("and now?")], ids=["work", "words"])
    def test_after_something_new(self, between):
        """
        After new work or a user's new words the same call may come to something else.
        """
        assert foreseen(ActionLoop(), LOOK, LOOK, LOOK, between, then=LOOK) is None

    def test_a_call_never_made(self):
        """
        Of a call that was never made nothing is foreseen.
        """
        assert foreseen(ActionLoop(), LOOK, LOOK, then=LIST) is None

    def test_what_has_kept_changing(self):
        """
        A call whose answer changed each time is expected to come to the latest, which is no loop.
        """
        steps = [call("Read", {"file_path": "a.py"}, f"version {n} of it") for n in range(5)]

        assert not is_reported(foreseen(ActionLoop(), *steps, then=LOOK))

    def test_polling(self):
        """
        A look at what is not ready yet is waiting, before it is made as well as after.
        """
        waits = call("BashOutput", {"bash_id": "1"}, "still running")

        assert not is_reported(foreseen(ActionLoop(), *[waits] * 5, then=waits))
        slow = [{**waits, "timestamp": 60.0 * n} for n in range(25)]
        assert is_reported(foreseen(ActionLoop(), *slow[:24], then=slow[24]))

    def test_settings_count(self):
        """
        The detector's own patience is used.
        """
        assert is_reported(foreseen(ActionLoop(max_repeats=2), LOOK, then=LOOK))
        assert not is_reported(foreseen(ActionLoop(max_repeats=5), LOOK, LOOK, LOOK, then=LOOK))

    @given(st.text(alphabet="abc", min_size=1, max_size=30))
    def test_it_is_what_would_be_found(self, picture):
        """
        Where each call always comes to the same, exactly what is foreseen is found, and nothing is missed.
        """
        steps = [call("look", {"at": letter}, f"saw {letter}") for letter in picture]
        expected, found = ActionLoop(), ActionLoop()
        for event in run(*steps):
            ahead, now = expected.foresee(event, USUAL), found.check(event, USUAL)
            expected.check(event, USUAL)

            assert is_reported(ahead) == is_reported(now)
            if is_reported(ahead):
                assert (now.score, now.context["pattern"]) == (ahead.score, ahead.context["pattern"])


class TestFailing:
    def test_the_same_failing_call(self):
        """
        A call that failed twice, each time in other words, would fail a third time.
        """
        steps = [failing("Bash", {"command": "pytest"}, f"1 failed: test_{name}") for name in ("one", "two")]

        assert is_reported(foreseen(FailingLoop(), *steps, then=TEST))

    def test_after_work_it_may_pass(self):
        """
        A test that failed before an edit may pass after it.
        """
        steps = [TEST, write("a.py", "1"), TEST, write("a.py", "2"), TEST, write("a.py", "3")]

        assert foreseen(FailingLoop(), *steps, then=TEST) is None

    def test_after_a_users_words_it_may_pass(self):
        """
        A user who has spoken may have mended what made it fail.
        """
        broken = [failing("fetch", {"id": 1}, f"{why} is missing") for why in ("alpha", "beta", "gamma")]

        assert is_reported(foreseen(FailingLoop(), *broken, then=broken[0]))
        assert foreseen(FailingLoop(), *broken, user("try again"), then=broken[0]) is None

    def test_what_succeeded_since(self):
        """
        A call that has worked in the meantime is not expected to fail.
        """
        worked = shell("pytest", "all passed")

        assert foreseen(FailingLoop(), TEST, TEST, worked, then=TEST) is None


class TestAnswers:
    def test_one_question_in_ever_other_words(self):
        """
        The fourth wording of one question that keeps finding the same is foreseen.
        """
        words = ("cheap flights Oslo Rome", "flights Oslo Rome cheapest", "Oslo Rome flights cheap fares")
        arguments = [call("search", {"query": it}, "Oslo to Rome\nfrom 49 euros") for it in words]
        once_more = call("search", {"query": "find cheap flights Oslo Rome"})

        assert is_reported(foreseen(Stagnation(), *arguments, then=once_more))
        assert not is_reported(foreseen(Stagnation(), *arguments[:2], then=once_more))

    def test_the_same_answer_to_the_same_in_other_words(self):
        """
        A question put in nearly the same words again is expected to get the same answer.
        """
        arguments = [
            call("lookup", {"of": f"the very long name of {n}"}, "Bergen")
            for n in ("one and the same", "the same and one", "same one and the")
        ]

        assert is_reported(foreseen(Stagnation(), *arguments[:2], then=arguments[2]))

    def test_another_question(self):
        """
        Of another question nobody knows the answer.
        """
        arguments = [
            call("lookup", {"of": name}, "Bergen") for name in ("alpha", "beta", "gamma", "delta", "eps")
        ]

        assert foreseen(Stagnation(), *arguments, then=call("lookup", {"of": "zeta"})) is None


class TestEdits:
    SWING = (edit("a.py", "x", "y"), edit("a.py", "y", "x"), edit("a.py", "x", "y"))

    def test_an_edit_that_brings_back_what_was(self):
        """
        An edit that would restore an earlier content for the second time is foreseen.
        """
        assert is_reported(foreseen(EditRevert(), *self.SWING[:2], then=self.SWING[2]))

    def test_a_new_edit(self):
        """
        An edit to something new is not.
        """
        assert foreseen(EditRevert(), *self.SWING, then=edit("a.py", "y", "z")) is None

    def test_another_file(self):
        """
        The same change of another file is another change.
        """
        assert foreseen(EditRevert(), *self.SWING[:2], then=edit("b.py", "x", "y")) is None


class TestAProbe:
    @pytest.mark.parametrize("make", DETECTORS)
    def test_it_changes_nothing(self, make):
        """
        Asked any number of times, a detector's state stays what it was.
        """
        steps = [LOOK, LOOK, TEST, TEST, *TestEdits.SWING[:2], LOOK, LOOK]
        detector, seq = watching(make(), *steps)
        before = detector.state()
        for made in (LOOK, TEST, TestEdits.SWING[2], call("search", {"query": "one two three four"})):
            detector.foresee(probe(made, seq), USUAL)

        assert before == detector.state()

    @pytest.mark.parametrize("make", DETECTORS)
    def test_only_calls_are_foreseen(self, make):
        """
        Words are not.
        """
        assert (
            foreseen(make(), *[says("I shall look into it.")] * 5, then=says("I shall look into it.")) is None
        )

    def test_its_proof_is_what_has_happened(self):
        """
        The call itself, which was not made, is no evidence; the message says that it is about it.
        """
        finding = foreseen(ActionLoop(), LOOK, LOOK, then=LOOK)

        assert ["run.0", "run.1"] == finding.event_ids
        assert finding.message.startswith("this call would make it: Read called 3 times")

    @pytest.mark.parametrize("make", DETECTORS)
    @pytest.mark.parametrize(
        "args", [None, "", 7, [], {"": None}, {"command": None}, {"path": 5}, {"query": 0}]
    )
    def test_odd_arguments(self, make, args):
        """
        Whatever is handed over as arguments, the question is answered.
        """
        steps = [call("x", args, "y")] * 2

        assert not is_reported(foreseen(make(), *steps[:1], then=steps[0]))
