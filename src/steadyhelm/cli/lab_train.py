"""`steadyhelm lab train`: learn what a user's reply says about the work before it."""

from pathlib import Path
from typing import Annotated

import typer

from steadyhelm.cli.output import USAGE, confirm, fail, print_json
from steadyhelm.reports.terminal import safe, say


def train(
    replies: Annotated[Path, typer.Argument(help="Labelled replies, JSON Lines.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the weights go; without it none are written.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without the leak check and the other ways of learning.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a file that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Learn the reply classifier and foresight, and say what they are worth on replies kept back.

    Takes some minutes; the same replies give the same weights.
    """
    from steadyhelm.lab.training.replies import read_replies
    from steadyhelm.lab.training.report import report_text
    from steadyhelm.lab.training.train import train as trained
    from steadyhelm.lab.training.train import write_weights

    if not replies.is_file():
        fail(f"there is no file {safe(replies)}.", USAGE)
    if output is not None and output.exists():
        confirm(f"{safe(output)} exists. Replace it?", yes=yes)
    report = trained(read_replies(replies), quick=quick)
    if as_json:
        print_json(
            {
                "replies": report.weights.replies,
                "projects": report.weights.projects,
                "drift_from": report.weights.drift_from,
                "figures": report.figures,
                "importances": report.importances,
                "leaks": report.leaks,
                "rivals": report.rivals,
            }
        )
    else:
        typer.echo(report_text(report), nl=False)
    if output is not None:
        say(f"Wrote {write_weights(report.weights, output)} bytes to {safe(output)}.")
