"""Which errors of a run were told with one of its steps: what ends the run is often one of them."""

from collections import deque
from typing import Final

from steadyhelm.engine.coercion import to_error_text

_KEPT: Final = 8
_CAUSES: Final = 8


class SeenErrors:
    """The latest errors that steps told of."""

    def __init__(self) -> None:
        self._told: deque[str | None] = deque(maxlen=_KEPT)

    def note(self, error: object) -> None:
        """A step has failed."""
        self._told.append(to_error_text(error))

    def is_new(self, error: BaseException) -> bool:
        """Whether an error is not just one that was told, in other clothes."""
        at: BaseException | None = error
        for _ in range(_CAUSES):
            if at is None:
                break
            if to_error_text(at) in self._told:
                return False
            at = at.__cause__ or at.__context__
        return True
