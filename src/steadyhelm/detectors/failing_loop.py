"""Notice an agent that keeps failing at the same thing."""

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.loop_detector import LoopDetector


class FailingLoop(LoopDetector):
    """Signal when the same call, the same error, or one attempt after another fails without new work between.

    A test that fails with the same error however much is edited counts too, from the fourth time on, and so
    do rounds in which something is set up and taken down again, or refused, under a fresh name each time.
    An outage (a rate limit, a timeout) counts from the eighth time on, for one call or for different ones in
    a row. Waiting does not count.

    >>> fired_at(FailingLoop(), "..xxxx")  # . fine  x failed
    [4]
    """

    name = "failing_loop"
    version = 6
    observed_types = frozenset({TOOL_CALL, USER_MESSAGE, STATE_TRANSITION, LLM_REQUEST})
    advice = "Find out why it fails before trying again."

    def __init__(self) -> None:
        self._memory = FailureMemory()
