from steadyhelm.engine.totals import Totals


class TestHiddenEvents:
    def test_they_are_not_counted(self):
        """
        Between two places, events that the agent has no part in do not count.

            place  0  1  2  3  4  5
                         hidden  hidden
        """
        totals = Totals()
        for seq in (2, 4):
            totals.hide(seq)

        assert [1, 1, 2, 2, 3] == [totals.count_events(0, seq) for seq in (1, 2, 3, 4, 5)]
        assert 1 == totals.count_events(3, 5)

    def test_only_the_latest_are_remembered(self):
        """
        However many such events a run has, what is saved of it stays small.
        """
        totals = Totals()
        for seq in range(20_000):
            totals.hide(seq)

        assert len(totals.hidden) <= 512
        assert 0 == totals.count_events(19_800, 19_999)
