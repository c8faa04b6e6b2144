"""Which errors of a run were told with one of its steps: what ends the run is often one of them."""

from collections import deque
from typing import Final

_KEPT: Final = 8
_CAUSES: Final = 8


class ErrorsTold:
    """The latest errors that steps told of."""

    def __init__(self) -> None:
        self._told: deque[str] = deque(maxlen=_KEPT)

    def note(self, error: object) -> None:
        """A step has failed."""
        self._told.append(_words(error))

    def is_news(self, error: BaseException) -> bool:
        """Whether an error is not just one that was told, in other clothes."""
        at: BaseException | None = error
        for _ in range(_CAUSES):
            if at is None:
                break
            if _words(at) in self._told:
                return False
            at = at.__cause__ or at.__context__
        return True


def _words(error: object) -> str:
    try:
        return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    except Exception:  # noqa: BLE001 - an error of the host's own making may have no words
        return type(error).__name__
