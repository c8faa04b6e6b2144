"""Answer questions in the lab: from labels, from a file of verdicts, or by asking a judge."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from steadyhelm.errors import FormatError, MissingExtraError
from steadyhelm.judge import (
    DRIFT_LABELS,
    HEALTHY_LABELS,
    MAX_QUOTE_CHARS,
    UNSURE,
    JudgeVerdict,
    ModelJudge,
    NoVerdictError,
    Question,
)
from steadyhelm.judging.answers import read_answer
from steadyhelm.judging.questions import is_quoted

MAX_LINE_BYTES: Final = 1 << 20


class ExportedQuestion(Struct, frozen=True, kw_only=True):
    """A question as it is written: all that is needed to answer it, and where it came from."""

    question_id: str
    about: str
    labels: tuple[str, ...]
    text: str
    source: str = ""


class ImportedVerdict(Struct, frozen=True, kw_only=True):
    """A line of a file of verdicts: the answer to the question of this id."""

    question_id: str
    label: str
    confidence: float = 1.0
    quote: str = ""
    seconds: float | None = None
    line: int = 0


class BadLine(NamedTuple):
    """A line that is no verdict, and why."""

    line: int
    reason: str


def write_questions(path: Path, questions: Iterable[tuple[str, Question]]) -> int:
    """Write each different question once, with its source; return how many. Raises FormatError."""
    lines = {
        it.question_id: ExportedQuestion(
            question_id=it.question_id, about=it.about, labels=it.labels, text=it.text, source=source
        )
        for source, it in questions
    }
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines.values())
    try:
        path.write_bytes(content)
    except OSError as exc:
        raise FormatError(f"{str(path)!r} cannot be written: {exc.strerror or exc}.") from exc
    return len(lines)


def read_verdicts(path: Path) -> tuple[dict[str, ImportedVerdict], list[BadLine]]:
    """Return the verdicts of a file by question, the last of several, and the lines that are none.

    Raises FormatError when the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    bad: list[BadLine] = []
    return {it.question_id: it for it in _decode(content.split(b"\n"), bad)}, bad


def _decode(lines: Iterable[bytes], bad: list[BadLine]) -> Iterator[ImportedVerdict]:
    decoder = msgspec.json.Decoder(ImportedVerdict)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            verdict = decoder.decode(line[:MAX_LINE_BYTES])
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            bad.append(BadLine(number, f"not a verdict: {exc}"))
            continue
        if not 0.0 <= verdict.confidence <= 1.0:
            bad.append(BadLine(number, f"confidence must be 0 to 1, got {verdict.confidence!r}"))
        elif len(verdict.quote) > MAX_QUOTE_CHARS:
            bad.append(BadLine(number, f"the quote is longer than {MAX_QUOTE_CHARS} characters"))
        else:
            yield msgspec.structs.replace(verdict, line=number)


CHARS_PER_TOKEN: Final = 4
"""About so many characters of English are one token; used where a judge does not report its tokens."""

VERDICT_TOKENS: Final = 60
_HASH_RANGE: Final = 1 << 32


class Answer(NamedTuple):
    """A verdict, and how long it took; None where nobody measured."""

    verdict: JudgeVerdict
    seconds: float | None = None


class Answers(Protocol):
    """Whatever answers questions in the lab."""

    def answer(self, question: Question, truth: bool | None) -> Answer:
        """Return the answer. `truth` is whether it is drift, by the labels; None where they do not say."""
        ...


class NoAnswers:
    """Answers nothing: shows which questions would be asked."""

    def answer(self, question: Question, truth: bool | None) -> Answer:  # noqa: ARG002
        """Return a verdict that changes nothing."""
        return Answer(JudgeVerdict(label=UNSURE, confidence=0.0))


class Oracle:
    """Answers from labels: the most that a cascade can reach, or a judge that errs now and then.

    Args:
        errors: The share of wrong answers.
        seed: Makes another choice of the questions that are answered wrongly.
    """

    def __init__(self, *, errors: float = 0.0, seed: int = 0) -> None:
        self._errors = errors
        self._seed = seed

    def answer(self, question: Question, truth: bool | None) -> Answer:
        """Return what the labels say, or the opposite for the given share of questions."""
        if truth is None:
            return Answer(JudgeVerdict(label=UNSURE, confidence=0.0))
        labels = DRIFT_LABELS if truth != self._errs(question) else HEALTHY_LABELS
        return Answer(JudgeVerdict(label=labels[question.about], confidence=1.0))

    def _errs(self, question: Question) -> bool:
        """Decide by the question's content: the same question is answered the same whenever it is asked."""
        key = f"{self._seed}/{question.question_id}".encode()
        drawn = int.from_bytes(blake2b(key, digest_size=4).digest())
        return drawn < self._errors * _HASH_RANGE


