"""What scoring one reply costs, and whether any text costs much more than its size."""

import time
from collections.abc import Callable

from benchmarks.measures import Measure, from_repeats
from benchmarks.workload import fingerprint_reference, tool_event

from steadyhelm.style.scoring import score_reply

NAME = "style"
BAR, AIM = 60.0, 40.0
SIZE = 8192

PLAIN = (
    "The importer read each file twice: once for the header in `load_header`, and once for the rows. "
    "It now reads it once (src/importer/rows.py, line 84) and keeps the header in memory.\n\n"
    "- rows are checked while they are read\n- a bad row goes to a second file, with its reason\n"
    "- the run ends with a count of both\n\nAll 212 tests pass. "
)
PADDED = (
    "Great question! I'd be happy to walk you through this. Basically, it seems that the parser might be "
    "dropping the last line of the file, which is quite surprising, and perhaps we could simply change the "
    "loop so that it actually reads everything. "
)
ODD = (
    ".",
    "/",
    "a",
    "``",
    "`a",
    "<a",
    "\n",
    "> ",
    "a/",
    " ",
    "a.",
    "|\n",
    "~~~\n",
    "é",
    "漢",
    "[[",
    '"',
    "just ",
)


def run(*, quick: bool) -> list[Measure]:
    """Measure a reply of 150 words against the reference, and odd texts against prose of the same size."""
    repeats, times = (3, 20) if quick else (15, 300)
    measures = []
    event = tool_event(7)
    for manner, text in (("plain", PLAIN), ("padded", PADDED)):
        reply = _words(text, 150)
        ratios = []
        for _ in range(repeats):
            reference = _seconds(lambda: fingerprint_reference(event), times * 20)
            ratios.append(_seconds(lambda reply=reply: score_reply(reply), times) / reference)
        what = f"a {manner} reply of 150 words, times the reference"
        measures.append(from_repeats(NAME, what, ratios, "x", bar=BAR, aim=AIM))
    return [*measures, _oddest(2 if quick else 10)]


def _oddest(times: int) -> Measure:
    prose = _seconds(lambda: score_reply((PLAIN * 40)[:SIZE]), times)
    costs = {
        part: _seconds(lambda part=part: score_reply((part * SIZE)[:SIZE]), times) / prose for part in ODD
    }
    worst = max(costs, key=costs.__getitem__)
    what = f"8 KiB of {worst!r}, the costliest of {len(ODD)}, times 8 KiB of prose"
    return Measure(benchmark=NAME, what=what, value=costs[worst], unit="x", details=costs)


def _words(text: str, count: int) -> str:
    words = (text * 20).split(" ")[:count]
    return " ".join(words)


def _seconds(work: Callable[[], object], times: int) -> float:
    before = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - before) / times
