"""How far long work is, drawn on standard error when that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steadyhelm.reports.terminal import console


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
