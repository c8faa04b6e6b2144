"""The four ways to see a loop in the latest steps: each a plain function of the steps, oldest first.

All of them judge the newest step: a loop that ended is not a loop.
Repetition counts neighbours only; what comes back after another step is an oscillation or nothing.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from steadyhelm.compat.loop_records import LoopDetection, LoopType
from steadyhelm.compat.similarity import (
    LOOKED_AT,
    Outcome,
    Wording,
    answered_alike,
    asked_alike,
    outcome,
    wording,
)
from steadyhelm.fingerprints import hash_bytes
from steadyhelm.noise import mask_noise

LONGEST_CYCLE: Final = 4
_SHOWN: Final = 80
_SUREST: Final = 0.99
# A duration, a clock or an id; not a sentence.
_NOISE_LENGTH: Final = 16
# Each further step of a loop takes away a fifth of the doubt that is left.
_DOUBT_LEFT: Final = 0.8
_ASKED, _ANSWERED = 0.6, 0.4
_ANSWER_UNKNOWN: Final = 0.5
_OSCILLATION: Final = 0.95
_NO_PROGRESS: Final = 0.65
_ALL_FAILED: Final = 0.15


class RecordedStep:
    """One step as it was recorded: texts are kept cut, the state as a hash.

    `state` is 0 when none was given, `answer` None when none is known.
    `result` is the same number for answers that differ in nothing but noise.
    """

    def __init__(self, *, turn: int, action: str, state: int, answer: str | None, failed: bool) -> None:
        self.turn = turn
        self.action = action
        self.state = state
        self.answer = answer
        self.result = 0 if answer is None else hash_bytes(answer.encode("utf-8", "replace")) or 1
        self.outcome: Outcome = "failed" if failed else outcome(answer or "")

    @property
    def identity(self) -> tuple[str, int, int]:
        """What makes two steps the same step."""
        return self.action, self.state, self.result

    @cached_property
    def asked(self) -> Wording | None:
        """What the action says; None when it is too long to be read for its meaning."""
        return wording(self.action)

    @cached_property
    def answered(self) -> Wording | None:
        """What the answer says, noise aside; None when it is too long to be read for its meaning."""
        return wording(mask_noise(self.answer)) if self.answer and len(self.answer) <= LOOKED_AT else None

    def settle(self, before: Iterable["RecordedStep"]) -> None:
        """Take the result of an earlier like step for the same one if only noise has changed."""
        for earlier in before:
            if self._differs_in_noise_only(earlier):
                self.result = earlier.result
                return

    def _differs_in_noise_only(self, earlier: "RecordedStep") -> bool:
        if not self.answer or not earlier.answer or self.result == earlier.result:
            return False
        if (self.action, self.state) != (earlier.action, earlier.state):
            return False
        near = abs(len(self.answer) - len(earlier.answer)) <= _NOISE_LENGTH
        return near and mask_noise(self.answer) == mask_noise(earlier.answer)


def exact(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """The same action in the same state with the same result, `threshold` times in a row."""
    run = 1
    while run < len(steps) and steps[-run - 1].identity == steps[-1].identity:
        run += 1
    if run < threshold:
        return None
    return LoopDetection(
        confidence=1.0,
        type=LoopType.EXACT_HASH,
        loop_sequence=[step.turn for step in steps[-run:]],
        evidence=f"{run} identical steps in a row",
        suggestion=f'The same action "{shown(steps[-1].action)}" has been repeated with identical results. '
        "Try a different approach.",
    )


def reworded(steps: Sequence[RecordedStep], threshold: float) -> LoopDetection | None:
    """The same question in other words, in the same state, and the same answer, perhaps in other words.

    `threshold` is how much of what was asked must be the same.
    """
    run, doubt, differs = 1, 0.0, False
    while run < len(steps):
        earlier, later = steps[-run - 1], steps[-run]
        likeness = _likeness(earlier, later, threshold)
        if likeness is None:
            break
        doubt = max(doubt, 1.0 - likeness)
        differs = differs or earlier.identity != later.identity
        run += 1
    # Steps that do not differ at all are the exact strategy's.
    if not differs:
        return None
    return LoopDetection(
        confidence=_surer(1.0 - doubt, run - 2),
        type=LoopType.SEMANTIC,
        loop_sequence=[step.turn for step in steps[-run:]],
        evidence=f'"{shown(steps[-2].action)}" and "{shown(steps[-1].action)}" ask the same',
        suggestion=f'The last {run} steps ask the same in other words ("{shown(steps[-1].action)}") '
        "and get the same answer. Use that answer, or ask for something else.",
    )


def oscillation(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """The same two to four steps in turn, the first of them `threshold` times."""
    for period in range(2, LONGEST_CYCLE + 1):
        length = min(period, len(steps))
        while length < len(steps) and steps[-length - 1].identity == steps[-length - 1 + period].identity:
            length += 1
        visits = (length - 1) // period + 1
        if visits < threshold or len({step.identity for step in steps[-period:]}) == 1:
            continue
        loop = steps[-length:]
        pattern = " → ".join(shown(step.action) for step in loop[-2 * period - 1 :])
        return LoopDetection(
            confidence=_surer(_OSCILLATION, visits - threshold),
            type=LoopType.OSCILLATION,
            loop_sequence=[step.turn for step in loop],
            evidence=f"Pattern: {pattern} ({shown(loop[-1].action)} {visits} times)",
            suggestion=f"Going in a circle: {pattern}. "
            "Settle on one of them and carry it through, or find another way.",
        )
    return None


def dead_end(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """`threshold` steps, not all the same, that brought nothing while the state stayed as it was."""
    loop = _without_progress(steps, threshold)
    if len(loop) < threshold or len({step.action for step in loop}) == 1:
        return None
    failed = sum(step.outcome == "failed" for step in loop) / len(loop)
    tried = "; ".join(dict.fromkeys(shown(step.action) for step in loop[-threshold:]))
    return LoopDetection(
        confidence=_surer(_NO_PROGRESS + _ALL_FAILED * failed, len(loop) - threshold),
        type=LoopType.DEAD_END,
        loop_sequence=[step.turn for step in loop],
        evidence=f"No progress for {len(loop)} steps",
        suggestion=f"No progress for {len(loop)} steps, whatever was tried ({tried}). "
        "Question the task itself, go back to the last thing that worked, or ask for help.",
    )


def shown(text: str) -> str:
    """An action as it may be shown: one line, printable, not long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _SHOWN]).split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _likeness(earlier: RecordedStep, later: RecordedStep, threshold: float) -> float | None:
    """How sure it is that two steps are the same in other words; None when they are not."""
    if earlier.state != later.state:
        return None
    if earlier.identity == later.identity:
        return 1.0
    asked = 1.0 if earlier.action == later.action else _overlap(earlier, later)
    if asked < threshold:
        return None
    answered = _answer(earlier, later)
    return _ASKED * asked + _ANSWERED * answered if answered else None


