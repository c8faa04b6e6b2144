"""`steadyhelm baseline`: what is learnt of an agent, and keeping, forgetting or moving it."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import structs

from steadyhelm.cli import baseline_files
from steadyhelm.cli.learnt import not_checked_yet
from steadyhelm.cli.lookup import agent_named
from steadyhelm.cli.output import confirm, print_json, print_rows
from steadyhelm.errors import NotFoundError
from steadyhelm.reports.formats import compact, counted, lasting
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from steadyhelm.baselines import BaselineStats, Trend
    from steadyhelm.store import Store

app = typer.Typer(help="What is normal for each agent, as far as it is learnt.", rich_markup_mode=None)

_TITLES: Final = ("agent", "version", "task", "state", "tokens p50/p95", "tool calls", "duration")
_MEASURES: Final = (("tokens", "tokens"), ("tools", "tool calls"), ("duration_ms", "duration"))

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, or the beginning of it.")]
Version = Annotated[str | None, typer.Option("--version", help="The agent's version.")]
Task = Annotated[str | None, typer.Option("--task", help="The type of task.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document a line.")]


@app.callback(invoke_without_command=True)
def _baseline(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_baselines(context)


@app.command("list")
def list_baselines(context: typer.Context, as_json: AsJson = False) -> None:
    """List every baseline, with how far its learning is."""
    with closing(context.obj.store()) as store:
        found = store.baselines()
    if as_json:
        for baseline in found:
            print_json(_plain(baseline))
        return
    print_rows(
        _TITLES,
        [_line(baseline) for baseline in found],
        empty="Nothing is learnt yet. A baseline is learnt from runs that ended without an incident.",
    )


@app.command("show")
def show_baseline(
    context: typer.Context, agent: Agent, version: Version = None, task: Task = None, as_json: AsJson = False
) -> None:
    """Show what is usual for an agent, and what cannot be checked yet."""
    with closing(context.obj.store()) as store:
        found = _baselines(store, agent, version, task)
    for baseline in found:
        if as_json:
            print_json(_plain(baseline))
        else:
            _print_baseline(baseline)


@app.command("freeze")
def freeze(context: typer.Context, agent: Agent, version: Version = None, task: Task = None) -> None:
    """Learn nothing more: from now on the baseline stays as it is."""
    baseline = _set_frozen(context, agent, version, task, is_frozen=True)
    say(f"The baseline of {_name(baseline)} is {baseline.progress}. Undo: {_command('unfreeze', baseline)}")
    if not baseline.is_calibrated:
        say(f"It had not learnt enough: only {baseline.calibration_runs} of {baseline.required_runs} runs.")


@app.command("unfreeze")
def unfreeze(context: typer.Context, agent: Agent, version: Version = None, task: Task = None) -> None:
    """Go on learning from the next clean run."""
    baseline = _set_frozen(context, agent, version, task, is_frozen=False)
    say(f"The baseline of {_name(baseline)} learns again: {baseline.progress}.")


@app.command("reset")
def reset(
    context: typer.Context, agent: Agent, version: Version = None, task: Task = None, yes: Yes = False
) -> None:
    """Forget what was learnt and begin anew; runs stay, but those before now no longer teach."""
    with closing(context.obj.store(read_only=False)) as store:
        baseline = _one(store, agent, version, task)
        confirm(
            f"Forget what {counted(baseline.calibration_runs, 'run')} of {_name(baseline)} taught?", yes=yes
        )
        store.reset_baseline(baseline.agent_id, baseline.version, baseline.task_type)
    say(f"Forgotten. {_name(baseline)} is learning 0/{baseline.required_runs}.")


@app.command("export")
def export_baseline(
    context: typer.Context,
    agent: Agent,
    version: Version = None,
    task: Task = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")] = None,
    yes: Yes = False,
) -> None:
    """Write a baseline as JSON, to a file or to standard output."""
    with closing(context.obj.store()) as store:
        baseline = _one(store, agent, version, task)
    if output is None:
        print_json(baseline_files.document(baseline))
        return
    if output.exists():
        confirm(f"{output} exists. Replace it?", yes=yes)
    baseline_files.write(output, baseline)
    say(f"Wrote the baseline of {_name(baseline)} to {output}.")


@app.command("import")
def import_baseline(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `baseline export` wrote.")],
    yes: Yes = False,
) -> None:
    """Take over a baseline that `baseline export` wrote, after checking it."""
    baseline = baseline_files.read(file)
    with closing(context.obj.store(read_only=False)) as store:
        before = store.get_baseline(baseline.agent_id, baseline.version, baseline.task_type)
        if before is not None:
            confirm(f"{_name(baseline)} has a baseline ({before.progress}). Replace it?", yes=yes)
        store.save_baseline(baseline, updated_at=time.time())
        known = store.run_summaries(baseline.agent_id, version=baseline.version, task_type=baseline.task_type)
    say(f"Imported the baseline of {_name(baseline)}: {baseline.progress}.")
    if not baseline.is_frozen and len(known) < min(baseline.calibration_runs, baseline.required_runs):
        say(
            f"What a run usually spends is learnt from the runs kept here, and there are {len(known)}: "
            f"the next clean run replaces those numbers. To keep them: {_command('freeze', baseline)}"
        )


def _baselines(store: "Store", agent: str, version: str | None, task: str | None) -> list["BaselineStats"]:
    name = agent_named(store, agent)
    found = [
        baseline
        for baseline in store.baselines(name)
        if version in (None, baseline.version) and task in (None, baseline.task_type)
    ]
    if found:
        return found
    narrowed = " of that version and task" if (version, task) != (None, None) else ""
    raise NotFoundError(
        f"Nothing is learnt yet of {safe(name)}{narrowed}: a baseline begins with the first run that ends "
        "without an incident. `steadyhelm baseline list` shows what there is."
    )


def _one(store: "Store", agent: str, version: str | None, task: str | None) -> "BaselineStats":
    found = _baselines(store, agent, version, task)
    if len(found) == 1:
        return found[0]
    names = "; ".join(f"--version {it.version!r} --task {it.task_type!r}" for it in found[:8])
    raise NotFoundError(f"{safe(found[0].agent_id)} has {len(found)} baselines. Say which: {safe(names)}")


def _set_frozen(
    context: typer.Context, agent: str, version: str | None, task: str | None, *, is_frozen: bool
) -> "BaselineStats":
    # Read and written in one transaction: a run that ends meanwhile must not be lost.
    with closing(context.obj.store(read_only=False)) as store, store.transaction():
        baseline = structs.replace(_one(store, agent, version, task), is_frozen=is_frozen)
        store.save_baseline(baseline, updated_at=time.time())
    return baseline


def _name(baseline: "BaselineStats") -> str:
    parts = [baseline.agent_id]
    parts += [f"version {baseline.version}"] if baseline.version else []
    parts += [f"task {baseline.task_type}"] if baseline.task_type else []
    return safe(", ".join(parts))


def _command(verb: str, baseline: "BaselineStats") -> str:
    words = f"steadyhelm baseline {verb} {baseline.agent_id}"
    words += f" --version {baseline.version}" if baseline.version else ""
    return safe(words + (f" --task {baseline.task_type}" if baseline.task_type else ""))


def _plain(baseline: "BaselineStats") -> dict[str, Any]:
    known = baseline.to_dict()
    # Four thousand counters of hashed words tell nobody anything; `baseline export` has them.
    del known["word_counts"]
    return {**known, "progress": baseline.progress, "not_checked": not_checked_yet(baseline)}


def _line(baseline: "BaselineStats") -> tuple[str, ...]:
    usual = (_usual(baseline, key) for key, _ in _MEASURES)
    version, task = safe(baseline.version, most=20), safe(baseline.task_type, most=20)
    return (safe(baseline.agent_id, most=24), version or "-", task or "-", baseline.progress, *usual)


def _usual(baseline: "BaselineStats", key: str) -> str:
    spread = baseline.spreads.get(key)
    if spread is None or spread.p50 <= 0:
        return "-"
    return f"{_amount(key, spread.p50)} / {_amount(key, spread.p95)}"


def _amount(key: str, value: float) -> str:
    return lasting(value / 1000) if key == "duration_ms" else compact(value)


def _print_baseline(baseline: "BaselineStats") -> None:
    screen = console()
    screen.print(f"{_name(baseline)}: {baseline.progress}")
    print_rows(
        ("usual in a run", "p50", "p95", "trend"),
        [_measure(baseline, key, words) for key, words in _MEASURES if key in baseline.spreads],
        empty="   No run has taught it anything yet.",
    )
    if baseline.similarities:
        windows, runs = counted(len(baseline.similarities), "window"), counted(baseline.word_runs, "run")
        mean = f"{baseline.mean_goal_similarity:.2f} on average"
        screen.print(f"goal      similarity {mean}, from {windows} of outputs in {runs}")
    for sequence in baseline.common_sequences:
        screen.print(f"common    {safe(' → '.join(sequence), most=100)}")
    for detector, reason in not_checked_yet(baseline).items():
        screen.print(f"not yet   {detector}: {safe(reason)}")
    screen.print("")


def _measure(baseline: "BaselineStats", key: str, words: str) -> tuple[str, ...]:
    spread = baseline.spreads[key]
    return (words, _amount(key, spread.p50), _amount(key, spread.p95), _trend(baseline.trends.get(key)))


def _trend(trend: "Trend | None") -> str:
    from steadyhelm.windows import FROZEN_FROM, FROZEN_LIMIT, LEARNING_FROM, LEARNING_LIMIT

    if trend is None or trend.learning.count < LEARNING_FROM:
        return f"after {counted(LEARNING_FROM, 'run')}"
    words = f"{trend.learning.total:.1f} of {LEARNING_LIMIT:.0f} against recent runs"
    if trend.frozen.count < FROZEN_FROM:
        return f"{words}; against the first {FROZEN_FROM} later"
    return f"{words}, {trend.frozen.total:.1f} of {FROZEN_LIMIT:.0f} against the first {FROZEN_FROM}"
