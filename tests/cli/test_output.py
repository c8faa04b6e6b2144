from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.cli.output import fit_columns

TITLES = ("id", "agent", "steps", "what")
ROWS = [
    ("24699e4332f4", "researcher", "12", "search was called again and again"),
    ("9046fb1a270b", "r", "3", "x"),
]


class TestFitted:
    def test_enough_room(self):
        """
        Where everything fits nothing is changed.
        """
        assert (list(TITLES), [list(row) for row in ROWS]) == fit_columns(
            TITLES, ROWS, spare=["steps"], width=120
        )

    def test_spare_columns_go_in_order(self):
        """
        The column that matters least goes first, and no more than needed.
        """
        titles, _ = fit_columns(TITLES, ROWS, spare=["steps", "agent"], width=60)

        assert ["id", "agent", "what"] == titles

    @given(width=st.integers(1, 200))
    def test_ids_are_never_cut(self, width):
        """
        However narrow the terminal, an id can be copied; from 50 columns on a line fits.
        """
        titles, rows = fit_columns(TITLES, ROWS, spare=["steps", "agent"], width=width)

        assert ["24699e4332f4", "9046fb1a270b"] == [row[0] for row in rows]
        longest = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        assert width < 50 or sum(longest) + 3 * (len(titles) - 1) + 2 <= width

    def test_no_rows(self):
        """
        A table without rows keeps its titles.
        """
        assert (list(TITLES), []) == fit_columns(TITLES, [], spare=["steps"], width=80)
