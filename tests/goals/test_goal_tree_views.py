from steadyhelm.goals.tree import GoalTree

PLAN = "1. read\n2. fix\n  - edit\n  - check\n3. tell\n4. ship\n5. rest"


def worked_on():
    tree = GoalTree("Mend the parser")
    tree.rebuild_from_plan(PLAN)
    tree.complete("1")
    tree.fail("2.1", "no match")
    tree.activate("2.2")
    tree.skip("3", "nobody to tell")
    tree.block("4", "waiting for a key")
    return tree


class TestText:
    def test_every_status_has_a_mark(self):
        """
        One line a goal, marked, with the reason where somebody gave one.
        """
        expected = """\
Goal: Mend the parser (33 %)
[x] 1. read
[>] 2. fix
  [!] 2.1. edit
      failed: no match
  [>] 2.2. check
[-] 3. tell
    skipped: nobody to tell
[?] 4. ship
    blocked: waiting for a key
[ ] 5. rest"""

        assert expected == worked_on().to_text()

    def test_read_back_as_a_plan(self):
        """
        A model that sends the view back with more boxes ticked has planned anew.
        """
        tree = worked_on()
        tree.rebuild_from_plan(tree.to_text().replace("[ ] 5.", "[x] 5."))

        assert ["complete", "failed", "active", "skipped", "pending", "complete"] == [
            str(leaf.status) for leaf in tree.leaves
        ]

    def test_long_trees_are_cut(self):
        """
        A view has no more lines than asked for, and says how many are left out.
        """
        tree = GoalTree("goal")
        tree.rebuild_from_plan([f"step {number}" for number in range(100)])

        assert ["[ ] 2. step 1", "… and 98 more lines"] == tree.to_text(most_lines=2).splitlines()[-2:]

    def test_nearly_all_is_not_all(self):
        """
        A hundred percent is shown when everything is done, and not before.
        """
        tree = GoalTree("goal")
        tree.rebuild_from_plan([f"step {number}" for number in range(199)])
        for number in range(198):
            tree.complete(str(number + 1))

        assert "Goal: goal (99 %)" == tree.to_text().splitlines()[0]

    def test_no_goal(self):
        """
        A tree without a goal says so.
        """
        assert "Goal: (not given) (0 %)" == GoalTree("").to_text()
