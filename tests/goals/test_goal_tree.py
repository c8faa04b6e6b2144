import copy
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.goals.tree import MAX_GOALS, GoalTree
from steadyhelm.goals.tree_nodes import GoalStatus

FOUR = "1. read\n2. fix\n3. test\n4. tell"


def tree_of(plan, **settings):
    tree = GoalTree("Mend the parser", **settings)
    tree.rebuild_from_plan(plan)
    return tree


def statuses(tree):
    return {node_id: str(node.status) for node_id, node in tree.nodes.items() if node_id != "goal"}


def taken_up(tree):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(tree), type=GoalTree)


class TestProgress:
    def test_of_equal_steps(self):
        """
        One of four steps is a quarter.
        """
        tree = tree_of(FOUR)
        tree.complete("1")

        assert 0.25 == tree.progress

    def test_effort_weighs(self):
        """
        A step of effort 3 counts three times as much as one of effort 1.
        """
        tree = GoalTree("goal")
        tree.add("small", effort=1)
        large = tree.add("large", effort=3)
        tree.complete(large)

        assert 0.75 == tree.progress

    def test_skipped_counts_as_done(self):
        """
        What is not needed is not missing.
        """
        tree = tree_of("1. read\n2. fix")
        tree.skip("1", "nothing to read")

        assert 0.5 == tree.progress

    def test_a_sub_goal_counts_its_steps(self):
        """
        A sub-goal nobody gave an effort weighs as much as it has steps, five at most.
        """
        tree = tree_of("1. many\n  - a\n  - b\n  - c\n2. one")
        tree.complete("1")

        assert 0.75 == tree.progress

    def test_failed_is_not_done(self):
        """
        A failed step adds nothing.
        """
        tree = tree_of("1. read\n2. fix")
        tree.fail("1", "no such file")

        assert 0.0 == tree.progress


class TestParents:
    def test_a_failed_step_keeps_its_parent_from_completion(self):
        """
        A sub-goal with one step done and one failed is not complete.
        """
        tree = tree_of("1. build\n  - compile\n  - link")
        tree.complete("1.1")
        tree.fail("1.2", "undefined symbol")

        assert ("failed", "failed") == (str(tree.nodes["1"].status), str(tree.status))

    def test_complete_with_all_steps(self):
        """
        A sub-goal is complete when its last step is.
        """
        tree = tree_of("1. build\n  - compile\n  - link")
        tree.complete("1.1")
        before = str(tree.status)
        tree.complete("1.2")

        assert ("active", "complete") == (before, str(tree.status))

    def test_completing_a_parent_forgives_no_failure(self):
        """
        To call a sub-goal complete completes what is still open in it, and nothing that failed.
        """
        tree = tree_of("1. build\n  - compile\n  - link\n  - strip")
        tree.fail("1.2")
        tree.complete("1")

        assert {"1": "failed", "1.1": "complete", "1.2": "failed", "1.3": "complete"} == statuses(tree)

    def test_mended(self):
        """
        A failed step that is done after all lets its parent complete.
        """
        tree = tree_of("1. build\n  - compile\n  - link")
        tree.fail("1.1")
        tree.complete("1")
        tree.complete("1.1")

        assert GoalStatus.COMPLETE == tree.status

    def test_all_skipped(self):
        """
        A sub-goal of which every step was skipped is skipped.
        """
        tree = tree_of("1. build\n  - compile\n2. test")
        tree.skip("1")

        assert GoalStatus.SKIPPED == tree.nodes["1"].status

    def test_waiting_only(self):
        """
        A sub-goal of which every open step is blocked is blocked itself.
        """
        tree = tree_of("1. build\n  - compile\n  - link")
        tree.complete("1.1")
        tree.block("1.2", "no licence")

        assert GoalStatus.BLOCKED == tree.nodes["1"].status


