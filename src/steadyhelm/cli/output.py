"""Helpers of every command: exit statuses, tables, JSON, spans of time, and questions to the user."""

import re
import sys
import time
from collections.abc import Iterable, Sequence
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
