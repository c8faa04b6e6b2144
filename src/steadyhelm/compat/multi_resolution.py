"""A loop detector with four strategies: record each step, then detect whether the latest are a loop."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from steadyhelm.compat import strategies
from steadyhelm.compat.strategies import LoopDetection, LoopEvent, LoopSignal, LoopType, RecordedStep
from steadyhelm.errors import SettingsError
from steadyhelm.fingerprints import MAX_CHARS, encode_canonical, hash_bytes

__all__ = ["LoopDetection", "LoopEvent", "LoopSignal", "LoopType", "MultiResolutionLoopDetector"]

_MAX_ACTION_CHARS: Final = 2048
_EMPTY_STATES: Final[tuple[Any, ...]] = (None, {}, "", [], ())
# A clock in the state would make every step look like progress.
_CLOCK_KEY: Final = re.compile(
    r"(?:^|_)(?:timestamp|time|now|clock|elapsed|duration|uptime|turn|at)(?:_|$)", re.IGNORECASE
)


class MultiResolutionLoopDetector:
    """Find a loop in the latest steps by four strategies; the one with the highest confidence is reported.

    Args:
        window_size: The number of latest steps that are compared.
        exact_hash_threshold: Identical steps in a row that are a loop.
        semantic_threshold: How much of the action must be the same for a step to be a rewording, 0 to 1.
        oscillation_threshold: How often the first of two to four steps in turn must come for a loop.
        dead_end_threshold: Steps without progress that are a dead end.
        enable_all_strategies: Use all four strategies; otherwise only the one for identical steps.

    >>> detector = MultiResolutionLoopDetector()
    >>> for turn in (1, 2):
    ...     detector.record_step(turn, "ls /home/user", {"cwd": "/home/user"}, "file1.txt file2.txt")
    >>> loop = detector.detect_loop()
    >>> print(loop.type, loop.confidence, loop.loop_sequence)
    EXACT_HASH 1.0 [1, 2]
    """

    def __init__(
        self,
        window_size: int = 10,
        exact_hash_threshold: int = 2,
        semantic_threshold: float = 0.85,
        oscillation_threshold: int = 3,
        dead_end_threshold: int = 5,
        enable_all_strategies: bool = True,
    ) -> None:
        self.window_size = _check_steps("window_size", window_size)
        self.exact_hash_threshold = _check_steps("exact_hash_threshold", exact_hash_threshold)
        self.oscillation_threshold = _check_steps("oscillation_threshold", oscillation_threshold)
        self.dead_end_threshold = _check_steps("dead_end_threshold", dead_end_threshold)
        if isinstance(semantic_threshold, bool) or not isinstance(semantic_threshold, (int, float)):
            raise SettingsError(f"semantic_threshold must be a number, got {semantic_threshold!r}.")
        if not 0.0 < semantic_threshold <= 1.0:
            raise SettingsError(
                f"semantic_threshold must be above 0 and at most 1, got {semantic_threshold!r}."
            )
        self.semantic_threshold = semantic_threshold
        self.enable_all_strategies = enable_all_strategies
        self._steps: deque[RecordedStep] = deque(maxlen=window_size)

    @property
    def not_checked(self) -> dict[str, str]:
        """The strategies that cannot fire with these settings, each with the reason."""
        needed = {
            LoopType.EXACT_HASH: self.exact_hash_threshold,
            LoopType.SEMANTIC: 2,
            LoopType.OSCILLATION: 2 * self.oscillation_threshold - 1,
            LoopType.DEAD_END: self.dead_end_threshold,
        }
        reasons = {}
        for kind, steps in needed.items():
            if kind is not LoopType.EXACT_HASH and not self.enable_all_strategies:
                reasons[kind.strategy] = "switched off by enable_all_strategies=False"
            elif steps > self.window_size:
                reasons[kind.strategy] = f"needs {steps} steps, and window_size holds {self.window_size}"
        return reasons

    def record_step(self, turn: int, action: str, state: Any, result: Any = None) -> None:
        """Record one step: the action, the state after it, and its result.

        Any object is accepted for all of them; only hashes and short texts are kept.
        """
        step = RecordedStep(
            turn=turn,
            action=_to_text(action)[:_MAX_ACTION_CHARS],
            state=_hash_state(state),
            answer=None if result is None else _to_text(result),
            failed=_has_error(result),
        )
        step.adopt_result(self._steps)
        self._steps.append(step)

    def detect_loop(self) -> LoopEvent:
        """Return whether the latest steps are a loop, and of what kind. Does not change state."""
        steps = tuple(self._steps)
        signals = self._run_strategies(steps)
        found = [signal.detection for signal in signals if signal.detection is not None]
        turn = steps[-1].turn if steps else None
        if not found:
            return LoopEvent(loop_sequence=[], tried_approaches=[], turn=turn, signals=signals)
        best = max(found, key=lambda detection: detection.confidence)
        part = steps[-len(best.loop_sequence) :]
        return LoopEvent(
            detected=True,
            type=best.type,
            confidence=best.confidence,
            detection_strategy=best.type.strategy,
            loop_sequence=best.loop_sequence,
            suggestion=best.suggestion,
            evidence=best.evidence,
            turn=turn,
            tried_approaches=list(dict.fromkeys(strategies.format_action(step.action) for step in part)),
            signals=signals,
        )

    def reset(self) -> None:
        """Forget every step so far, after an intervention."""
        self._steps.clear()

    def _run_strategies(self, steps: tuple[RecordedStep, ...]) -> tuple[LoopSignal, ...]:
        not_checked = self.not_checked
        finders: dict[LoopType, Callable[[Sequence[RecordedStep]], LoopDetection | None]] = {
            LoopType.EXACT_HASH: partial(strategies.find_exact_loop, threshold=self.exact_hash_threshold),
            LoopType.SEMANTIC: partial(strategies.find_reworded_loop, threshold=self.semantic_threshold),
            LoopType.OSCILLATION: partial(strategies.find_oscillation, threshold=self.oscillation_threshold),
            LoopType.DEAD_END: partial(strategies.find_dead_end, threshold=self.dead_end_threshold),
        }
        return tuple(
            LoopSignal(
                strategy=kind.strategy,
                detection=None if not steps or kind.strategy in not_checked else find(steps),
                not_checked=not_checked.get(kind.strategy),
            )
            for kind, find in finders.items()
        )


def _check_steps(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:  # noqa: PLR2004 - one step is no loop
        raise SettingsError(f"{name} must be 2 or more steps, got {value!r}.")
    return value


def _to_text(value: Any) -> str:
    if isinstance(value, str) and len(value) <= MAX_CHARS:
        return value
    # Inside a list an object is never compared, only described: comparing it may raise anything.
    return encode_canonical([value])[1:-1].decode("utf-8", "replace")


def _hash_state(state: Any) -> int:
    if type(state) in {type(None), dict, str, list, tuple} and state in _EMPTY_STATES:
        return 0
    if type(state) is dict:
        state = {key: value for key, value in state.items() if not _is_clock(key)} or state
    return hash_bytes(encode_canonical([state])) or 1


def _is_clock(key: Any) -> bool:
    return isinstance(key, str) and _CLOCK_KEY.search(key) is not None


def _has_error(result: Any) -> bool:
    if isinstance(result, BaseException):
        return True
    if type(result) is not dict:
        return False
    error = result.get("error")
    is_error = isinstance(error, BaseException) or (type(error) in {str, bool, dict, list} and bool(error))
    return is_error or result.get("success") is False or result.get("ok") is False
