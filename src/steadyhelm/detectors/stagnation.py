"""Notice an agent that asks on and learns nothing."""

from steadyhelm.loops.loop_detector import LoopDetector
from steadyhelm.loops.stagnation import Answers


class Stagnation(LoopDetector):
    """Signal when other questions get the same answer, or one question is asked in ever other words.

    An answer that says "nothing found" may rightly come many times, and needs eight.
    Waiting, planning and work done do not count.
    """

    name = "stagnation"
    version = 2
    advice = "Use what is known, or look somewhere else: asking again brings the same."

    def __init__(self) -> None:
        self._memory = Answers()
