"""Simulated agents: each works on one run after the other, step by step, at its own pace."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.lab.load.mix import LoadMix, draw, draw_index

_WORDS: Final = tuple(
    word
    for line in (
        "order parcel border carrier report table column query file test branch build error warning module",
        "import function value result customer account refund invoice ticket price index cache token session",
        "request response header field schema record update delete insert select filter sort group total",
        "average limit window queue worker thread process lock commit merge review deploy release version",
    )
    for word in line.split()
)
_CALLS_REPEATED: Final = 8
"""How far back a call may lie that an agent makes again."""
_MAX_CHARS: Final = 60_000


class SimulatedAgent:
    """One agent that never stops working.

    Args:
        mix: What it does.
        random: Decides what comes next.
    """

    def __init__(self, mix: LoadMix, random: Random) -> None:
        self._mix = mix
        self._random = random
        self._kinds = list(mix.kinds)
        self._shares = [sizes.share for sizes in mix.kinds.values()]
        # Cuts of one long text: no text is made anew for each step.
        self._text = " ".join(random.choices(_WORDS, k=_MAX_CHARS // 6))

    def make_goal(self) -> str:
        """Return the goal of the next run."""
        return f"find out about the {' '.join(self._random.sample(_WORDS, 6))} and report it"

    def list_steps(self) -> Iterator[dict[str, Any]]:
        """Yield the steps of one run, as arguments of `record_event`."""
        recent: list[tuple[str, dict[str, Any]]] = []
        for _ in range(max(1, round(draw(self._mix.lengths, self._random)))):
            yield self._make_step(recent)

    def draw_gap(self) -> float:
        """Return the time to the next step, relative to the mean."""
        return draw(self._mix.gaps, self._random)

    def _make_step(self, recent: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        random, kind = self._random, self._kinds[draw_index(self._shares, self._random)]
        sizes = self._mix.kinds[kind]
        is_call = kind == TOOL_CALL
        if is_call and recent and random.random() < self._mix.repeated / sizes.share:
            name, given = random.choice(recent)
        else:
            name = f"tool_{draw_index(self._mix.tools, random)}" if is_call else kind
            given = {"text": self._cut(draw(sizes.input_chars, random))}
        if is_call:
            recent.append((name, given))
            del recent[:-_CALLS_REPEATED]
        has_failed = is_call and random.random() < self._mix.failed / sizes.share
        return {
            "action_type": kind,
            "action_name": "model" if kind == LLM_REQUEST else name,
            "input_data": given,
            "output_data": {"text": self._cut(draw(sizes.output_chars, random))},
            "token_count": round(draw(sizes.tokens, random)),
            "error": "it failed" if has_failed else None,
        }

    def _cut(self, chars: float) -> str:
        start = self._random.randrange(_MAX_CHARS // 8)
        return self._text[start : start + int(chars)]
