"""Write questions and read verdicts as JSON Lines, so that people or another model judge offline."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError
from steadyhelm.judge import MAX_QUOTE_CHARS, Question

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
