"""A message as the rest reads it: what the person wrote, apart from what was pasted in."""

import re
from typing import Final, NamedTuple

REPLY_LOOKED_AT: Final = 1_200
ASSISTANT_LOOKED_AT: Final = 900
PROMPT_LOOKED_AT: Final = 300
"""As much of each text as there was to learn from: a longer look would see what was never learnt."""

_HEAD: Final = 600
_FIRST: Final = 200
_ODD_LINE: Final = 30
_PROSE_SHARE: Final = 0.6

_FENCE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"[^\W\d][\w']*")

_ERROR: Final = re.compile(
    r"\b(?:error|exception|traceback|fatal|panic|failed|failure|cannot find|not found|undefined"
    r"|unexpected|denied|refused"
    r"|exit (?:code|status)|warning|unable to|fail)\b"
)
_PASTED: Final = {
    "log": re.compile(
        r"^\s*(?:\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|\{\"(?:time|level|ts|type)|\[(?:info|warn|error"
        r"|debug|\w+:\w+)|time=|level=)"
    ),
    "trace": re.compile(
        r"^\s*(?:at \S+[ (]|file \"|\S+\.(?:go|py|ts|tsx|js|rs|java|c|cpp|rb|svelte|vue|php|cs|kt"
        r"|swift)[:(]\d+"
        r"|---? (?:fail|pass)|=== |goroutine |caused by|\d+ \|)"
    ),
    "shell": re.compile(r"^\s*(?:[\w.@~:/-]+\s*[%$#] |\$ |\u276f |\u279c |> |>>> |ps [a-z]:)"),
    "diff": re.compile(r"^(?:[+-]{1,3}\s{0,8}\S|@@ |diff --git|index [0-9a-f]+)"),
}


class Reading(NamedTuple):
    """What was found in a text; all of it in lower case.

    `prose` is what the person wrote, without fenced code and without lines that look pasted; `head` its
    beginning, `first` its first sentence.
    `pasted` counts pasted lines by kind, `errors` the lines that speak of an error.
    """

    text: str
    prose: str
    head: str
    first: str
    sentences: int
    words: tuple[str, ...]
    lines: int
    odd_lines: int
    errors: int
    pasted: dict[str, int]


def read(text: str) -> Reading:
    r"""Read a text that was already cut to what shall be looked at.

    >>> read("still red:\n[12:00:01] build FAILED").prose
    'still red:'
    """
    lowered = text.lower().replace("\u2019", "'")
    lines = _FENCE.sub(" ", lowered).split("\n")
    kinds = [[kind for kind, looks in _PASTED.items() if looks.search(line)] for line in lines]
    odd = [bool(found) or _is_odd(line) for line, found in zip(lines, kinds, strict=True)]
    prose = "\n".join(line for line, is_odd in zip(lines, odd, strict=True) if not is_odd)
    head = prose.strip()[:_HEAD]
    sentences = [sentence for sentence in _SENTENCE_END.split(head) if sentence.strip()]
    return Reading(
        text=lowered,
        prose=prose,
        head=head,
        first=sentences[0][:_FIRST] if sentences else "",
        sentences=len(sentences),
        words=tuple(_WORD.findall(prose)),
        lines=len(lines),
        odd_lines=sum(odd),
        errors=sum(bool(_ERROR.search(line)) for line in lines),
        pasted={kind: sum(kind in found for found in kinds) for kind in _PASTED},
    )


def start_of(text: object, limit: int) -> str:
    """The beginning of what is hopefully a text."""
    return text[:limit] if isinstance(text, str) else ""


def end_of(text: object, limit: int) -> str:
    """The end of what is hopefully a text."""
    return text[-limit:] if isinstance(text, str) else ""


def _is_odd(line: str) -> bool:
    """Whether a line is mostly signs and digits, as no sentence is."""
    if len(line) <= _ODD_LINE:
        return False
    return sum(char.isalpha() or char == " " for char in line) < _PROSE_SHARE * len(line)
