"""Plots as inline SVG, drawn by hand: no scripts, nothing from elsewhere, shapes as well as colours."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.reports.pages import drawing, words

Mark = Literal["together", "detector", "rule"]

_ROW: Final = 26
_LABELS: Final = 190
_PANEL: Final = 150
_GAP: Final = 26
_TOP: Final = 34
_BAR: Final = 22
_HEIGHT: Final = 120
_MOST_BARS: Final = 24


class Row(Struct, frozen=True, kw_only=True):
    """One line of an interval plot: a name, how it is marked, and an estimate for each panel."""

    name: str
    mark: Mark
    estimates: list[Estimate | None]


def intervals(panels: Sequence[str], rows: Sequence[Row], *, title: str) -> str:
    """Estimates from 0 to 1 with their intervals: a panel for each figure, a line for each finder."""
    width = _LABELS + len(panels) * (_PANEL + _GAP)
    height = _TOP + len(rows) * _ROW + 24
    parts: list[str] = []
    for column, name in enumerate(panels):
        left = _LABELS + column * (_PANEL + _GAP)
        parts.append(_panel(left, name, len(rows)))
        parts += [_estimate(left, i, row.mark, row.estimates[column]) for i, row in enumerate(rows)]
    for i, row in enumerate(rows):
        parts.append(f'<text class="name" x="{_LABELS - 14}" y="{_y(i) + 4}">{words(row.name)}</text>')
    return drawing(width, height, title, parts)


def histogram(values: Sequence[int], *, title: str, axis: str) -> str:
    """How often each value came; far values share a bar with their neighbours."""
    size = max(1, -(-(max(values) - min(values) + 1) // _MOST_BARS))
    first = min(values) // size * size
    bins = [0] * ((max(values) - first) // size + 1)
    for value in values:
        bins[(value - first) // size] += 1
    width = max(360, 60 + len(bins) * _BAR)
    parts: list[str] = []
    tallest = max(bins)
    for i, count in enumerate(bins):
        left, start = 40 + i * _BAR, first + i * size
        tall = count / tallest * _HEIGHT
        values_here = f"{start}" if size == 1 else f"{start} to {start + size - 1}"
        if count:
            parts.append(
                f'<rect class="bar" x="{left}" y="{20 + _HEIGHT - tall:.1f}" width="{_BAR - 4}" '
                f'height="{tall:.1f}"><title>{values_here}: {count}</title></rect>'
                f'<text class="tick" x="{left + _BAR / 2 - 2}" y="{14 + _HEIGHT - tall:.1f}">{count}</text>'
            )
        if len(bins) <= _MOST_BARS // 2 or i % 4 == 0:
            parts.append(f'<text class="tick" x="{left + _BAR / 2 - 2}" y="{_HEIGHT + 36}">{start}</text>')
    line_y = 20 + _HEIGHT
    parts.append(f'<path class="axis" d="M36 {line_y}H{40 + len(bins) * _BAR}"/>')
    parts.append(f'<text class="axisname" x="40" y="{_HEIGHT + 56}">{words(axis)}</text>')
    return drawing(width, _HEIGHT + 64, title, parts)


def _panel(left: int, name: str, rows: int) -> str:
    bottom = _TOP + rows * _ROW
    parts = [f'<text class="panel" x="{left + _PANEL / 2}" y="16">{words(name)}</text>']
    for tick in (0.0, 0.5, 1.0):
        x = left + tick * _PANEL
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP - 8}V{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 14}">{tick:g}</text>')
    return "".join(parts)


def _estimate(left: int, row: int, mark: Mark, estimate: Estimate | None) -> str:
    y = _y(row)
    if estimate is None or estimate.value is None:
        return f'<text class="none" x="{left + _PANEL / 2}" y="{y + 4}">none</text>'
    x = left + estimate.value * _PANEL
    low = left + (estimate.value if estimate.low is None else estimate.low) * _PANEL
    high = left + (estimate.value if estimate.high is None else estimate.high) * _PANEL
    return (
        f'<g class="{mark}"><title>{words(estimate)}</title>'
        f'<path class="whisker" d="M{low:.1f} {y}H{high:.1f}M{low:.1f} {y - 4}v8M{high:.1f} {y - 4}v8"/>'
        f"{_SHAPES[mark](x, y)}</g>"
    )


def _y(row: int) -> int:
    return _TOP + row * _ROW + _ROW // 2 - 4


def _diamond(x: float, y: int) -> str:
    return f'<path class="mark" d="M{x:.1f} {y - 7}l7 7l-7 7l-7 -7z"/>'


def _circle(x: float, y: int) -> str:
    return f'<circle class="mark" cx="{x:.1f}" cy="{y}" r="5"/>'


def _square(x: float, y: int) -> str:
    return f'<rect class="mark" x="{x - 4.5:.1f}" y="{y - 4.5}" width="9" height="9"/>'


_SHAPES: Final[dict[Mark, Callable[[float, int], str]]] = {
    "together": _diamond,
    "detector": _circle,
    "rule": _square,
}
