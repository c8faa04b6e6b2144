"""Lab reports as plain text: tables and short lists, with hostile characters made harmless."""

from collections.abc import Iterator, Sequence
from typing import Final

from steadyhelm.lab.evaluation.comparison import Changed, Comparison
from steadyhelm.lab.evaluation.evaluation import Evaluation, Figures, Miss, SetReport
from steadyhelm.lab.evaluation.leaks import LeakReport
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.tables import table
from steadyhelm.reports.formats import printable

_MISSES: Final = 20
_TITLES: Final = (
    *("", "flagged", "precision", "recall", "F1", "balanced accuracy", "false alarms"),
    *("delay", "tokens after"),
)


def evaluation_text(evaluation: Evaluation, *, most: int = _MISSES) -> str:
    """The whole evaluation; at most `most` wrong runs of a set are shown."""
    question = evaluation.question
    head = (
        f"Findings of kind {question.kind}, {question.severity} or above, against the label "
        f"{question.label!r}; 95% intervals from {evaluation.samples} resamples of runs, "
        f"seed {evaluation.seed}."
    )
    if question.adjacent:
        head += " A finding counts when its evidence holds the call just before it."
    troubles = [printable(f"{why}, {times} times") for why, times in evaluation.troubles.items()]
    return "\n\n".join([head, *troubles, *(part for one in evaluation.sets for part in _set(one, most))])


def set_summary(one: SetReport) -> str:
    """How many runs a set has, and what is known about them."""
    words = f"{one.name}: {one.runs} runs"
    words += (
        f", {one.labelled} labelled, {one.positive} of them positive" if one.labelled else ", none labelled"
    )
    return words + (f"; {one.broken} lines could not be read" if one.broken else "")


def comparison_text(comparison: Comparison) -> str:
    """What a change of settings would have done, set by set."""
    parts = [printable(f"{comparison.before} -> {comparison.after}")]
    for one in comparison.sets:
        rows = [
            ("flagged", *map(str, one.flagged)),
            ("tokens saved", *(f"{tokens:,}" for tokens in one.tokens_saved)),
        ]
        if one.f1 is not None:
            rows.append(("F1", *map(str, one.f1)))
        parts.append(printable(f"{one.name}: {one.runs} runs, {len(one.changed)} judged differently"))
        parts.append(table(("", "before", "after"), rows))
        changes = [_changed(change) for change in one.changed]
        if changes:
            parts.append(table(("change", "run", "before", "after", "label", "what was found"), changes))
    return "\n\n".join(parts)


def leak_text(reports: Sequence[LeakReport]) -> str:
    """What was shuffled, what came of it, and whether that is right."""
    parts = []
    for report in reports:
        rows = [
            (
                row.shuffled,
                "must matter" if row.must_matter else "must not matter",
                f"{row.runs_changed} of {row.runs}",
                _accuracy(row.before),
                _accuracy(row.after),
                row.verdict,
            )
            for row in report.rows
        ]
        titles = ("shuffled", "", "runs changed", "balanced accuracy", "after", "verdict")
        parts.append(f"{printable(report.name)}\n\n{table(titles, rows)}")
    return "\n\n".join(parts)


def _changed(change: Changed) -> tuple[str, ...]:
    label = {True: "positive", False: "clean", None: "-"}[change.expected]
    places = ("-" if at is None else str(at) for at in (change.before, change.after))
    return (change.change, change.run_id, *places, label, change.words)


def _accuracy(value: float | None) -> str:
    return str(Estimate(value=value)) if value is not None else "-"


def _set(one: SetReport, most: int) -> Iterator[str]:
    yield printable(set_summary(one))
    rows = [_row(figures.finder, figures) for figures in one.figures]
    rows += [_row(f"together, {group}", figures) for group, figures in one.by_group.items()]
    yield table(_TITLES, rows)
    stepped = [figures for figures in one.figures if figures.step_level]
    if stepped:
        titles = ("step by step", "precision", "recall", "F1")
        yield table(titles, [_step_row(figures) for figures in stepped])
    dated = [figures for figures in one.figures if figures.in_time is not None]
    if dated:
        yield table(("", "found in time"), [(figures.finder, str(figures.in_time)) for figures in dated])
    if not one.misses:
        return
    more = len(one.misses) - most
    shown = [_miss(miss) for miss in one.misses[:most]]
    rest = [f"  ... {more} not shown; --json and --html have all of them."] if more > 0 else []
    yield "\n".join([f"Where it was wrong ({len(one.misses)} runs):", *shown, *rest])


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    level = figures.run_level
    delay = figures.delay
    return (
        name,
        f"{figures.flagged} of {figures.runs}",
        *(
            _figure(level.get(key))
            for key in ("precision", "recall", "f1", "balanced_accuracy", "false_alarms")
        ),
        "-" if delay is None else f"{delay.median:g} ({delay.low:g} to {delay.high:g})",
        _tokens(figures),
    )


def _tokens(figures: Figures) -> str:
    words = f"{figures.tokens_after:,}" if figures.tokens_after else "-"
    return words if figures.tokens_saved is None else f"{words}, saved {figures.tokens_saved:,}"


def _step_row(figures: Figures) -> tuple[str, ...]:
    return (figures.finder, *(_figure(figures.step_level[key]) for key in ("precision", "recall", "f1")))


def _figure(estimate: Estimate | None) -> str:
    return "-" if estimate is None else str(estimate)


def _miss(miss: Miss) -> str:
    found = ", ".join(f"{finding.at} {finding.detector} {finding.severity}" for finding in miss.found[:4])
    tier = f" [{miss.group}]" if miss.group else ""
    lines = [f"  {miss.run_id}{tier}: {miss.wrong}; expected {miss.expected}; found {found or 'nothing'}"]
    for event in miss.events:
        marks = ("L" if event.labelled else " ") + ("F" if event.found else " ")
        lines.append(f"    {marks} {event.at:>4} {event.what}: {event.said}")
    return "\n".join(map(printable, lines))
