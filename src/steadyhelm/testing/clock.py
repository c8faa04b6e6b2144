"""A clock that a test sets."""


class FakeClock:
    """Stands still until it is told to go on.

    >>> clock = FakeClock(100.0)
    >>> clock.advance(2.5)
    >>> clock()
    102.5
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time it was set to."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let that much time pass."""
        self.now += seconds
