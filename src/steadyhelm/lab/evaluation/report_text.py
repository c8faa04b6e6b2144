"""Format lab reports as plain text: tables and short lists, with control characters escaped."""

from collections.abc import Iterator, Sequence
from typing import Final

from steadyhelm.lab.evaluation.comparison import Comparison, JudgementChange, SetComparison
from steadyhelm.lab.evaluation.evaluator import Evaluation, Figures, SetReport, WrongRun
from steadyhelm.lab.evaluation.leak_check import ShuffleReport, ShuffleRow
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.reports.formats import make_printable

_MAX_WRONG_RUNS: Final = 20
_TITLES: Final = (
    *("", "flagged", "precision", "recall", "F1", "balanced accuracy", "false alarms"),
    *("delay", "tokens after"),
)


def format_evaluation(evaluation: Evaluation, *, most: int = _MAX_WRONG_RUNS) -> str:
    """Return the whole evaluation; at most `most` wrong runs of a set are shown."""
    question = evaluation.question
    head = (
        f"Findings of kind {question.kind}, {question.severity} or above, against the label "
        f"{question.label!r}; 95% intervals from {evaluation.samples} resamples of runs, "
        f"seed {evaluation.seed}."
    )
    if question.adjacent:
        head += " A finding counts when its evidence holds the call just before it."
    troubles = [make_printable(f"{why}, {times} times") for why, times in evaluation.troubles.items()]
    return "\n\n".join(
        [head, *troubles, *(part for one in evaluation.sets for part in _format_set(one, most))]
    )


def summarise_set(one: SetReport) -> str:
    """Return how many runs a set has and how many are labelled."""
    words = f"{one.name}: {one.runs} runs"
    words += (
        f", {one.labelled} labelled, {one.positive} of them positive" if one.labelled else ", none labelled"
    )
    return words + (f"; {one.broken} lines could not be read" if one.broken else "")


def format_comparison(comparison: Comparison) -> str:
    """Return the effect of a change of settings, set by set."""
    parts = [make_printable(f"{comparison.before} -> {comparison.after}")]
    for one in comparison.sets:
        parts.append(make_printable(f"{one.name}: {one.runs} runs, {len(one.changed)} judged differently"))
        parts.append(format_table(("", "before", "after"), list(_list_figures(one))))
        changes = [_format_change(change) for change in one.changed]
        if changes:
            parts.append(format_table(("change", "run", "before", "after", "label", "finding"), changes))
    return "\n\n".join(parts)


def _list_figures(one: SetComparison) -> Iterator[tuple[str, ...]]:
    """Yield each figure of a set with its value before and after."""
    yield "flagged", *map(str, one.flagged)
    yield "tokens spent after a stop or re-plan, at most", *(f"{tokens:,}" for tokens in one.tokens_saved)
    if one.f1 is not None:
        yield "F1", *map(str, one.f1)


def format_leak_reports(reports: Sequence[ShuffleReport]) -> str:
    """Return what was shuffled, what changed, and whether that is right."""
    parts = []
    for report in reports:
        titles = ("shuffled", "", "runs changed", "balanced accuracy", "after", "verdict")
        table = format_table(titles, [_format_shuffle(row) for row in report.rows])
        parts.append(f"{make_printable(report.name)}\n\n{table}")
    return "\n\n".join(parts)


def _format_change(change: JudgementChange) -> tuple[str, ...]:
    label = {True: "positive", False: "clean", None: "-"}[change.expected]
    places = ("-" if at is None else str(at) for at in (change.before, change.after))
    return (change.change, change.run_id, *places, label, change.words)


def _format_accuracy(value: float | None) -> str:
    return str(Estimate(value=value)) if value is not None else "-"


def _format_shuffle(row: ShuffleRow) -> tuple[str, ...]:
    return (
        row.shuffled,
        "must matter" if row.must_matter else "must not matter",
        f"{row.runs_changed} of {row.runs}",
        _format_accuracy(row.before),
        _format_accuracy(row.after),
        row.verdict,
    )


def _format_set(one: SetReport, most: int) -> Iterator[str]:
    yield make_printable(summarise_set(one))
    rows = [_format_figures(figures.finder, figures) for figures in one.figures]
    rows += [_format_figures(f"together, {group}", figures) for group, figures in one.by_group.items()]
    yield format_table(_TITLES, rows)
    stepped = [figures for figures in one.figures if figures.step_level]
    if stepped:
        titles = ("step by step", "precision", "recall", "F1")
        yield format_table(titles, [_format_step_figures(figures) for figures in stepped])
    dated = [figures for figures in one.figures if figures.in_time is not None]
    if dated:
        yield format_table(
            ("", "found in time"), [(figures.finder, str(figures.in_time)) for figures in dated]
        )
    if one.misses:
        yield "\n".join(_format_misses(one.misses, most))


def _format_misses(misses: Sequence[WrongRun], most: int) -> Iterator[str]:
    yield f"Judged wrongly ({len(misses)} runs):"
    yield from map(_format_wrong_run, misses[:most])
    if len(misses) > most:
        yield f"  ... {len(misses) - most} not shown; --json and --html have all of them."


def _format_figures(name: str, figures: Figures) -> tuple[str, ...]:
    level = figures.run_level
    delay = figures.delay
    return (
        name,
        f"{figures.flagged} of {figures.runs}",
        *(
            _format_estimate(level.get(key))
            for key in ("precision", "recall", "f1", "balanced_accuracy", "false_alarms")
        ),
        "-" if delay is None else f"{delay.median:g} ({delay.low:g} to {delay.high:g})",
        _format_tokens(figures),
    )


def _format_tokens(figures: Figures) -> str:
    words = f"{figures.tokens_after:,}" if figures.tokens_after else "-"
    return (
        words
        if figures.tokens_saved is None
        else f"{words}, after a stop or re-plan {figures.tokens_saved:,}"
    )


def _format_step_figures(figures: Figures) -> tuple[str, ...]:
    return (
        figures.finder,
        *(_format_estimate(figures.step_level[key]) for key in ("precision", "recall", "f1")),
    )


def _format_estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else str(estimate)


def _format_wrong_run(miss: WrongRun) -> str:
    found = ", ".join(f"{finding.at} {finding.detector} {finding.severity}" for finding in miss.found[:4])
    tier = f" [{miss.group}]" if miss.group else ""
    lines = [f"  {miss.run_id}{tier}: {miss.wrong}; expected {miss.expected}; found {found or 'nothing'}"]
    for event in miss.events:
        marks = ("L" if event.labelled else " ") + ("F" if event.found else " ")
        lines.append(f"    {marks} {event.at:>4} {event.what}: {event.said}")
    return "\n".join(map(make_printable, lines))


def format_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under their titles, each column as wide as its widest cell."""
    cells = [list(titles), *([make_printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
