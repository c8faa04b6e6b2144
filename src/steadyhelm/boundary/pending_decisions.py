"""Answers that wait for a place where they can be carried out, and the words they are given."""

from collections.abc import Collection
from typing import Final

from steadyhelm.adapter import CONTINUE, Capabilities, HookPoint, Instruction
from steadyhelm.decisions import Decision, Verdict
from steadyhelm.findings import Severity
from steadyhelm.lexicons import load_lexicon
from steadyhelm.policy.response_levels import VERDICTS

_STRONG: Final[frozenset[Verdict]] = frozenset(("rollback", "ask", "stop"))
_WORDS_KEPT: Final = 8

ABOUT_TO: Final[dict[str, str]] = {
    "rollback": "Not called: you are about to be taken back to an earlier point.",
    "ask": "Not called: the user is about to be asked.",
    "stop": "Not called: the run is being stopped.",
}


class PendingDecisions:
    """What is still to be done about one run: words, and at most one thing that is more than words.

    Args:
        can: What can be carried out, by place.
    """

    def __init__(self, can: Capabilities) -> None:
        self.can = can
        self.strong: Decision | None = None
        self._words: list[Decision] = []

    def __bool__(self) -> bool:
        return self.strong is not None or bool(self._words)

    def note(self, decision: Decision) -> None:
        """A decision was made; of two strong ones the stronger counts, of the same words the later."""
        if decision.verdict in _STRONG:
            if self.strong is None or _place(decision) >= _place(self.strong):
                self.strong = decision
        elif decision.guidance and decision.verdict == "guide":
            self._words = [it for it in self._words if it.guidance != decision.guidance][1 - _WORDS_KEPT :]
            self._words.append(decision)

    def at(self, place: HookPoint, goal: str, only: Collection[Verdict] | None = None) -> Instruction:
        """What can be carried out here: words are handed over once, a strong answer stays until done."""
        possible = set(self.can.get(place, ()))
        possible = possible if only is None else possible.intersection(only)
        strong = self.strong
        if strong is not None and strong.verdict in possible:
            words = question(strong, goal) if strong.verdict == "ask" else strong.guidance
            return Instruction(verdict=strong.verdict, text=words, decision=strong)
        if strong is not None and place == "before_tool" and "deny" in possible:
            return Instruction(verdict="deny", text=ABOUT_TO[strong.verdict], decision=strong)
        if not self._words or place == "before_tool" or "guide" not in possible:
            return CONTINUE
        said, self._words = self._words, []
        words = "\n\n".join(decision.guidance for decision in said)
        return Instruction(verdict="guide", text=words, decision=said[-1])

    def done(self) -> None:
        """The strong answer was carried out, or could not be."""
        self.strong = None


def question(decision: Decision, goal: str) -> str:
    """What the user is asked: what the agent was to do, what was noticed, and how to go on."""
    about = f" with: {_line(goal)}" if goal.strip() else ""
    return (
        f"The agent does not get on{about}. {reason(decision)} "
        "How shall it go on? (yes: as it wants to; no: not at all; or say what to do instead)"
    )


def meaning(answer: object) -> tuple[bool | None, str]:
    """Whether an answer allows or refuses, None for neither, and its words.

    >>> meaning("Yes."), meaning(False), meaning("try the archive")
    ((True, 'Yes.'), (False, 'No.'), (None, 'try the archive'))
    >>> meaning("sure"), meaning("Stop!"), meaning("sure, but only the first file")
    ((True, 'sure'), (False, 'Stop!'), (None, 'sure, but only the first file'))
    """
    if isinstance(answer, bool):
        return answer, "Go on." if answer else "No."
    try:
        words = str(answer)
    except Exception:  # noqa: BLE001 - an object of the host's own making may have no words
        return False, "No."
    said = words.strip().rstrip(".!").lower()
    answers = load_lexicon("steadyhelm", "answers")
    if answers["allows"].search(said):
        return True, words
    return False if answers["refuses"].search(said) else None, words


def reason(decision: Decision) -> str:
    """Why, in a sentence: what was noticed, the worst first."""
    reported = [it for it in decision.findings if it.severity is not Severity.LOW]
    said = [it.message for it in sorted(reported, key=lambda it: -it.score)]
    unasked = " The user should have been asked, and there was no way to." if decision.wanted == "ask" else ""
    if not said and decision.budget is not None and decision.budget.exhausted:
        said = ["the budget is used up"]
    noticed = f"Noticed: {'; '.join(said)}." if said else decision.guidance or "It is off its course."
    return noticed + unasked


def _place(decision: Decision) -> int:
    return VERDICTS.index(decision.verdict)


def _line(text: str, longest: int = 200) -> str:
    line = " ".join(text.split()).rstrip(" .?!")
    return line if len(line) <= longest else line[: longest - 1] + "…"
