"""Let a function answer questions."""

from collections.abc import Callable
from typing import Any

from steadyhelm.errors import SettingsError
from steadyhelm.judge import JudgeVerdict, Question
from steadyhelm.judges.asynchronous import refuse_asynchronous
from steadyhelm.judging.answers import read_answer


class FunctionJudge:
    """Calls a function with each question.

    Args:
        function: Takes a `Question`. Returns a `JudgeVerdict`, its fields as a dict, or its JSON as text.

    >>> FunctionJudge("not a function")
    Traceback (most recent call last):
    ...
    steadyhelm.errors.SettingsError: A judge must be a function or have a method judge(question), got: str.
    """

    def __init__(self, function: Callable[[Question], Any]) -> None:
        if not callable(function):
            raise SettingsError(
                "A judge must be a function or have a method judge(question), "
                f"got: {type(function).__name__}."
            )
        refuse_asynchronous(function)
        self._function = function

    def judge(self, question: Question) -> JudgeVerdict:
        """Return what the function answers."""
        return read_answer(self._function(question), question)
