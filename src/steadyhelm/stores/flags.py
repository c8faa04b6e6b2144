"""Sets kept as bits of one number, so that the list of runs can be filtered along an index."""

from collections.abc import Iterable
from typing import Final, TypeVar, get_args

from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.findings import Kind

Name = TypeVar("Name", bound=str)

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RESPONSES: Final = ("remind", "replan", "rollback", "ask", "stop", "block")

_BY_VERDICT: Final = {"deny": "block", "rollback": "rollback", "ask": "ask", "stop": "stop"}


def to_bits(names: Iterable[str], all_names: tuple[str, ...]) -> int:
    """Return these names as bits.

    >>> to_bits(["loop", "resource"], KINDS)
    5
    """
    bits = 0
    for name in names:
        if name in all_names:
            bits |= 1 << all_names.index(name)
    return bits


def from_bits(bits: int, all_names: tuple[Name, ...]) -> list[Name]:
    """Return the names that the bits stand for."""
    return [name for place, name in enumerate(all_names) if bits >> place & 1]


def name_response(intervention: Intervention) -> str:
    """Return the response an intervention was, in the words of the screens; empty when nothing was said."""
    if not intervention.said:
        return ""
    known = _BY_VERDICT.get(intervention.verdict)
    if known is not None:
        return known
    return "remind" if intervention.action is DriftAction.INJECT_REMINDER else "replan"
