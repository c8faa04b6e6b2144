"""The shape of a reply: how long, how many lines, what is pasted, how it starts and ends."""

import math
import re
from typing import Final

from steadyhelm.corrections.reading import Reading

_TICKED: Final = re.compile(r"`[^`\n]{2,80}`")
_PATH: Final = re.compile(r"[\w.-]{1,80}/[\w./-]+")
_AT_FILE: Final = re.compile(r"(?:^|\s)@\S")
_BULLET: Final = re.compile(r"(?m)^[ \t]*(?:[-*•]|\d+[.)])\s")
_QUOTE: Final = re.compile(r"(?m)^[ \t]*>|\"[^\"\n]{8,}\"|“")
_SHOUT: Final = re.compile(r"\b[A-Z]{4,}\b")
_SPEAKER: Final = re.compile(r"\b(?:i|i'm|you|we|u|me|my|your|our|us|let's|lets|i'd|i've|we're)\b")
_IDENTIFIER: Final = re.compile(r"\b[a-z]+[A-Z]\w+|\b\w+_\w+|\b[A-Z][a-z]+[A-Z]\w*|\w\(\)")

_SHORT: Final = (1, 2, 3, 5, 8)
_LONG: Final = (25, 60)
_REPORT_WORDS: Final = 25
_REMARK_WORDS: Final = 15
_FEW_WORDS: Final = 8
_FEW_LINES: Final = 6
_PASTE_LINES: Final = 3


def shape_of(reply: str, reading: Reading) -> dict[str, float]:
    """The features of a reply's outer form."""
    words = len(reading.words)
    shape = {
        "words": math.log1p(words),
        "characters": math.log1p(len(reply)),
        "lines": math.log1p(reading.lines),
        "sentences": math.log1p(reading.sentences),
        "impersonal": float(words > _REMARK_WORDS and not _SPEAKER.search(reading.head)),
        "reads like a report": float(_reads_like_a_report(reply, reading)),
    }
    shape |= {f"at most {limit} words": float(words <= limit) for limit in _SHORT}
    shape |= {f"over {limit} words": float(words > limit) for limit in _LONG}
    return shape | _pasted(reading) | _marks(reply, reading)


def _pasted(reading: Reading) -> dict[str, float]:
    words = len(reading.words)
    pasted = {f"pasted {kind}": min(2.0, math.log1p(lines)) for kind, lines in reading.pasted.items()}
    return pasted | {
        "pasted share": reading.odd_lines / max(1, reading.lines),
        "pasted any": float(reading.odd_lines > 0),
        "pasted errors": min(2.0, math.log1p(reading.errors)),
        "pasted errors alone": float(
            words < _FEW_WORDS and reading.errors > 0 and reading.lines >= _PASTE_LINES
        ),
    }


def _marks(reply: str, reading: Reading) -> dict[str, float]:
    text, end = reading.text, reading.text.rstrip()
    return {
        "ends asking": float(end.endswith("?")),
        "question marks": min(3.0, reading.prose.count("?")),
        "exclaims": float("!" in reading.prose),
        "ends with a stop": float(end.endswith(".")),
        "starts upper case": float(reply.lstrip()[:1].isupper()),
        "shouts": min(3.0, len(_SHOUT.findall(reply))) if reading.lines < _FEW_LINES else 0.0,
        "fenced": float("```" in text),
        "ticked": min(3.0, len(_TICKED.findall(text))),
        "paths": min(3.0, len(_PATH.findall(text))),
        "names a file with @": float(bool(_AT_FILE.search(text))),
        "link": float("http" in text),
        "image": float("[image" in text),
        "bullets": min(5.0, len(_BULLET.findall(text))),
        "quotes": float(bool(_QUOTE.search(text))),
        "identifiers": min(4.0, len(_IDENTIFIER.findall(reply))),
    }


def _reads_like_a_report(reply: str, reading: Reading) -> bool:
    """Whether it is long, formal and speaks of code and of nobody: a review that is passed on."""
    return (
        len(reading.words) > _REPORT_WORDS
        and not _SPEAKER.search(reading.head)
        and reply.lstrip()[:1].isupper()
        and len(_IDENTIFIER.findall(reply)) > 1
    )
