"""One framework, bare and watched in turn: what a model call and a tool call cost more when watched.

Usage: python -m benchmarks.adapting FRAMEWORK REPEATS TURNS
"""

import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.processes import ROOT

sys.path.insert(0, str(ROOT / "tests" / "frameworks"))
os.environ["STEADYHELM_FRAMEWORKS"] = sys.argv[1]

from conftest import stage_of
from script import Ask, Scene, Turn

from steadyhelm import DriftMonitor

WIDE = 5
"""Calls a turn: from two scenes with as many turns follow the cost of a turn and that of a call."""

THIRDS = 3
SHARE = 4
"""A short conversation has this part of the turns: what a run costs once is in both, and goes."""

Scenes = dict[tuple[str, bool], list[float]]


def main(framework: str, repeats: int, turns: int) -> None:
    """Play the scenes, bare and watched, again and again; the first round only warms up."""
    stage = stage_of(framework)
    scenes = {"short": (turns // SHARE, 1), "long": (turns, 1), "wide": (turns, WIDE)}
    seconds: Scenes = {(scene, watched): [] for scene in scenes for watched in (False, True)}
    with tempfile.TemporaryDirectory() as folder:
        monitor = DriftMonitor("agent", db_path=Path(folder) / "watched.db")
        for _ in range(repeats + 1):
            for (scene, watched), took in seconds.items():
                gc.collect()  # what the other side left behind is not this one's to clean up
                # All CPU of the process, the writer's thread included: steadier than the clock, and stricter.
                before = time.process_time()
                played = stage.play(_scene(*scenes[scene]), monitor if watched else None, stage.ways[0])
                took.append(time.process_time() - before)
                if played.error is not None:
                    raise played.error
            monitor.flush()  # what is still to be written must not fall into the next round
        monitor.close()
    print(json.dumps(_costs(seconds, turns)))


def _scene(turns: int, calls: int) -> Scene:
    asked = [
        Turn(calls=tuple(Ask("add", {"a": n, "b": each}, f"c{n}.{each}") for each in range(calls)))
        for n in range(turns)
    ]
    return Scene(turns=asked)


def _costs(seconds: Scenes, turns: int) -> dict[str, list[float]]:
    """Milliseconds a call, bare, and what watching adds: once from each third of the rounds."""
    found: dict[str, list[float]] = {"model": [], "tool": [], "bare model": [], "bare tool": []}
    for third in range(THIRDS):
        # The quickest of several rounds: what a busy machine adds says nothing about either side.
        took = {kind: min(rounds[1 + third :: THIRDS]) * 1000 for kind, rounds in seconds.items()}
        calls = {watched: _split_costs(took, turns, watched=watched) for watched in (False, True)}
        for place, kind in enumerate(("model", "tool")):
            found[f"bare {kind}"].append(calls[False][place])
            found[kind].append(calls[True][place] - calls[False][place])
    return found


def _split_costs(took: dict[tuple[str, bool], float], turns: int, *, watched: bool) -> tuple[float, float]:
    """Return the time of a model call and of a tool call, from the times of the scenes."""
    short, long, wide = (took[scene, watched] for scene in ("short", "long", "wide"))
    tool = (wide - long) / (turns * (WIDE - 1))
    turn = (long - short) / (turns - turns // SHARE)
    return turn - tool, tool


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
