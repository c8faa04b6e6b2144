"""Lay out plots that are drawn as inline SVG: no scripts, nothing loaded, shapes as well as colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.reports.pages import render

if TYPE_CHECKING:
    from markupsafe import Markup

Mark = Literal["together", "detector", "rule"]

_ROW_HEIGHT: Final = 26
_NAMES_WIDTH: Final = 190
_PANEL_WIDTH: Final = 150
_PANEL_GAP: Final = 26
_TOP: Final = 34
_BAR_PITCH: Final = 22
_BARS_HEIGHT: Final = 120
_MAX_BARS: Final = 24


class PlotRow(Struct, frozen=True, kw_only=True):
    """One row of an interval plot: a name, its mark, and an estimate for each panel."""

    name: str
    mark: Mark
    estimates: list[Estimate | None]


class _PlotMark(NamedTuple):
    """An estimate as it is drawn; without a kind there is none."""

    y: int
    kind: Mark | Literal[""] = ""
    title: str = ""
    x: str = ""
    left: str = ""
    low: str = ""
    high: str = ""


class _PlotBar(NamedTuple):
    """One bar of a histogram."""

    x: int
    y: str
    middle: float
    height: str
    label_y: str
    values: str
    times: int
    tick: str


def draw_intervals(panels: Sequence[str], rows: Sequence[PlotRow], *, title: str) -> "Markup":
    """Return a plot of estimates from 0 to 1 with their intervals: a panel a figure, a line a finder."""
    plot = {
        "width": _NAMES_WIDTH + len(panels) * (_PANEL_WIDTH + _PANEL_GAP),
        "height": _TOP + len(rows) * _ROW_HEIGHT + 24,
        "title": title,
        "top": _TOP,
        "bottom": _TOP + len(rows) * _ROW_HEIGHT,
        "panels": [_lay_out_panel(column, name, rows) for column, name in enumerate(panels)],
        "names": [
            {"text": row.name, "x": _NAMES_WIDTH - 14, "y": _row_y(i) + 4} for i, row in enumerate(rows)
        ],
    }
    return render("intervals.html", plot=plot)


def draw_histogram(values: Sequence[int], *, title: str, axis: str) -> "Markup":
    """Return a plot of how often each value came; far values share a bar with their neighbours."""
    size = max(1, -(-(max(values) - min(values) + 1) // _MAX_BARS))
    first = min(values) // size * size
    bins = [0] * ((max(values) - first) // size + 1)
    for value in values:
        bins[(value - first) // size] += 1
    plot = {
        "width": max(360, 60 + len(bins) * _BAR_PITCH),
        "height": _BARS_HEIGHT + 64,
        "title": title,
        "axis": axis,
        "base": 20 + _BARS_HEIGHT,
        "right": 40 + len(bins) * _BAR_PITCH,
        "bar_width": _BAR_PITCH - 4,
        "bars": [_lay_out_bar(i, bins, first + i * size, size) for i in range(len(bins))],
    }
    return render("histogram.html", plot=plot)


def _lay_out_bar(i: int, bins: Sequence[int], start: int, size: int) -> _PlotBar:
    left = 40 + i * _BAR_PITCH
    tall = bins[i] / max(bins) * _BARS_HEIGHT
    return _PlotBar(
        x=left,
        y=f"{20 + _BARS_HEIGHT - tall:.1f}",
        middle=left + _BAR_PITCH / 2 - 2,
        height=f"{tall:.1f}",
        label_y=f"{14 + _BARS_HEIGHT - tall:.1f}",
        values=f"{start}" if size == 1 else f"{start} to {start + size - 1}",
        times=bins[i],
        tick=str(start) if len(bins) <= _MAX_BARS // 2 or i % 4 == 0 else "",
    )


def _lay_out_panel(column: int, name: str, rows: Sequence[PlotRow]) -> dict[str, object]:
    left = _NAMES_WIDTH + column * (_PANEL_WIDTH + _PANEL_GAP)
    return {
        "name": name,
        "middle": left + _PANEL_WIDTH / 2,
        "ticks": [
            {"x": f"{left + tick * _PANEL_WIDTH:.1f}", "label": f"{tick:g}"} for tick in (0.0, 0.5, 1.0)
        ],
        "marks": [_lay_out_mark(left, i, row.mark, row.estimates[column]) for i, row in enumerate(rows)],
    }


def _lay_out_mark(left: int, row: int, kind: Mark, estimate: Estimate | None) -> _PlotMark:
    if estimate is None or estimate.value is None:
        return _PlotMark(_row_y(row))
    x = left + estimate.value * _PANEL_WIDTH
    low = left + (estimate.value if estimate.low is None else estimate.low) * _PANEL_WIDTH
    high = left + (estimate.value if estimate.high is None else estimate.high) * _PANEL_WIDTH
    return _PlotMark(
        _row_y(row),
        kind=kind,
        title=str(estimate),
        x=f"{x:.1f}",
        left=f"{x - 4.5:.1f}",
        low=f"{low:.1f}",
        high=f"{high:.1f}",
    )


def _row_y(row: int) -> int:
    return _TOP + row * _ROW_HEIGHT + _ROW_HEIGHT // 2 - 4
