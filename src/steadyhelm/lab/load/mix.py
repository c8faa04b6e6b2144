"""The mix of a load: how long runs are, what their steps are, and how large and how far apart they are."""

import statistics
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import accumulate, pairwise
from random import Random
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.recordings.run_file import ReadRun

_KINDS: Final = (TOOL_CALL, LLM_REQUEST, USER_MESSAGE)
_QUANTILES: Final = 40
_TOOLS: Final = 20
_LONGEST_GAP_S: Final = 60.0
"""Where an agent waited longer, it waited for its user."""


class StepSizes(Struct, frozen=True, kw_only=True):
    """The sizes of one kind of step, as quantiles in equal distances."""

    share: float
    input_chars: list[float]
    output_chars: list[float]
    tokens: list[float]


class LoadMix(Struct, frozen=True, kw_only=True):
    """What simulated agents do, measured on real runs.

    Lists are quantiles in equal distances, except `tools`: the share of the most used tool of a run, of the
    next one, and so on. Gaps have the mean 1: the rate of a load scales them.
    """

    runs: int
    steps: int
    lengths: list[float]
    gaps: list[float]
    kinds: dict[str, StepSizes]
    tools: list[float]
    repeated: float
    failed: float


def read_built_in_mix() -> LoadMix:
    """Return the mix that was measured on open runs: coding sessions, benchmarks and customer service."""
    content = files("steadyhelm.lab.load").joinpath("mix.json").read_bytes()
    return msgspec.json.decode(content, type=LoadMix)


def measure_mix(runs: Iterable[ReadRun]) -> LoadMix:
    """Return the mix of these runs. Raises SettingsError when they hold no steps."""
    lengths: list[float] = []
    gaps: list[float] = []
    sizes: dict[str, tuple[list[float], list[float], list[float]]] = {k: ([], [], []) for k in _KINDS}
    tools: Counter[int] = Counter()
    repeated = failed = 0
    for run in runs:
        if not run.events:
            continue
        lengths.append(len(run.events))
        gaps += [b.timestamp - a.timestamp for a, b in pairwise(run.events) if b.timestamp > a.timestamp]
        seen = set()
        calls: Counter[str] = Counter()
        for event in run.events:
            given, got = encode_canonical(event.input_data), encode_canonical(event.output_data)
            kind = event.action_type if event.action_type in sizes else LLM_REQUEST
            for values, value in zip(sizes[kind], (len(given), len(got), event.token_count), strict=True):
                values.append(float(value))
            call = (event.action_name, given)
            repeated += event.action_type == TOOL_CALL and call in seen
            failed += event.error is not None
            seen.add(call)
            calls[event.action_name] += event.action_type == TOOL_CALL
        for rank, (_, count) in enumerate(calls.most_common(_TOOLS)):
            tools[rank] += count
    steps = int(sum(lengths))
    if not steps:
        raise SettingsError("These runs hold no steps: there is nothing to draw a load from.")
    close = [gap for gap in gaps if gap <= _LONGEST_GAP_S] or [1.0]
    spread = _to_quantiles(close)
    mean = statistics.fmean((a + b) / 2 for a, b in pairwise(spread))
    return LoadMix(
        runs=len(lengths),
        steps=steps,
        lengths=_to_quantiles(lengths),
        gaps=[round(gap / mean, 4) for gap in spread],
        kinds={
            kind: StepSizes(
                share=round(len(values[0]) / steps, 4),
                input_chars=_to_quantiles(values[0]),
                output_chars=_to_quantiles(values[1]),
                tokens=_to_quantiles(values[2]),
            )
            for kind, values in sizes.items()
            if values[0]
        },
        tools=[round(tools[rank] / max(1, tools.total()), 4) for rank in range(_TOOLS) if tools[rank]]
        or [1.0],
        repeated=round(repeated / steps, 4),
        failed=round(failed / steps, 4),
    )


def _to_quantiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return [round(ordered[round(last * n / _QUANTILES)], 3) for n in range(_QUANTILES + 1)]


def draw(quantiles: Sequence[float], random: Random) -> float:
    """Return a value of a distribution given by its quantiles.

    >>> 1.0 <= draw([1.0, 2.0, 8.0], Random(1)) <= 8.0
    True
    """
    place = random.random() * (len(quantiles) - 1)
    low = int(place)
    return quantiles[low] + (quantiles[low + 1] - quantiles[low]) * (place - low)


def draw_index(shares: Sequence[float], random: Random) -> int:
    """Return an index, each as often as its share says."""
    sums = list(accumulate(shares))
    return min(bisect(sums, random.random() * sums[-1]), len(sums) - 1)
