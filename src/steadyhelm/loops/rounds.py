"""A thing set up, used in vain and torn down again, or refused again, under a fresh name each round.

Every call of such a round is new, because the name is. Rounds are compared with these names aside: one that a
result of the round brought, or one that was made up and is torn down with the thing it named. A round about
another target, or with another result, is another one.
"""

from typing import Final, Self

from msgspec import Struct, field

from steadyhelm.loops.fresh_names import (
    are_attempts,
    are_clocks,
    are_made_up,
    find_renamed,
    list_names,
)
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.similarity import takes_next
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.undoing import refuses, sets_up, undoes
from steadyhelm.loops.waiting import Intervals
from steadyhelm.noise import is_equal_without_noise, mask_noise

ROUNDS_OF_LOOP: Final = 3

_MAX_STEPS_OF_ROUND: Final = 12
_MAX_LENGTH_DIFFERENCE: Final = 4
_MAX_SIZE_DIFFERENCE: Final = 12
_MAX_ARGUMENT_BYTES: Final = 1000
_MAX_ALIKE: Final = 3


class RoundWords(Struct, frozen=True):
    """What a call said and was told, and what it did: whether it set up, undid, was refused, or waited."""

    arguments: str
    result: str
    sets_up: bool
    undoes: bool
    refuses: bool
    waits: bool

    @classmethod
    def from_step(cls, step: ToolStep) -> Self:
        """Return the words of a step."""
        is_set_up = sets_up(step)
        return cls(
            step.arguments.decode("utf-8", "replace"),
            step.outcome.sample,
            is_set_up,
            undoes(step),
            refuses(step.outcome),
            # What is set up may be pending at first.
            step.kind == "wait" or (not is_set_up and step.outcome.says_wait),
        )


class RoundStep(Struct):
    """One call by its form: its tool, and the lengths of its arguments and its result.

    Its words are kept where a call before it had the same form.
    """

    name: str
    length: int
    size: int
    seq: int
    event_id: str
    words: RoundWords | None = None