def _overlap(earlier: RecordedStep, later: RecordedStep) -> float:
    if earlier.asked is None or later.asked is None:
        return 0.0
    return asked_alike(earlier.asked, later.asked)


def _answer(earlier: RecordedStep, later: RecordedStep) -> float:
    if "waiting" in {earlier.outcome, later.outcome}:
        return 0.0
    if earlier.result == later.result:
        return 1.0 if later.result else _ANSWER_UNKNOWN
    if earlier.answered is None or later.answered is None:
        return 0.0
    return answered_alike(earlier.answered, later.answered)


def _without_progress(steps: Sequence[RecordedStep], threshold: int) -> Sequence[RecordedStep]:
    """The latest steps since the state last changed or a step brought something new; none if too few."""
    start = len(steps)
    while start and steps[start - 1].state == steps[-1].state:
        start -= 1
    same_state = steps[start:]
    if len(same_state) < threshold:
        return ()
    for place in range(len(same_state) - 1, -1, -1):
        if _is_progress(same_state[place], same_state[:place]):
            return same_state[place + 1 :]
    return same_state


def _is_progress(step: RecordedStep, before: Sequence[RecordedStep]) -> bool:
    """Whether a step, the state being as it was, brought something new all the same."""
    if step.outcome == "failed":
        return False
    # A state never given cannot be said to stay; waiting is no failure; what says it worked is believed.
    if not step.state or step.outcome in {"waiting", "done"}:
        return True
    return bool(step.result) and not any(_answer(earlier, step) for earlier in before)


def _surer(confidence: float, further: int) -> float:
    return round(min(_SUREST, 1.0 - (1.0 - confidence) * _DOUBT_LEFT**further), 2)
