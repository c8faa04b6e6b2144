"""Replay labelled runs and measure how accurate each detector is."""

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, RunSet
from steadyhelm.lab.evaluation.metrics import Estimate, estimate_all, estimate_share, sum_counts
from steadyhelm.lab.evaluation.scoring import (
    RULES,
    Finder,
    RunScore,
    describe_expectation,
    find_everything,
    score_runs,
)
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import FindingReport, Replayer, RunReport, find_steps_after

TOGETHER = "together"
_EVENTS_BEFORE: Final = 4
_EVENTS_AFTER: Final = 2
_MAX_CHARACTERS: Final = 140


class Delay(Struct, frozen=True, kw_only=True):
    """Entries from the labelled one to the one it was found at, over the runs where both are known."""

    median: float
    low: float
    high: float
    values: list[int]


class Figures(Struct, frozen=True, kw_only=True):
    """How one finder (a detector, all of them together, or a simple rule) did on one set.

    `tokens_after` is what was spent after its first finding, until the run's end or the user's next
    word; `tokens_saved` is what the session's own answer would have spared, known only for all
    detectors together.
    Runs that people call clean are left out of both: stopping them saves nothing.
    """

    finder: str
    is_rule: bool
    flagged: int
    runs: int
    counts: dict[str, int]
    run_level: dict[str, Estimate]
    step_counts: dict[str, int]
    step_level: dict[str, Estimate]
    in_time: Estimate | None
    delay: Delay | None
    tokens_after: int
    tokens_saved: int | None


class ShownEvent(Struct, frozen=True, kw_only=True):
    """One event in a few words; `labelled` and `found` say whether a label or a finding points at it."""

    at: int
    what: str
    said: str
    labelled: bool = False
    found: bool = False


class WrongRun(Struct, frozen=True, kw_only=True):
    """A run that was judged wrongly, or flagged although it is not labelled."""

    run_id: str
    group: str
    wrong: str
    expected: str
    found: list[FindingReport]
    events: list[ShownEvent]


class SetReport(Struct, frozen=True, kw_only=True):
    """One set: the figures of every finder, and every run that all detectors together judged wrongly."""

    name: str
    runs: int
    labelled: int
    positive: int
    broken: int
    figures: list[Figures]
    by_group: dict[str, Figures]
    misses: list[WrongRun]


class Evaluation(Struct, frozen=True, kw_only=True):
    """The result of `steadyhelm lab eval`."""

    question: LabelQuestion
    samples: int
    seed: int
    detectors: list[str]
    troubles: dict[str, int]
    sets: list[SetReport]


class Evaluator:
    """Compares what detectors and simple rules find with labels.

    Args:
        replayer: Replays runs.
        question: What is asked, and which findings answer it.
        samples: How often runs are resampled for an interval.
        seed: Makes the intervals repeatable.
        groups: Only runs of these groups (such as tiers) count; empty counts all.
    """

    def __init__(
        self,
        replayer: Replayer,
        question: LabelQuestion,
        *,
        samples: int = 1000,
        seed: int = 0,
        groups: Collection[str] = (),
    ) -> None:
        self._replayer = replayer
        self._question = question
        self._samples = samples
        self._seed = seed
        self._groups = groups

    def evaluate(self, sets: Sequence[RunSet]) -> Evaluation:
        """Return figures for each set by itself: sets are labelled in different ways."""
        reports = [self.report_set(one) for one in sets]
        return Evaluation(
            question=self._question,
            samples=self._samples,
            seed=self._seed,
            detectors=self._replayer.detectors,
            troubles=self._replayer.troubles,
            sets=reports,
        )

    def report_set(self, one: RunSet) -> SetReport:
        """Return the figures of one set."""
        reports = [(it.run, it.report) for it in self._replayer.judge_all(one.runs)]
        together = self._score_finder(reports, find_everything)
        figures = [self._measure_detector_or_rule(TOGETHER, together)]
        names = self._replayer.detectors
        figures += [
            self._measure_detector_or_rule(name, self._score_finder(reports, _find_by_detector(name)))
            for name in names
        ]
        for name in RULES if self._question.kind == "loop" else ():
            figures.append(
                self._measure_detector_or_rule(
                    name, self._score_finder(reports, _find_by_rule(name)), is_rule=True
                )
            )
        groups = sorted({score.expected.group for score in together} - {""})
        return SetReport(
            name=one.name,
            runs=len(together),
            labelled=sum(score.expected.run is not None for score in together),
            positive=sum(bool(score.expected.run) for score in together),
            broken=len(one.broken),
            figures=figures,
            by_group={
                group: self._measure_detector_or_rule(
                    TOGETHER, [s for s in together if s.expected.group == group]
                )
                for group in groups
            },
            misses=list(_list_wrong_runs(together)),
        )

    def _score_finder(self, reports: Sequence[tuple[ReadRun, RunReport]], finder: Finder) -> list[RunScore]:
        scores = score_runs(reports, self._question, finder)
        if not self._groups:
            return scores
        return [score for score in scores if score.expected.group in self._groups]

    def _measure_detector_or_rule(
        self, finder: str, scores: Sequence[RunScore], *, is_rule: bool = False
    ) -> Figures:
        judged = [score for score in scores if score.expected.run is not None]
        stepped = [score for score in judged if score.expected.steps is not None]
        dated = [score for score in judged if score.in_time is not None]
        worth = [score for score in scores if score.expected.run is not False]
        saved = [score.tokens_saved for score in worth if score.tokens_saved is not None]
        return Figures(
            finder=finder,
            is_rule=is_rule,
            flagged=sum(bool(score.found) for score in scores),
            runs=len(scores),
            counts=sum_counts(score.counts for score in judged)._asdict(),
            run_level=estimate_all(
                [score.counts for score in judged], samples=self._samples, seed=self._seed
            ),
            step_counts=sum_counts(score.step_counts for score in stepped)._asdict(),
            step_level=estimate_all(
                [score.step_counts for score in stepped], samples=self._samples, seed=self._seed
            ),
            in_time=estimate_share(sum(bool(s.in_time) for s in dated), len(dated)) if dated else None,
            delay=summarise_delays(score.delay for score in judged),
            tokens_after=sum(_sum_tokens_after(score) for score in worth),
            tokens_saved=sum(saved) if finder == TOGETHER and saved else None,
        )


