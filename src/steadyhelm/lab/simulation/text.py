"""A simulation as plain text of at most 80 columns, with every healthy run that would be disturbed."""

import textwrap
from collections.abc import Iterator
from typing import Final

from steadyhelm.lab.evaluation.tables import table
from steadyhelm.lab.simulation.simulation import Disturbed, SimulationReport
from steadyhelm.lab.simulation.words import Section, head, sections
from steadyhelm.reports.formats import printable

_COLUMNS: Final = 80
_NAME: Final = 19
_GAP: Final = 2
_SHOWN: Final = 10


def simulation_text(report: SimulationReport, *, most: int = _SHOWN) -> str:
    """The whole report; at most `most` disturbed runs are shown."""
    parts = [_wrapped(head(report))]
    parts += [
        _wrapped(f"{why}, {times} times: figures are not complete.") for why, times in report.troubles.items()
    ]
    for section in sections(report):
        parts += _section(section)
    if report.disturbed:
        shown = [_disturbed(one) for one in report.disturbed[:most]]
        more = len(report.disturbed) - most
        rest = [f"  ... {more} not shown; --json and --html have all of them."] if more > 0 else []
        title = f"Healthy runs that would have been disturbed ({len(report.disturbed)}):"
        parts.append("\n".join([title, *shown, *rest]))
    return "\n\n".join(parts)


def _section(section: Section) -> Iterator[str]:
    if section.rows:
        yield table((section.name, *section.titles), _fitting(section))
    yield "\n".join(_wrapped(note, rest="  ") for note in section.notes)


def _fitting(section: Section) -> list[tuple[str, ...]]:
    """The rows with names and last cells cut as far as the width of a screen asks for."""
    rows = [(_cut(row[0], _NAME), *map(printable, row[1:])) for row in section.rows]
    columns = list(zip((section.name, *section.titles), *rows, strict=True))[:-1]
    room = _COLUMNS - sum(max(map(len, column)) + _GAP for column in columns)
    return [(*row[:-1], _cut(row[-1], max(room, _NAME))) for row in rows]


def _disturbed(one: Disturbed) -> str:
    lines = [_cut(f"  {one.set_name}: {one.run_id}")]
    for answer in one.reached:
        words = f"{answer.at} {answer.action} ({answer.verdict}) by {answer.by}: {answer.message}"
        lines.append(_wrapped(words, "    ", "      "))
    if one.refusals:
        first = one.refusals[0]
        words = f"{first.at} refused ({first.verdict}), {len(one.refusals)} in all: {first.message}"
        lines.append(_wrapped(words, "    ", "      "))
    lines += [
        _cut(f"      {'F' if event.found else ' '} {event.at:>4} {event.what}: {event.said}")
        for event in one.events
    ]
    return "\n".join(lines)


def _cut(text: str, most: int = _COLUMNS) -> str:
    shown = printable(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    lines = textwrap.wrap(
        printable(text), _COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return "\n".join(lines)
