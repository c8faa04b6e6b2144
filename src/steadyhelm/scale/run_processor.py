"""The stateful processor of a stream of runs. Imports pyspark: `stream` imports it when it is needed."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import structs
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from steadyhelm.lazy_properties import lazy_property
from steadyhelm.scale.results import Result
from steadyhelm.scale.run_stream import Latest, RunStream
from steadyhelm.scale.snapshot import KnowledgeSnapshot
from steadyhelm.settings import Settings

_STATE: Final = (
    "session binary, last_at double, last_event_id string, action string, tokens_saved long,"
    " is_saving boolean, timer_ms long, has_ended boolean"
)
_NO_TIMER: Final = 0


class RunProcessor(StatefulProcessor):
    """Judges one run per key: its state is its saved session, a timer ends it when nothing comes any more.

    A run that has ended is remembered for as long again, so that what is delivered twice changes nothing.

    Args:
        settings: The detectors and their options.
        knowledge: The baselines. Not a broadcast variable, which Spark refuses in a processor.
        idle_s: Seconds of event time without an event after which a run has ended; None for never.
    """

    def __init__(
        self,
        settings: Settings,
        knowledge: KnowledgeSnapshot | None,
        idle_s: float | None,
    ) -> None:
        self._settings = settings
        self._knowledge = knowledge
        self._idle_s = idle_s

    @lazy_property
    def _stream(self) -> RunStream:
        return RunStream(self._settings, self._knowledge)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the runs."""
        self._handle = handle
        self._state = handle.getValueState("session", _STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[Row]:
        """Judge what has come of a run in this batch."""
        session, latest, timer_ms, has_ended = self._read()
        if has_ended:
            return iter(())
        progress = self._stream.judge(_as_texts(key), session, latest, (row.value for row in rows))
        if progress.state or progress.has_ended:
            timer_ms = timer_ms or self._set_timer(progress.latest)
            self._state.update((progress.state, *progress.latest, timer_ms, progress.has_ended))
        return map(_to_row, progress.results)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        timerValues: Any,  # noqa: N803, ARG002
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """End the run if nothing has come since the timer was set, else set it again."""
        session, latest, _, has_ended = self._read()
        now_ms = expiredTimerInfo.getExpiryTimeInMs()
        is_over = now_ms >= self._find_due_ms(latest)
        if has_ended and is_over:
            self._state.clear()
            return iter(())
        results: list[Result] = []
        if is_over and session is not None:
            results = self._stream.end(session, latest)
            session, has_ended, latest = b"", True, latest._replace(at=now_ms / 1000)
        self._state.update((session, *latest, self._set_timer(latest), has_ended))
        return map(_to_row, results)

    def close(self) -> None:
        """Do nothing: Spark closes the state itself."""

    def _read(self) -> tuple[bytes | None, Latest, int, bool]:
        if not self._state.exists():
            return None, Latest(), _NO_TIMER, False
        session, *latest, timer_ms, has_ended = self._state.get()
        return bytes(session), Latest(*latest), timer_ms, has_ended

    def _find_due_ms(self, latest: Latest) -> int:
        assert self._idle_s is not None
        return int((latest.at + self._idle_s) * 1000)

    def _set_timer(self, latest: Latest) -> int:
        """Set the timer of a run, one at a time; return when it is due."""
        if self._idle_s is None:
            return _NO_TIMER
        due_ms = self._find_due_ms(latest)
        self._handle.registerTimer(due_ms)
        return due_ms


def _as_texts(key: Any) -> tuple[str, str]:
    agent_id, run_id = key
    return agent_id or "", run_id or ""


def _to_row(result: Result) -> Row:
    return Row(**structs.asdict(result))
