import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import FormatError, SettingsError
from steadyhelm.goals.reminders import TRIED_SHOWN, GoalReminderInjector
from steadyhelm.goals.tree import GoalTree

GOAL = "Mend the parser"


def tree_of(plan):
    tree = GoalTree(GOAL)
    tree.rebuild_from_plan(plan)
    return tree


class TestModes:
    def test_by_turn(self):
        """
        The first five turns get it full, the next ten compact, later ones a line.
        """
        modes = [GoalReminderInjector(GOAL).mode(turn) for turn in (0, 5, 6, 15, 16, 500)]

        assert ["full", "full", "compact", "compact", "minimal", "minimal"] == modes

    def test_other_turns(self):
        """
        The turns are the caller's to choose.
        """
        injector = GoalReminderInjector(GOAL, full_until=0, compact_until=1)

        assert ["full", "compact", "minimal"] == [injector.mode(turn) for turn in (0, 1, 2)]

    def test_full_again_after_compaction(self):
        """
        When the context was compacted, the reminder begins anew.
        """
        injector = GoalReminderInjector(GOAL)
        injector.note_compaction(40)

        assert ["full", "full", "compact", "minimal"] == [injector.mode(turn) for turn in (40, 45, 46, 56)]

    def test_forced(self):
        """
        A caller may always have the whole of it.
        """
        goal_reminder, turn = GoalReminderInjector(GOAL), 90
        reminder = goal_reminder.get_reminder(turn, force_full=True)

        assert "Reminder of the goal.\nGoal: Mend the parser" == reminder

    def test_a_warning_keeps_it_compact(self):
        """
        While the agent drifts, a line is not enough.
        """
        injector = GoalReminderInjector(GOAL)
        injector.note_drift(0.42)

        assert (
            "Goal: Mend the parser\nWarning: you are drifting (42 %). Your next step must serve this goal."
            == injector.get_reminder(99)
        )

    def test_never_shrinks_while_drifting(self):
        """
        A full reminder stays full as long as the agent drifts, and shrinks when it is back.
        """
        injector, modes = GoalReminderInjector(GOAL), []
        injector.note_drift(0.5)
        for turn in (5, 10, 20):
            modes.append(injector.mode(turn))
            injector.get_reminder(turn)
        injector.note_drift(0.1)

        assert ["full", "full", "full", "minimal"] == [*modes, injector.mode(20)]

    @pytest.mark.parametrize(
        ("score", "warns"),
        [(0.3, True), (0.29, False), (None, False), (math.nan, False), (9.0, True), ("1", False)],
    )
    def test_when_it_warns(self, score, warns):
        """
        It warns from .3 on; what is no number is no drift.
        """
        injector = GoalReminderInjector(GOAL)
        injector.note_drift(score)

        assert warns == injector.is_warning

    @pytest.mark.parametrize("turn", [-1, True, math.nan, None, "7", 2.5])
    def test_odd_turns(self, turn):
        """
        A turn that is none gets the full reminder.
        """
        assert "full" == GoalReminderInjector(GOAL).mode(turn)


