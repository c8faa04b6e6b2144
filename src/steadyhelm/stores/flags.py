"""Sets kept as bits of one number, so that the list of runs can be filtered along an index."""

from collections.abc import Iterable
from typing import Final, TypeVar, get_args

from steadyhelm.decisions import DriftAction, Intervention
from steadyhelm.findings import Kind

Name = TypeVar("Name", bound=str)

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RESPONSES: Final = ("remind", "replan", "rollback", "ask", "stop", "block")

_BY_VERDICT: Final = {"deny": "block", "rollback": "rollback", "ask": "ask", "stop": "stop"}
_BY_ACTION: Final = {
    DriftAction.INJECT_REMINDER: "remind",
    DriftAction.SUMMARIZE_REPLAN: "replan",
    DriftAction.CHECKPOINT_RESET: "rollback",
    DriftAction.ASK_USER: "ask",
}


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
    """Return the response an intervention was, in the words of the screens; empty when nothing was said.

    Where nothing but words was delivered, that is the response level they were written for.
    """
    if not intervention.said:
        return ""
    return _BY_VERDICT.get(intervention.verdict) or name_level(intervention)


def name_level(intervention: Intervention) -> str:
    """Return the response level that an intervention was meant for, whether or not it was delivered."""
    return _BY_ACTION.get(intervention.action, "")
