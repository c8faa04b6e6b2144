"""Count what went wrong on our side, by reason: the agent never notices, `steadyhelm doctor` shows it."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from steadyhelm.events import new_id
from steadyhelm.forks import ForkSafeLock
from steadyhelm.interrupts import pass_on_signal
from steadyhelm.logs import logger
from steadyhelm.sink import Loss

_LOGGED_EVERY: Final = 1000


_NOTED_REASONS: Final = frozenset(
    {
        "call looked at while an event was being recorded",
        "end of a run that is not live",
        "event out of order",
        "event seen twice",
        "journal of another process could not be read for a while",
        "late event not judged",
        "other event at a place already taken",
        "live run put aside to make room",
        "no verdict of the judge",
        "question for the judge not asked",
        "run continued in a forked process",
        "run id seen twice",
        "store could not be written for a while",
        "verdict of the judge after the end of its run",
        "verdict that cannot be read",
        "worst case of a judge's answer stays reserved",
        "writer thread could not be started",
    }
)
"""What is worth knowing, and cost no record."""

_NOTED_LINE: Final = "Steadyhelm noted:"
_LOST_LINE: Final = "Steadyhelm lost records:"
COUNT_LINES: Final = (_NOTED_LINE, _LOST_LINE)
"""How lines of the log begin that give a count; a line before them says what happened."""

_SETTING_OF_LOSS: Final = {
    "journal full": "; journal_cap_mb is how much may wait for the database",
    "queue full": "; the journal cannot be written, and queue_cap records are held in memory",
}
"""What the log adds to a reason: the setting that sets the limit."""


def select_losses(counts: Mapping[str, int]) -> dict[str, int]:
    """Return those counts whose reason means that a record was lost.

    >>> select_losses({"event out of order": 9, "not written before exit": 2})
    {'not written before exit': 2}
    """
    return {reason: count for reason, count in counts.items() if reason not in _NOTED_REASONS}


class FlushResult(Struct, frozen=True, kw_only=True):
    """How a flush went: whether everything is stored, what remains, and all that was counted, by reason."""

    complete: bool
    remaining: int
    losses: dict[str, int]


class Health:
    """Counts of everything we did not keep or could not do.

    `loud` makes every swallowed error raise again: for tests, never for production.
    """

    loud = False

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self._begin()

    def __reduce__(self) -> tuple[type["Health"], tuple[()]]:
        # Another process counts for itself.
        return type(self), ()

    def __repr__(self) -> str:
        counted = ", ".join(f"{reason}: {count}" for reason, count in self.totals().items())
        return f"<Health: {counted or 'nothing lost'}>"

    def _begin(self) -> None:
        self._token = new_id()
        self._total: Counter[str] = Counter()
        self._stored: dict[str, int] = {}
        self.lost = 0
        """Records that were not stored, or not delivered to another sink."""
        self.out_of_stack = 0
        """Calls that the host made with no room left on its stack, and that are not counted below yet."""

    def count(self, reason: str, n: int = 1) -> None:
        """Count what happened `n` times; the first of a reason and every thousandth are logged."""
        self._add(reason, n, f"{_NOTED_LINE} %s (%d so far).", reason)

    def lose(self, reason: str, n: int = 1) -> None:
        """Count `n` records that were lost; the log says how many, why, and which setting limits them."""
        with self.lock:
            self.lost += n
        words = reason + _SETTING_OF_LOSS.get(reason, "")
        self._add(reason, n, f"{_LOST_LINE} %s (%d lost so far).", words)

    def _add(self, reason: str, n: int, line: str, words: str) -> None:
        with self.lock:
            before = self._total[reason]
            self._total[reason] += n
        if before == 0 or before // _LOGGED_EVERY != (before + n) // _LOGGED_EVERY:
            is_logged = logger.warning(f"{line} See: steadyhelm doctor", words, before + n)
            if not is_logged:
                with self.lock:
                    self._total["log handler raised"] += 1

    def swallow(self, where: str, exc: BaseException, *, is_record_lost: bool = False) -> None:
        """Count an error of ours, or of a plug-in or callback, that the agent must not see.

        `is_record_lost` says that a record was lost by it.
        What a signal handler of the host raised is none of these: it is raised again.
        """
        pass_on_signal(exc)
        note = self.lose if is_record_lost else self.count
        note(f"error in {where}")
        logger.debug("Steadyhelm swallowed an error in %s", where, exc_info=exc)
        if self.loud:
            raise exc

    def totals(self) -> dict[str, int]:
        """Return everything counted in this process, by reason."""
        with self.lock:
            self._count_out_of_stack()
            return dict(self._total)

    def _count_out_of_stack(self) -> None:
        if self.out_of_stack:
            self._total["call at the end of the stack"] += self.out_of_stack
            self.lost += self.out_of_stack
            self.out_of_stack = 0

    def list_losses(self, now: float) -> list[Loss]:
        """Return each total that is not stored as it is now."""
        with self.lock:
            self._count_out_of_stack()
            return [
                Loss(reason, count, now, self._token)
                for reason, count in self._total.items()
                if self._stored.get(reason) != count
            ]

    def mark_stored(self, losses: list[Loss]) -> None:
        """Remember that these totals are stored."""
        with self.lock:
            self._stored.update({loss.reason: loss.count for loss in losses if loss.token == self._token})

    def after_fork(self) -> None:
        """Count from zero in a child process: the parent counts what came before."""
        self._begin()
