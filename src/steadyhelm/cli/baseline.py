"""`steadyhelm baseline`: list, show, freeze, reset, export and import what is normal for an agent."""

import math
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.cli.context import AgentArgument, AgentCommand, find_agent
from steadyhelm.cli.output import (
    AsJson,
    Yes,
    confirm,
    confirm_replacing,
    print_json,
    print_table,
    read_small_file,
    refuse_early_options,
    write_private_file,
)
from steadyhelm.errors import FormatError, NotFoundError
from steadyhelm.reports.formats import format_count, format_duration, pluralize
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from steadyhelm.baselines import Trend
    from steadyhelm.store import Store

app = typer.Typer(help="Show, freeze, reset or copy what is normal for each agent.", rich_markup_mode=None)

_TITLES: Final = ("agent", "version", "task", "state", "tokens p50/p95", "tool calls", "duration")
_MEASURES: Final = (("tokens", "tokens"), ("tools", "tool calls"), ("duration_ms", "duration"))

_KEEP_HINT: Final = (
    "What a run usually takes is learnt from the runs stored here, and there are {runs}: "
    "the next clean run replaces the imported figures. To keep them: {command}"
)

Version = Annotated[str | None, typer.Option("--version", help="The agent's version.")]
Task = Annotated[str | None, typer.Option("--task", help="The type of task.")]


