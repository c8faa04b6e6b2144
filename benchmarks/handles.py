"""Memory, open handles and threads of this process over time, and whether they stay flat."""

import os
import statistics
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

GROWTH_MB, GROWTH_SHARE = 8.0, 0.05
"""How much more memory the second half may take than the first: noise, and caches that fill."""

MORE_HANDLES, MORE_THREADS = 4, 2


class Sample(NamedTuple):
    """What the process held at one moment."""

    resident: int
    handles: int
    threads: int


def take_sample() -> Sample:
    """Return what the process holds now. Needs /proc."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    handles = len(list(Path("/proc/self/fd").iterdir()))
    return Sample(pages * os.sysconf("SC_PAGE_SIZE"), handles, threading.active_count())


def describe_growth(samples: Sequence[Sample], *, warm_up: float) -> list[str]:
    """Return what grew between the two halves of the time that is left after this share of it to warm up."""
    warm = samples[int(warm_up * len(samples)) :]
    size = len(warm) // 2
    if size < 1:
        return ["too few samples to see whether memory is flat"]
    then, now = warm[:size], warm[-size:]
    resident = [_median(part, lambda it: it.resident) / 1e6 for part in (then, now)]
    handles = [_median(part, lambda it: it.handles) for part in (then, now)]
    threads = [_median(part, lambda it: it.threads) for part in (then, now)]
    faults = []
    if resident[1] - resident[0] > max(GROWTH_MB, GROWTH_SHARE * resident[0]):
        faults.append(f"memory grew from {resident[0]:.1f} to {resident[1]:.1f} MB")
    if handles[1] - handles[0] > MORE_HANDLES:
        faults.append(f"handles grew from {handles[0]:.0f} to {handles[1]:.0f}")
    if threads[1] - threads[0] > MORE_THREADS:
        faults.append(f"threads grew from {threads[0]:.0f} to {threads[1]:.0f}")
    return faults


def _median(samples: Sequence[Sample], take: Callable[[Sample], int]) -> float:
    return statistics.median(map(take, samples))
