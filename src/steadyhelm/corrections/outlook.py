"""What is known at the end of a turn that bears on whether the user will have to correct it."""

import math
import re
from typing import Final

from steadyhelm.corrections.counts import count_of, number_of
from steadyhelm.corrections.cues import first_of, found_in, leanings
from steadyhelm.corrections.reading import ASSISTANT_LOOKED_AT, PROMPT_LOOKED_AT, end_of, read, start_of
from steadyhelm.corrections.topics import share, topics

_TAIL: Final = 300
_WORD: Final = re.compile(r"[^\W\d][\w']*")
_BOLD: Final = re.compile(r"\*\*[^*\n]+\*\*")
_TICKED: Final = re.compile(r"`[^`\n]{2,80}`")

# An agent that weighs ways with the user is seldom corrected: it has not yet acted.
_DELIBERATES: Final = re.compile(
    r"\b(?:or|vs|versus|options?|recommend\w*|prefer\w*|simpler|trade-?offs?|alternativ\w+|approach(?:es)?"
    r"|plan|scope|design|pros|cons|optional|deci(?:de|sion)|i'd|would|could|might|but|question|either"
    r"|depends|suggest\w*)\b"
)
_AT_WORK: Final = re.compile(
    r"\b(?:let me|looking (?:at|into)|checking|creating|i'll|i'm|updating|running|waiting|investigating"
    r"|verifying|now (?:i|let|the|update|fix|add))\b"
)
# A request that says how things shall be can be missed; one that asks for an opinion hardly.
_DEMANDS: Final = re.compile(
    r"\b(?:i want|i'd like|should(?:n't)?|keep|just|only|again|make sure|not|don'?t|instead|like (?:this"
    r"|that)|exactly|must|needs? to|remove)\b"
)
_INQUIRES: Final = re.compile(
    r"\b(?:review|look at|explain|what|how|why|check|tell|summar\w+|describe|research|any|about|which"
    r"|where|is there|do we|can we|thoughts?|think)\b"
)
_VISIBLE: Final = re.compile(
    r"\b(?:ui|ux|css|colou?rs?|layout|styl(?:e|es|ing)|buttons?|pages?|previews?|screens?|render\w*"
    r"|display\w*|icons?|fonts?|themes?|animations?|align\w*|padding|margins?|sidebar|headers?|modal"
    r"|scroll\w*|click\w*|visual\w*|images?|svg|charts?|width|height)\b"
)
_USUAL_TURN, _SPREAD = 6.5, 0.8

SAME_MATTER: Final = (
    ("agent ends asking", "agent asks at the end"),
    ("length of the answer", "bold words", "ticked words"),
    ("tool calls", "no tool calls", "tool errors"),
)
"""Numbers that speak of one matter: together they count as much as any other number alone."""


def outlook_of(
    *,
    prompt_before: object = "",
    assistant_before: object = "",
    tool_calls: object = 0,
    tool_errors: object = 0,
    turn: object = 0,
) -> dict[str, float]:
    """The end of a turn as named numbers."""
    prompt = read(start_of(prompt_before, PROMPT_LOOKED_AT))
    said = end_of(assistant_before, ASSISTANT_LOOKED_AT)
    text = said.lower().replace("\u2019", "'").rstrip()
    found = found_in(prompt.head)
    leans = leanings(found, first_of(found, prompt), len(prompt.words))
    asked_for = topics(prompt.words)
    return {
        "agent ends asking": float(text.endswith("?")),
        "agent asks at the end": float("?" in text[-_TAIL:]),
        "length of the answer": math.log1p(len(said)),
        "bold words": min(4.0, len(_BOLD.findall(said))),
        "ticked words": min(10.0, len(_TICKED.findall(said))),
        "agent deliberates": _often(_DELIBERATES, text),
        "agent is at work": _often(_AT_WORK, text),
        "request demands": _often(_DEMANDS, prompt.text),
        "request inquires": _often(_INQUIRES, prompt.text),
        "request is about what shows": float(bool(_VISIBLE.search(prompt.text))),
        "request reads as a correction": leans["leans first"],
        "answer takes up the request": share(topics(_WORD.findall(text)), asked_for),
        "tool calls": count_of(tool_calls),
        "no tool calls": float(count_of(tool_calls) == 0),
        "tool errors": count_of(tool_errors),
        "middle of the session": _middle(number_of(turn)),
    }


def _often(pattern: re.Pattern[str], text: str) -> float:
    return min(3.0, math.log1p(len(pattern.findall(text))))


def _middle(turn: float) -> float:
    """How near the turn is to where corrections come most: before, little is done; after, much is settled."""
    return math.exp(-((math.log(max(turn, 1.0) / _USUAL_TURN)) ** 2) / (2 * _SPREAD**2))
