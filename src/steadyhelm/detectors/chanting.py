"""Notice an agent whose words repeat themselves."""

from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.loops.chanting import Replies
from steadyhelm.loops.loop_detector import LoopDetector


class Chanting(LoopDetector):
    """Signal when one reply says the same again and again, or the same reply comes three times in a row.

    Lists, tables, code and dividers are not chanting.

    >>> said_at(Chanting(), "I will end the turn now. " * 8)
    [0]
    >>> said_at(Chanting(), *["I am still working on it."] * 4)
    [1, 2, 3]
    """

    name = "chanting"
    looks_at = frozenset({LLM_REQUEST, TOOL_CALL})
    advice = "Stop the reply, and ask for the next step only."

    def __init__(self) -> None:
        self._memory = Replies()
