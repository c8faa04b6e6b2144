"""Recognise errors that come nearer to none: one number in them falls each time."""

import re
from typing import Final

from msgspec import Struct, field

from steadyhelm.loops.outcomes import hash_error
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import mask_noise

_MAX_ERRORS: Final = 8
_MAX_NUMBERS: Final = 12
_RISES_OF_OTHER_CALLS: Final = 1
_CONTEXT_CHARS: Final = 24

_ARGUMENT_NUMBER: Final = re.compile(rb"\d+")
_NUMBER: Final = re.compile(r"(?<![\w.:/#-])\d{1,15}(?:\.\d{1,6})?(?=[kmgt]?i?b?\b)(?![./:-]\d)")
_NO_COUNT_BEFORE: Final = re.compile(
    r"(?:\b(?:line|column|col|row|port|pid|process|code|status|version|id|no|job|error|at)"
    r"|(?:attempt|tries|try|retr|guess|chance|credit|quota|balance|budget|limit)[a-z_ ]{0,14})"
    r"[\"']?\W{0,3}\Z"
)
_NO_COUNT_AFTER: Final = re.compile(
    r"\W{0,2}(?:more |remaining |login |of \d+ )?(?:attempt|tries|try\b|retr|guess|chance|credit|second"
    r"|minute|hour|day|s\b|lives)"
)
"""What is left of attempts and time falls by itself."""


class Course(Struct, array_like=True):
    """The numbers of the latest error of one text, the call it was of, and how often one of them rose."""

    numbers: tuple[float, ...]
    call_key: int
    rises: int = 0


class FallingNumbers(Struct):
    """The courses of the latest errors, by the hash of their texts without numbers.

    A number that rises under the same call shows that it counts nothing, and so does one that rises twice.
    """

    courses: dict[int, Course] = field(default_factory=dict)

    def record(self, step: ToolStep) -> bool:
        """Record a failure, and return whether one number in its error fell, as it did each time so far."""
        numbers = _list_counts(step)
        if not numbers:
            return False
        key = hash_error(f"{step.event.action_name} {step.outcome.sample}")
        course = self.courses.pop(key, None)
        self.courses[key] = now = Course(numbers, step.call_key)
        if len(self.courses) > _MAX_ERRORS:
            del self.courses[next(iter(self.courses))]
        if course is None:
            return False
        now.rises = course.rises
        changes = [
            later - before for before, later in zip(course.numbers, numbers, strict=False) if later != before
        ]
        if len(course.numbers) != len(numbers) or not changes:
            return False
        if len(changes) > 1 or changes[0] > 0:
            now.rises += 1 if course.call_key != step.call_key else 1 + _RISES_OF_OTHER_CALLS
            return False
        return now.rises <= _RISES_OF_OTHER_CALLS

    def forget(self, call_key: int) -> None:
        """Forget the errors of a call that has succeeded."""
        for key in [key for key, course in self.courses.items() if course.call_key == call_key]:
            del self.courses[key]


def _list_counts(step: ToolStep) -> tuple[float, ...]:
    """Return the numbers of an error that may count what is left: no place, no attempt, none of its call."""
    text = mask_noise(step.outcome.sample).lower()
    if not any(map(str.isdigit, text)):
        return ()
    asked = set(_ARGUMENT_NUMBER.findall(step.arguments))
    counts = [
        float(found[0])
        for found in _NUMBER.finditer(text)
        if found[0].encode() not in asked
        and _NO_COUNT_BEFORE.search(text, max(0, found.start() - _CONTEXT_CHARS), found.start()) is None
        and _NO_COUNT_AFTER.match(text, found.end()) is None
    ]
    return tuple(counts[:_MAX_NUMBERS])