class TestDependencies:
    def test_activation_too_early_blocks(self):
        """
        A step that is begun before what it depends on is blocked, and free once that is done.
        """
        tree = tree_of("1. fix\n2. test (depends on 1)")
        early = tree.activate("2")
        tree.complete("1")

        assert ("blocked", "pending") == (str(early), statuses(tree)["2"])

    def test_of_a_sub_goal_hold_for_its_steps(self):
        """
        What a sub-goal waits for, its steps wait for.
        """
        tree = tree_of("1. fix\n2. ship (depends on 1)\n  - build\n  - upload")

        assert ("1", GoalStatus.BLOCKED) == (tree.focus.node_id, tree.activate("2.1"))

    def test_on_something_that_failed(self):
        """
        What waits for a failed goal cannot start.
        """
        tree = tree_of("1. fix\n2. test (depends on 1)")
        tree.fail("1")

        assert (None, 1.0) == (tree.next_step(), tree.get_stuck_score())

    def test_blocked_from_outside(self):
        """
        A step that waits for somebody stays blocked until it is begun again.
        """
        tree = tree_of("1. ask\n2. go on")
        tree.block("1", "waiting for the user")
        tree.complete("2")
        waited = statuses(tree)["1"]

        assert ("blocked", "active") == (waited, str(tree.activate("1")))

    def test_unknown(self):
        """
        A dependency on a goal that is not there is refused, and says which there are.
        """
        tree = tree_of("1. fix")

        with pytest.raises(NotFoundError, match=r"No goal of this tree has the id '7'. It has: goal, 1\."):
            tree.add("test", dependencies=["7"])

    def test_in_a_circle(self):
        """
        Two goals that would wait for each other are refused, and nothing has changed.
        """
        tree = tree_of("1. fix\n2. test (depends on 1)")

        with pytest.raises(SettingsError, match="'1' cannot wait for '2': they would wait for each other"):
            tree.depend("1", on="2")
        assert [] == tree.nodes["1"].dependencies

    @pytest.mark.parametrize(("node", "on"), [("1", "1"), ("1", "1.1"), ("1.1", "1"), ("1.1", "goal")])
    def test_on_oneself(self, node, on):
        """
        A goal cannot wait for itself, for the goal it stands under, nor for its own step.
        """
        tree = tree_of("1. fix\n  - edit\n  - test")

        with pytest.raises(SettingsError, match="would wait for each other"):
            tree.depend(node, on=on)

    def test_a_step_that_waits_for_its_own_parent(self):
        """
        A new step that waits for the goal it stands under could never start.
        """
        tree = tree_of("1. fix\n  - edit")

        with pytest.raises(SettingsError, match="cannot wait for"):
            tree.add("test", parent="1", dependencies=["1"])
        assert ["1.1"] == tree.nodes["1"].children


class TestTheNextStep:
    def test_the_most_urgent(self):
        """
        Of the steps that can start, the one of the highest priority comes next.
        """
        assert "fix" == tree_of("1. read\n2. fix (priority: high)\n3. test").next_step().description

    def test_the_plans_order_decides(self):
        """
        Between equals the first in the plan comes next.
        """
        assert "read" == tree_of(FOUR).next_step().description

    def test_the_sub_goals_priority_comes_first(self):
        """
        A step of an urgent sub-goal goes before an urgent step of another.
        """
        plan = "1. docs\n  - write (priority: critical)\n2. code (priority: high)\n  - edit"

        assert "edit" == tree_of(plan).next_step().description

    def test_the_focus_stays_on_what_is_active(self):
        """
        The step under way is the focus, whatever is more urgent.
        """
        tree = tree_of("1. read\n2. fix (priority: high)")
        tree.activate("1")

        assert "read" == tree.focus.description

    def test_none_without_a_plan(self):
        """
        Without steps there is none.
        """
        assert (None, None) == (GoalTree("goal").next_step(), GoalTree("goal").focus)


class TestTheDelta:
    def test_since_it_was_last_asked(self):
        """
        Each answer is the progress since the one before.
        """
        tree = tree_of(FOUR)
        tree.complete("1")
        first = tree.calculate_progress_delta()
        tree.complete("2")
        tree.complete("3")

        assert [0.25, 0.5, 0.0] == [first, tree.calculate_progress_delta(), tree.calculate_progress_delta()]

    def test_a_new_plan_is_no_progress(self):
        """
        Neither a longer plan nor one step more is progress or its opposite; what was done before it counts.
        """
        tree = tree_of("1. read\n2. fix")
        tree.complete("1")
        tree.rebuild_from_plan(FOUR)
        tree.add("celebrate")

        assert [0.5, 0.0] == [tree.calculate_progress_delta(), tree.calculate_progress_delta()]

    def test_taken_up_again(self):
        """
        A step that has to be done again is a step back.
        """
        tree = tree_of("1. read\n2. fix")
        tree.complete("1")
        tree.calculate_progress_delta()
        tree.activate("1")

        assert -0.5 == tree.calculate_progress_delta()

    @given(st.lists(st.tuples(st.sampled_from(["complete", "skip", "fail", "ask"]), st.integers(1, 4))))
    def test_adds_up(self, moves):
        """
        All answers together are the progress made.
        """
        tree, asked = tree_of(FOUR), 0.0
        for move, step in moves:
            if move == "ask":
                asked += tree.calculate_progress_delta()
            else:
                getattr(tree, move)(str(step))

        assert math.isclose(tree.progress, asked + tree.calculate_progress_delta(), abs_tol=1e-9)


