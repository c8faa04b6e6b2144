"""`steadyhelm replies`: label a file of users' replies."""

import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import msgspec
import typer

from steadyhelm.cli.output import EXIT_FAILED, EXIT_OK, EXIT_USAGE, fail
from steadyhelm.hostile_text import encode_safe_json
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from collections.abc import Callable

_STANDARD_STREAM: Final = "-"
"""The name for standard input as the file, and standard output as the output."""
_TOOL_CALL_FIELDS: Final = ("tool_calls_since_prompt", "tool_calls")
_TOOL_ERROR_FIELDS: Final = ("tool_errors_since_prompt", "tool_errors")


def replies(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Replies as JSON Lines, plain or gzip; - is standard input.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file; .gz is compressed, - is standard output."),
    ] = None,
) -> None:
    """Label users' replies. A label says what the reply means for the turn before it.

    Every line is written again with its label added. Exit status: 0, or 1 when a line could not be read.
    """
    from steadyhelm.reports.output import open_destination

    if output == Path(_STANDARD_STREAM):
        output = None
    _check_file_arguments(file, output)
    labels = _Labeller()
    with (
        open_destination(output) as stream,
        _compress(stream, output) as lines,
        _show_labelling(output) as moved,
    ):
        for line in labels.read(file):
            lines.write(line + "\n")
            moved(labels.summary)
    for number, reason in labels.broken:
        say(f"steadyhelm: {safe(file)}:{number}: {safe(reason)}")
    say(labels.summary)
    raise typer.Exit(EXIT_FAILED if labels.broken or not labels.kinds else EXIT_OK)


class _Labeller:
    """Labels line after line, and counts; a line without a reply is kept with the reason."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.drift = 0
        self.broken: list[tuple[int, str]] = []

    @property
    def summary(self) -> str:
        """A sentence about what was labelled so far."""
        total = sum(self.kinds.values())
        text = f"{pluralize(total, 'reply', 'replies')} labelled"
        if total:
            kinds = ", ".join(f"{kind} {times:,}" for kind, times in self.kinds.most_common())
            text += f", {self.drift:,} of them evidence of drift ({kinds})"
        if self.broken:
            text += f"; {pluralize(len(self.broken), 'line')} could not be read"
        return f"{text}."

    def read(self, file: str) -> Iterator[str]:
        """Yield the lines of the file, labelled."""
        from steadyhelm.recordings.run_entries import Notes
        from steadyhelm.recordings.run_file import BrokenLine, decode_line
        from steadyhelm.recordings.transcript_reader import NumberedLines

        for number, line in NumberedLines(file).iter_lines():
            if isinstance(line, str):
                self.broken.append((number, line))
            elif line.strip():
                value = decode_line(line, number, Notes())
                reason = value.reason if isinstance(value, BrokenLine) else _find_fault(value)
                if reason:
                    self.broken.append((number, reason))
                else:
                    yield encode_safe_json(self._add_label(value)).decode()

    def _add_label(self, reply: dict[str, Any]) -> dict[str, Any]:
        from steadyhelm.corrections.reply_classifier import classify_user_reply

        label = classify_user_reply(
            reply["reply"],
            prompt_before=_get_text(reply.get("prompt_before")),
            assistant_before=_get_text(reply.get("assistant_before")),
            interrupted=reply.get("interrupted") is True,
            tool_calls=_find_count(reply, _TOOL_CALL_FIELDS),
            tool_errors=_find_count(reply, _TOOL_ERROR_FIELDS),
            turn=_find_count(reply, ("turn",)),
        )
        self.kinds[label.primary] += 1
        self.drift += label.is_drift
        return {**reply, **msgspec.to_builtins(label)}


def _find_fault(value: Any) -> str:
    """Return why a JSON value cannot be labelled; empty when it can."""
    from steadyhelm.recordings.run_entries import describe_value

    if not isinstance(value, dict):
        return f"{describe_value(value)} is not an object; a file of replies holds one object a line"
    if "reply" not in value:
        return "it has no `reply`"
    reply = value["reply"]
    return "" if isinstance(reply, str) else f"`reply` is {describe_value(reply)}, not a text"


def _get_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _find_count(reply: dict[str, Any], names: tuple[str, ...]) -> int:
    """Return the first of these keys that holds a count; 0 when none does."""
    for name in names:
        value = reply.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0


def _check_file_arguments(file: str, output: Path | None) -> None:
    if file != _STANDARD_STREAM and not Path(file).is_file():
        fail(f"there is no file {safe(file)}. Try: steadyhelm replies replies.jsonl", EXIT_USAGE)
    if output is None:
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        fail(f"--output {safe(output)} cannot be written: name a file in a folder that exists.", EXIT_USAGE)
    if file != _STANDARD_STREAM and output.exists() and output.samefile(file):
        fail(f"--output {safe(output)} is the file to be read. Name another file.", EXIT_USAGE)


@contextmanager
def _compress(stream: TextIO, output: Path | None) -> Iterator[TextIO]:
    """Yield the stream, compressed when the file's name ends in .gz."""
    if output is None or output.suffix != ".gz" or not isinstance(stream, io.TextIOWrapper):
        yield stream
        return
    # Without a name and a time in it, the same replies result in the same file.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream.buffer, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as lines,
    ):
        yield lines


@contextmanager
def _show_labelling(output: Path | None) -> Iterator["Callable[[str], None]"]:
    """Show progress on a terminal, unless the lines themselves go there."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    is_free = screen.is_terminal and (output is not None or not sys.stdout.isatty())
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not is_free) as progress:
        task = progress.add_task("labelling", total=None)
        yield lambda text: progress.update(task, description=text)
