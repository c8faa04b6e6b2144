"""Count how many healthy runs are flagged, by kind: each judged alone, or by what other runs taught."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, structs

from steadyhelm.components import make_detector_factory
from steadyhelm.corrections.model import CorrectionWeights
from steadyhelm.detector import Detector
from steadyhelm.detectors.user_correction import UserCorrection
from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.metrics import Estimate, estimate_share
from steadyhelm.lab.evaluation.report_text import format_table
from steadyhelm.lab.training.fitting import learn_weights, make_folds, prepare
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import JudgedReplay, Replayer, RunReport
from steadyhelm.replay_pool import Workers, open_replayer
from steadyhelm.reports.formats import make_printable, pluralize
from steadyhelm.settings import Settings
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores.sql_store import SQLStore
from steadyhelm.stores.sqlite import SQLiteStore

_AGENT: Final = "lab"
_NOT_COUNTED: Final = "resource"
"""The kind that is left out of `any`: every long session passes the usual limits."""


HeldOut = Literal["session", "project"]
"""What the replies must not be from that weights are learnt from."""

WeightsByRun = Mapping[str, CorrectionWeights]
"""The weights that the messages of each run are read by, by its id."""

_SESSION_FOLDS: Final = 10


class FalseAlarms(Struct, frozen=True, kw_only=True):
    """How many of `runs` were flagged, by kind, and in how many each detector could not look.

    `learnt_from` is how many other runs the baseline was learnt from.
    """

    name: str
    runs: int
    learnt_from: int
    flagged: dict[str, int]
    flagged_any: int
    not_checked: dict[str, int]
    wrong: list[str]

    def share(self, count: int) -> Estimate:
        """Return the share of the runs, with its interval."""
        return estimate_share(count, self.runs)


def count_false_alarms(
    name: str,
    runs: Sequence[ReadRun],
    settings: Settings,
    *,
    learn_from: int = 0,
    seed: int = 0,
    weights: WeightsByRun | None = None,
    workers: Workers = Workers(),  # noqa: B008 - immutable
) -> FalseAlarms:
    """Judge runs with a baseline learnt from `learn_from` of them, chosen at random; those are not judged.

    With `weights` the messages of each run are read by its own, in this process whatever `workers` says.
    """
    order = random.Random(seed).sample(runs, len(runs))  # noqa: S311 - reproducible, not secret
    flagged: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    wrong: list[str] = []
    with learn_baseline(order[:learn_from], settings, weights) as store:
        judged = _judge_runs(
            order[learn_from:], settings, store if learn_from else None, weights=weights, workers=workers
        )
        for run, report, *_ in judged:
            kinds = list_flagged_kinds(report)
            flagged.update(kinds)
            missing.update({it.detector for it in report.not_checked})
            wrong += [f"{run.info.run_id}: {', '.join(sorted(kinds))}"] if kinds - {_NOT_COUNTED} else []
    return FalseAlarms(
        name=name,
        runs=len(order[learn_from:]),
        learnt_from=len(order[:learn_from]),
        flagged=dict(sorted(flagged.items())),
        flagged_any=len(wrong),
        not_checked=dict(sorted(missing.items())),
        wrong=wrong,
    )


def learn_weights_by_run(
    runs: Sequence[ReadRun], replies: Sequence[LabelledReply], held_out: HeldOut
) -> WeightsByRun:
    """Return for each run weights learnt from replies of other sessions, or of none of the runs' projects."""
    cases, ids = prepare(replies), [run.info.run_id for run in runs]
    if held_out == "project":
        own = {reply.repo for reply in replies if reply.run_id in set(ids)}
        return dict.fromkeys(ids, learn_weights([case for case in cases if case.reply.repo not in own]))
    folds = make_folds([reply.session for reply in replies], _SESSION_FOLDS)
    learnt = [learn_weights([cases[place] for place in fold.learn]) for fold in folds]
    by_run = {
        replies[place].run_id: weights
        for fold, weights in zip(folds, learnt, strict=True)
        for place in fold.keep
    }
    # No weights have seen a run without labelled replies.
    return {run_id: by_run.get(run_id, learnt[0]) for run_id in ids}


