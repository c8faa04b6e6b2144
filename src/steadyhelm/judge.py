"""The contract of a judge: a model that the user brings answers small questions where rules are unsure.

A question is raised by a session, answered off the agent's thread, and its verdict is recorded as an event
(`judged`). Only that event has an effect: a replay of it decides the same and asks nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, Self, get_args, runtime_checkable

import msgspec
from msgspec import Struct, structs

from steadyhelm.errors import FormatError, SteadyhelmError

Subject = Literal["loop", "goal", "reply"]
"""What a question is about: a repetition, a goal, or a message of the user."""

SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)

UNSURE: Final = "unsure"
"""The label of a judge that cannot tell; it changes nothing."""

NO_VERDICT: Final = "none"
"""The label of a report that no verdict came of a question; it changes nothing."""

DRIFT_LABELS: Final[Mapping[Subject, str]] = {
    "loop": "no_progress",
    "goal": "departs",
    "reply": "correction",
}
"""The label of each kind of question that says: something is wrong."""

HEALTHY_LABELS: Final[Mapping[Subject, str]] = {"loop": "healthy", "goal": "serves", "reply": "no_correction"}
"""The label of each kind of question that says: all is well."""

FIXED_WEIGHT: Final = 0.8
"""How far verdicts are trusted until a weight is learnt from labels."""

MIN_BELIEF: Final = 0.5
"""A verdict has an effect from this product of its confidence and its weight on."""

MAX_QUOTE_CHARS: Final = 300
MAX_EVIDENCE_IDS: Final = 10

MAX_ANSWER_TOKENS: Final = 300
"""What a model may use for its answer."""


class Question(Struct, frozen=True, kw_only=True):
    """One question: self-contained, bounded, redacted, with all text of the run delimited.

    `subject` is the id of the incident it is about, or the pattern of findings, or the place of a message;
    `pattern` is what the steps are an instance of (see `name_pattern`), `evidence` the ids of the events it
    shows, and `place` the event at which it was raised. `proof` has the places of those that are the
    repetition, and `call` the fingerprint of the repeated call, 0 where there is none.
    These may differ between two equal questions: `question_id` depends on content alone, so that an equal
    question is answered from memory.
    """

    question_id: str
    about: Subject
    subject: str
    place: int
    labels: tuple[str, ...]
    text: str
    pattern: str = ""
    evidence: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    call: int = 0

    @classmethod
    def build(
        cls,
        about: Subject,
        text: str,
        *,
        subject: str,
        place: int,
        pattern: str = "",
        evidence: Sequence[str] = (),
    ) -> Self:
        """Return a question with the labels of its kind and the id of its content.

        >>> Question.build("reply", "Is it?", subject="7", place=7).labels
        ('correction', 'no_correction', 'unsure')
        """
        labels = (DRIFT_LABELS[about], HEALTHY_LABELS[about], UNSURE)
        content = "\0".join((about, *labels, text)).encode("utf-8", "replace")
        question_id = blake2b(content, digest_size=8).hexdigest()
        return cls(
            question_id=question_id,
            about=about,
            subject=subject,
            place=place,
            labels=labels,
            text=text,
            pattern=pattern,
            evidence=tuple(evidence[-MAX_EVIDENCE_IDS:]),
        )


class JudgeVerdict(Struct, frozen=True, kw_only=True):
    """An answer: a label, how sure the judge is (0 to 1), and words of the shown text that support it.

    Tokens and cost are what the answer used, where that is known.
    """

    label: str
    confidence: float
    quote: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class NoVerdictError(SteadyhelmError):
    """A judge did not answer as it was asked to: why, and what that has used all the same."""

    def __init__(self, reason: str, *, input_tokens: int = 0, output_tokens: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


@runtime_checkable
class ModelJudge(Protocol):
    """Whatever answers questions. It may take its time, and it may fail: both only cost its verdict."""

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the verdict; raise whatever happens."""
        ...


