"""Render a simulation as one self-contained page, which loads nothing and runs nothing.

Everything an agent or a label says is escaped.
"""

from typing import Final

from steadyhelm.lab.evaluation.plots import Mark, PlotRow, draw_intervals
from steadyhelm.lab.simulation.report_text import build_sections, describe_replay
from steadyhelm.lab.simulation.simulate import DisturbedRun, SetSimulation, SimulationReport
from steadyhelm.reports.pages import render

_PANELS: Final = ("loops stopped", "loops reminded", "tokens saved", "healthy disturbed")


def render_simulation(report: SimulationReport) -> str:
    """Return the whole page."""
    drawn = [*report.sets, report.together] if len(report.sets) > 1 else report.sets
    plot = draw_intervals(
        _PANELS,
        [_build_plot_row(one, "together" if one is report.together else "detector") for one in drawn],
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


def _build_plot_row(one: SetSimulation, mark: Mark) -> PlotRow:
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