class RoundMemory(Struct):
    """The latest calls, and how many rounds of them were equal but for fresh names.

    `runs[p]` counts the calls in a row that had the form of the call p places before, `alike` those that
    had the form of the call just before.
    """

    steps: list[RoundStep] = field(default_factory=list)
    runs: dict[int, int] = field(default_factory=dict)
    alike: int = 0
    period: int = 0
    count: int = 0
    number: int = 0
    last: int = 0
    times: Intervals | None = None

    def clear(self) -> None:
        """Forget everything: the user spoke."""
        self.steps.clear()
        self.runs.clear()
        self.period = 0

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when it ends a round that came before."""
        if step.kind == "plan":
            return None
        event, outcome = step.event, step.outcome
        self.number += 1
        made = RoundStep(event.action_name, len(step.arguments), outcome.size, event.seq, event.event_id)
        steps = self.steps
        if outcome.known and made.length <= _MAX_ARGUMENT_BYTES:
            self.runs = self._count_runs(step, made)
        else:
            self.runs = {}
        self.alike = self.alike + 1 if steps and _have_same_form(steps[-1], made) else 0
        steps.append(made)
        if len(steps) > 3 * _MAX_STEPS_OF_ROUND:
            del steps[: -2 * _MAX_STEPS_OF_ROUND]
        if not self.runs or outcome.outage:
            return None  # trying again after an outage is right
        if self.alike > _MAX_ALIKE:
            return None  # one kind of call again and again is no round
        made.words = words = RoundWords.from_step(step)
        if words.undoes or words.refuses:
            for period, run in self.runs.items():
                found = self._match_round(step, period) if run >= 2 * period else None
                if found is not None:
                    return found
        return None

    def _count_runs(self, step: ToolStep, made: RoundStep) -> dict[int, int]:
        runs: dict[int, int] = {}
        for period, before in enumerate(self.steps[: -_MAX_STEPS_OF_ROUND - 1 : -1], 1):
            if (
                before.name == made.name
                and period > 1
                and _have_same_form(before, made)
                and step.has_seen(before.seq)
            ):
                runs[period] = self.runs.get(period, 0) + 1
        return runs

    def _match_round(self, step: ToolStep, period: int) -> LoopMatch | None:
        since = self.number - self.last
        if period == self.period and since < period:
            return None  # it is counted at another of its calls
        steps = self.steps[-2 * period :]
        words = [it.words for it in steps if it.words is not None]
        if len(words) < 2 * period or any(takes_next(it.name) for it in steps):
            return None
        if not _is_same_round(words[:period], words[period:]):
            return None
        if period == self.period and since == period:
            self.count += 1
        else:
            self.period, self.count, self.times = period, 2, None
        self.last = self.number
        if self._is_on_schedule(step.event.timestamp, words) or self.count < ROUNDS_OF_LOOP:
            return None
        names = tuple(it.name for it in steps[period:])
        return LoopMatch(
            pattern="round",
            count=self.count,
            patience=ROUNDS_OF_LOOP,
            event_ids=tuple(it.event_id for it in steps[-MAX_EVIDENCE_IDS:]),
            sequence=names,
            message=f"{' → '.join(names)} repeated {self.count} times, with nothing but fresh names",
        )

    def _is_on_schedule(self, at: float, words: list[RoundWords]) -> bool:
        """Return whether rounds in which nothing fails come at even intervals."""
        if self.times is None:
            self.times = Intervals(at, at)
            return False
        self.times.record(at, 0.0)
        return self.times.is_schedule(slept=False) and not any(it.refuses for it in words)


def _have_same_form(one: RoundStep, other: RoundStep) -> bool:
    """Return whether two calls of one tool have arguments and results of about the same length."""
    return (
        one.name == other.name
        and -_MAX_LENGTH_DIFFERENCE <= one.length - other.length <= _MAX_LENGTH_DIFFERENCE
        and -_MAX_SIZE_DIFFERENCE <= one.size - other.size <= _MAX_SIZE_DIFFERENCE
    )


def _is_same_round(before: list[RoundWords], now: list[RoundWords]) -> bool:
    """Return whether two rounds differ in fresh names alone, and their calls undo or are refused."""
    if all(one.arguments == other.arguments for one, other in zip(before, now, strict=True)):
        return False  # the same calls again are no rounds of fresh names
    is_refused = any(it.refuses for it in now)
    if any(it.waits for it in now) and not is_refused:
        return False
    is_undone = any(it.undoes for it in now) and any(it.sets_up for it in now)
    renamed = [find_renamed(one.arguments, other.arguments) for one, other in zip(before, now, strict=True)]
    calls = [pairs for pairs in renamed if pairs is not None]
    if len(calls) < len(now) or not any(calls) or not (is_undone or is_refused):
        return False
    used = frozenset().union(*(list_names(it.arguments) for it in before + now))
    brought = _are_same_results(before, now, used)
    if brought is None:
        return False
    unexplained = [
        (place, pair)
        for place, pairs in enumerate(calls)
        for pair in pairs
        if not _is_brought(pair[1], before + now[:place])
    ]
    if not unexplained or (is_undone and _are_torn_down(unexplained, now)):
        return True
    # A new one was offered each time: the picture of a captcha, a code.
    return (
        is_refused
        and brought
        and not all(calls)
        and all(are_made_up(one, new) for _, (one, new, _) in unexplained)
    )


def _are_same_results(before: list[RoundWords], now: list[RoundWords], used: frozenset[str]) -> bool | None:
    """Return whether a result brought another name, None where results differ in more than names."""
    brought = False
    for one, other in zip(before, now, strict=True):
        pairs = find_renamed(one.result, other.result)
        if pairs is None or not all(_is_new_name(*pair, used) for pair in pairs):
            if is_equal_without_noise(one.result, other.result):
                continue
            pairs = find_renamed(mask_noise(one.result), mask_noise(other.result))
            if pairs is None or not all(_is_new_name(*pair, used) for pair in pairs):
                return None
        brought = brought or bool(pairs)
    return brought


def _is_new_name(one: str, other: str, _: str, used: frozenset[str]) -> bool:
    return are_made_up(one, other) or are_clocks(one, other) or one in used


def _is_brought(name: str, steps: list[RoundWords]) -> bool:
    """Return whether one result, and only one, brought a name before it was used."""
    found = [place for place, it in enumerate(steps) if name in list_names(it.result)]
    uses = [place for place, it in enumerate(steps) if name in list_names(it.arguments)]
    first_use = uses[0] if uses else len(steps)
    return len([place for place in found if place < first_use]) == 1


def _are_torn_down(pairs: list[tuple[int, tuple[str, str, str]]], now: list[RoundWords]) -> bool:
    """Return whether names were made up for what is set up and undone in this round."""
    for _, (one, new, label) in pairs:
        if not (are_made_up(one, new) or are_attempts(one, new, label)):
            return False
        named = [it for it in now if new in it.arguments]
        if not (any(it.sets_up for it in named) and any(it.undoes for it in named)):
            return False
    return True
