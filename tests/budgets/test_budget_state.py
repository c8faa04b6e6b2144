import msgspec
import pytest

from steadyhelm.budgets.adaptive_budget import AdaptiveBudget
from steadyhelm.errors import FormatError


def lived():
    """A budget that has seen everything a budget can see."""
    budget = AdaptiveBudget(
        initial_steps=40, cost_usd=3.0, wall_s=500.0, agent_id="me", budget_id="run-1", velocity_window=4
    )
    for turn in range(1, 13):
        budget.record_step(turn, 700, None if turn == 3 else 0.08, 0.01, 2.5)
    budget.record_task_completion("refactor", 10, 2000, 1.0)
    budget.request_emergency_extension("please", 4, 100)
    budget.reserve(steps=3, tokens=500, cost_usd=0.2)
    return budget


class TestSaving:
    def test_everything_comes_back(self):
        """
        A budget taken up again is the one that was put aside: status, decisions, profiles, children.
        """
        budget = lived()
        again = AdaptiveBudget.from_state(budget.state())

        assert budget.state() == again.state()
        assert budget.get_status() == again.get_status()
        assert budget.decisions == again.decisions
        assert budget.rules == again.rules

    def test_it_goes_on_as_if_nothing_had_happened(self):
        """
        The same steps lead to the same state, with a restart between them or without.
        """
        budget, again = lived(), AdaptiveBudget(7, 7)
        again.restore(budget.state())
        for turn in range(13, 40):
            for one in (budget, again):
                one.record_step(turn, 100, 0.0, 0.02, 1.0)

        assert budget.state() == again.state()

    def test_a_copy_is_independent(self):
        """
        What happens to a budget taken up again does not touch the one it came from.
        """
        budget = lived()
        before = budget.get_status()
        AdaptiveBudget.from_state(budget.state()).record_step(99, 1, 0.1)

        assert before == budget.get_status()

    def test_it_stays_small(self):
        """
        A run of a hundred thousand steps is remembered in a few kilobytes.
        """
        budget = AdaptiveBudget(initial_steps=10**6)
        for turn in range(100_000):
            budget.record_step(turn, 3, (turn % 40) / 1000)

        assert 8192 > len(budget.state())


class TestReading:
    @pytest.mark.parametrize(
        "state",
        [b"", b"\xc1", b"nonsense", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode({"version": 1})],
    )
    def test_what_is_no_state_is_refused(self, state):
        """
        Bytes that are no budget are refused with words, and the budget stays as it was.
        """
        budget = lived()
        before = budget.get_status()
        with pytest.raises(FormatError, match="The saved budget cannot be read"):
            budget.restore(state)

        assert before == budget.get_status()

    @pytest.mark.parametrize("version", [0, 2, 99])
    def test_another_version_is_refused(self, version):
        """
        A state of another version is never taken for a fresh budget: that would revive what is used up.
        """
        saved = msgspec.msgpack.decode(lived().state())
        state = msgspec.msgpack.encode({**saved, "version": version})

        with pytest.raises(FormatError, match=f"has version {version}, and this Steadyhelm reads 1"):
            AdaptiveBudget.from_state(state)

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (("steps", "used"), -1),
            (("tokens", "reserved"), -5),
            (("progress",), 2.0),
            (("deltas",), [7.0]),
            (("rules", "landing_reserve"), 5),
            (("idle",), -1),
        ],
    )
    def test_impossible_numbers_are_refused(self, place, value):
        """
        A state that no budget can be in is refused.
        """
        saved = msgspec.msgpack.decode(lived().state())
        part = saved
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value

        with pytest.raises(FormatError, match="The saved budget cannot be read"):
            AdaptiveBudget.from_state(msgspec.msgpack.encode(saved))
