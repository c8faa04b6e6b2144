"""Tables that fit the terminal: what matters least is left out first, and the last column is cut."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from steadyhelm.cli.output import print_rows
from steadyhelm.reports.terminal import console, safe

_BETWEEN: Final = 3
_EDGES: Final = 2
_LEAST_WORDS: Final = 24


def print_fitting(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], *, spare: Collection[str], empty: str
) -> None:
    """A table whose ids are never cut: `spare` columns go first, in that order; a file gets all of it."""
    screen = console()
    if screen.is_terminal:
        titles, rows = fitted(titles, rows, spare=spare, width=screen.width)
    print_rows(titles, rows, empty=empty)


def fitted(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], *, spare: Collection[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The columns that have room, the last one cut to what is left.

    >>> fitted(("id", "age", "what"), [("a1", "3 min", "x" * 40)], spare=["age"], width=32)
    (['id', 'what'], [['a1', 'xxxxxxxxxxxxxxxxxxxxxxxx…']])
    """
    widths = [
        max(len(title), *(len(str(row[place])) for row in rows)) if rows else len(title)
        for place, title in enumerate(titles)
    ]
    shown = list(range(len(titles)))
    for name in spare:
        if _room(widths, shown, width) >= min(_LEAST_WORDS, widths[-1]):
            break
        shown.remove(list(titles).index(name))
    room = max(_room(widths, shown, width), 1)
    cut = [[*(row[place] for place in shown[:-1]), safe(row[-1], most=room)] for row in rows]
    return [titles[place] for place in shown], cut


def _room(widths: Sequence[int], shown: Sequence[int], width: int) -> int:
    """What the last column may take when those before it take what they need."""
    return width - _EDGES - _BETWEEN * (len(shown) - 1) - sum(widths[place] for place in shown[:-1])
