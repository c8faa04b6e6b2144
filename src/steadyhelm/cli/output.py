"""Helpers of every command: exit statuses, tables, JSON, spans of time, and questions to the user."""

import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import msgspec
import typer

from steadyhelm.reports.terminal import console, safe, say

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
FLAGGED: Final = 3

_UNBOUNDED: Final = 10_000
"""The width of a table in a pipe, where nothing may be cut."""


def fail(text: str, status: int = FAILED) -> NoReturn:
    """Say what is wrong, and end with this status."""
    say(f"steadyhelm: {text}")
    raise typer.Exit(status)


def print_json(value: Any) -> None:
    """One JSON document on one line of standard output."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_rows(titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table on standard output, or in words on standard error that there is nothing to show."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(*titles, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    if table.row_count == 0:
        say(empty)
        return
    out = console()
    if not out.is_terminal:
        out.width = _UNBOUNDED
    out.print(table)


def ago(then: float, *, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    if then <= 0:
        return "never"
    seconds = (time.time() if now is None else now) - then
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds < 5 else f"{seconds:.0f} s ago"  # noqa: PLR2004 - a moment


def when(then: float) -> str:
    """A moment in local time, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then)) if then > 0 else "-"


def span(text: str) -> float:
    """Seconds from `30m`, `24h`, `7d` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)?", text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a span of time; write for example 30m, 24h or 7d.")
    sizes = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
    return float(match[1]) * sizes[match[2] or "s"]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} Add --yes to go on.", USAGE)
    if not typer.confirm(question, err=True):
        fail("nothing was changed.")


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


@contextmanager
def counting(words: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar for so many equal parts; what it gives is called after each of them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    screen = console(stderr=True)
    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task(words, total=total)
        yield lambda: progress.advance(task)
