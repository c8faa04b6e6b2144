"""An evaluation as one self-contained page: plots, tables, and the events behind every mistake.

Everything an agent or a label says is escaped; the page loads nothing and runs nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from steadyhelm.lab.evaluation.evaluation import TOGETHER, Evaluation, Figures, Miss, SetReport
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.plots import Mark, Row, histogram, intervals
from steadyhelm.reports.pages import frame, table, words

_PANELS: Final = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
}

_LEGEND: Final = (
    '<p class="quiet legend"><span>◆ all detectors together</span><span>● one detector</span>'
    "<span>□ simple rule</span></p>"
)
_STYLE: Final = """
svg .name{text-anchor:end}
svg .panel{text-anchor:middle;font-weight:600}
svg .tick{text-anchor:middle;fill:var(--quiet);font-size:11px}
svg .axisname{fill:var(--quiet)}
svg .none{text-anchor:middle;fill:var(--quiet);font-style:italic}
.grid,.axis{stroke:var(--line);fill:none}
.whisker{stroke-width:1.5;fill:none}
.together .whisker,.detector .whisker{stroke:var(--ours)}
.rule .whisker{stroke:var(--other);stroke-dasharray:3 2}
.together .mark,.detector .mark,.bar{fill:var(--ours)}
.rule .mark{fill:var(--page);stroke:var(--other);stroke-width:2}
th:first-child,.figures td:first-child{position:sticky;left:0;background:var(--page)}
summary b{margin-right:.5rem}
.tag.label{color:var(--other);border-style:dashed}
.tag.found{color:var(--ours)}
"""


def page(evaluation: Evaluation) -> str:
    """The whole page."""
    question = evaluation.question
    head = (
        f"Findings of kind <b>{words(question.kind)}</b>, {words(question.severity)} or above, against the "
        f"label <b>{words(question.label)}</b>."
    )
    if question.adjacent:
        head += " A finding counts when its evidence holds the call just before it."
    how = (
        f"Whiskers hold 95 of 100 cases ({evaluation.samples} resamples of runs, seed {evaluation.seed}). "
        "Delay is counted in entries, from the labelled one to the one at which it was found."
    )
    troubles = "".join(
        f"<p><b>{words(why)}</b>, {times} times: figures are not complete.</p>"
        for why, times in evaluation.troubles.items()
    )
    return frame(
        "Steadyhelm lab",
        [
            f'<h1>Steadyhelm lab</h1><p>{head}</p><p class="quiet">{how}</p>{_LEGEND}{troubles}',
            *(_set(one) for one in evaluation.sets),
        ],
        style=_STYLE,
    )


def _set(one: SetReport) -> str:
    parts = [f"<h2>{words(one.name)}</h2>", f"<p>{words(_known(one))}</p>"]
    if one.labelled:
        title = f"Figures on {one.name} with their intervals"
        plot = intervals(list(_PANELS.values()), [_row(f) for f in one.figures], title=title)
        parts.append(f'<div class="scroll">{plot}</div>')
    parts.append(_figures_table(one))
    stepped = [figures for figures in one.figures if figures.step_level]
    if stepped:
        parts.append("<h3>Step by step</h3>")
        titles = ("", "precision", "recall", "F1")
        rows = [
            (f.finder, *(str(f.step_level[key]) for key in ("precision", "recall", "f1"))) for f in stepped
        ]
        parts.append(_table(titles, rows))
    delay = one.figures[0].delay
    if delay is not None:
        plot = histogram(
            delay.values,
            title=f"Delay on {one.name}",
            axis="entries after the label; below 0: before it",
        )
        parts.append(f'<h3>Delay of all detectors together</h3><div class="scroll">{plot}</div>')
    if one.misses:
        parts.append(f"<h3>Where it was wrong ({len(one.misses)})</h3>")
        parts += [_miss(miss) for miss in one.misses]
    return "".join(parts)


def _known(one: SetReport) -> str:
    if not one.labelled:
        known = f"{one.runs} runs, none labelled: what is flagged is listed, for people to judge."
    else:
        known = f"{one.runs} runs, {one.labelled} labelled, {one.positive} of them positive."
    return known + (f" {one.broken} lines could not be read." if one.broken else "")


def _row(figures: Figures) -> Row:
    mark: Mark = "rule" if figures.is_rule else "together" if figures.finder == TOGETHER else "detector"
    return Row(name=figures.finder, mark=mark, estimates=[figures.run_level.get(key) for key in _PANELS])


def _figures_table(one: SetReport) -> str:
    titles = (
        *("", "flagged", "precision", "recall", "F1", "balanced accuracy", "false alarms"),
        *("in time", "delay", "tokens after", "tokens saved"),
    )
    named = [(figures.finder, figures) for figures in one.figures]
    named += [(f"together, {group}", figures) for group, figures in one.by_group.items()]
    return _table(titles, [_cells(name, figures) for name, figures in named])


def _cells(name: str, figures: Figures) -> Iterator[str]:
    level = figures.run_level
    delay = figures.delay
    yield name
    yield f"{figures.flagged} of {figures.runs}"
    for key in (*_PANELS, "false_alarms"):
        yield _shown(level.get(key))
    yield _shown(figures.in_time)
    yield "-" if delay is None else f"{delay.median:g} ({delay.low:g} to {delay.high:g})"
    yield f"{figures.tokens_after:,}" if figures.tokens_after else "-"
    yield "-" if figures.tokens_saved is None else f"{figures.tokens_saved:,}"


def _shown(estimate: Estimate | None) -> str:
    return "-" if estimate is None else str(estimate)


def _table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return table(titles, ((f"<td>{words(cell)}</td>" for cell in row) for row in rows), kind="figures")


def _miss(miss: Miss) -> str:
    tier = f" ({miss.group})" if miss.group else ""
    head = (
        f"<summary><b>{words(miss.run_id)}</b>{words(tier)} {words(miss.wrong)}; "
        f"expected {words(miss.expected)}</summary>"
    )
    found = "".join(
        f"<p>{finding.at}: {words(finding.detector)} {finding.severity}, {words(finding.message)}</p>"
        for finding in miss.found[:3]
    )
    if len(miss.found) > 3:  # noqa: PLR2004 - as many as are shown
        found += f'<p class="quiet">and {len(miss.found) - 3} more findings</p>'
    rows = (
        f"<td>{event.at}</td><td>{_tags(labelled=event.labelled, found=event.found)}</td>"
        f'<td>{words(event.what)}</td><td class="words">{words(event.said)}</td>'
        for event in miss.events
    )
    return f"<details>{head}{found}{table((), rows)}</details>"


def _tags(*, labelled: bool, found: bool) -> str:
    return ('<span class="tag label">label</span>' if labelled else "") + (
        '<span class="tag found">found</span>' if found else ""
    )
