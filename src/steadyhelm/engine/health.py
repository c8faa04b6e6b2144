"""Count what went wrong on our side, by reason: the agent never notices, `steadyhelm doctor` shows it."""

import logging
from collections import Counter
from typing import Final

from steadyhelm.forks import ForkSafeLock

logger: Final = logging.getLogger("steadyhelm")

_LOGGED_EVERY: Final = 1000


class Health:
    """Counts of everything we did not keep or could not do.

    `loud` makes every swallowed error raise again: for tests, never for production.
    """

    loud = False

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._total: Counter[str] = Counter()
        self._fresh: Counter[str] = Counter()

    def count(self, reason: str, n: int = 1) -> None:
        """Count `n` losses; the first of a reason and every thousandth are logged."""
        with self._lock:
            before = self._total[reason]
            self._total[reason] += n
            self._fresh[reason] += n
        if before == 0 or before // _LOGGED_EVERY != (before + n) // _LOGGED_EVERY:
            logger.warning("Steadyhelm noted %d times: %s", before + n, reason)

    def swallow(self, where: str, exc: BaseException) -> None:
        """Count an error of ours, or of a plug-in or callback, that the agent must not see."""
        self.count(f"error in {where}")
        logger.debug("Steadyhelm swallowed an error in %s", where, exc_info=exc)
        if self.loud:
            raise exc

    def totals(self) -> dict[str, int]:
        """Return everything counted in this process, by reason."""
        with self._lock:
            return dict(self._total)

    def take_fresh(self) -> dict[str, int]:
        """Return what was counted since the last call, for the store to add up over processes."""
        with self._lock:
            fresh, self._fresh = self._fresh, Counter()
        return dict(fresh)

    def after_fork(self) -> None:
        """Count from zero in a child process: the parent counts what came before."""
        self._total, self._fresh = Counter(), Counter()
