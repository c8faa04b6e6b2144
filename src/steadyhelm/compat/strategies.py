"""Four strategies that find a loop in the latest steps: each a plain function of the steps, oldest first.

All of them judge the newest step: a loop that has ended is not found.
Only adjacent steps are a repetition; what comes back after another step is an oscillation or nothing.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from steadyhelm.compat.similarity import (
    MAX_PARSED_CHARS,
    ParsedText,
    ResultOutcome,
    classify_outcome,
    compare_actions,
    compare_results,
    parse_text,
)
from steadyhelm.fingerprints import hash_bytes
from steadyhelm.lazy_properties import lazy_property
from steadyhelm.noise import mask_noise

MAX_CYCLE_STEPS: Final = 4
_MAX_ACTION_CHARS: Final = 80
_MAX_CONFIDENCE: Final = 0.99
# The length of a duration, a clock or an id; not of a sentence.
_MAX_NOISE_CHARS: Final = 16
# Each further step of a loop reduces the remaining doubt by a fifth.
_DOUBT_FACTOR: Final = 0.8
_ACTION_WEIGHT: Final = 0.6
_RESULT_WEIGHT: Final = 0.4
_UNKNOWN_RESULT_SIMILARITY: Final = 0.5
_OSCILLATION_CONFIDENCE: Final = 0.95
_DEAD_END_CONFIDENCE: Final = 0.65
_DEAD_END_FAILURE_BONUS: Final = 0.15


class LoopType(enum.StrEnum):
    """The kinds of loop."""

    EXACT_HASH = "EXACT_HASH"
    SEMANTIC = "SEMANTIC"
    OSCILLATION = "OSCILLATION"
    DEAD_END = "DEAD_END"

    @property
    def strategy(self) -> str:
        """The name of the strategy that finds it."""
        return self.value.lower()


class LoopDetection(Struct, frozen=True, kw_only=True):
    """A loop found by one strategy: its confidence, its turns, the evidence and a suggestion."""

    confidence: float
    type: LoopType
    loop_sequence: list[int]
    evidence: str
    suggestion: str


class LoopSignal(Struct, frozen=True, kw_only=True):
    """The result of one strategy: a detection, none, or why it could not check."""

    strategy: str
    detection: LoopDetection | None = None
    not_checked: str | None = None


class LoopEvent(Struct, frozen=True, kw_only=True):
    """The result of all strategies together, by the detection with the highest confidence.

    `turn` is that of the latest step, `tried_approaches` the different actions of the loop in order.
    """

    detected: bool = False
    type: LoopType | None = None
    confidence: float = 0.0
    detection_strategy: str | None = None
    loop_sequence: list[int]
    suggestion: str = ""
    evidence: str = ""
    turn: int | None = None
    tried_approaches: list[str]
    signals: tuple[LoopSignal, ...] = ()

    @property
    def all_detections(self) -> dict[str, LoopDetection | None]:
        """The detection of every strategy, None for those that found nothing."""
        return {signal.strategy: signal.detection for signal in self.signals}


class RecordedStep:
    """One recorded step: texts are cut, the state is a hash.

    `state` is 0 when it is unknown, `answer` None when it is unknown.
    `result` is the same number for answers that differ only in noise.
    """

    def __init__(self, *, turn: int, action: str, state: int, answer: str | None, failed: bool) -> None:
        self.turn = turn
        self.action = action
        self.state = state
        self.answer = answer
        self.result = 0 if answer is None else hash_bytes(answer.encode("utf-8", "replace")) or 1
        self.outcome: ResultOutcome = "failed" if failed else classify_outcome(answer or "")

    @property
    def identity(self) -> tuple[str, int, int]:
        """The action, state and result: equal for two equal steps."""
        return self.action, self.state, self.result

    @lazy_property
    def parsed_action(self) -> ParsedText | None:
        """The parsed action; None when it is too long."""
        return parse_text(self.action)

    @lazy_property
    def parsed_answer(self) -> ParsedText | None:
        """The parsed answer without noise; None when it is unknown or too long."""
        is_short = self.answer and len(self.answer) <= MAX_PARSED_CHARS
        return parse_text(mask_noise(self.answer or "")) if is_short else None

    def adopt_result(self, before: Iterable["RecordedStep"]) -> None:
        """Use the result of an earlier equal step if the answers differ only in noise."""
        for earlier in before:
            if self._differs_in_noise_only(earlier):
                self.result = earlier.result
                return

    def _differs_in_noise_only(self, earlier: "RecordedStep") -> bool:
        if not self.answer or not earlier.answer or self.result == earlier.result:
            return False
        if (self.action, self.state) != (earlier.action, earlier.state):
            return False
        is_near = abs(len(self.answer) - len(earlier.answer)) <= _MAX_NOISE_CHARS
        return is_near and mask_noise(self.answer) == mask_noise(earlier.answer)


def find_exact_loop(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """Return a loop of the same action in the same state with the same result, `threshold` times in a row."""
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
        suggestion=f'The same action "{format_action(steps[-1].action)}" has been repeated '
        "with identical results. Try a different approach.",
    )


def find_reworded_loop(steps: Sequence[RecordedStep], threshold: float) -> LoopDetection | None:
    """Return a loop of the same action in other words, in the same state, with the same result.

    `threshold` is how much of the action must be the same. The result may be in other words too.
    """
    run, doubt, differs = 1, 0.0, False
    while run < len(steps):
        earlier, later = steps[-run - 1], steps[-run]
        similarity = _compare_steps(earlier, later, threshold)
        if similarity is None:
            break
        doubt = max(doubt, 1.0 - similarity)
        differs = differs or earlier.identity != later.identity
        run += 1
    # Steps that do not differ at all are found by the exact strategy.
    if not differs:
        return None
    return LoopDetection(
        confidence=_raise_confidence(1.0 - doubt, run - 2),
        type=LoopType.SEMANTIC,
        loop_sequence=[step.turn for step in steps[-run:]],
        evidence=f'"{format_action(steps[-2].action)}" and "{format_action(steps[-1].action)}" ask the same',
        suggestion=f'The last {run} steps ask the same in other words ("{format_action(steps[-1].action)}") '
        "and get the same answer. Use that answer, or ask for something else.",
    )


def _measure_repetition(steps: Sequence[RecordedStep], period: int) -> int:
    """Return how many of the last steps are the same ones again after each period."""
    length = min(period, len(steps))
    while length < len(steps) and steps[-length - 1].identity == steps[-length - 1 + period].identity:
        length += 1
    return length


def find_oscillation(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """Return a loop of the same two to four steps in turn, the first of them `threshold` times."""
    for period in range(2, MAX_CYCLE_STEPS + 1):
        length = _measure_repetition(steps, period)
        visits = (length - 1) // period + 1
        if visits < threshold or len({step.identity for step in steps[-period:]}) == 1:
            continue
        loop = steps[-length:]
        pattern = " → ".join(format_action(step.action) for step in loop[-2 * period - 1 :])
        return LoopDetection(
            confidence=_raise_confidence(_OSCILLATION_CONFIDENCE, visits - threshold),
            type=LoopType.OSCILLATION,
            loop_sequence=[step.turn for step in loop],
            evidence=f"Pattern: {pattern} ({format_action(loop[-1].action)} {visits} times)",
            suggestion=f"Going in a circle: {pattern}. "
            "Settle on one of them and carry it through, or find another way.",
        )
    return None


def find_dead_end(steps: Sequence[RecordedStep], threshold: int) -> LoopDetection | None:
    """Return a dead end: `threshold` steps, not all the same, without progress and in the same state."""
    loop = _find_steps_without_progress(steps, threshold)
    if len(loop) < threshold or len({step.action for step in loop}) == 1:
        return None
    failed = sum(step.outcome == "failed" for step in loop) / len(loop)
    tried = "; ".join(dict.fromkeys(format_action(step.action) for step in loop[-threshold:]))
    return LoopDetection(
        confidence=_raise_confidence(
            _DEAD_END_CONFIDENCE + _DEAD_END_FAILURE_BONUS * failed, len(loop) - threshold
        ),
        type=LoopType.DEAD_END,
        loop_sequence=[step.turn for step in loop],
        evidence=f"No progress for {len(loop)} steps",
        suggestion=f"No progress for {len(loop)} steps, whatever was tried ({tried}). "
        "Question the task itself, go back to the last thing that worked, or ask for help.",
    )


def format_action(text: str) -> str:
    """Return an action for messages: one line, printable, not long."""
    line = " ".join(
        "".join(char if char.isprintable() else " " for char in text[: 4 * _MAX_ACTION_CHARS]).split()
    )
    return line if len(line) <= _MAX_ACTION_CHARS else f"{line[: _MAX_ACTION_CHARS - 1]}…"


def _compare_steps(earlier: RecordedStep, later: RecordedStep, threshold: float) -> float | None:
    """Return how similar two steps are that say the same in other words; None when they do not."""
    if earlier.state != later.state:
        return None
    if earlier.identity == later.identity:
        return 1.0
    action = 1.0 if earlier.action == later.action else _compare_parsed_actions(earlier, later)
    if action < threshold:
        return None
    result = _compare_answers(earlier, later)
    return _ACTION_WEIGHT * action + _RESULT_WEIGHT * result if result else None


def _compare_parsed_actions(earlier: RecordedStep, later: RecordedStep) -> float:
    if earlier.parsed_action is None or later.parsed_action is None:
        return 0.0
    return compare_actions(earlier.parsed_action, later.parsed_action)


def _compare_answers(earlier: RecordedStep, later: RecordedStep) -> float:
    if "waiting" in {earlier.outcome, later.outcome}:
        return 0.0
    if earlier.result == later.result:
        return 1.0 if later.result else _UNKNOWN_RESULT_SIMILARITY
    if earlier.parsed_answer is None or later.parsed_answer is None:
        return 0.0
    return compare_results(earlier.parsed_answer, later.parsed_answer)


def _find_steps_without_progress(steps: Sequence[RecordedStep], threshold: int) -> Sequence[RecordedStep]:
    """Return the steps since the state last changed or a step brought something new; none if too few."""
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
    """Return whether a step brought something new although the state did not change."""
    if step.outcome == "failed":
        return False
    # An unknown state may have changed; waiting is no failure; a reported success is taken as one.
    if not step.state or step.outcome in {"waiting", "done"}:
        return True
    return bool(step.result) and not any(_compare_answers(earlier, step) for earlier in before)


def _raise_confidence(confidence: float, further: int) -> float:
    return round(min(_MAX_CONFIDENCE, 1.0 - (1.0 - confidence) * _DOUBT_FACTOR**further), 2)
