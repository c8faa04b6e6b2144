"""Phrases to look for in what tools return."""

import re
from typing import NamedTuple


class Phrases(NamedTuple):
    """Phrases to look for in lower-case text: plain hints first, since the pattern costs far more."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]

    def occur_in(self, lowered: str) -> bool:
        """Return whether a lower-case text contains one of them."""
        for hint in self.hints:
            if hint in lowered:
                return self.pattern.search(lowered) is not None
        return False


def to_lower(text: str) -> str:
    """Return a text in lower case; characters beyond ASCII are mangled, and no phrase has any."""
    if text.isascii():
        return text.lower()
    # Where a text holds one arrow or quotation mark, lowering it as text costs ten times as much.
    return text.encode("utf-8", "replace").lower().decode("latin-1")
