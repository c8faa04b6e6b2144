"""What watching adds to a model call and to a tool call, for each framework, against the bare framework.

The frameworks play the scenes of their tests, with their own offline models, which answer at once: a real
model takes a thousand times as long, so the milliseconds are what counts.
"""

import statistics
import tempfile
from pathlib import Path

from benchmarks.measures import Measure, from_repeats, not_measured
from benchmarks.processes import ROOT, measure_in_child

NAME = "adapters"
BAR_MS, BAR_SHARE = 0.3, 0.03

TURNS = {"crewai": 24}
"""Turns of a long conversation; CrewAI ends one after twenty-five."""

ENVIRONMENTS = {
    "langchain": "frameworks",
    "openai-agents": "frameworks",
    "pydantic-ai": "frameworks",
    "google-adk": "frameworks",
    "strands": "frameworks",
    "agent-framework": "frameworks",
    "llama-index": "frameworks",
    "openai-client": "frameworks",
    "anthropic-client": "frameworks",
    "crewai": "crewai",
}


def run(*, quick: bool) -> list[Measure]:
    """Every framework that has its environment here; `make test-adapters` builds them."""
    measures: list[Measure] = []
    for framework, environment in ENVIRONMENTS.items():
        python = ROOT / f".venv-{environment}" / "bin" / "python"
        if not python.exists():
            measures.append(not_measured(NAME, framework, "make test-adapters builds its environment"))
            continue
        repeats, turns = (3, 4) if quick else (15, TURNS.get(framework, 40))
        try:
            with tempfile.TemporaryDirectory() as home:
                costs = measure_in_child(
                    "adapting", Path(home), framework, repeats, turns, python=str(python)
                )
        except RuntimeError as exc:
            measures.append(not_measured(NAME, framework, str(exc)[-200:]))
            continue
        measures += [_measure(framework, kind, costs) for kind in ("model", "tool")]
        measures.append(_measure_turn(framework, costs))
    return measures


def _measure(framework: str, kind: str, costs: dict[str, list[float]]) -> Measure:
    bare = max(0.0, statistics.median(costs[f"bare {kind}"]))
    what = f"{framework}: added to a {kind} call (bare {bare:.2f} ms)"
    bar = max(BAR_MS, BAR_SHARE * bare)
    return from_repeats(NAME, what, costs[kind], "ms", bar=bar, details=costs)


def _measure_turn(framework: str, costs: dict[str, list[float]]) -> Measure:
    """Measure a model call with one tool call: what the split gives one and takes from the other goes."""
    added = [model + tool for model, tool in zip(costs["model"], costs["tool"], strict=True)]
    bare = sum(max(0.0, statistics.median(costs[f"bare {kind}"])) for kind in ("model", "tool"))
    what = f"{framework}: added to a turn of one model and one tool call (bare {bare:.2f} ms)"
    return from_repeats(NAME, what, added, "ms", bar=max(2 * BAR_MS, BAR_SHARE * bare))