class ImportedAnswers:
    """Answers from a file of verdicts; `used` has the ids that were asked for, `unusable` lines by reason."""

    def __init__(self, verdicts: dict[str, ImportedVerdict]) -> None:
        self._verdicts = verdicts
        self.used: set[str] = set()
        self.unusable: dict[int, str] = {}

    def answer(self, question: Question, truth: bool | None) -> Answer:  # noqa: ARG002
        """Return the verdict of the file; one that changes nothing where there is none."""
        found = self._verdicts.get(question.question_id)
        if found is None:
            return Answer(JudgeVerdict(label=UNSURE, confidence=0.0))
        self.used.add(question.question_id)
        reason = _explain_unusable(question, found)
        if reason:
            self.unusable[found.line] = reason
            return Answer(JudgeVerdict(label=UNSURE, confidence=0.0))
        return Answer(
            JudgeVerdict(label=found.label, confidence=found.confidence, quote=found.quote),
            found.seconds,
        )

    def list_problems(self) -> dict[int, str]:
        """Return the lines that could not be used, with the reason."""
        unknown = {
            it.line: "no such question is asked about these runs"
            for key, it in self._verdicts.items()
            if key not in self.used
        }
        return dict(sorted({**unknown, **self.unusable}.items()))


def _explain_unusable(question: Question, given: ImportedVerdict) -> str:
    if given.label not in question.labels:
        return f"the label must be one of {', '.join(question.labels)}"
    if given.quote and not is_quoted(given.quote, question.text):
        return "the quote does not occur in what the question shows"
    return ""


class JudgeAnswers:
    """Asks a judge, each question once; counts the answers that cannot be used by reason.

    Args:
        judge: The judge to ask.
        max_questions: Questions after which nobody is asked any more; None for no limit.
        price: Returns the cost of an answer by model and tokens; None where no price is known.
        clock: Returns seconds, for the latency.
    """

    def __init__(
        self,
        judge: ModelJudge,
        *,
        max_questions: int | None = None,
        price: Callable[[str, int, int], float | None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._judge = judge
        self._left = max_questions
        self._price = price
        self._clock = clock
        self._known: dict[str, Answer] = {}
        self.failures: Counter[str] = Counter()

    def answer(self, question: Question, truth: bool | None) -> Answer:  # noqa: ARG002
        """Return the verdict of the judge; one that changes nothing where it fails or may not be asked.

        Raises MissingExtraError where the package of its client is not installed.
        """
        known = self._known.get(question.question_id)
        if known is not None:
            return known
        if self._left is not None and self._left <= 0:
            self.failures["not asked: the limit of questions is reached"] += 1
            return Answer(JudgeVerdict(label=UNSURE, confidence=0.0))
        self._left = None if self._left is None else self._left - 1
        answer = self._known[question.question_id] = self._ask(question)
        return answer

    def _ask(self, question: Question) -> Answer:
        began = self._clock()
        try:
            verdict = read_answer(self._judge.judge(question), question)
        except MissingExtraError:
            raise
        except NoVerdictError as exc:
            self.failures[str(exc)] += 1
        except Exception as exc:  # noqa: BLE001 - a judge may fail in any way; the measurement goes on
            self.failures[type(exc).__name__] += 1
        else:
            return Answer(self._add_cost(verdict), self._clock() - began)
        return Answer(JudgeVerdict(label=UNSURE, confidence=0.0), self._clock() - began)

    def _add_cost(self, verdict: JudgeVerdict) -> JudgeVerdict:
        model = str(getattr(self._judge, "model", ""))
        if verdict.cost_usd is not None or self._price is None or not model:
            return verdict
        cost = self._price(model, verdict.input_tokens, verdict.output_tokens)
        return structs.replace(verdict, cost_usd=cost)


def count_tokens(question: Question, verdict: JudgeVerdict) -> int:
    """Return the tokens of a question and its answer: as reported, or estimated by length."""
    reported = verdict.input_tokens + verdict.output_tokens
    return reported or len(question.text) // CHARS_PER_TOKEN + VERDICT_TOKENS
