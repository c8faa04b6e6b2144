"""Notice an agent that keeps failing at the same thing."""

from steadyhelm.events import STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.loops.failures import Failures
from steadyhelm.loops.loop_detector import LoopDetector


class FailingLoop(LoopDetector):
    """Signal when the same call, the same error, or one attempt after another fails without new work between.

    A test that fails with the same error however much is edited counts too, from the fourth time on.
    An outage (a rate limit, a timeout) is nobody's fault and does not count, and neither does waiting.

    >>> fired_at(FailingLoop(), "..xxxx")  # . fine  x failed
    [4]
    """

    name = "failing_loop"
    version = 2
    looks_at = frozenset({TOOL_CALL, USER_MESSAGE, STATE_TRANSITION})
    advice = "Find out why it fails before trying again."

    def __init__(self) -> None:
        self._memory = Failures()