class TestBeingStuck:
    def test_patience(self):
        """
        Five steps without progress are ordinary; ten are half stuck.
        """
        tree, scores = tree_of(FOUR), []
        for _ in range(10):
            tree.calculate_progress_delta()
            scores.append(tree.get_stuck_score())

        assert ([0.0] * 5, 0.5) == (scores[:5], scores[-1])

    def test_progress_forgives(self):
        """
        One step done, and it begins anew.
        """
        tree = tree_of(FOUR)
        for _ in range(50):
            tree.record_step()
        before = tree.get_stuck_score()
        tree.complete("1")

        assert (0.9, 0.0) == (before, tree.get_stuck_score())

    def test_a_new_plan_does_not(self):
        """
        Planning again is not getting on.
        """
        tree = tree_of(FOUR)
        for _ in range(10):
            tree.record_step()
        tree.rebuild_from_plan("1. another way\n2. and then")

        assert 0.5 == tree.get_stuck_score()

    def test_over_budget_counts_less(self):
        """
        Steps far over a step's budget are a sign, but flat progress is a stronger one.
        """
        tree = GoalTree("goal", patience=100)
        step = tree.add("fix", step_budget=2)
        for _ in range(20):
            tree.record_step(step)

        assert pytest.approx(0.36) == tree.get_stuck_score()

    def test_tokens_over_budget(self):
        """
        Tokens have a budget too, and a sub-goal's budget holds for all its steps.
        """
        tree = GoalTree("goal")
        sub = tree.add("build", token_budget=1000)
        tree.add("compile", parent=sub)
        tree.record_step(tokens_used=2000)

        assert pytest.approx(0.2) == tree.get_stuck_score()

    def test_not_when_done(self):
        """
        A goal that is reached is not stuck, however long ago.
        """
        tree = tree_of("1. fix")
        tree.complete("1")
        for _ in range(50):
            tree.calculate_progress_delta()

        assert 0.0 == tree.get_stuck_score()

    def test_not_told_without_a_plan(self):
        """
        Without a plan nothing can be told, and `has_plan` says so.
        """
        tree = GoalTree("goal")
        for _ in range(50):
            tree.calculate_progress_delta()

        assert (0.0, False) == (tree.get_stuck_score(), tree.has_plan)

    @given(st.lists(st.sampled_from(["ask", "step", "1", "2", "x3", "plan"]), max_size=60))
    def test_from_0_to_1(self, moves):
        """
        Whatever happens, the score is a share and so is the progress.
        """
        tree = tree_of(FOUR, patience=1)
        for move in moves:
            match move:
                case "ask":
                    tree.calculate_progress_delta()
                case "step":
                    tree.record_step(tokens_used=10)
                case "plan":
                    tree.rebuild_from_plan("1. read\n2. fix\n3. else\n4. more")
                case "x3":
                    tree.fail("3", "no")
                case _:
                    tree.complete(move)

            assert 0.0 <= tree.get_stuck_score() <= 1.0
            assert 0.0 <= tree.progress <= 1.0


class TestTheSeedsLoop:
    def test_as_it_asks(self):
        """
        An agent's loop asks for the stuck score before a step and for the progress after it.
        """
        goal_tree, new_plan, deltas = GoalTree("Build a REST API"), "1. model\n2. routes\n3. tests", []
        goal_tree.rebuild_from_plan(new_plan)
        for _ in range(3):
            assert 0.0 == goal_tree.get_stuck_score()
            goal_tree.complete(goal_tree.next_step().node_id)
            deltas.append(goal_tree.calculate_progress_delta())

        assert [pytest.approx(1 / 3)] * 3 == deltas