def _find_by_detector(detector: str) -> Finder:
    return lambda _, report: [finding for finding in report.findings if finding.detector == detector]


def _find_by_rule(name: str) -> Finder:
    return lambda run, _: RULES[name](run.events)


def summarise_delays(delays: Iterable[int | None]) -> Delay | None:
    """Return the median and quartiles of the known delays; None when no delay is known."""
    values = sorted(delay for delay in delays if delay is not None)
    if not values:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Delay(median=statistics.median(values), low=low, high=high, values=values)


def _sum_tokens_after(score: RunScore) -> int:
    if score.first is None:
        return 0
    place = next(i for i, event in enumerate(score.run.events) if int(event.event_id) == score.first)
    return sum(event.token_count for event in find_steps_after(score.run.events, place))


def _list_wrong_runs(scores: Sequence[RunScore]) -> Iterator[WrongRun]:
    for score in scores:
        wrong = _describe_error(score)
        if not wrong:
            continue
        yield WrongRun(
            run_id=score.run.info.run_id,
            group=score.expected.group,
            wrong=wrong,
            expected=describe_expectation(score.expected),
            found=score.found,
            events=show_events_around(score),
        )


def _describe_error(score: RunScore) -> str:
    """Return in what way a run was judged wrongly; empty when it was not."""
    if score.expected.run is None:
        return "flagged, not labelled" if score.found else ""
    if score.counts.fn:
        return "missed"
    if score.counts.fp:
        return "false alarm"
    if score.in_time is False:
        return "late"
    steps = score.step_counts
    return f"{steps.fn} steps missed, {steps.fp} too many" if steps.fn or steps.fp else ""


def show_events_around(score: RunScore) -> list[ShownEvent]:
    """Return the events around the first finding or, without one, around the first label."""
    places = [score.first, score.expected.first, score.expected.at_most]
    middle = next((place for place in places if place is not None), None)
    events = sorted(score.run.events, key=lambda event: int(event.event_id))
    if middle is None:
        return _show_events(score, events[-_EVENTS_BEFORE - _EVENTS_AFTER :])
    here = next((i for i, event in enumerate(events) if int(event.event_id) >= middle), len(events) - 1)
    return _show_events(score, events[max(0, here - _EVENTS_BEFORE) : here + _EVENTS_AFTER + 1])


def _show_events(score: RunScore, events: list[TraceEvent]) -> list[ShownEvent]:
    labelled = _find_labelled(score)
    found = {finding.at for finding in score.found}
    return [
        ShownEvent(
            at=(at := int(event.event_id)),
            what=event.action_name,
            said=_describe_event(event),
            labelled=at in labelled,
            found=at in found,
        )
        for event in events
    ]


def _find_labelled(score: RunScore) -> Collection[int | None]:
    expected = score.expected
    return expected.steps if expected.steps is not None else {expected.first, expected.at_most}


def _describe_event(event: TraceEvent) -> str:
    if event.action_type != TOOL_CALL:
        return _shorten(event.error or event.text)
    outcome = f"failed: {event.error}" if event.error else _format_value(event.output_data)
    half = _MAX_CHARACTERS // 2
    return f"{_shorten(_format_value(event.input_data), half)} → {_shorten(outcome, half)}"


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        if value.keys() == {"text"}:
            return str(value["text"])
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return "nothing" if value is None else str(value)


def _shorten(text: str, most: int = _MAX_CHARACTERS) -> str:
    text = " ".join(text[: 4 * most].split())
    return text if len(text) <= most else text[: most - 1] + "…"
