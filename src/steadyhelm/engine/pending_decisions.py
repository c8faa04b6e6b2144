"""Decisions that wait for a hook point, or for somebody who takes their guidance, and their texts."""

from collections.abc import Collection
from typing import Final, NamedTuple

from steadyhelm.adapter import CONTINUE, Capabilities, HookPoint, Instruction
from steadyhelm.decisions import PROCEED, Decision, Verdict
from steadyhelm.engine.health import Health
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import to_text
from steadyhelm.host_objects import name_type
from steadyhelm.lexicons import load_lexicon
from steadyhelm.policy.drift_engine import SIGNAL_NAMES
from steadyhelm.policy.response_levels import VERDICTS

NOBODY_RECEIVED: Final = (
    "guidance that nobody received: deliver it with run.guidance(), monitor.on_decision(), "
    "or @monitor.tool(append_guidance=True)"
)
_STRONG_VERDICTS: Final[frozenset[Verdict]] = frozenset(("rollback", "ask", "stop"))
_GUIDANCE_KEPT: Final = 8
_GOAL_SHOWN_CHARS: Final = 200
_LEAST_PART_SHOWN: Final = 0.005

NOT_CALLED: Final[dict[str, str]] = {
    "rollback": "Not called: you are about to be taken back to an earlier point.",
    "ask": "Not called: the user is about to be asked.",
    "stop": "Not called: the run is being stopped.",
}
"""The text in place of a call's result while a stronger decision waits, by its verdict."""


class PendingDecisions:
    """The decisions of one run that were not carried out yet: guidance, and at most one that is stronger.

    Not safe for several threads: its owner holds a lock.
    """

    def __init__(self) -> None:
        self.strong: Decision | None = None
        self.guidance: list[Decision] = []

    def __bool__(self) -> bool:
        return self.strong is not None or bool(self.guidance)

    def add(self, decision: Decision) -> None:
        """Add a decision. Of two strong ones the stronger counts, of equal guidance the later."""
        if decision.verdict in _STRONG_VERDICTS:
            if self.strong is None or _get_strength(decision) >= _get_strength(self.strong):
                self.strong = decision
        elif decision.guidance and decision.verdict == "guide":
            others = [it for it in self.guidance if it.guidance != decision.guidance]
            self.guidance = [*others[1 - _GUIDANCE_KEPT :], decision]

    def take(
        self, point: HookPoint, can: Capabilities, goal: str, only: Collection[Verdict] | None = None
    ) -> Instruction:
        """Return what can be carried out here: guidance once, a strong decision until it is cleared."""
        possible = set(can.get(point, ()))
        possible = possible if only is None else possible.intersection(only)
        strong = self.strong
        if strong is not None and strong.verdict in possible:
            text = format_question(strong, goal) if strong.verdict == "ask" else strong.guidance
            return Instruction(verdict=strong.verdict, text=text, decision=strong)
        if strong is not None and point == "before_tool" and "deny" in possible:
            return Instruction(verdict="deny", text=NOT_CALLED[strong.verdict], decision=strong)
        if not self.guidance or point == "before_tool" or "guide" not in possible:
            return CONTINUE
        taken, self.guidance = self.guidance, []
        text = "\n\n".join(decision.guidance for decision in taken)
        return Instruction(verdict="guide", text=text, decision=taken[-1])

    def clear_strong(self) -> None:
        """Forget the strong decision: it was carried out, or could not be."""
        self.strong = None


def format_question(decision: Decision, goal: str) -> str:
    """Return the question for the user: the goal, what was noticed, the drift score, the possible answers."""
    about = f" with: {_shorten(goal)}" if goal.strip() else ""
    is_spent = decision.budget is not None and decision.budget.exhausted
    state = "has used up its budget" if is_spent else "does not make progress"
    allowed = "with a quarter more" if is_spent else "as it wants to"
    return (
        f"The agent {state}{about}. {format_reason(decision)}{_format_score(decision)} "
        f"How should it continue? (yes: {allowed}; no: not at all; or say what to do instead)"
    )


