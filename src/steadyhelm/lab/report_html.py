"""Render an evaluation or a simulation as one self-contained page: plots, tables, and the events behind them.

Everything an agent or a label says is escaped; the page loads nothing and runs nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from steadyhelm.lab.evaluation.evaluator import TOGETHER, Evaluation, Figures, SetReport
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.simulation.report_text import build_sections, describe_replay
from steadyhelm.lab.simulation.simulate import DisturbedRun, SetSimulation, SimulationReport
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
    counts = Counter((value - first) // size for value in values)
    bins = [counts[place] for place in range(max(counts) + 1)]
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


_TITLES: Final = (
    *("", "flagged", "precision", "recall", "F1", "balanced accuracy", "false alarms"),
    *("in time", "delay", "tokens after", "tokens after a stop or re-plan, at most"),
)
_EVALUATION_PANELS: Final = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
}


def render_evaluation(evaluation: Evaluation) -> str:
    """Return the whole page."""
    rendered = render(
        "evaluation.html",
        question=evaluation.question,
        samples=evaluation.samples,
        seed=evaluation.seed,
        troubles=evaluation.troubles,
        sets=[_describe_set(one) for one in evaluation.sets],
    )
    return f"{rendered}\n"


def _describe_set(one: SetReport) -> dict[str, object]:
    """Return what the template shows of one set of runs."""
    delay = one.figures[0].delay
    return {
        "name": one.name,
        "known": _describe_labels(one),
        "plot": _draw_figures(one) if one.labelled else "",
        "titles": _TITLES,
        "figures": _format_rows(one),
        "steps": [
            (figures.finder, *(str(figures.step_level[key]) for key in ("precision", "recall", "f1")))
            for figures in one.figures
            if figures.step_level
        ],
        "delay": draw_histogram(
            delay.values, title=f"Delay on {one.name}", axis="entries after the label; below 0: before it"
        )
        if delay is not None
        else "",
        "misses": one.misses,
    }


def _draw_figures(one: SetReport) -> "Markup":
    title = f"Figures on {one.name} with their intervals"
    return draw_intervals(
        list(_EVALUATION_PANELS.values()),
        [_build_evaluation_row(figures) for figures in one.figures],
        title=title,
    )


def _describe_labels(one: SetReport) -> str:
    if not one.labelled:
        known = f"{one.runs} runs, none labelled: flagged runs are listed for review."
    else:
        known = f"{one.runs} runs, {one.labelled} labelled, {one.positive} of them positive."
    return known + (f" {one.broken} lines could not be read." if one.broken else "")


def _build_evaluation_row(figures: Figures) -> PlotRow:
    mark: Mark = "rule" if figures.is_rule else "together" if figures.finder == TOGETHER else "detector"
    return PlotRow(
        name=figures.finder, mark=mark, estimates=[figures.run_level.get(key) for key in _EVALUATION_PANELS]
    )


def _format_rows(one: SetReport) -> list[list[str]]:
    named = [(figures.finder, figures) for figures in one.figures]
    named += [(f"together, {group}", figures) for group, figures in one.by_group.items()]
    return [list(_format_cells(name, figures)) for name, figures in named]


def _format_cells(name: str, figures: Figures) -> Iterator[str]:
    level = figures.run_level
    delay = figures.delay
    yield name
    yield f"{figures.flagged} of {figures.runs}"
    for key in (*_EVALUATION_PANELS, "false_alarms"):
        yield _format_estimate(level.get(key))
    yield _format_estimate(figures.in_time)
    yield "-" if delay is None else f"{delay.median:g} ({delay.low:g} to {delay.high:g})"
    yield f"{figures.tokens_after:,}" if figures.tokens_after else "-"
    yield "-" if figures.tokens_saved is None else f"{figures.tokens_saved:,}"


def _format_estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else str(estimate)


_SIMULATION_PANELS: Final = (
    "loops stopped",
    "loops reminded",
    "tokens after a stop, at most",
    "healthy disturbed",
)


def render_simulation(report: SimulationReport) -> str:
    """Return the whole page."""
    drawn = [*report.sets, report.together] if len(report.sets) > 1 else report.sets
    plot = draw_intervals(
        _SIMULATION_PANELS,
        [_build_simulation_row(one, "together" if one is report.together else "detector") for one in drawn],
        title="What the policy would have done, with intervals",
    )
    rendered = render(
        "simulation.html",
        head=describe_replay(report),
        troubles=report.troubles,
        plot=plot,
        sections=list(build_sections(report)),
        disturbed=[_describe_disturbed(one) for one in report.disturbed],
    )
    return f"{rendered}\n"


def _build_simulation_row(one: SetSimulation, mark: Mark) -> PlotRow:
    healthy = one.succeeded or one.unjudged
    return PlotRow(
        name=one.name,
        mark=mark,
        estimates=[
            one.loops.stopped.share,
            one.loops.reminded.share,
            one.tokens.share if one.tokens is not None else None,
            healthy.disturbed.share if healthy is not None else None,
        ],
    )


def _describe_disturbed(one: DisturbedRun) -> dict[str, object]:
    """Return what the template shows of one healthy run that would have been disturbed."""
    responses = [f"{it.at} {it.action} ({it.verdict}) by {it.by}: {it.message}" for it in one.reached] + [
        f"{it.at} blocked ({it.verdict}): {it.message}" for it in one.refusals[:1]
    ]
    return {
        "run_id": one.run_id,
        "set_name": one.set_name,
        "strongest": one.reached[-1].action.value if one.reached else "a call blocked",
        "responses": responses,
        "events": one.events,
    }
