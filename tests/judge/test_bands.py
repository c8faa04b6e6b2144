"""Bands: where rules are unsure, a question is due; seldom enough to be paid for."""

import itertools
from collections.abc import Iterable

import msgspec
import pytest
from judged_runs import JudgedRun, answer_with

from steadyhelm.corrections.reply_classifier import ReplyLabel
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.goals.tracker import GoalTracker
from steadyhelm.judging.bands import (
    MAX_GOAL_QUESTIONS,
    MIN_STEPS_BETWEEN_LOOPS,
    GoalBand,
    LoopBand,
    is_repetitive_reply,
    is_reply_uncertain,
)
from steadyhelm.judging.questions import RunNotes

GOAL = "Migrate the billing invoices from the legacy ledger to the new payments database"
ON_GOAL = (
    "reading the legacy ledger for billing invoices",
    "the payments database has a table of invoices",
    "migrating billing invoices to the payments database",
)
OFF_GOAL = (
    "the weather in Lisbon is sunny and warm this weekend",
    "a recipe for almond cake needs butter, sugar and eggs",
    "the football match ended two to one after extra time",
    "this poem about winter mountains has four short verses",
)


def make_call(seq: int, result: object = "ok", *, name: str = "run", **args: object) -> TraceEvent:
    return TraceEvent(
        agent_id="a",
        run_id="r",
        action_type=TOOL_CALL,
        action_name=name,
        event_id=str(seq),
        seq=seq,
        timestamp=float(seq),
        input_data=args,
        output_data=result,
    )


def make_reply(seq: int, text: str, kind: str = LLM_REQUEST) -> TraceEvent:
    return TraceEvent(
        agent_id="a",
        run_id="r",
        action_type=kind,
        action_name="llm",
        event_id=str(seq),
        seq=seq,
        timestamp=float(seq),
        input_data=text if kind == USER_MESSAGE else None,
        output_data=text if kind == LLM_REQUEST else None,
    )


def find_goal_questions(texts: Iterable[str], goal: str = GOAL) -> list[int]:
    """Return the places of the replies at which a question about the goal is asked."""
    tracker, band, asked = GoalTracker(), GoalBand(), []
    tracker.start(goal)
    for seq, text in enumerate(texts):
        event = make_reply(seq, text)
        tracker.observe(event)
        if band.observe(event, tracker):
            band.record_question()
            asked.append(seq)
        band = msgspec.msgpack.decode(msgspec.msgpack.encode(band), type=GoalBand)
    return asked


def find_loop_questions(events: Iterable[TraceEvent], noticed: Iterable[int] = ()) -> dict[int, list[str]]:
    """Return the steps that each question about a repetition is about, by the place it is asked at."""
    notes, band, asked = RunNotes(), LoopBand(), {}
    for event in events:
        notes.add(event)
        if proof := band.observe(event, notes.steps, is_noticed=event.seq in noticed):
            band.record_question()
            asked[event.seq] = proof
        band = msgspec.msgpack.decode(msgspec.msgpack.encode(band), type=LoopBand)
    return asked


class TestGoalBand:
    def test_steps_on_the_goal_raise_no_question(self) -> None:
        """An agent that speaks of its task is not asked about, however long it works."""
        assert [] == find_goal_questions(ON_GOAL * 20)

    def test_leaving_the_goal_raises_a_question_two_steps_later(self) -> None:
        """The question waits until it can show what the agent does instead."""
        asked = find_goal_questions([*ON_GOAL, *ON_GOAL, *OFF_GOAL])
        assert len(asked) == 1
        assert len(ON_GOAL) * 2 + 2 <= asked[0] < len(ON_GOAL) * 2 + len(OFF_GOAL)

    def test_one_step_aside_raises_none(self) -> None:
        """A single foreign step is over before the question would be asked."""
        assert [] == find_goal_questions([*ON_GOAL, OFF_GOAL[0], *ON_GOAL, *ON_GOAL])

    def test_steps_that_cannot_be_compared_raise_a_question(self) -> None:
        """Where the goal is not checked, a judge can still read."""
        assert find_goal_questions([*ON_GOAL, "ok", "done", "ok", "done"])

    def test_a_run_is_asked_about_twice_at_most(self) -> None:
        """The cost of a run is bounded, however far it drifts."""
        texts = [*ON_GOAL, *OFF_GOAL, *ON_GOAL * 5] * 10
        assert MAX_GOAL_QUESTIONS == len(find_goal_questions(texts))

    def test_a_finding_is_asked_about_at_the_next_step(self) -> None:
        """What a rule reports need not look suspicious here; the question shows one step more."""
        tracker, band = GoalTracker(), GoalBand()
        tracker.start(GOAL)
        due = []
        for seq, text in enumerate([*ON_GOAL, *ON_GOAL]):
            event = make_reply(seq, text)
            tracker.observe(event)
            due.append(band.observe(event, tracker, is_found=seq == 1))
        assert due[:3] == [False, False, True]

    def test_a_run_without_a_goal_raises_none(self) -> None:
        """There is nothing to compare with."""
        assert [] == find_goal_questions([*ON_GOAL, *OFF_GOAL, "ok", "ok", "ok", "ok"], goal="")

    def test_a_new_task_is_not_judged_by_the_steps_of_the_old_one(self) -> None:
        """A user who sets another task is no drift."""
        tracker, band = GoalTracker(), GoalBand()
        tracker.start(GOAL)
        task = "Forget that. New task: bake an almond cake with butter, sugar and eggs for the weekend"
        events = [
            *(make_reply(seq, text) for seq, text in enumerate(ON_GOAL)),
            make_reply(3, task, USER_MESSAGE),
            *(make_reply(seq, "baking the almond cake with butter and sugar") for seq in range(4, 14)),
        ]
        due = []
        for event in events:
            tracker.observe(event)
            due.append(band.observe(event, tracker))
        assert tracker.changes == 1
        assert not any(due)


