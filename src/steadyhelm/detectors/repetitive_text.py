"""Notice an agent whose words repeat themselves."""

from steadyhelm.events import LLM_REQUEST, TOOL_CALL
from steadyhelm.loops.loop_detector import LoopDetector
from steadyhelm.loops.repetitive_text import Replies


class RepetitiveText(LoopDetector):
    """Signal when one reply says the same again and again, or the same reply comes three times in a row.

    Lists, tables, code and dividers may repeat.

    >>> said_at(RepetitiveText(), "I will end the turn now. " * 8)
    [0]
    >>> said_at(RepetitiveText(), *["I am still working on it."] * 4)
    [1, 2, 3]
    """

    name = "repetitive_text"
    looks_at = frozenset({LLM_REQUEST, TOOL_CALL})
    advice = "Stop the reply, and ask for the next step only."

    def __init__(self) -> None:
        self._memory = Replies()