def _judge_runs(
    runs: Iterable[ReadRun],
    settings: Settings,
    store: SQLStore | None,
    *,
    weights: WeightsByRun | None,
    workers: Workers,
) -> Iterator[JudgedReplay]:
    if weights is None:
        with open_replayer(settings, store=store, workers=workers) as replayer:
            yield from replayer.judge_all(map(as_one_agent, runs))
        return
    for run in runs:
        yield _open_replayer_of(run, settings, store, weights).judge(as_one_agent(run))


def _open_replayer_of(
    run: ReadRun, settings: Settings, store: SQLStore | None, weights: WeightsByRun | None
) -> Replayer:
    """Return a replayer that reads messages by the weights of this run."""
    if weights is None:
        return Replayer(settings, store=store)
    make_detectors, own = make_detector_factory(settings), weights[run.info.run_id]

    def make_with_weights() -> list[Detector]:
        detectors = make_detectors()
        for detector in detectors:
            if isinstance(detector, UserCorrection):
                detector.weights = own
        return detectors

    return Replayer(settings, store=store, make_detectors=make_with_weights)


@contextmanager
def learn_baseline(
    runs: Iterable[ReadRun], settings: Settings, weights: WeightsByRun | None = None
) -> Iterator[SQLStore]:
    """Yield a store in which one agent was learnt from these runs, in this order, as in production."""
    with tempfile.TemporaryDirectory(prefix="steadyhelm-lab-") as folder:
        store = SQLiteStore(Path(folder) / "lab.db")
        sink = StoreSink(store, calibration_runs=settings.calibration_runs)
        try:
            for number, run in enumerate(runs):
                # A replayer reads a baseline once: each run needs the one learnt from those before it.
                judged = _open_replayer_of(run, settings, store, weights).judge(as_one_agent(run, number))
                sink.write([judged.run.info, *judged.incidents, judged.summary])
            yield store
        finally:
            store.close()


def as_one_agent(run: ReadRun, number: int | None = None) -> ReadRun:
    """Return the run as one of the same agent, whatever its file says."""
    run_id = run.info.run_id if number is None else f"{number}-{run.info.run_id}"
    info = structs.replace(run.info, agent_id=_AGENT, run_id=run_id, version="", task_type="")
    return structs.replace(run, info=info)


def list_flagged_kinds(report: RunReport) -> set[str]:
    """Return the kinds of the findings of MED or above."""
    return {finding.kind for finding in report.findings if finding.severity.rank >= Severity.MED.rank}


def format_false_alarms(counted: FalseAlarms, *, wrong: bool = False) -> str:
    """Return one set's counts as text, with every flagged run if `wrong` is set."""
    learnt = "each judged alone"
    if counted.learnt_from:
        learnt = f"judged with a baseline of {pluralize(counted.learnt_from, 'other run')}"
    shown = {**counted.flagged, f"any but {_NOT_COUNTED}": counted.flagged_any}
    parts = [
        make_printable(f"{counted.name}: {pluralize(counted.runs, 'run')}, {learnt}"),
        format_table(("flagged", "runs", "share [95 %]"), _build_rows(counted, shown)),
    ]
    if counted.not_checked:
        rows = _build_rows(counted, counted.not_checked)
        parts.append(format_table(("not checked", "runs", "share [95 %]"), rows))
    if wrong and counted.wrong:
        parts.append("\n".join(f"  {make_printable(run)}" for run in counted.wrong))
    return "\n\n".join(parts)


def _build_rows(counted: FalseAlarms, counts: dict[str, int]) -> list[tuple[str, ...]]:
    return [(name, str(n), str(counted.share(n))) for name, n in counts.items()]
