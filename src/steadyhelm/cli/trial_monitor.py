"""Build a monitor from the settings in force and let it record a step, to find what an agent would meet."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from steadyhelm.errors import SteadyhelmError

_AGENT: Final = "doctor"


class _Collector(logging.Handler):
    """Keeps the messages of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage())


def find_monitor_faults(config_file: Path | None) -> list[str]:
    """Return why a monitor does not start with the settings in force, or starts with less than they ask for.

    It records one step in a database of its own, which is deleted; nothing is sent anywhere.
    """
    from steadyhelm.assembly import DriftMonitor

    with tempfile.TemporaryDirectory(prefix="steadyhelm-doctor-") as folder, _collect_warnings() as warnings:
        try:
            monitor = DriftMonitor(_AGENT, db_path=Path(folder) / "doctor.db", config=config_file)
        except SteadyhelmError as exc:
            return [str(exc)]
        except Exception as exc:  # noqa: BLE001 - somebody else's plug-in may fail in any way
            return [f"{type(exc).__name__}: {exc}"]
        with closing(monitor):
            with monitor.run(goal="check the installation"):
                monitor.record_event("tool_call", "check", output_data="it works")
            is_stored = monitor.flush().complete
    counted = monitor.health.totals()
    # What is counted is logged too; the line before it says why.
    reasons = [line for line in warnings if not any(line.endswith(f": {it}") for it in counted)]
    stored = [] if is_stored else ["a step that was recorded could not be stored"]
    return [*(reasons or counted), *stored]


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    collector, log = _Collector(), logging.getLogger("steadyhelm")
    propagates, log.propagate = log.propagate, False
    log.addHandler(collector)
    try:
        yield collector.messages
    finally:
        log.removeHandler(collector)
        log.propagate = propagates