class TestJudgedGoal:
    def test_nothing_is_asked_after_a_goal_was_judged_left(self) -> None:
        """The verdict has opened an incident, and no other one can raise it further."""
        texts = [*ON_GOAL * 2, *OFF_GOAL, *["ok"] * 6]
        replies = [make_reply(seq, text) for seq, text in enumerate(texts)]
        asked = {
            label: [it.about for it in JudgedRun(answer_with(label), goal=GOAL).play(replies).asked]
            for label in ("departs", "unsure")
        }
        assert (1, 2) == (asked["departs"].count("goal"), asked["unsure"].count("goal"))


class TestReplyBand:
    def test_an_answer_to_an_agent_that_only_asked_is_known_as_one(self) -> None:
        """It says less about the work than a reply to work does."""
        notes = RunNotes()
        notes.add(make_reply(0, "Shall I sort the list upwards or downwards?"))
        notes.add(make_reply(1, "not downwards", USER_MESSAGE))
        assert notes.is_answer
        notes.add(make_call(2))
        notes.add(make_reply(3, "I sorted the list. Shall I go on?"))
        notes.add(make_reply(4, "not downwards, please", USER_MESSAGE))
        assert not notes.is_answer

    def test_answers_are_asked_about_only_where_they_sound_like_corrections(self) -> None:
        """The band begins later for them, and ends where the classifier is sure."""
        labels = [
            ReplyLabel(primary="continuation", probabilities={}, drift=drift, is_drift=False, cues=[])
            for drift in (0.1, 0.2, 0.4, 0.9)
        ]
        assert [False, True, True, False] == [is_reply_uncertain(it) for it in labels]
        assert [False, False, True, False] == [is_reply_uncertain(it, is_answer=True) for it in labels]


class TestLoopBand:
    def test_different_steps_raise_no_question(self) -> None:
        """Work on different things with different results is not asked about."""
        names = ["".join(letters) for letters in itertools.islice(itertools.permutations("abcdefg", 4), 200)]
        calls = [
            make_call(n, f"{one} {two}", path=f"{two}{one}")
            for n, (one, two) in enumerate(itertools.pairwise(names))
        ]
        assert {} == find_loop_questions(calls)

    def test_four_steps_like_earlier_ones_raise_one(self) -> None:
        """Only words differ in calls and results: rules may find progress in them, a judge can tell."""
        shapes = ("rhombus", "kite", "helix", "spiral", "lattice")
        calls = [
            make_call(
                n, f"{shape} BUILD FAILED in 12s", command=f"echo {shape}; cat build/report.txt | tail -5"
            )
            for n, shape in enumerate(shapes)
        ]
        assert {4: ["0", "1", "2", "3", "4"]} == find_loop_questions(calls)

    def test_numbers_do_not_count(self) -> None:
        """A counter or a time makes no step a different one."""
        calls = [make_call(n, f"attempt {n}: refused at 12:0{n}", page=n) for n in range(5)]
        assert [4] == list(find_loop_questions(calls))

    def test_failing_alike_counts_whatever_the_arguments(self) -> None:
        """The same error for other arguments is worth a question."""
        names = ("amber", "birch", "cedar", "delta", "ember")
        calls = [
            msgspec.structs.replace(make_call(n, None, city=name), error="upstream quota exhausted")
            for n, name in enumerate(names)
        ]
        assert [4] == list(find_loop_questions(calls))

    @pytest.mark.parametrize("text", ["0123401234" * 60, "and so on, " * 50])
    def test_a_reply_that_repeats_itself_counts_at_once(self, text: str) -> None:
        """One reply is enough when its end only says the same again."""
        assert [0] == list(find_loop_questions([make_reply(0, f"The handshake has to stay. {text}")]))
        assert not is_repetitive_reply(make_reply(0, " ".join(f"line {n} of {n * n}" for n in range(90))))

    def test_low_findings_that_keep_coming_raise_one(self) -> None:
        """What rules only notice counts like a step that resembles another."""
        words = ("apple", "river", "copper", "violin", "desert")
        calls = [make_call(n, word * 3, path=word) for n, word in enumerate(words)]
        assert [4] == list(find_loop_questions(calls, noticed={1, 2, 3, 4}))

    def test_questions_become_rarer(self) -> None:
        """25 steps at least lie between two questions, and twice as many after each."""
        asked = list(find_loop_questions([make_call(n, "same", q="x") for n in range(300)]))
        gaps = [two - one for one, two in itertools.pairwise(asked)]
        assert gaps == [2 * MIN_STEPS_BETWEEN_LOOPS, 4 * MIN_STEPS_BETWEEN_LOOPS]
