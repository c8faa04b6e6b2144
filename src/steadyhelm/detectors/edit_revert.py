"""Notice an agent that changes a file back and forth."""

from steadyhelm.loops.loop_detector import LoopDetector
from steadyhelm.loops.oscillation import Oscillation


class EditRevert(LoopDetector):
    """Signal when a file returns to what it was for the second time since the user last spoke.

    Taking a change back once is ordinary work, and a user may ask for it.
    """

    name = "edit_revert"
    version = 2
    advice = "Decide for one of the two, and say why."

    def __init__(self) -> None:
        self._memory = Oscillation()
