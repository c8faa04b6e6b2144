"""Trust in the tools and files of a run: findings lower it, clean use raises it."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.fatigue import SubjectKind, Trust, TrustBand
from steadyhelm.loops.steps import find_path

_DOUBTFUL_KEPT: Final = 10


def record_clean_use(trust: Trust, event: TraceEvent) -> None:
    """Raise the trust in what an event without findings used."""
    if not trust.tools or event.action_type != TOOL_CALL:
        return
    tool, path = event.action_name, find_path(event.input_data)
    if tool in trust.tools:
        trust.raise_("tool", tool)
    if path in trust.files:
        trust.raise_("file", path)


def record_findings(trust: Trust, event: TraceEvent, names: Sequence[str]) -> None:
    """Lower the trust in what an event with findings used; `names` are the run's calls so far."""
    if event.action_type != TOOL_CALL:
        return
    tool, path = event.action_name, find_path(event.input_data)
    if tool not in trust.tools:
        # Scores exist only for what findings point at: earlier clean calls are counted now.
        trust.raise_("tool", tool, names.count(tool))
    trust.lower("tool", tool)
    if path is not None:
        trust.lower("file", path)


def list_doubtful(trust: Trust) -> list[tuple[str, str, float]]:
    """Return the tools and files with little trust left as (kind, name, score), the lowest first."""
    kinds: tuple[SubjectKind, ...] = ("tool", "file")
    doubtful: list[tuple[str, str, float]] = [
        (kind, subject, round(standing.mean, 3))
        for kind in kinds
        for subject, standing in trust.scores(kind).items()
        if standing.band in {TrustBand.DISTRUSTED, TrustBand.DOUBTFUL}
    ]
    return sorted(doubtful, key=lambda doubt: doubt[2])[:_DOUBTFUL_KEPT]
