"""What a judge has used, and what it may use."""

from typing import Final, NamedTuple

from msgspec import Struct

_TOLERANCE: Final = 1e-9


class JudgeAmounts(Struct, frozen=True):
    """Calls, tokens and dollars of a judge; the cost is 0 where no price is known."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def add(self, other: "JudgeAmounts", sign: int = 1) -> "JudgeAmounts":
        """Return the sum with another amount, or the difference."""
        return JudgeAmounts(
            self.calls + sign * other.calls,
            self.tokens + sign * other.tokens,
            self.cost_usd + sign * other.cost_usd,
        )


class JudgeLimits(NamedTuple):
    """What may be used in one run, or in one day; 0 is no limit."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def find_passed(self, amounts: JudgeAmounts) -> str:
        """Return the limit that amounts would pass, in words; empty when they pass none."""
        if self.calls and amounts.calls > self.calls:
            return "calls"
        if self.tokens and amounts.tokens > self.tokens:
            return "tokens"
        return "dollars" if self.cost_usd and amounts.cost_usd > self.cost_usd + _TOLERANCE else ""
