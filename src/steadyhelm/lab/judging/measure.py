"""Measure a judge on sets of runs and on labelled replies: the whole of `steadyhelm lab judge`."""

from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from steadyhelm.judge import UNSURE, Question
from steadyhelm.judging.questioner import Questioner
from steadyhelm.lab.evaluation.false_alarms import as_one_agent, learn_baseline
from steadyhelm.lab.evaluation.labelled_runs import RunSet
from steadyhelm.lab.judging.answers import Answers
from steadyhelm.lab.judging.figures import LearntWeight, SetFigures, learn_weight, measure_set
from steadyhelm.lab.judging.judged_replay import AskedQuestion, judge_runs
from steadyhelm.lab.judging.judged_replies import ReplyFigures, judge_replies
from steadyhelm.lab.judging.truth import LabelTruth
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.redaction import Redactor
from steadyhelm.replay import Judge
from steadyhelm.settings import Settings
from steadyhelm.store import Store

_MEASURED_KINDS = frozenset({"loop", "goal", "correction"})


class JudgeReport(Struct, frozen=True, kw_only=True):
    """What a judge changes in each set and in the replies, and the weight its verdicts deserve."""

    sets: list[SetFigures]
    replies: list[ReplyFigures]
    weight: LearntWeight
    failures: dict[str, int]
    unusable: dict[int, str]


class JudgeMeasurement:
    """Asks the same questions as a live run, and collects what comes of the answers.

    Args:
        settings: The detectors and their options, and what is redacted.
        answers: Whatever answers.
    """

    def __init__(self, settings: Settings, answers: Answers) -> None:
        self._settings = settings
        self._answers = answers
        self._redact = Redactor(
            key_words=settings.redaction_keys, patterns=settings.redaction_patterns
        ).redact_text
        self._asked: list[tuple[str, AskedQuestion]] = []

    @property
    def asked(self) -> list[AskedQuestion]:
        """Everything that was asked."""
        return [it for _, it in self._asked]

    @property
    def weight(self) -> LearntWeight:
        """The weight of a verdict, by what was asked so far."""
        return learn_weight(self.asked)

    def list_open_questions(self) -> list[tuple[str, Question]]:
        """Return the questions without an answer that says something, each with its source."""
        return [(name, it.question) for name, it in self._asked if it.answer.verdict.label == UNSURE]

    def measure_sets(
        self,
        sets: Sequence[RunSet],
        *,
        teachers: Sequence[ReadRun] = (),
        on_run: Callable[[], None] = lambda: None,
    ) -> list[SetFigures]:
        """Return what the judge changes in each set.

        A baseline is learnt from `teachers` before; a run among them is not judged.
        """
        taught = {run.info.run_id for run in teachers}
        left = [
            structs.replace(it, runs=[run for run in it.runs if run.info.run_id not in taught]) for it in sets
        ]
        with learn_baseline(teachers, self._settings) as store:
            known = store if teachers else None
            return [self._measure_set(one, known, on_run) for one in left if one.runs]

    def _measure_set(self, one: RunSet, store: Store | None, on_run: Callable[[], None]) -> SetFigures:
        truth = LabelTruth(one.runs)
        judged = []
        for run in judge_runs(
            one.runs if store is None else map(as_one_agent, one.runs),
            alone=self._make_replayer(store, asks=False),
            asking=self._make_replayer(store, asks=True),
            answers=self._answers,
            truth=truth,
            weight=self._settings.judging_weight,
        ):
            judged.append(run)
            self._asked += [(f"{one.name}/{run.run.info.run_id}", it) for it in run.asked]
            on_run()
        return measure_set(one.name, judged, truth)

    def measure_replies(
        self, name: str, replies: Sequence[LabelledReply], *, on_fold: Callable[[], None] = lambda: None
    ) -> ReplyFigures:
        """Return what the judge changes about labelled replies."""
        judged = judge_replies(
            name,
            replies,
            self._answers,
            weight=self._settings.judging_weight,
            redact=self._redact,
            on_fold=on_fold,
        )
        self._asked += [(name, it) for it in judged.asked]
        return judged.figures

    def _make_replayer(self, store: Store | None, *, asks: bool) -> Judge:
        make = (lambda: Questioner(self._redact)) if asks else None
        return Judge(self._settings, store=store, kinds=_MEASURED_KINDS, make_questioner=make)
