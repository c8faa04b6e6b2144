"""Render an evaluation as one self-contained page: plots, tables, and the events behind every wrong run.

Everything an agent or a label says is escaped; the page loads nothing and runs nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from steadyhelm.lab.evaluation.evaluator import TOGETHER, Evaluation, Figures, SetReport
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.plots import Mark, PlotRow, draw_histogram, draw_intervals
from steadyhelm.reports.pages import render

if TYPE_CHECKING:
    from markupsafe import Markup

_TITLES: Final = (
    *("", "flagged", "precision", "recall", "F1", "balanced accuracy", "false alarms"),
    *("in time", "delay", "tokens after", "tokens saved"),
)
_PANELS: Final = {
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
        list(_PANELS.values()), [_build_plot_row(figures) for figures in one.figures], title=title
    )


def _describe_labels(one: SetReport) -> str:
    if not one.labelled:
        known = f"{one.runs} runs, none labelled: flagged runs are listed for review."
    else:
        known = f"{one.runs} runs, {one.labelled} labelled, {one.positive} of them positive."
    return known + (f" {one.broken} lines could not be read." if one.broken else "")


def _build_plot_row(figures: Figures) -> PlotRow:
    mark: Mark = "rule" if figures.is_rule else "together" if figures.finder == TOGETHER else "detector"
    return PlotRow(name=figures.finder, mark=mark, estimates=[figures.run_level.get(key) for key in _PANELS])


def _format_rows(one: SetReport) -> list[list[str]]:
    named = [(figures.finder, figures) for figures in one.figures]
    named += [(f"together, {group}", figures) for group, figures in one.by_group.items()]
    return [list(_format_cells(name, figures)) for name, figures in named]


def _format_cells(name: str, figures: Figures) -> Iterator[str]:
    level = figures.run_level
    delay = figures.delay
    yield name
    yield f"{figures.flagged} of {figures.runs}"
    for key in (*_PANELS, "false_alarms"):
        yield _format_estimate(level.get(key))
    yield _format_estimate(figures.in_time)
    yield "-" if delay is None else f"{delay.median:g} ({delay.low:g} to {delay.high:g})"
    yield f"{figures.tokens_after:,}" if figures.tokens_after else "-"
    yield "-" if figures.tokens_saved is None else f"{figures.tokens_saved:,}"


def _format_estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else str(estimate)