@app.callback(invoke_without_command=True)
def _baseline(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_baselines(context, as_json)
    elif as_json:
        refuse_early_options(context)


@app.command("list")
def list_baselines(context: typer.Context, as_json: AsJson = False) -> None:
    """List every baseline, with how far it has learnt."""
    with closing(context.obj.open_store()) as store:
        found = store.list_baselines()
    if as_json:
        print_json({"baselines": [_to_data(baseline) for baseline in found]})
        return
    print_table(
        _TITLES,
        [_format_row(baseline) for baseline in found],
        empty="No baseline yet. It is learnt from runs that end without an incident.",
    )


@app.command("show", cls=AgentCommand)
def show_baseline(
    context: typer.Context,
    agent: AgentArgument,
    version: Version = None,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Show what is normal for an agent, and what is not checked yet."""
    with closing(context.obj.open_store()) as store:
        found = _find_baselines(store, agent, version, task)
    if as_json:
        print_json({"baselines": [_to_data(baseline) for baseline in found]})
        return
    for baseline in found:
        _print_baseline(context, baseline)


@app.command("freeze", cls=AgentCommand)
def freeze(context: typer.Context, agent: AgentArgument, version: Version = None, task: Task = None) -> None:
    """Freeze a baseline: it learns nothing more."""
    baseline = _set_frozen(context, agent, version, task, is_frozen=True)
    say(
        f"The baseline of {_name(baseline)} is {baseline.progress}. "
        f"Undo: {_format_command(context, 'unfreeze', baseline)}"
    )
    if not baseline.is_calibrated:
        say(
            f"It is not calibrated: learnt from {baseline.calibration_runs} of {baseline.required_runs} runs."
        )


@app.command("unfreeze", cls=AgentCommand)
def unfreeze(
    context: typer.Context, agent: AgentArgument, version: Version = None, task: Task = None
) -> None:
    """Unfreeze a baseline: it learns again."""
    baseline = _set_frozen(context, agent, version, task, is_frozen=False)
    say(f"The baseline of {_name(baseline)} learns again: {baseline.progress}.")


@app.command("reset", cls=AgentCommand)
def reset(
    context: typer.Context, agent: AgentArgument, version: Version = None, task: Task = None, yes: Yes = False
) -> None:
    """Forget a baseline and learn it anew. Stored runs stay, but only new runs count."""
    with closing(context.obj.open_store(read_only=False)) as store:
        baseline = _find_baseline(store, agent, version, task)
        confirm(
            f"Forget the baseline of {_name(baseline)}, learnt from "
            f"{pluralize(baseline.calibration_runs, 'run')}?",
            yes=yes,
        )
        store.reset_baseline(baseline.agent_id, baseline.version, baseline.task_type)
    say(f"Reset. {_name(baseline)} is learning 0/{baseline.required_runs}.")


@app.command("export", cls=AgentCommand)
def export_baseline(
    context: typer.Context,
    agent: AgentArgument,
    version: Version = None,
    task: Task = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")] = None,
    yes: Yes = False,
) -> None:
    """Write a baseline as JSON, to a file or to standard output."""
    with closing(context.obj.open_store()) as store:
        baseline = _find_baseline(store, agent, version, task)
    if output is None:
        print_json(to_document(baseline))
        return
    confirm_replacing(output, yes=yes)
    write_baseline(output, baseline)
    say(f"Wrote the baseline of {_name(baseline)} to {output}.")


@app.command("import")
def import_baseline(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `baseline export` wrote.")],
    yes: Yes = False,
) -> None:
    """Import a baseline from a file. The file is one that `baseline export` wrote, and is checked first."""
    baseline = read_baseline(file)
    with closing(context.obj.open_store(read_only=False)) as store:
        before = store.get_baseline(baseline.agent_id, baseline.version, baseline.task_type)
        if before is not None:
            confirm(f"{_name(baseline)} has a baseline ({before.progress}). Replace it?", yes=yes)
        store.save_baseline(baseline, updated_at=time.time())
        known = store.list_run_summaries(
            baseline.agent_id, version=baseline.version, task_type=baseline.task_type
        )
    say(f"Imported the baseline of {_name(baseline)}: {baseline.progress}.")
    if not baseline.is_frozen and len(known) < min(baseline.calibration_runs, baseline.required_runs):
        say(_KEEP_HINT.format(runs=len(known), command=_format_command(context, "freeze", baseline)))


def _find_baselines(
    store: "Store", agent: str, version: str | None, task: str | None
) -> list["BaselineStats"]:
    name = find_agent(store, agent)
    found = [
        baseline
        for baseline in store.list_baselines(name)
        if version in (None, baseline.version) and task in (None, baseline.task_type)
    ]
    if found:
        return found
    narrowed = " of that version and task" if (version, task) != (None, None) else ""
    raise NotFoundError(
        f"There is no baseline of {safe(name)}{narrowed} yet: it begins with the first run that ends "
        "without an incident. `steadyhelm baseline list` lists all baselines."
    )


def _find_baseline(store: "Store", agent: str, version: str | None, task: str | None) -> "BaselineStats":
    found = _find_baselines(store, agent, version, task)
    if len(found) == 1:
        return found[0]
    names = "; ".join(f"--version {it.version!r} --task {it.task_type!r}" for it in found[:8])
    raise NotFoundError(f"{safe(found[0].agent_id)} has {len(found)} baselines. Name one: {safe(names)}")


def _set_frozen(
    context: typer.Context, agent: str, version: str | None, task: str | None, *, is_frozen: bool
) -> "BaselineStats":
    # Read and written in one transaction: a run that ends meanwhile must not be lost.
    with closing(context.obj.open_store(read_only=False)) as store, store.transaction():
        baseline = structs.replace(_find_baseline(store, agent, version, task), is_frozen=is_frozen)
        store.save_baseline(baseline, updated_at=time.time())
    return baseline


def _name(baseline: "BaselineStats") -> str:
    parts = [baseline.agent_id]
    parts += [f"version {baseline.version}"] if baseline.version else []
    parts += [f"task {baseline.task_type}"] if baseline.task_type else []
    return safe(", ".join(parts))


def _format_command(context: typer.Context, verb: str, baseline: "BaselineStats") -> str:
    words = f"{context.obj.command} baseline {verb} {baseline.agent_id}"
    words += f" --version {baseline.version}" if baseline.version else ""
    return safe(words + (f" --task {baseline.task_type}" if baseline.task_type else ""))


def _to_data(baseline: "BaselineStats") -> dict[str, Any]:
    known = baseline.to_dict()
    # Four thousand counters of hashed words are of no use on a screen; `baseline export` has them.
    del known["word_counts"]
    return {**known, "progress": baseline.progress, "not_checked": list_not_checked(baseline)}


def _format_row(baseline: "BaselineStats") -> tuple[str, ...]:
    usual = (_format_spread(baseline, key) for key, _ in _MEASURES)
    version, task = safe(baseline.version, most=20), safe(baseline.task_type, most=20)
    return (safe(baseline.agent_id, most=24), version or "-", task or "-", baseline.progress, *usual)


def _format_spread(baseline: "BaselineStats", key: str) -> str:
    spread = baseline.spreads.get(key)
    if spread is None or spread.p50 <= 0:
        return "-"
    return f"{_format_amount(key, spread.p50)} / {_format_amount(key, spread.p95)}"


def _format_amount(key: str, value: float) -> str:
    return format_duration(value / 1000) if key == "duration_ms" else format_count(value)


def _list_notes(context: typer.Context, baseline: "BaselineStats") -> Iterator[str]:
    """Yield what is known beside figures: the goal, common steps, and what cannot be checked yet."""
    from steadyhelm.goals.departure import find_limit

    if baseline.goal_peaks:
        limit = f"{find_limit(baseline.goal_peaks):.2f} at most"
        yield f"goal      drift {limit}, from {pluralize(len(baseline.goal_peaks), 'run')}"
    for sequence in baseline.common_sequences:
        yield f"common    {safe(' → '.join(sequence), most=100)}"
    if baseline.may_be_outdated:
        yield f"unusual   at least its latest {pluralize(baseline.unusual_runs, 'run')}"
        yield f"          If it has changed for good: {_format_command(context, 'reset', baseline)}"
    for detector, reason in list_not_checked(baseline).items():
        yield f"not yet   {detector}: {safe(reason)}"


def _print_baseline(context: typer.Context, baseline: "BaselineStats") -> None:
    screen = console()
    screen.print(f"{_name(baseline)}: {baseline.progress}")
    print_table(
        ("normal for a run", "p50", "p95", "trend"),
        [_measure_row(baseline, key, title) for key, title in _MEASURES if key in baseline.spreads],
        empty="   It has not learnt from any run yet.",
    )
    for line in _list_notes(context, baseline):
        screen.print(line)
    screen.print("")


def _measure_row(baseline: "BaselineStats", key: str, title: str) -> tuple[str, ...]:
    spread = baseline.spreads[key]
    return (
        title,
        _format_amount(key, spread.p50),
        _format_amount(key, spread.p95),
        _describe_trend(baseline.trends.get(key)),
    )


def _describe_trend(trend: "Trend | None") -> str:
    from steadyhelm.windows import FROZEN_MIN_RUNS, LEARNING_LIMIT, LEARNING_MIN_RUNS, get_frozen_limit

    if trend is None or trend.learning.count < LEARNING_MIN_RUNS:
        return f"known after {pluralize(LEARNING_MIN_RUNS, 'run')}"
    words = f"{trend.learning.total:.1f} of {LEARNING_LIMIT:.0f} against recent runs"
    if trend.frozen.count < FROZEN_MIN_RUNS:
        return f"{words}; against the first {FROZEN_MIN_RUNS} later"
    limit = get_frozen_limit(trend.frozen)
    return f"{words}, {trend.frozen.total:.1f} of {limit:.0f} against the first {FROZEN_MIN_RUNS}"


_FORMAT_KEY: Final = "steadyhelm_baseline"
_FORMAT_VERSION: Final = 1
_LARGEST_FILE_BYTES: Final = 4 << 20
_LONGEST_AGENT_NAME: Final = 200


def to_document(baseline: BaselineStats) -> dict[str, Any]:
    """Return the baseline as the JSON document that `read_baseline` reads."""
    return {_FORMAT_KEY: _FORMAT_VERSION, **baseline.to_dict()}


def write_baseline(path: Path, baseline: BaselineStats) -> None:
    """Write the baseline to a file in one piece; only its owner may read it."""
    document = msgspec.json.format(msgspec.json.encode(to_document(baseline)), indent=2)
    write_private_file(path, document + b"\n", what="The baseline")


def _read_json(path: Path) -> Any:
    content = read_small_file(path, _LARGEST_FILE_BYTES, what="a baseline")
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"{path} is not JSON: {exc}.") from exc


def read_baseline(path: Path) -> BaselineStats:
    """Return the baseline in a file; raises FormatError with what is wrong with it."""
    data = _read_json(path)
    if not isinstance(data, dict) or data.get(_FORMAT_KEY) != _FORMAT_VERSION:
        raise FormatError(
            f"{path} is not a baseline. Write one with: steadyhelm baseline export AGENT -o FILE"
        )
    try:
        baseline = BaselineStats.from_dict(data)
    except (msgspec.ValidationError, ValueError) as exc:
        raise FormatError(f"{path} is not a valid baseline: {exc}.") from exc
    for fault in _find_faults(baseline):
        raise FormatError(f"{path} is not a valid baseline: {fault}. Nothing was changed.")
    return baseline


def _find_faults(baseline: BaselineStats) -> Iterator[str]:
    from steadyhelm.embedders.idf import BUCKETS

    if not 0 < len(baseline.agent_id) <= _LONGEST_AGENT_NAME:
        yield f"agent_id must have 1 to {_LONGEST_AGENT_NAME} characters"
    if baseline.required_runs < 1 or baseline.calibration_runs < 0:
        yield "required_runs must be 1 or more and calibration_runs 0 or more"
    for name, value in _iter_numbers(baseline):
        if not (math.isfinite(value) and value >= 0):
            yield f"{name} must be 0 or more, got {value!r}"
    if not all(-1.0 <= value <= 1.0 for value in baseline.similarities):
        yield "similarities must lie between -1 and 1"
    if baseline.similarities != sorted(baseline.similarities):
        yield "similarities must be sorted"
    if not all(0.0 <= value <= 1.0 for value in baseline.goal_peaks):
        yield "goal_peaks must lie between 0 and 1"
    if baseline.goal_peaks != sorted(baseline.goal_peaks):
        yield "goal_peaks must be sorted"
    if len(baseline.word_counts) not in (0, BUCKETS):
        yield f"word_counts must hold {BUCKETS} counters or none, got {len(baseline.word_counts)}"


def _iter_numbers(baseline: BaselineStats) -> Iterator[tuple[str, float]]:
    for name in baseline.__struct_fields__:
        value = getattr(baseline, name)
        if isinstance(value, float) and name != "mean_goal_similarity":
            yield name, value
    yield "word_runs", float(baseline.word_runs)
    for measure, spread in baseline.spreads.items():
        yield f"spreads.{measure}.p50", spread.p50
        yield f"spreads.{measure}.p95", spread.p95
    for measure, trend in baseline.trends.items():
        for which, sums in (("learning", trend.learning), ("frozen", trend.frozen)):
            yield f"trends.{measure}.{which}.count", float(sums.count)
            yield f"trends.{measure}.{which}.squares", sums.squares
            yield f"trends.{measure}.{which}.total", sums.total
            yield f"trends.{measure}.{which}.mean", abs(sums.mean)


def list_not_checked(baseline: BaselineStats) -> dict[str, str]:
    """Return by detector what is not checked with this baseline, and why.

    A threshold in the settings makes goal drift independent of the baseline.
    """
    reasons: dict[str, str] = {}
    if not baseline.is_calibrated:
        reasons["resource_spike"] = f"only hard limits are checked: {baseline.progress}"
    goal = _explain_goal(baseline)
    if goal:
        reasons["goal_drift"] = goal
    return reasons


def _explain_goal(baseline: BaselineStats) -> str:
    from steadyhelm.goals.departure import MIN_RUNS_LEARNT, TOO_LITTLE_SHARED, has_room

    if not baseline.is_calibrated:
        return f"only a change of topic is checked: {baseline.progress}"
    known = len(baseline.goal_peaks)
    if known < MIN_RUNS_LEARNT:
        return f"only a change of topic is checked: learning {known}/{MIN_RUNS_LEARNT} runs with a goal"
    return "" if has_room(baseline.goal_peaks) else f"not checked: {TOO_LITTLE_SHARED}"
