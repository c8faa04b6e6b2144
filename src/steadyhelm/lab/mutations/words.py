"""Make names, ids, sentences and paraphrases from a seeded generator."""

import random
from collections.abc import Sequence
from typing import Final

_SYLLABLES: Final = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "qui",
    "ro",
    "su",
    "ta",
    "ve",
    "wi",
    "xa",
    "yo",
    "za",
    "bri",
    "cla",
    "dre",
    "fla",
    "gri",
)
_THINGS: Final = (
    "invoice",
    "ledger",
    "parser",
    "cache",
    "booking",
    "route",
    "sensor",
    "archive",
    "ticket",
    "vendor",
    "schema",
    "index",
    "report",
    "session",
    "gateway",
    "worker",
    "template",
    "account",
    "shipment",
    "catalog",
    "payment",
    "profile",
    "queue",
    "snapshot",
    "tenant",
    "widget",
)
_TOPICS: Final = (
    "memory usage",
    "retry policy",
    "date formats",
    "rate limits",
    "user roles",
    "currency rounding",
    "cold starts",
    "upload limits",
    "time zones",
    "index size",
    "cache expiry",
    "audit logs",
    "batch imports",
    "error codes",
    "file locks",
    "password resets",
    "search ranking",
    "data retention",
    "webhook order",
    "invoice numbering",
)
_FOLDERS: Final = ("src", "lib", "app", "core", "server", "client", "tools", "services")
_SUFFIXES: Final = (".py", ".ts", ".go", ".rs", ".java", ".md", ".yaml")
_STATEMENTS: Final = (
    "The {thing} module keeps one {other} per {word} and closes it when the {word} ends.",
    "Each {thing} has a {other} whose {word} is read once at start.",
    "{word} values above {number} are rejected by the {thing} before the {other} sees them.",
    "A {thing} without a {word} falls back to the {other} of its parent.",
    "The default {word} of the {thing} is {number}; the {other} may raise it.",
    "When the {other} is missing, the {thing} writes a {word} of {number} bytes instead.",
)


class Words:
    """Words and texts of one plant: every call returns new ones, the same seed returns the same ones."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def make_word(self) -> str:
        """Return a word that is in no dictionary and has no digits."""
        return "".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(2, 4)))

    def pick_thing(self) -> str:
        """Return an ordinary noun of software."""
        return self.rng.choice(_THINGS)

    def pick_topics(self, n: int) -> list[str]:
        """Return different topics to search for."""
        return self.rng.sample(_TOPICS, min(n, len(_TOPICS)))

    def make_id(self) -> str:
        """Return an identifier: hexadecimal digits, letters alone, or a number behind a prefix."""
        shape = self.rng.randrange(3)
        if shape == 0:
            return f"{self.rng.getrandbits(48):012x}"
        if shape == 1:
            return self.make_word() + "-" + self.make_word()
        return f"{self.pick_thing()[:3].upper()}-{self.rng.randint(1000, 99999)}"

    def make_time(self) -> str:
        """Return a time of day with a date."""
        at = self.rng
        return (
            f"2026-{at.randint(1, 12):02}-{at.randint(1, 28):02}"
            f"T{at.randint(0, 23):02}:{at.randint(0, 59):02}:{at.randint(0, 59):02}Z"
        )

    def make_path(self) -> str:
        """Return the path of a source file."""
        rng = self.rng
        return f"{rng.choice(_FOLDERS)}/{self.pick_thing()}/{self.make_word()}{rng.choice(_SUFFIXES)}"

    def make_sentence(self) -> str:
        """Return a sentence with facts in it."""
        return self.rng.choice(_STATEMENTS).format(
            thing=self.pick_thing(),
            other=self.pick_thing(),
            word=self.make_word(),
            number=self.rng.randint(2, 9000),
        )

    def make_text(self, sentences: int = 3) -> str:
        """Return a text of different sentences."""
        return " ".join(self.make_sentence() for _ in range(sentences))

    def reword(self, openings: Sequence[str], subject: str, endings: Sequence[str], n: int) -> list[str]:
        """Return `n` wordings of one sentence: all pairs of opening and ending, shuffled, then again."""
        pairs = [f"{opening} {subject}{ending}" for opening in openings for ending in endings]
        self.rng.shuffle(pairs)
        return [pairs[place % len(pairs)] for place in range(n)]
