"""A simulation in words and tables, as text and page both show it."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.lab.evaluation.evaluation import Delay
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.simulation.figures import OUTCOMES, HealthyFigures, Share, TokenFigures
from steadyhelm.lab.simulation.simulation import MOST_DISTURBED, SetSimulation, SimulationReport

NONE: Final = "-"
_LEAST: Final = 0.01

_NOBODY_HEARD: Final = (
    "Recorded agents cannot hear an answer. `ignored` means that the recorded agent went on, `worked` that "
    "it came off by itself: the base rate, and the least that talking to it would do. After the first new "
    "plan or stop a live run would have gone another way: stronger rungs say how long the drift went on."
)
_SAVED: Final = (
    "Saved: spent after the first new plan or stop, until the run's end or the user's next word, in runs "
    "that are not healthy. It is an upper bound: a new plan costs tokens too."
)


class Section(Struct, frozen=True, kw_only=True):
    """A table under its name, which stands over the first column, and what is to be said about it."""

    name: str
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


def head(report: SimulationReport) -> str:
    """What was replayed, under which policy, and how intervals were taken."""
    together = report.together
    rungs = ", ".join(f"{name} {value:g}" for name, value in report.thresholds.items())
    limits = ", ".join(f"{value:,g} {name}" for name, value in report.limits.items())
    broken = f"; {together.broken} lines could not be read" if together.broken else ""
    return (
        f"Had this policy been on (drift score {rungs}; budget {limits or 'none'}): {together.runs:,} runs "
        f"with {together.steps:,} steps, replayed in mode enforce, each judged alone, without a "
        f"baseline{broken}. Intervals hold 95 of 100 cases: Wilson for shares of runs, {report.samples:,} "
        f"resamples of runs (seed {report.seed}) for tokens and outcomes."
    )


def sections(report: SimulationReport) -> Iterator[Section]:
    """Every table, in the order in which it is read."""
    yield _loops(report)
    yield _tokens(report)
    yield _healthy(report)
    yield _ladder(report)
    yield _answers(report)
    if report.limits:
        yield _budget(report)


def bar(report: SimulationReport) -> str:
    """Whether healthy runs are left alone as they should be."""
    most = f"{100 * MOST_DISTURBED:g} in 100"
    asked = f"Of the healthy runs known to have succeeded at most {most} may get more than a reminder: "
    if report.together.succeeded is None or report.is_gentle is None:
        return asked + "not known, there is none here."
    return asked + f"{report.together.succeeded.disturbed.share}, {'met' if report.is_gentle else 'NOT met'}."


def figure(estimate: Estimate) -> str:
    """A share with its interval, in two digits.

    >>> figure(Estimate(value=0.0102, low=0.0028, high=0.713))
    '.01 [<.01, .71]'
    """
    if estimate.value is None:
        return NONE
    if estimate.low is None or estimate.high is None:
        return _digits(estimate.value)
    return f"{_digits(estimate.value)} [{_digits(estimate.low)}, {_digits(estimate.high)}]"


def _loops(report: SimulationReport) -> Section:
    refused = report.together.loops.refused
    notes = [
        "Delay: steps from the first evidence to the new plan or stop, median and quartiles.",
        f"A call would have been refused before it was made in {refused}.",
        *(f"Looping in {one.name}: {one.loops.definition}." for one in report.sets),
    ]
    if not report.together.loops.runs:
        notes = ["No run here loops.", *notes[2:]]
    return Section(
        name="LOOPING RUNS",
        titles=("runs", "re-planned, stopped", "reminded at least", "delay"),
        rows=[
            (
                one.name,
                str(one.loops.runs),
                _part(one.loops.stopped),
                _part(one.loops.reminded),
                _steps(one.loops.delay_to_stop),
            )
            for one in _all(report)
        ],
        notes=notes,
    )


def _tokens(report: SimulationReport) -> Section:
    notes = [_SAVED]
    tokens = report.together.tokens
    if tokens is None:
        notes = ["No tokens were recorded in any of these runs: nothing is known about what is saved."]
    elif tokens.unknown_runs:
        notes.append(f"{tokens.unknown_runs} runs carry no tokens and count in none of these figures.")
    if tokens is not None and tokens.in_well:
        notes.append(f"Healthy runs and runs that succeeded spent {tokens.in_well:,} after theirs.")
    return Section(
        name="TOKENS",
        titles=("spent", "saved", "share", "in loops"),
        rows=[(one.name, *_token_cells(one.tokens)) for one in _all(report)],
        notes=notes,
    )


def _token_cells(known: TokenFigures | None) -> tuple[str, ...]:
    if known is None:
        return "not recorded", NONE, NONE, NONE
    return f"{known.spent:,}", f"{known.saved:,}", str(known.share), f"{known.in_looping:,}"


def _healthy(report: SimulationReport) -> Section:
    together = report.together
    succeeded = [(one.name, one.succeeded) for one in report.sets if one.succeeded is not None]
    silent = [(one.name, one.unjudged) for one in report.sets if one.unjudged is not None]
    notes = [bar(report)]
    if silent:
        names = ", ".join(name for name, _ in silent)
        notes.append(f"Nobody says how the runs of {names} ended; they are taken for healthy.")
    left_out = sum(it.left_out for _, it in (*succeeded, *silent))
    if left_out:
        notes.append(f"Left out: {left_out} with a labelled loop or three equal calls in a row.")
    if len(succeeded) > 1 and together.succeeded is not None:
        succeeded.append(("all that succeeded", together.succeeded))
    if len(silent) > 1 and together.unjudged is not None:
        silent.append(("all not judged", together.unjudged))
    return Section(
        name="HEALTHY RUNS",
        titles=("runs", "more than a reminder", "reminded at least", "refused"),
        rows=[(name, *_healthy_cells(it)) for name, it in (*succeeded, *silent)],
        notes=notes,
    )


def _healthy_cells(it: HealthyFigures) -> tuple[str, ...]:
    return str(it.disturbed.of), _part(it.disturbed), _part(it.reminded), str(it.refused.hits)


def _ladder(report: SimulationReport) -> Section:
    return Section(
        name="LADDER",
        titles=("runs", "loops", "well", "other", "reached by"),
        rows=[
            (
                rung.action.value,
                *map(str, (rung.runs, rung.looping, rung.healthy, rung.other)),
                _causes(rung.by),
            )
            for rung in report.together.ladder
        ],
        notes=["Runs that would have got this answer or a stronger one, and what first led to it."],
    )


def _answers(report: SimulationReport) -> Section:
    worked = figure(report.together.by_itself)
    return Section(
        name="ANSWERS",
        titles=OUTCOMES,
        rows=[
            (it.action.value, *(str(it.outcomes[name]) for name in OUTCOMES))
            for it in report.together.answers
        ],
        notes=[_NOBODY_HEARD, f"Of first answers that could be judged {worked} worked."],
    )


def _budget(report: SimulationReport) -> Section:
    known = [(one.name, one.budget) for one in _all(report) if one.budget is not None]
    together = known[-1][1]
    notes = [
        f"budget.{name} says nothing about {times} runs, which do not record it."
        for name, times in together.not_applied.items()
    ]
    if not together.succeeded.of:
        notes.append("No run here is known to have succeeded: what harm the budget does cannot be seen.")
    elif not together.harmed:
        notes.append("No run that succeeded would have run out.")
    notes += [
        f"Succeeded, but would have run out: {it.run_id} at {it.at}, with {it.steps_left} more to come: "
        f"{it.message}."
        for it in together.harmed
    ]
    return Section(
        name="BUDGET USED UP",
        titles=("succeeded", "failed", "not judged", "saved"),
        rows=[
            (
                name,
                _part(it.succeeded),
                _of(it.failed),
                _of(it.unjudged),
                "not recorded" if it.tokens_saved is None else f"{it.tokens_saved:,}",
            )
            for name, it in known
        ],
        notes=notes,
    )


def _all(report: SimulationReport) -> Sequence[SetSimulation]:
    return [*report.sets, report.together] if len(report.sets) > 1 else report.sets


def _causes(by: dict[str, int]) -> str:
    """What brought runs to a rung, the most frequent first."""
    return ", ".join(f"{name} {times}" for name, times in sorted(by.items(), key=lambda it: -it[1])) or NONE


def _part(share: Share) -> str:
    return f"{share.hits} {figure(share.share)}" if share.of else NONE


def _of(share: Share) -> str:
    return f"{share.hits} of {share.of}" if share.of else NONE


def _steps(delay: Delay | None) -> str:
    if delay is None:
        return NONE
    median, low, high = map(round, (delay.median, delay.low, delay.high))
    return f"{median} ({low} to {high})"


def _digits(value: float) -> str:
    if 0 < value < _LEAST:
        return f"<{_LEAST:.2f}".replace("0.", ".")
    text = f"{value:.2f}".removesuffix(".00")
    return text.removeprefix("0") if "." in text else text
