"""What to do about what was noticed: the answer every observed event gets."""

import enum
from typing import Final, Literal

from msgspec import Struct

from holdfast.findings import DriftEvent

Mode = Literal["observe", "guide", "enforce"]
MODES: Final = ("observe", "guide", "enforce")

Verdict = Literal["proceed", "guide", "deny", "rollback", "ask", "stop"]

Outcome = Literal["unknown", "worked", "ignored", "worse"]


class DriftAction(enum.StrEnum):
    """The rungs of the ladder, gentlest first."""

    CONTINUE = "CONTINUE"
    INJECT_REMINDER = "INJECT_REMINDER"
    SUMMARIZE_REPLAN = "SUMMARIZE_REPLAN"
    CHECKPOINT_RESET = "CHECKPOINT_RESET"
    ASK_USER = "ASK_USER"

    @property
    def rung(self) -> int:
        """Its place on the ladder, CONTINUE being 0."""
        return _RUNGS[self]

    def raised(self) -> "DriftAction":
        """The next stronger action; the strongest stays itself."""
        return LADDER[min(self.rung + 1, len(LADDER) - 1)]


LADDER: Final = tuple(DriftAction)
_RUNGS: Final = {action: rung for rung, action in enumerate(LADDER)}


class Intervention(Struct, frozen=True, kw_only=True):
    """One response to one incident: what was advised, what was carried out, and whether it helped.

    `hard` says that the pattern had become chronic by then.
    """

    action: DriftAction
    verdict: Verdict
    seq: int
    timestamp: float
    guidance: str = ""
    outcome: Outcome = "unknown"
    hard: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """What Holdfast makes of the event just observed.

    `action` is what it advises, whatever the mode.
    `verdict` is what the caller shall do now: with mode `observe` always `proceed`.
    `guidance` holds the words for the model, empty when there is nothing to say, or nothing new.
    `hard` says that what was noticed has become chronic in this run.
    """

    action: DriftAction = DriftAction.CONTINUE
    verdict: Verdict = "proceed"
    guidance: str = ""
    findings: tuple[DriftEvent, ...] = ()
    hard: bool = False

    @property
    def drifting(self) -> bool:
        """Whether anything is advised but going on."""
        return self.action is not DriftAction.CONTINUE


PROCEED: Final = Decision()
