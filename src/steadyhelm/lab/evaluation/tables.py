"""Tables as plain text: aligned columns, hostile characters escaped."""

from collections.abc import Sequence

from steadyhelm.reports.formats import printable


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under their titles, each column as wide as its widest cell."""
    cells = [list(titles), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