class TestState:
    @given(st.lists(st.sampled_from(["1", "2.1", "x2.2", "step", "ask"]), max_size=20), st.integers(0, 20))
    def test_put_aside_anywhere(self, moves, cut):
        """
        Put aside after any move and taken up again, it goes on as if nothing had happened.
        """
        whole = tree_of("1. read\n2. fix\n  - edit\n  - test (depends on 1)")
        parts = copy.deepcopy(whole)
        for place, move in enumerate(moves):
            parts = taken_up(parts) if place == cut else parts
            for tree in (whole, parts):
                match move:
                    case "step":
                        tree.record_step(tokens_used=5)
                    case "ask":
                        tree.calculate_progress_delta()
                    case "x2.2":
                        tree.fail("2.2", "red")
                    case _:
                        tree.complete(move)

        assert whole == parts

    def test_as_plain_data(self):
        """
        A tree comes back from its JSON view as it was.
        """
        tree = tree_of("1. read (effort: 2)\n2. fix (depends on 1)\n  - edit")
        tree.complete("1", artifacts=["notes.md"])
        tree.fail("2.1", "no match")
        plain = msgspec.json.decode(msgspec.json.encode(tree.to_dict()))

        assert tree == GoalTree.from_dict(plain)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"nodes": {}, "goal": 7}, "Expected `str`"),
            ({"patience": 0}, "patience must be 1 or more"),
            ({"asked": math.nan}, "asked must be a number"),
            ({"nodes": {"1": {"node_id": "1", "description": "x"}}}, "needs a goal with the id 'goal'"),
            (
                {"nodes": {"goal": {"node_id": "goal", "description": "g", "children": ["1"]}}},
                "exactly one parent",
            ),
        ],
    )
    def test_no_tree(self, change, why):
        """
        Data that is no tree is refused with the reason.
        """
        with pytest.raises(FormatError, match=why):
            GoalTree.from_dict(tree_of("1. read").to_dict() | change)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"dependencies": ["2"]}, "wait for each other"),
            ({"dependencies": ["9"]}, "not in the tree"),
            ({"effort": 0}, "Expected `int` >= 1"),
            ({"parent": "2"}, "exactly one parent"),
            ({"children": ["1"]}, "exactly one parent"),
            ({"node_id": "x"}, "kept under the id"),
            ({"status": "later"}, "Invalid enum value"),
        ],
    )
    def test_no_sound_tree(self, change, why):
        """
        A tree that could never be finished, or is none, is not taken up.
        """
        data = tree_of("1. read\n2. fix (depends on 1)").to_dict()
        data["nodes"]["1"] |= change

        with pytest.raises(FormatError, match=why):
            GoalTree.from_dict(data)


class TestBounds:
    def test_size(self):
        """
        A tree holds no more goals than it can carry, and says so.
        """
        tree = GoalTree("goal")
        for number in range(MAX_GOALS - 1):
            tree.add(f"step {number}")

        with pytest.raises(SettingsError, match="at most 200 goals"):
            tree.add("one more")

    def test_memory(self):
        """
        However often it fails and is planned anew, a tree stays small.
        """
        tree = GoalTree("goal")
        for number in range(300):
            tree.rebuild_from_plan(f"1. try {number}\n2. more")
            tree.fail("1", f"error {number}")
            tree.complete("2", artifacts=[f"file {number}"])

        assert (20, 20, True) == (
            len(tree.tried),
            len(tree.nodes["2"].artifacts),
            len(msgspec.msgpack.encode(tree)) < 4096,
        )

    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            ({"effort": 6}, "effort must be from 1 to 5, got 6"),
            ({"effort": True}, "effort must be a whole number, got True"),
            ({"step_budget": 0}, "step_budget must be 1 or more, got 0"),
            ({"token_budget": 1.5}, "token_budget must be a whole number, got 1.5"),
            ({"priority": "high"}, "priority must be a whole number"),
            ({"description": " \n "}, "A goal needs a description"),
        ],
    )
    def test_bad_values(self, bad, why):
        """
        What a goal cannot have is refused with the value.
        """
        with pytest.raises(SettingsError, match=why):
            GoalTree("goal").add(**({"description": "fix"} | bad))

    def test_too_deep(self):
        """
        A tree is goal, sub-goals and steps: a step has no steps.
        """
        tree = tree_of("1. fix\n  - edit")

        with pytest.raises(SettingsError, match=r"'1\.1' is a step already"):
            tree.add("type", parent="1.1")

    @pytest.mark.parametrize("bad", [0, -1, True, 2.5, "5"])
    def test_patience(self, bad):
        """
        Patience is a number of steps.
        """
        with pytest.raises(SettingsError, match="patience must be"):
            GoalTree("goal", patience=bad)

    @pytest.mark.parametrize("tokens", [-5, math.nan, math.inf, "many", None, True, 10**30])
    def test_odd_tokens(self, tokens):
        """
        Tokens that are no sensible count are no reason to fail, and the tree can still be stored.
        """
        tree = tree_of("1. fix")
        tree.record_step(tokens_used=tokens)

        assert 1 == taken_up(tree).nodes["1"].steps_taken
