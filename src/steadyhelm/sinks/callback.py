"""Call a function with each finding, on the writer's thread."""

from collections.abc import Callable, Sequence

from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.sink import Record, Sink


class Callback(Sink):
    """Calls a function with each finding, on the writer's thread: for slow functions.

    `DriftMonitor.on_drift` calls at once instead, on the agent's thread.

    Args:
        function: The function to call.
        min_severity: The lowest severity it is called for.
    """

    name = "callback"

    def __init__(
        self, function: Callable[[DriftEvent], object], *, min_severity: Severity = Severity.MED
    ) -> None:
        self._function = function
        self._least = min_severity.rank

    def write(self, records: Sequence[Record]) -> None:
        """Call the function for each finding of the batch."""
        for record in records:
            if isinstance(record, DriftEvent) and record.severity.rank >= self._least:
                self._function(record)
