"""Everything known of a reply and what stood before it, as named numbers."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from steadyhelm.corrections.accord import accord
from steadyhelm.corrections.before import Before, answering, look_back
from steadyhelm.corrections.counts import count_of
from steadyhelm.corrections.cues import CUES, first_of, found_in, leanings
from steadyhelm.corrections.reading import (
    ASSISTANT_LOOKED_AT,
    PROMPT_LOOKED_AT,
    REPLY_LOOKED_AT,
    Reading,
    end_of,
    read,
    start_of,
)
from steadyhelm.corrections.shapes import shape_of


class ReplyFeatures(NamedTuple):
    """A reply as the model sees it: `numbers` by name, beside the reading and the cues they came from."""

    numbers: dict[str, float]
    reading: Reading
    found: dict[str, str]
    first: dict[str, str]
    before: Before


def features_of(
    reply: object,
    *,
    assistant_before: object = "",
    prompt_before: object = "",
    interrupted: object = False,
    tool_calls: object = 0,
    tool_errors: object = 0,
    turn: object = 0,
) -> ReplyFeatures:
    """Read a reply in its place; whatever is not what it should be counts as absent."""
    text = start_of(reply, REPLY_LOOKED_AT)
    reading = read(text)
    before = look_back(end_of(assistant_before, ASSISTANT_LOOKED_AT))
    prompt = read(start_of(prompt_before, PROMPT_LOOKED_AT))
    found = found_in(reading.head)
    first = first_of(found, reading)
    numbers = {f"cue: {name}": float(name in found) for name in CUES}
    numbers |= shape_of(text, reading)
    is_report = numbers["reads like a report"] > 0
    numbers |= leanings(found, first, len(reading.words), is_report=is_report)
    numbers |= answering(reading, before, prompt)
    numbers |= accord(found, first, numbers, reading, before)
    numbers |= _circumstances(interrupted, tool_calls, tool_errors, turn)
    return ReplyFeatures(numbers, reading, found, first, before)


def _circumstances(interrupted: object, calls: object, errors: object, turn: object) -> Mapping[str, float]:
    return {
        "interrupted": float(interrupted is True),
        "tool calls": count_of(calls),
        "no tool calls": float(count_of(calls) == 0),
        "tool errors": count_of(errors),
        "turn": count_of(turn),
        "first turn": float(count_of(turn) <= math.log1p(1)),
    }
