"""`steadyhelm judge`: what a judge was asked, what it used, and what its verdicts changed."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from steadyhelm.cli.context import OnlyAgent, Since, choose_agent, find_start
from steadyhelm.cli.output import AsJson, print_json, print_table
from steadyhelm.reports.formats import format_count, pluralize
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.judge import JudgedReport
    from steadyhelm.judging.usage import JudgeSummary
    from steadyhelm.store import Store
    from steadyhelm.store_rows import StoredRun

_RUNS_READ: Final = 200
_INCIDENTS_PER_RUN: Final = 1000


def judge(
    context: typer.Context,
    agent: OnlyAgent = None,
    since: Since = None,
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="How many runs are read, newest first.")
    ] = _RUNS_READ,
    as_json: AsJson = False,
) -> None:
    """Report what a judge was asked and what it changed."""
    from steadyhelm.judging.usage import summarise_judging

    after = find_start(since)
    with closing(context.obj.open_store()) as store:
        name = choose_agent(store, agent)
        chosen = [it for it in store.list_runs(name, limit=runs) if after is None or it.last_at >= after]
        reports = [report for run in chosen for report in _read_reports(store, run)]
        changes = [
            incident.judged
            for run in chosen
            for incident in store.list_incidents(run.agent_id, run.run_id, limit=_INCIDENTS_PER_RUN)
            if incident.judged is not None
        ]
    summary = summarise_judging(reports, changes, runs=len(chosen))
    if as_json:
        print_json({"since": after, "summary": summary})
        return
    _print_summary(summary)


def _read_reports(store: "Store", run: "StoredRun") -> "list[JudgedReport]":
    from steadyhelm.events import JUDGED
    from steadyhelm.judge import read_judged

    events = (recorded.event for recorded in store.iter_run_events(run.agent_id, run.run_id))
    found = [read_judged(event.metadata) for event in events if event.action_name == JUDGED]
    return [report for report in found if report is not None]


def _print_summary(summary: "JudgeSummary") -> None:
    rows = list(_list_answers(summary))
    print_table(
        ("answer", "times"),
        rows,
        empty=f"No question was put to a judge in {pluralize(summary.runs, 'run')}. "
        "It is off by default: see the setting `judge`.",
    )
    if rows:
        _print_usage(summary)


def _list_answers(summary: "JudgeSummary") -> Iterator[tuple[str, str]]:
    """Yield each answer, and each reason for none, with how often it was given."""
    for about, labels in summary.verdicts.items():
        yield from ((f"{about}: {label}", str(count)) for label, count in labels.items())
    for reason, count in summary.no_verdict.items():
        yield f"no verdict: {safe(reason)}", str(count)
    for reason, count in summary.not_asked.items():
        yield f"not asked: {safe(reason)}", str(count)


def _print_usage(summary: "JudgeSummary") -> None:
    cost = "price not known" if summary.cost_usd is None else f"${summary.cost_usd:,.4f}"
    tokens = format_count(summary.input_tokens + summary.output_tokens)
    asked = pluralize(summary.asked, "question")
    say(f"{asked} asked about {pluralize(summary.runs, 'run')}, {summary.remembered} answered from memory.")
    say(f"Used: {tokens} tokens, {cost}.")
    cleared = pluralize(summary.cleared, "incident")
    say(f"Changed: {cleared} cleared, {summary.lowered} lowered, {summary.raised} raised.")
    if summary.addressed:
        say(f"Text of the run tried to tell the judge what to answer: {summary.addressed} times.")
