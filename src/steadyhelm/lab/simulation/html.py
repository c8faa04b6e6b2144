"""A simulation as one self-contained page, which loads nothing and runs nothing.

Everything an agent or a label says is escaped.
"""

from typing import Final

from steadyhelm.lab.evaluation.plots import Mark, Row, intervals
from steadyhelm.lab.simulation.simulation import Disturbed, SetSimulation, SimulationReport
from steadyhelm.lab.simulation.words import Section, head, sections
from steadyhelm.reports.pages import frame, table, words

_PANELS: Final = ("loops stopped", "loops reminded", "tokens saved", "healthy disturbed")
_FOUND: Final = '<span class="tag found">found</span>'
_STYLE: Final = """
svg .name{text-anchor:end}
svg .panel{text-anchor:middle;font-weight:600}
svg .tick{text-anchor:middle;fill:var(--quiet);font-size:11px}
svg .none{text-anchor:middle;fill:var(--quiet);font-style:italic}
.grid,.axis{stroke:var(--line);fill:none}
.whisker{stroke-width:1.5;fill:none;stroke:var(--ours)}
.mark{fill:var(--ours)}
th:first-child,td:first-child{position:sticky;left:0;background:var(--page)}
summary b{margin-right:.5rem}
.tag.found{color:var(--ours)}
"""


def page(report: SimulationReport) -> str:
    """The whole page."""
    troubles = "".join(
        f"<p><b>{words(why)}</b>, {times} times: figures are not complete.</p>"
        for why, times in report.troubles.items()
    )
    drawn = [*report.sets, report.together] if len(report.sets) > 1 else report.sets
    plot = intervals(
        _PANELS,
        [_row(one, "together" if one is report.together else "detector") for one in drawn],
        title="What the policy would have done, with intervals",
    )
    return frame(
        "Steadyhelm: had this policy been on",
        [
            f"<h1>Had this policy been on</h1><p>{words(head(report))}</p>{troubles}",
            f'<div class="scroll">{plot}</div>',
            *(_section(section) for section in sections(report)),
            *_list(report.disturbed),
        ],
        style=_STYLE,
    )


def _row(one: SetSimulation, mark: Mark) -> Row:
    healthy = one.succeeded or one.unjudged
    return Row(
        name=one.name,
        mark=mark,
        estimates=[
            one.loops.stopped.share,
            one.loops.reminded.share,
            one.tokens.share if one.tokens is not None else None,
            healthy.disturbed.share if healthy is not None else None,
        ],
    )


def _section(section: Section) -> str:
    rows = ((f"<td>{words(cell)}</td>" for cell in row) for row in section.rows)
    body = table(("", *section.titles), rows) if section.rows else ""
    notes = "".join(f"<p>{words(note)}</p>" for note in section.notes)
    return f"<h2>{words(section.name.capitalize())}</h2>{body}{notes}"


def _list(disturbed: list[Disturbed]) -> list[str]:
    if not disturbed:
        return []
    return [f"<h2>Healthy runs that would have been disturbed ({len(disturbed)})</h2>", *map(_one, disturbed)]


def _one(one: Disturbed) -> str:
    strongest = one.reached[-1].action.value if one.reached else "a call refused"
    told = [f"{it.at} {it.action} ({it.verdict}) by {it.by}: {it.message}" for it in one.reached] + [
        f"{it.at} refused ({it.verdict}): {it.message}" for it in one.refusals[:1]
    ]
    rows = (
        f"<td>{event.at}</td><td>{_FOUND if event.found else ''}</td><td>{words(event.what)}</td>"
        f'<td class="words">{words(event.said)}</td>'
        for event in one.events
    )
    return (
        f"<details><summary><b>{words(one.run_id)}</b> {words(one.set_name)}, {words(strongest)}</summary>"
        f"{''.join(f'<p>{words(line)}</p>' for line in told)}{table((), rows)}</details>"
    )
