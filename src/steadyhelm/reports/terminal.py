"""Write to a terminal: messages to standard error, hostile text made harmless.

Agent output may hold escape sequences, control and bidirectional characters: nothing of it reaches a
terminal unescaped.
"""

import sys
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.hostile_text import escape_unsafe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SEVERITY_MARKS: Final = {"LOW": "·", "MED": "▲", "HIGH": "■", "CRITICAL": "✖"}
_SEVERITY_STYLES: Final = {"LOW": "dim", "MED": "yellow", "HIGH": "red", "CRITICAL": "bold red"}


def safe(text: object, *, most: int = 0) -> str:
    """Return text a terminal can show: control characters escaped, one line, at most `most` characters."""
    shown = escape_unsafe(str(text)).replace("\n", "⏎").replace("\t", " ")
    return shown if not most or len(shown) <= most else shown[: most - 1] + "…"


def console(*, stderr: bool = False) -> "Console":
    """Return a console that honours NO_COLOR and draws plainly when it is not a terminal."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_wrapped(screen: "Console", line: "Text | str", *, indent: int | None = None) -> None:
    """Print a line; on a terminal that is too narrow it goes on below, broken between words and indented.

    Without `indent` it goes on two characters right of where the line's text begins.
    """
    from rich.text import Text

    text = line if isinstance(line, Text) else Text(line)
    if not screen.is_terminal or text.cell_len <= screen.width:
        screen.print(text)
        return
    if indent is None:
        indent = len(text.plain) - len(text.plain.lstrip()) + 2
    indent = min(indent, screen.width // 2)
    first = text.wrap(screen, screen.width, overflow="fold")[0]
    first.rstrip()
    screen.print(first)
    # What is left is wrapped again: the lines below have less room than the first.
    used = len(first.plain)
    below = text[used + len(text.plain[used:]) - len(text.plain[used:].lstrip()) :]
    for part in below.wrap(screen, screen.width - indent, overflow="fold"):
        part.rstrip()
        screen.print(Text(" " * indent).append_text(part))


def say(text: str) -> None:
    """Write a message for the person to standard error."""
    sys.stderr.write(f"{text}\n")


def format_severity(name: str) -> Any:
    """Return a severity as shape, word and colour: never colour alone."""
    from rich.text import Text

    return Text(f"{SEVERITY_MARKS.get(name, '?')} {name}", style=_SEVERITY_STYLES.get(name, ""))