def _format_score(decision: Decision) -> str:
    """Return the drift score with the signals it is made of, the largest first; empty where there is none."""
    assessment = decision.assessment
    if assessment is None or not assessment.overall_score:
        return ""
    parts = sorted(assessment.contributions.items(), key=lambda it: -it[1])
    shares = [f"{SIGNAL_NAMES[name]} {part:.2f}" for name, part in parts if part >= _LEAST_PART_SHOWN]
    made_of = f" ({', '.join(shares)})" if shares else ""
    return f" Drift score: {assessment.overall_score:.2f} of 1{made_of}."


def read_answer(answer: object) -> tuple[bool | None, str]:
    """Return whether an answer allows (True), refuses (False) or does neither (None), and its text.

    >>> read_answer("Yes."), read_answer(False), read_answer("try the archive")
    ((True, 'Yes.'), (False, 'No.'), (None, 'try the archive'))
    >>> read_answer("sure"), read_answer("Stop!"), read_answer("sure, but only the first file")
    ((True, 'sure'), (False, 'Stop!'), (None, 'sure, but only the first file'))
    """
    if answer is True or answer is False:
        return answer, "Go on." if answer else "No."
    text = to_text(answer)
    if text == f"<{name_type(answer)}>":
        return False, "No."  # an object of the host's own is no answer
    plain = text.strip().rstrip(".!").lower()
    answers = load_lexicon("steadyhelm", "answers")
    if answers["allows"].search(plain):
        return True, text
    return False if answers["refuses"].search(plain) else None, text


_UNASKED: Final = (
    " The user should have been asked, and there was no way to:"
    " give wrap() a function that asks the user, as `ask=`, or ask where before_tool() returns `ask`."
)


def format_reason(decision: Decision) -> str:
    """Return the reason for a decision in a sentence: what was noticed, the worst first."""
    reported = [it for it in decision.findings if it.severity is not Severity.LOW]
    noticed = [it.message for it in sorted(reported, key=lambda it: -it.score)]
    unasked = _UNASKED if decision.wanted == "ask" else ""
    if not noticed and decision.budget is not None and decision.budget.exhausted:
        noticed = ["the budget is used up"]
    reason = f"Noticed: {'; '.join(noticed)}." if noticed else decision.guidance or "The run is drifting."
    return reason + unasked


def _get_strength(decision: Decision) -> int:
    return VERDICTS.index(decision.verdict)


def _shorten(text: str) -> str:
    line = " ".join(text.split()).rstrip(" .?!")
    return line if len(line) <= _GOAL_SHOWN_CHARS else line[: _GOAL_SHOWN_CHARS - 1] + "…"


class PlacedDecision(NamedTuple):
    """A decision with guidance, its place in the run, and whether a watched function's call led to it."""

    decision: Decision = PROCEED
    seq: int = 0
    is_by_function: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether it was delivered when it was decided: to the caller, or by an adapter."""
        return self.decision.verdict != "proceed"


NOTHING: Final = PlacedDecision()


class WaitingGuidance:
    """The latest decision with guidance. Two threads never take the same."""

    def __init__(self) -> None:
        # Taking the last item out of a list is one step.
        self._waiting: list[PlacedDecision] = []
        self.may_be_by_function = False
        """Whether the guidance that was kept last is about a watched function's call; it may be taken."""

    @property
    def is_by_function(self) -> bool:
        """Whether guidance about a watched function's call waits."""
        return any(it.is_by_function for it in self._waiting)

    @property
    def is_unheard(self) -> bool:
        """Whether guidance about a watched function's call waits that nobody has received."""
        return any(it.is_by_function and not it.is_delivered for it in self._waiting)

    def keep(self, placed: PlacedDecision) -> None:
        """Keep a decision in place of the one before; a mere reminder replaces no response to drift."""
        if placed.decision.drifting or not self._waiting:
            self._waiting = [placed]
            self.may_be_by_function = placed.is_by_function

    def take(self) -> PlacedDecision:
        """Return the decision, once; NOTHING when there is none."""
        try:
            return self._waiting.pop()
        except IndexError:
            return NOTHING

    def drop_unheard(self, health: Health) -> None:
        """Drop and count guidance that nobody has received, and will not any more."""
        if self.is_unheard:
            self.take()
            health.count(NOBODY_RECEIVED)
