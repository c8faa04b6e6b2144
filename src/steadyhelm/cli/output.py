"""Print for every command: exit statuses, tables, JSON, times, progress, and questions to the user."""

import enum
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn

import typer
from msgspec import Struct

from steadyhelm.errors import FormatError, SteadyhelmError
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.reports.terminal import console, print_wrapped, safe, say

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.replay_pool import Workers

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_FLAGGED: Final = 3

_PIPE_WIDTH: Final = 10_000
"""The width of a table in a pipe, where nothing may be cut."""
_COLUMN_GAP: Final = 3
_EDGE_WIDTH: Final = 1
_CONTINUATION_INDENT: Final = 5
_MIN_LAST_COLUMN_WIDTH: Final = 24

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
"""The option of every command that reads; its document is an object whose keys stay."""


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
"""The option of every command that changes or destroys what is there; its question is `confirm`'s."""


class Engine(enum.StrEnum):
    """What judges recorded runs."""

    LOCAL = "local"
    SPARK = "spark"


Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, metavar="N", help="Processes that judge runs.")]
OnEngine = Annotated[
    Engine, typer.Option("--engine", help="Judge in processes of this machine, or on Spark (an extra).")
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="The Spark cluster; this machine without it.")
]


def choose_workers(jobs: int, engine: Engine, master: str) -> "Workers":
    """Return where runs are judged; ends the command when the options contradict each other."""
    from steadyhelm.replay_pool import Workers

    if engine is Engine.SPARK:
        return Workers(jobs, master or (f"local[{jobs}]" if jobs > 1 else "local[*]"))
    if master:
        fail("--master is the address of a Spark cluster: it needs --engine spark.", EXIT_USAGE)
    return Workers(jobs)


def fail(text: str, status: int = EXIT_FAILED) -> NoReturn:
    """Print what is wrong, and end the command with this status."""
    say(f"steadyhelm: {text}")
    raise typer.Exit(status)


def diff_texts(path: Path, before: str | None, after: str) -> Iterator[str]:
    """Yield the difference between a file and what it will be, line by line; None is a new file."""
    import difflib

    names = (str(path) if before is not None else "/dev/null", str(path))
    return difflib.unified_diff((before or "").splitlines(), after.splitlines(), *names, lineterm="")


def print_json(value: "Mapping[str, Any] | Struct") -> None:
    """Print one JSON object on one line of standard output."""
    sys.stdout.write(encode_safe_json(value).decode() + "\n")


def refuse_early_options(context: typer.Context) -> NoReturn:
    """End with a usage error: options of a group's default command were written before another command."""
    raise typer.BadParameter(f"write the options after `{context.invoked_subcommand}`.")


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or the text for an empty one to standard error.

    On a terminal that is too narrow a row takes several lines: no column is left out and nothing is cut.
    """
    from rich.text import Text

    cells = [[cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row] for row in rows]
    if not cells:
        say(empty)
        return
    out = console()
    for line in lay_out_table(titles, cells, width=out.width if out.is_terminal else _PIPE_WIDTH):
        out.print(line)


_MIN_LABEL_CHARS: Final = 9


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print each label with its value, one a line; without those that have none."""
    screen, shown = console(), [(label, value) for label, value in fields if value]
    width = max([_MIN_LABEL_CHARS, *(len(label) for label, _ in shown)])
    for label, value in shown:
        print_wrapped(screen, f"{label:<{width}} {safe(value)}", indent=width + 1)


def lay_out_table(titles: Sequence[str], rows: Sequence[Sequence["Text"]], *, width: int) -> Iterator["Text"]:
    """Yield the lines of a table that is at most so wide: the titles, a rule, and each row.

    >>> from rich.text import Text
    >>> row = [Text("a1b2c3"), Text("done"), Text("find x")]
    >>> [line.plain for line in lay_out_table(("id", "state", "goal"), [row], width=20)]
    [' id       state', '     goal', '────────────────', ' a1b2c3   done', '     find x']
    """
    from rich.text import Text

    widths = [max(len(title), *(row[place].cell_len for row in rows)) for place, title in enumerate(titles)]
    lines = pack_columns(widths, width)
    widest = max(line.measure(widths, width) for line in lines)
    for line in lines:
        yield from line.lay_out([Text(title, "bold") for title in titles], widths, width)
    yield Text("─" * min(width, widest + 1), "dim")
    for row in rows:
        for line in lines:
            yield from line.lay_out(row, widths, width)