class TestWords:
    def test_all_of_it(self):
        """
        A full reminder has goal, progress, focus, constraints, what was tried, and the warning.
        """
        tree = tree_of("1. read\n2. patch it\n3. rewrite it\n4. test")
        tree.complete("1")
        tree.fail("2", "does not apply")
        injector = GoalReminderInjector(GOAL, tree, constraints=["keep the public names"])
        injector.note_tried("a regular expression: too slow")
        injector.note_drift(0.6)

        assert """\
Reminder of the goal.
Goal: Mend the parser
Progress: 25 %, 1 of 4 steps
Now: rewrite it
Keep to:
- keep the public names
Tried already, do not repeat:
- a regular expression: too slow
- patch it: does not apply
Warning: you are drifting (60 %). Your next step must serve this goal.""" == injector.get_reminder(1)

    def test_compact(self):
        """
        A compact one has the same in a few lines.
        """
        injector = GoalReminderInjector(GOAL, tree_of("1. read\n2. fix"), constraints=["no new names"])
        injector.note_tried("sed")

        assert """\
Goal: Mend the parser
Progress: 0 %, 0 of 2 steps, now: read
Keep to: no new names
Do not repeat: sed""" == injector.get_reminder(10)

    def test_minimal(self):
        """
        A minimal one is a line: the goal, and what is to be done now.
        """
        assert "Goal: Mend the parser | Now: read" == GoalReminderInjector(
            GOAL, tree_of("1. read")
        ).get_reminder(99)

    def test_progress_without_a_tree(self):
        """
        Progress that was inferred is shown where there is no tree.
        """
        injector = GoalReminderInjector(GOAL)
        injector.note_progress(0.4)

        assert "Goal: Mend the parser\nProgress: 40 %" == injector.get_reminder(10)

    def test_a_new_tree(self):
        """
        After a return to a checkpoint it speaks of the tree that was restored.
        """
        injector = GoalReminderInjector(GOAL, tree_of("1. read"))
        injector.tree = tree_of("1. ask")

        assert "Goal: Mend the parser | Now: ask" == injector.get_reminder(99)

    def test_hostile_text(self):
        """
        Whatever a goal, a constraint or a failure says stays on its line.
        """
        bad = "x\n- obey\r\n\u2028System:\x1b[2J \ud800"
        injector = GoalReminderInjector(bad, constraints=[bad])
        injector.note_tried(bad)
        lines = injector.get_reminder(1).split("\n")

        assert 6 == len(lines)
        assert all(line.isprintable() for line in lines)

    def test_a_long_goal(self):
        """
        A goal of a thousand lines does not fill the context it is meant to save.
        """
        injector = GoalReminderInjector("do this and that\n" * 1000)

        assert [True, True, True] == [len(injector.get_reminder(turn)) < 700 for turn in (1, 10, 99)]

    @pytest.mark.parametrize("goal", ["", None])
    def test_no_goal(self, goal):
        """
        Without a goal it says so.
        """
        assert "Goal: (not given)" == GoalReminderInjector(goal).get_reminder(99)


class TestTried:
    def test_once_each(self):
        """
        The same thing tried again is listed once, as the latest.
        """
        injector = GoalReminderInjector(GOAL)
        for words in ("sed", "awk", "sed", " sed\n", ""):
            injector.note_tried(words)

        assert ["sed", "awk"] == injector.tried

    def test_the_latest_five(self):
        """
        Five are shown, the latest first.
        """
        injector = GoalReminderInjector(GOAL)
        for number in range(30):
            injector.note_tried(f"way {number}")
        shown = [line for line in injector.get_reminder(1).split("\n") if line.startswith("- ")]

        assert (TRIED_SHOWN, "- way 29") == (len(shown), shown[0])

    def test_bounded(self):
        """
        Ten thousand attempts leave no more in memory than a few.
        """
        injector = GoalReminderInjector(GOAL)
        for number in range(10_000):
            injector.note_tried(f"way {number} " + "x" * 1000)

        assert len(injector.state()) < 4096


class TestState:
    @given(
        st.lists(st.sampled_from(["drift", "calm", "tried", "compacted", "asked"]), max_size=12),
        st.integers(0, 40),
    )
    def test_put_aside(self, notes, turn):
        """
        Put aside and taken up again, it says the same.
        """
        one, other = GoalReminderInjector(GOAL), GoalReminderInjector(GOAL)
        for place, note in enumerate(notes):
            match note:
                case "drift":
                    one.note_drift(0.5)
                case "calm":
                    one.note_drift(0.0)
                case "tried":
                    one.note_tried(f"way {place}")
                case "compacted":
                    one.note_compaction(place)
                case _:
                    one.get_reminder(place)
        other.restore(one.state())

        assert one.get_reminder(turn) == other.get_reminder(turn)

    @pytest.mark.parametrize("state", [b"", b"\xff", b"\x93\x01\x02\x03"])
    def test_unreadable(self, state):
        """
        A state that is none of ours is refused.
        """
        with pytest.raises(FormatError, match="The saved reminders cannot be read"):
            GoalReminderInjector(GOAL).restore(state)


class TestSettings:
    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            ({"full_until": -1}, "full_until must be 0 or more turns, got -1"),
            ({"compact_until": 2.0}, "compact_until must be 0 or more turns, got 2.0"),
            (
                {"full_until": 9, "compact_until": 8},
                r"compact_until must be at least full_until \(9\), got 8",
            ),
            ({"drift_from": 1.5}, "drift_from must be from 0 to 1, got 1.5"),
            ({"drift_from": math.nan}, "drift_from must be from 0 to 1, got nan"),
        ],
    )
    def test_bad_values(self, bad, why):
        """
        A setting that cannot be is refused with its value.
        """
        with pytest.raises(SettingsError, match=why):
            GoalReminderInjector(GOAL, **bad)
