"""The tools and files that findings point at: how far they can still be trusted in this run."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.fatigue import SubjectKind, Trust, TrustBand
from steadyhelm.loops.steps import find_path

_DOUBTS_KEPT: Final = 10


class Doubts:
    """Findings lower the trust in a tool and a file; clean use raises it, before as well as after."""

    def __init__(self, trust: Trust | None = None) -> None:
        self.trust = trust or Trust()

    def clean(self, event: TraceEvent) -> None:
        """Nothing was found at this event."""
        trust = self.trust
        if not trust.tools or event.action_type != TOOL_CALL:
            return
        tool, path = event.action_name, find_path(event.input_data)
        if tool in trust.tools:
            trust.raise_("tool", tool)
        if path in trust.files:
            trust.raise_("file", path)

    def weigh(self, event: TraceEvent, names: Sequence[str], *, lowered: bool) -> None:
        """Something was found at this event; `names` are the run's calls so far."""
        if not lowered:
            self.clean(event)
            return
        if event.action_type != TOOL_CALL:
            return
        trust, tool, path = self.trust, event.action_name, find_path(event.input_data)
        if tool not in trust.tools:
            # Kept up only for what findings point at: what went well before is made up for here.
            trust.raise_("tool", tool, names.count(tool))
        trust.lower("tool", tool)
        if path is not None:
            trust.lower("file", path)

    def worst(self) -> list[tuple[str, str, float]]:
        """The tools and files that findings have brought into doubt, the most doubtful first."""
        kinds: tuple[SubjectKind, ...] = ("tool", "file")
        doubtful: list[tuple[str, str, float]] = [
            (kind, subject, round(standing.mean, 3))
            for kind in kinds
            for subject, standing in self.trust.standings(kind).items()
            if standing.band in {TrustBand.DISTRUSTED, TrustBand.DOUBTFUL}
        ]
        return sorted(doubtful, key=lambda doubt: doubt[2])[:_DOUBTS_KEPT]