class TableLine(NamedTuple):
    """The columns that share one line of a table, after an indent."""

    columns: list[int]
    indent: int

    def measure(self, widths: Sequence[int], width: int) -> int:
        """Return how wide the line is with columns of these widths, at most `width`."""
        cells = sum(widths[place] for place in self.columns) + _COLUMN_GAP * (len(self.columns) - 1)
        return min(self.indent + cells, width)

    def lay_out(self, row: Sequence["Text"], widths: Sequence[int], width: int) -> Iterator["Text"]:
        """Yield this line's cells of a row; what is wider than its room goes on below."""
        from rich.text import Text

        starts, rooms = self._place_columns(widths, width)
        wrapped = [
            row[place].wrap(console(), room, overflow="fold")
            for place, room in zip(self.columns, rooms, strict=True)
        ]
        for number in range(max(map(len, wrapped))):
            line = Text()
            for start, cell in zip(starts, wrapped, strict=True):
                if number < len(cell) and cell[number].plain.strip():
                    line.pad_right(start - line.cell_len)
                    line.append_text(cell[number])
            line.rstrip()
            if line.plain:
                yield line

    def _place_columns(self, widths: Sequence[int], width: int) -> tuple[list[int], list[int]]:
        """Return where each column starts, and how much room it has."""
        starts, rooms, at = [], [], self.indent
        for place in self.columns:
            starts.append(at)
            rooms.append(max(1, min(widths[place], width - at)))
            at += widths[place] + _COLUMN_GAP
        return starts, rooms


def pack_columns(widths: Sequence[int], width: int) -> list[TableLine]:
    """Return which columns share a line, in order, so that none is cut; the last one of all may wrap."""
    lines: list[TableLine] = [TableLine([], _EDGE_WIDTH)]
    for place, wanted in enumerate(widths):
        is_last = place == len(widths) - 1
        least = min(wanted, _MIN_LAST_COLUMN_WIDTH) if is_last else wanted
        line = lines[-1]
        used = line.indent + sum(widths[it] + _COLUMN_GAP for it in line.columns)
        if line.columns and used + least > width:
            lines.append(TableLine([], _CONTINUATION_INDENT))
        lines[-1].columns.append(place)
    return lines


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


def parse_duration(text: str, option: str) -> float:
    """Return the seconds in `30m`, `24h`, `7d` or a plain number of seconds, as given after an option."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)?", text.strip())
    if match is None:
        raise typer.BadParameter(
            f"{safe(text, most=40)!r} is not a duration; write for example 30m, 24h or 7d.",
            param_hint=repr(option),
        )
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


def confirm_replacing(path: Path | None, *, yes: bool) -> None:
    """Ask before a file that exists is replaced; None is standard output."""
    if path is not None and path.exists():
        confirm(f"{safe(path)} exists. Replace it?", yes=yes)


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error for so many equal parts; call what this yields after one or more."""
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
        yield lambda parts=1: progress.advance(task, parts)


def read_small_file(path: Path, most_bytes: int, *, what: str) -> bytes:
    """Return the content of a file that holds `what`; raises FormatError where it is larger than that."""
    from steadyhelm.recordings.run_file import find_endless_kind

    try:
        if kind := find_endless_kind(path):
            raise FormatError(f"{path} is a {kind}, which may never end. Give a file.")
        if path.stat().st_size > most_bytes:
            raise FormatError(f"{path} is too large for {what}: more than {most_bytes >> 20} MB.")
        return path.read_bytes()
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc.strerror or exc}.") from exc


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
        raise SteadyhelmError(f"{what} cannot be written to {path}: {exc.strerror or exc}.") from exc
