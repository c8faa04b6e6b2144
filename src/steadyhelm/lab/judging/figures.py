"""Figures of a cascade: what is found and what is a false alarm with and without a judge, and its cost."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.findings import Severity
from steadyhelm.judge import DRIFT_LABELS, FIXED_WEIGHT, HEALTHY_LABELS
from steadyhelm.lab.evaluation.metrics import Counts, Estimate, estimate_share, f1, sum_counts
from steadyhelm.lab.evaluation.planted import has_plant, is_flagged, read_plant
from steadyhelm.lab.judging.answers import count_tokens
from steadyhelm.lab.judging.judged_replay import AskedQuestion, JudgedRun, LabelTruth
from steadyhelm.replay import RunReport

MIN_LABELS: Final = 100
"""Labelled verdicts from which a weight is learnt."""

KINDS: Final = ("loop", "goal")


class KindFigures(Struct, frozen=True, kw_only=True):
    """One kind of drift in the labelled runs of a set, without and with the judge."""

    kind: str
    positive: int
    healthy: int
    recall: tuple[Estimate, Estimate]
    false_alarms: tuple[Estimate, Estimate]
    f1: tuple[float | None, float | None]
    wrong: list[str]


class QuestionFigures(Struct, frozen=True, kw_only=True):
    """What was asked, and what came of it.

    `share` is the part of the runs, or of the replies, that a question was asked about; `right` counts the
    verdicts that the labels confirm, of those that say something and are `labelled`.
    Tokens are estimated by length where a judge reports none; a cost of None is not known.
    """

    asked: int
    by_subject: dict[str, int]
    share: Estimate
    per_1000_steps: float | None
    tokens: int
    tokens_per_question: float | None
    tokens_per_1000_steps: float | None
    cost_usd: float | None
    median_seconds: float | None
    verdicts: dict[str, int]
    labelled: int
    right: int


class SetFigures(Struct, frozen=True, kw_only=True):
    """One set of runs, with and without a judge."""

    name: str
    runs: int
    steps: int
    kinds: list[KindFigures]
    questions: QuestionFigures


class LearntWeight(Struct, frozen=True, kw_only=True):
    """How far verdicts are trusted: fixed, or the share of labelled verdicts that were right."""

    weight: float
    labels: int
    is_learnt: bool


def measure_set(name: str, judged: Sequence[JudgedRun], truth: LabelTruth) -> SetFigures:
    """Return what a judge changed in the runs of one set."""
    steps = sum(it.action_type in {TOOL_CALL, LLM_REQUEST} for one in judged for it in one.run.events)
    return SetFigures(
        name=name,
        runs=len(judged),
        steps=steps,
        kinds=[it for kind in KINDS if (it := _measure_kind(kind, judged, truth)) is not None],
        questions=measure_questions(
            [it for one in judged for it in one.asked],
            asked_about=sum(bool(one.asked) for one in judged),
            of=len(judged),
            steps=steps,
        ),
    )


def measure_questions(
    asked: Sequence[AskedQuestion], *, asked_about: int, of: int, steps: int | None = None
) -> QuestionFigures:
    """Return what these questions cost and how many were answered rightly."""
    tokens = sum(count_tokens(it.question, it.answer.verdict) for it in asked)
    costs = [it.answer.verdict.cost_usd for it in asked]
    times = [it.answer.seconds for it in asked if it.answer.seconds is not None]
    said = [it for it in asked if it.truth is not None and _says_something(it)]
    known = [cost for cost in costs if cost is not None]
    return QuestionFigures(
        asked=len(asked),
        by_subject=dict(sorted(Counter(str(it.question.about) for it in asked).items())),
        share=estimate_share(asked_about, of),
        per_1000_steps=1000 * len(asked) / steps if steps else None,
        tokens=tokens,
        tokens_per_question=tokens / len(asked) if asked else None,
        tokens_per_1000_steps=1000 * tokens / steps if steps else None,
        cost_usd=sum(known) if known else None,
        median_seconds=statistics.median(times) if times else None,
        verdicts=dict(sorted(Counter(it.answer.verdict.label for it in asked).items())),
        labelled=len(said),
        right=sum(is_right(it) for it in said),
    )


def learn_weight(asked: Iterable[AskedQuestion]) -> LearntWeight:
    """Return the weight of a verdict: fixed until enough labels exist, then the share that was right.

    One right and one wrong verdict are added, so that no finite number of labels gives full trust.
    """
    said = [it for it in asked if it.truth is not None and _says_something(it)]
    if len(said) < MIN_LABELS:
        return LearntWeight(weight=FIXED_WEIGHT, labels=len(said), is_learnt=False)
    share = (sum(map(is_right, said)) + 1) / (len(said) + 2)
    return LearntWeight(weight=round(share, 3), labels=len(said), is_learnt=True)


def is_right(asked: AskedQuestion) -> bool:
    """Return whether a verdict agrees with the labels."""
    labels = DRIFT_LABELS if asked.truth else HEALTHY_LABELS
    return asked.answer.verdict.label == labels[asked.question.about]


def _says_something(asked: AskedQuestion) -> bool:
    about = asked.question.about
    return asked.answer.verdict.label in {DRIFT_LABELS[about], HEALTHY_LABELS[about]}


def _measure_kind(kind: str, judged: Sequence[JudgedRun], truth: LabelTruth) -> KindFigures | None:
    """Return the figures of one kind of drift; None where no run is labelled for it."""
    before, after, wrong = [], [], []
    for one in judged:
        expected = truth.expect(one.run, kind).run
        if expected is None:
            continue
        found = _is_found(kind, one, one.after)
        before.append(Counts.of(expected=expected, found=_is_found(kind, one, one.before)))
        after.append(Counts.of(expected=expected, found=found))
        if found != expected:
            wrong.append(one.run.info.run_id)
    if not before:
        return None
    sums = (sum_counts(before), sum_counts(after))
    first, second = sums
    return KindFigures(
        kind=kind,
        positive=first.tp + first.fn,
        healthy=first.fp + first.tn,
        recall=(_share(first.tp, first.fn), _share(second.tp, second.fn)),
        false_alarms=(_share(first.fp, first.tn), _share(second.fp, second.tn)),
        f1=(f1(first), f1(second)),
        wrong=wrong,
    )


def _is_found(kind: str, one: JudgedRun, report: RunReport) -> bool:
    if has_plant(one.run):
        return is_flagged(report, read_plant(one.run))
    return any(it.kind == kind and it.severity.rank >= Severity.MED.rank for it in report.findings)


def _share(hits: int, others: int) -> Estimate:
    return estimate_share(hits, hits + others)
