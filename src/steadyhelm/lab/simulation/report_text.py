"""Format a simulation: sections of tables and notes, and the whole as text of at most 80 columns."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.lab.evaluation.evaluator import Delay
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.simulation.figures import OUTCOMES, HealthyFigures, LoopFigures, RunShare, TokenFigures
from steadyhelm.lab.simulation.simulate import (
    MAX_DISTURBED_SHARE,
    DisturbedRun,
    SetSimulation,
    SimulationReport,
)
from steadyhelm.reports.formats import make_printable

NONE: Final = "-"
_SMALLEST_SHOWN: Final = 0.01
_NOT_HEARD_NOTE: Final = (
    "Recorded agents cannot receive guidance. `ignored` means that the recorded agent continued, `worked` "
    "that it recovered unaided: the base rate, and the least that guidance would do. After the first re-plan "
    "or stop a live run would have continued differently: stronger levels show how long the drift lasted."
)
_AFTER_NOTE: Final = (
    "After, at most: spent after the first re-plan or stop, until the run's end or the next user message, "
    "in runs that are not healthy. It is an upper bound: a re-plan costs tokens too."
)
_MAX_COLUMNS: Final = 80
_NAME_WIDTH: Final = 19
_COLUMN_GAP: Final = 2
_DISTURBED_SHOWN: Final = 10


class Section(Struct, frozen=True, kw_only=True):
    """A table with its name over the first column, and the notes below it."""

    name: str
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


def describe_replay(report: SimulationReport) -> str:
    """Return what was replayed, under which policy, and how intervals were computed."""
    together = report.together
    thresholds = ", ".join(f"{name} {value:g}" for name, value in report.thresholds.items())
    limits = ", ".join(f"{value:,g} {name}" for name, value in report.limits.items())
    broken = f"; {together.broken} lines could not be read" if together.broken else ""
    return (
        f"Policy simulation (drift score {thresholds}; budget {limits or 'none'}): {together.runs:,} runs "
        f"with {together.steps:,} steps, replayed in mode enforce, each judged alone, without a "
        f"baseline{broken}. Intervals are 95%: Wilson for shares of runs, {report.samples:,} "
        f"resamples of runs (seed {report.seed}) for tokens and outcomes."
    )


def build_sections(report: SimulationReport) -> Iterator[Section]:
    """Yield every table, in reading order."""
    yield _build_loops(report)
    yield _build_tokens(report)
    yield _build_healthy(report)
    yield _build_levels(report)
    yield _build_outcomes(report)
    if report.limits:
        yield _build_budget(report)


def describe_limit(report: SimulationReport) -> str:
    """Return whether few enough healthy runs get more than a reminder, in words."""
    most = f"{100 * MAX_DISTURBED_SHARE:g} in 100"
    asked = f"Of the healthy runs known to have succeeded at most {most} may get more than a reminder: "
    if report.together.succeeded is None or report.is_harmless is None:
        return asked + "unknown, there is none here."
    return (
        asked + f"{report.together.succeeded.disturbed.share}, {'met' if report.is_harmless else 'NOT met'}."
    )


def format_share(estimate: Estimate) -> str:
    """Return a share with its interval, in two digits.

    >>> format_share(Estimate(value=0.0102, low=0.0028, high=0.713))
    '.01 [<.01, .71]'
    """
    if estimate.value is None:
        return NONE
    if estimate.low is None or estimate.high is None:
        return _format_digits(estimate.value)
    return (
        f"{_format_digits(estimate.value)} [{_format_digits(estimate.low)}, {_format_digits(estimate.high)}]"
    )


def _build_loops(report: SimulationReport) -> Section:
    refused = report.together.loops.refused
    notes = [
        "Delay: steps from the first evidence to the re-plan or stop, median and quartiles.",
        f"A call would have been blocked before it was made in {refused}.",
        *(f"Looping in {one.name}: {one.loops.definition}." for one in report.sets),
    ]
    if not report.together.loops.runs:
        notes = ["No run here loops.", *notes[2:]]
    return Section(
        name="LOOPING RUNS",
        titles=("runs", "re-planned, stopped", "reminded at least", "delay"),
        rows=[(one.name, *_format_loops(one.loops)) for one in _list_sets(report)],
        notes=notes,
    )


def _format_loops(loops: LoopFigures) -> tuple[str, ...]:
    return (
        str(loops.runs),
        _format_run_share(loops.stopped),
        _format_run_share(loops.reminded),
        _format_delay(loops.delay_to_stop),
    )


def _build_tokens(report: SimulationReport) -> Section:
    notes = [_AFTER_NOTE]
    tokens = report.together.tokens
    if tokens is None:
        notes = [
            "No tokens were recorded in any of these runs: what was spent after a stop or re-plan is unknown."
        ]
    elif tokens.unknown_runs:
        notes.append(f"{tokens.unknown_runs} runs recorded no tokens and are in none of these figures.")
    if tokens is not None and tokens.in_healthy:
        notes.append(f"Healthy runs and runs that succeeded spent {tokens.in_healthy:,} after theirs.")
    return Section(
        name="TOKENS",
        titles=("spent", "after, at most", "share", "in loops"),
        rows=[(one.name, *_format_tokens(one.tokens)) for one in _list_sets(report)],
        notes=notes,
    )


def _format_tokens(known: TokenFigures | None) -> tuple[str, ...]:
    if known is None:
        return "not recorded", NONE, NONE, NONE
    return f"{known.spent:,}", f"{known.saved:,}", str(known.share), f"{known.in_looping:,}"


def _build_healthy(report: SimulationReport) -> Section:
    together = report.together
    succeeded = [(one.name, one.succeeded) for one in report.sets if one.succeeded is not None]
    silent = [(one.name, one.unjudged) for one in report.sets if one.unjudged is not None]
    notes = [describe_limit(report)]
    if silent:
        names = ", ".join(name for name, _ in silent)
        notes.append(f"The runs of {names} have no outcome; they are treated as healthy.")
    left_out = sum(it.left_out for _, it in (*succeeded, *silent))
    if left_out:
        notes.append(f"Left out: {left_out} with a labelled loop or three equal calls in a row.")
    if len(succeeded) > 1 and together.succeeded is not None:
        succeeded.append(("all that succeeded", together.succeeded))
    if len(silent) > 1 and together.unjudged is not None:
        silent.append(("all not judged", together.unjudged))
    return Section(
        name="HEALTHY RUNS",
        titles=("runs", "more than a reminder", "reminded at least", "blocked"),
        rows=[(name, *_format_healthy(it)) for name, it in (*succeeded, *silent)],
        notes=notes,
    )


def _format_healthy(it: HealthyFigures) -> tuple[str, ...]:
    return (
        str(it.disturbed.of),
        _format_run_share(it.disturbed),
        _format_run_share(it.reminded),
        str(it.refused.hits),
    )


def _build_levels(report: SimulationReport) -> Section:
    return Section(
        name="RESPONSE LEVELS",
        titles=("runs", "loops", "healthy", "other", "caused by"),
        rows=[
            (
                level.action.value,
                *map(str, (level.runs, level.looping, level.healthy, level.other)),
                _format_causes(level.by),
            )
            for level in report.together.levels
        ],
        notes=["Runs that would have received this response or a stronger one, and its first cause."],
    )


def _build_outcomes(report: SimulationReport) -> Section:
    worked = format_share(report.together.unaided_recovery)
    return Section(
        name="OUTCOMES",
        titles=OUTCOMES,
        rows=[
            (it.action.value, *(str(it.outcomes[name]) for name in OUTCOMES))
            for it in report.together.outcomes
        ],
        notes=[_NOT_HEARD_NOTE, f"Of first interventions with a known outcome {worked} worked."],
    )


def _build_budget(report: SimulationReport) -> Section:
    known = [(one.name, one.budget) for one in _list_sets(report) if one.budget is not None]
    together = known[-1][1]
    notes = [
        f"budget.{name} does not apply to {times} runs, which do not record it."
        for name, times in together.not_applied.items()
    ]
    if not together.succeeded.of:
        notes.append("No run here is known to have succeeded: the harm of this budget is unknown.")
    elif not together.harmed:
        notes.append("No run that succeeded would have run out.")
    notes += [
        f"Succeeded, but would have run out: {it.run_id} at {it.at}, {it.steps_left} steps before its end: "
        f"{it.message}."
        for it in together.harmed
    ]
    return Section(
        name="BUDGET USED UP",
        titles=("succeeded", "failed", "not judged", "spent after, at most"),
        rows=[
            (
                name,
                _format_run_share(it.succeeded),
                _format_count(it.failed),
                _format_count(it.unjudged),
                "not recorded" if it.tokens_saved is None else f"{it.tokens_saved:,}",
            )
            for name, it in known
        ],
        notes=notes,
    )


def _list_sets(report: SimulationReport) -> Sequence[SetSimulation]:
    return [*report.sets, report.together] if len(report.sets) > 1 else report.sets


def _format_causes(by: dict[str, int]) -> str:
    """Return what caused a response level, the most frequent first."""
    return ", ".join(f"{name} {times}" for name, times in sorted(by.items(), key=lambda it: -it[1])) or NONE


def _format_run_share(share: RunShare) -> str:
    return f"{share.hits} {format_share(share.share)}" if share.of else NONE


def _format_count(share: RunShare) -> str:
    return f"{share.hits} of {share.of}" if share.of else NONE


def _format_delay(delay: Delay | None) -> str:
    if delay is None:
        return NONE
    median, low, high = map(round, (delay.median, delay.low, delay.high))
    return f"{median} ({low} to {high})"


def _format_digits(value: float) -> str:
    if 0 < value < _SMALLEST_SHOWN:
        return f"<{_SMALLEST_SHOWN:.2f}".replace("0.", ".")
    text = f"{value:.2f}".removesuffix(".00")
    return text.removeprefix("0") if "." in text else text


def format_simulation(report: SimulationReport, *, most: int = _DISTURBED_SHOWN) -> str:
    """Return the whole report; at most `most` disturbed runs are shown."""
    parts = [_wrap(describe_replay(report))]
    parts += [
        _wrap(f"{why}, {times} times: the figures are incomplete.") for why, times in report.troubles.items()
    ]
    for section in build_sections(report):
        parts += _format_section(section)
    if report.disturbed:
        shown = [_format_disturbed(one) for one in report.disturbed[:most]]
        more = len(report.disturbed) - most
        rest = [f"  ... {more} not shown; --json and --html have all of them."] if more > 0 else []
        title = f"Healthy runs that would have been disturbed ({len(report.disturbed)}):"
        parts.append("\n".join([title, *shown, *rest]))
    return "\n\n".join(parts)


def _format_section(section: Section) -> Iterator[str]:
    if section.rows:
        yield format_table((section.name, *section.titles), _fit_rows(section))
    yield "\n".join(_wrap(note, rest="  ") for note in section.notes)


def _fit_rows(section: Section) -> list[tuple[str, ...]]:
    """Return the rows with names and last cells cut to the width of a screen."""
    rows = [(_shorten(row[0], _NAME_WIDTH), *map(make_printable, row[1:])) for row in section.rows]
    columns = list(zip((section.name, *section.titles), *rows, strict=True))[:-1]
    room = _MAX_COLUMNS - sum(max(map(len, column)) + _COLUMN_GAP for column in columns)
    return [(*row[:-1], _shorten(row[-1], max(room, _NAME_WIDTH))) for row in rows]


def _format_disturbed(one: DisturbedRun) -> str:
    lines = [_shorten(f"  {one.set_name}: {one.run_id}")]
    for answer in one.reached:
        words = f"{answer.at} {answer.action} ({answer.verdict}) by {answer.by}: {answer.message}"
        lines.append(_wrap(words, "    ", "      "))
    if one.refusals:
        first = one.refusals[0]
        words = f"{first.at} blocked ({first.verdict}), {len(one.refusals)} in all: {first.message}"
        lines.append(_wrap(words, "    ", "      "))
    lines += [
        _shorten(f"      {'F' if event.found else ' '} {event.at:>4} {event.what}: {event.said}")
        for event in one.events
    ]
    return "\n".join(lines)


def _shorten(text: str, most: int = _MAX_COLUMNS) -> str:
    shown = make_printable(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    lines = textwrap.wrap(
        make_printable(text),
        _MAX_COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
