"""A cue: a turn of phrase that speaks for or against a correction, with how strongly we hold it does."""

import re
from typing import Final, NamedTuple

_ADDRESSES: Final = (
    r"(?:(?:ok(?:ay)?|yes|yeah|no|well|so|and|but|also|oh|hey|hmm+|right|great|nice|cool|good|perfect|now"
    r"|then|next|first|just|alright|thanks|please|pls|can you|could you|let'?s)[,.: ]+)*"
)
"""What people put before the word that matters."""

# Pieces that several cues share.
NOT: Final = r"(?:not|n't|nt|never|isnt|stopped)"
ALMOST: Final = r"(?:really |quite |actually |fully |properly |even |entirely |exactly |so |very |all |yet )*"
ONE: Final = r"(?:i|we|you|u|it|they|this|that|these|those|there|the)"
LATELY: Final = r"(?:now |still |also |only |just |really |already |clearly |explicitly |actually |always )*"


class Cue(NamedTuple):
    """A turn of phrase.

    `leans` is our own judgement of it, written before anything was learnt: above zero it speaks for a
    correction, below zero against one; 1 is a plain sign, 0.3 a hint. Learning may move it, not replace it.
    """

    name: str
    leans: float
    pattern: re.Pattern[str]


def said(name: str, leans: float, turns: str) -> Cue:
    """A cue that counts wherever one of its turns of phrase, parted by " | ", stands as whole words.

    >>> bool(said("failing", 1.2, "fails?").pattern.search("the build fails"))
    True
    >>> bool(said("failing", 1.2, "fails?").pattern.search("the failsafe"))
    False
    """
    return Cue(name, leans, re.compile(rf"(?<![\w'])(?:{turns.replace(' | ', '|')})(?![\w'])"))


def opens(name: str, leans: float, turns: str, *, address: bool = False) -> Cue:
    """A cue that counts only as the first words; with `address` after "ok, now please" and the like.

    >>> bool(opens("fix", 0.2, "fix", address=True).pattern.search("ok, please fix it"))
    True
    >>> bool(opens("fix", 0.2, "fix", address=True).pattern.search("a fix"))
    False
    """
    before = _ADDRESSES if address else ""
    return Cue(name, leans, re.compile(rf"^\W*{before}(?:{turns.replace(' | ', '|')})(?![\w'])"))


def like(name: str, leans: float, *shapes: str) -> Cue:
    """A cue given by shapes that say themselves where they begin and end."""
    return Cue(name, leans, re.compile("|".join(shapes)))