class JudgedReport(Struct, frozen=True, kw_only=True):
    """The metadata of a `judged` event: a verdict, the question it answers, and the weight it has.

    Without a verdict the label is `none`, and `reason` says why. `asked` is whether the judge was asked: an
    equal question is answered from memory, and beyond a limit nobody is asked. `addressed` says that the text
    shown tried to address the judge: then nothing is judged healthy.
    """

    question_id: str
    about: Subject
    subject: str
    place: int
    label: str
    confidence: float
    quote: str = ""
    pattern: str = ""
    evidence: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    call: int = 0
    weight: float = FIXED_WEIGHT
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    reason: str = ""
    asked: bool = True
    addressed: bool = False

    @classmethod
    def build(
        cls,
        question: Question,
        verdict: JudgeVerdict,
        weight: float = FIXED_WEIGHT,
        *,
        reason: str = "",
        asked: bool = True,
        addressed: bool = False,
    ) -> Self:
        """Return the report of a verdict."""
        return cls(
            question_id=question.question_id,
            about=question.about,
            subject=question.subject,
            place=question.place,
            pattern=question.pattern,
            evidence=question.evidence,
            proof=question.proof,
            call=question.call,
            weight=weight,
            reason=reason,
            asked=asked,
            addressed=addressed,
            **structs.asdict(verdict),
        )

    def to_metadata(self) -> dict[str, Any]:
        """Return it as the metadata of an event."""
        return {**structs.asdict(self), "evidence": list(self.evidence), "proof": list(self.proof)}

    @property
    def direction(self) -> int:
        """What it calls for: 1 a step up, -1 a step down, 0 nothing, as when it is not believed."""
        if self.confidence * self.weight < MIN_BELIEF:
            return 0
        if self.label == DRIFT_LABELS[self.about]:
            return 1
        return -1 if self.label == HEALTHY_LABELS[self.about] and not self.addressed else 0


def name_pattern(kind: str, subject: str, detector: str) -> str:
    """Return what a finding or an incident is an instance of: its subject, or its detector without one.

    >>> name_pattern("loop", "read_file", "action_loop"), name_pattern("goal", "", "goal_drift")
    ('loop/read_file', 'goal/goal_drift')
    """
    return f"{kind}/{subject or detector}"


def name_places(event_ids: Iterable[str], run_id: str) -> tuple[str, ...]:
    """Return the places of events in their run: the same live, where ids have the run's, and in a file.

    >>> name_places(["r.7", "7", "own"], "r")
    ('7', '7', 'own')
    """
    return tuple(_name_place(it, run_id) for it in event_ids)


def _name_place(event_id: str, run_id: str) -> str:
    whose, _, place = event_id.rpartition(".")
    return place if whose in {"", run_id} and place.isdecimal() else event_id


def read_judged(metadata: object) -> JudgedReport | None:
    """Return what a `judged` event reports; None for anything that no judge of ours can have said.

    >>> read_judged({"label": "healthy"}) is None
    True
    """
    try:
        report = msgspec.convert(dict(metadata) if isinstance(metadata, Mapping) else {}, JudgedReport)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
    is_share = 0.0 <= report.confidence <= 1.0 and 0.0 <= report.weight <= 1.0
    is_share = is_share and min(report.input_tokens, report.output_tokens, report.cost_usd or 0.0) >= 0
    known = (DRIFT_LABELS[report.about], HEALTHY_LABELS[report.about], UNSURE, NO_VERDICT)
    return report if is_share and report.label in known else None


def encode_question(question: Question) -> bytes:
    """Return a question as one line of JSON."""
    return msgspec.json.encode(question)


def decode_question(line: bytes | str) -> Question:
    """Return the question of a line that `encode_question` wrote; raises FormatError."""
    try:
        return msgspec.json.decode(line, type=Question)
    except msgspec.MsgspecError as exc:
        raise FormatError(f"This is no question of a judge: {exc}.") from exc
