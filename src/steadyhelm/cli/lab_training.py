"""`steadyhelm lab train` and `lab apply`: learn from labelled replies, and apply a forest to runs."""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from steadyhelm.cli.lab_sets import Paths, get_exit_status, read_run_sets
from steadyhelm.cli.output import (
    EXIT_FLAGGED,
    EXIT_USAGE,
    AsJson,
    Yes,
    confirm_replacing,
    fail,
    print_json,
    print_table,
)
from steadyhelm.reports.formats import pluralize, step_number
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steadyhelm.lab.training.labelled_replies import LabelledReply
    from steadyhelm.lab.training.session_forest import DriftForest, JudgedTurn
    from steadyhelm.lab.training.train import TrainingReport
    from steadyhelm.lab.training.tree_training import TreeReport
    from steadyhelm.recordings.run_file import ReadRun
    from steadyhelm.reports.evidence import EvidenceFormatter

_TITLES: Final = ("run", "agent", "turns", "likely corrected", "highest", "step", "the user said")
_TREE_COUNT: Final = 200
_MAX_SHOWN_CHARS: Final = 80
_WORDS_IN_JSON: Final = 500


class ModelKind(enum.StrEnum):
    """The models that can be trained."""

    LINEAR = "linear"
    TREE = "tree"


def train(
    replies: Annotated[Path, typer.Argument(metavar="REPLIES", help="Labelled replies, JSON Lines.")],
    model: Annotated[
        ModelKind,
        typer.Option("--model", help="linear: the reply classifier; tree: a forest over sessions."),
    ] = ModelKind.LINEAR,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model to this file.")
    ] = None,
    trees: Annotated[
        int, typer.Option("--trees", min=1, max=2000, help="How many trees a forest has.")
    ] = _TREE_COUNT,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without the leak check and the other learners.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Train the reply classifier, or a forest over sessions. Prints its figures on held-out replies.

    Takes some minutes; the same replies lead to the same model. Exit status: 0, or 3 when a forest's leak
    check fails.
    """
    from steadyhelm.lab.training.labelled_replies import read_replies

    if not replies.is_file():
        fail(f"there is no file {safe(replies)}.", EXIT_USAGE)
    confirm_replacing(output, yes=yes)
    known = read_replies(replies)
    if model is ModelKind.TREE:
        _train_tree(known, output, trees=trees, quick=quick, as_json=as_json)
    else:
        _train_linear(known, output, quick=quick, as_json=as_json)


def _train_linear(
    replies: "Sequence[LabelledReply]", output: Path | None, *, quick: bool, as_json: bool
) -> None:
    from steadyhelm.lab.training.train import format_report, write_weights
    from steadyhelm.lab.training.train import train as run_training

    report = run_training(replies, quick=quick)
    if as_json:
        print_json(_linear_to_data(report))
    else:
        typer.echo(format_report(report), nl=False)
    if output is not None:
        say(f"Wrote {write_weights(report.weights, output)} bytes to {safe(output)}.")


def _linear_to_data(report: "TrainingReport") -> dict[str, Any]:
    return {
        "replies": report.weights.replies,
        "projects": report.weights.projects,
        "drift_from": report.weights.drift_from,
        "figures": report.figures,
        "importances": report.importances,
        "leaks": report.leaks,
        "alternatives": report.alternatives,
    }


def _train_tree(
    replies: "Sequence[LabelledReply]", output: Path | None, *, trees: int, quick: bool, as_json: bool
) -> None:
    from steadyhelm.lab.training.session_forest import write_forest
    from steadyhelm.lab.training.tree_training import format_tree_report, train_tree

    report = train_tree(replies, quick=quick, trees=trees)
    if as_json:
        print_json(_tree_to_data(report))
    else:
        typer.echo(format_tree_report(report), nl=False)
    if output is not None:
        say(f"Wrote {write_forest(report.forest, output):,} bytes to {safe(output)}.")
    if not report.is_clean:
        raise typer.Exit(EXIT_FLAGGED)


def _tree_to_data(report: "TreeReport") -> dict[str, Any]:
    forest = report.forest
    return {
        "replies": forest.replies,
        "sessions": forest.sessions,
        "projects": forest.projects,
        "trees": len(forest.trees),
        "features": forest.features,
        "drift_from": forest.drift_from,
        "figures": report.figures,
        "singles": report.singles,
        "leaks": report.leaks,
        "is_clean": report.is_clean,
    }


def apply_model(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `lab train --model tree` wrote.")],
    paths: Paths,
    as_json: AsJson = False,
) -> None:
    """Apply a forest to recorded runs. Lists the turns that the user most likely corrected.

    It reads the user's reply to a turn, so it judges afterwards; no detector uses it.
    """
    from steadyhelm.components import make_redactor
    from steadyhelm.lab.training.session_forest import judge_turns, read_forest
    from steadyhelm.reports.evidence import EvidenceFormatter

    forest = read_forest(model)
    sets = read_run_sets(paths)
    evidence = EvidenceFormatter(make_redactor(context.obj.load().settings))
    judged = [(run, judge_turns(run.events, forest)) for one in sets for run in one.runs]
    if as_json:
        runs = [_to_data(run, turns, evidence) for run, turns in judged]
        print_json({"drift_from": forest.drift_from, "runs": runs})
    else:
        judged.sort(key=lambda it: -max((turn.probability for turn in it[1]), default=0.0))
        rows = [_format_row(run, turns, evidence) for run, turns in judged if turns]
        print_table(
            _TITLES, rows, empty="No user replied to an agent in these runs: there is nothing to judge."
        )
        say(_summarize([turns for _, turns in judged], forest))
    raise typer.Exit(get_exit_status(sets))


def _to_data(run: "ReadRun", turns: "list[JudgedTurn]", evidence: "EvidenceFormatter") -> dict[str, Any]:
    shown = [
        {**msgspec.to_builtins(turn), "said": evidence.redact(run.events[turn.place].text, _WORDS_IN_JSON)}
        for turn in turns
    ]
    return {"run_id": run.info.run_id, "agent_id": run.info.agent_id, "turns": shown}


def _format_row(run: "ReadRun", turns: "list[JudgedTurn]", evidence: "EvidenceFormatter") -> tuple[Any, ...]:
    from steadyhelm.reports.evidence import get_agent_name

    highest = max(turns, key=lambda turn: turn.probability)
    return (
        safe(run.info.run_id),
        safe(get_agent_name(run), most=24) or "-",
        len(turns),
        sum(turn.is_drift for turn in turns) or "-",
        f"{highest.probability:.2f}",
        step_number(highest.place),
        evidence.redact(run.events[highest.place].text, _MAX_SHOWN_CHARS),
    )


def _summarize(judged: "list[list[JudgedTurn]]", forest: "DriftForest") -> str:
    turns = [turn for one in judged for turn in one]
    drift = sum(turn.is_drift for turn in turns)
    told = f"{pluralize(len(judged), 'run')}, {pluralize(len(turns), 'turn')} with a reply"
    return f"{told}: {drift:,} likely corrected (probability {forest.drift_from:.2f} or more)."
