"""Print for every command: exit statuses, tables, JSON, times, progress, and questions to the user."""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import typer

from steadyhelm.errors import SteadyhelmError
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.reports.terminal import console, safe, say

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_FLAGGED: Final = 3

_PIPE_WIDTH: Final = 10_000
"""The width of a table in a pipe, where nothing may be cut."""
_COLUMN_GAP: Final = 3
_EDGE_WIDTH: Final = 2
_MIN_LAST_COLUMN: Final = 24


def fail(text: str, status: int = EXIT_FAILED) -> NoReturn:
    """Print what is wrong, and end the command with this status."""
    say(f"steadyhelm: {text}")
    raise typer.Exit(status)


def print_json(value: Any) -> None:
    """Print one JSON document on one line of standard output."""
    sys.stdout.write(encode_safe_json(value).decode() + "\n")


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or the text for an empty one to standard error."""
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
        out.width = _PIPE_WIDTH
    out.print(table)


def print_fitted_table(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], *, spare: Collection[str], empty: str
) -> None:
    """Print a table that fits the terminal; a file gets all columns.

    Ids are never cut: columns named in `spare` are left out first, in that order.
    """
    screen = console()
    if screen.is_terminal:
        titles, rows = fit_columns(titles, rows, spare=spare, width=screen.width)
    print_table(titles, rows, empty=empty)


def fit_columns(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], *, spare: Collection[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Return the columns that have room, with the last one cut to what is left.

    >>> fit_columns(("id", "age", "what"), [("a1", "3 min", "x" * 40)], spare=["age"], width=32)
    (['id', 'what'], [['a1', 'xxxxxxxxxxxxxxxxxxxxxxxx…']])
    """
    widths = [
        max(len(title), *(len(str(row[place])) for row in rows)) if rows else len(title)
        for place, title in enumerate(titles)
    ]
    shown = list(range(len(titles)))
    for name in spare:
        if _last_column_width(widths, shown, width) >= min(_MIN_LAST_COLUMN, widths[-1]):
            break
        shown.remove(list(titles).index(name))
    room = max(_last_column_width(widths, shown, width), 1)
    cut = [[*(row[place] for place in shown[:-1]), safe(row[-1], most=room)] for row in rows]
    return [titles[place] for place in shown], cut


def _last_column_width(widths: Sequence[int], shown: Sequence[int], width: int) -> int:
    """Return the room for the last column when those before it take what they need."""
    return width - _EDGE_WIDTH - _COLUMN_GAP * (len(shown) - 1) - sum(widths[place] for place in shown[:-1])


def format_age(then: float, *, now: float | None = None) -> str:
    """Return how long ago that was, in the largest unit that fits."""
    if then <= 0:
        return "never"
    seconds = (time.time() if now is None else now) - then
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds < 5 else f"{seconds:.0f} s ago"  # noqa: PLR2004 - a moment


def format_time(then: float) -> str:
    """Return a moment in local time, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then)) if then > 0 else "-"


def parse_duration(text: str) -> float:
    """Return the seconds in `30m`, `24h`, `7d` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)?", text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write for example 30m, 24h or 7d.")
    sizes = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
    return float(match[1]) * sizes[match[2] or "s"]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} Add --yes to continue.", EXIT_USAGE)
    if not typer.confirm(question, err=True):
        fail("nothing was changed.")


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on standard error for so many equal parts; call what this yields after each of them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    screen = console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)


def write_private_file(path: Path, content: bytes, *, what: str) -> None:
    """Write a file in one piece; only its owner may read it. Raises SteadyhelmError, which names `what`."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as exc:
        raise SteadyhelmError(f"{what} cannot be written to {path}: {exc}.") from exc
