"""Replies that sound like an objection and are none, by rule.

"Not bad", "no, that's all", "stop the server": the words of an objection in a phrase that objects to nothing.
They are too rare in the data to be learnt, so where one of them stands, and nothing else objects, what was
learnt from single words is held down.
"""

import re
from collections.abc import Mapping
from typing import Final

from steadyhelm.corrections.before import Before
from steadyhelm.corrections.cues import found_in
from steadyhelm.corrections.objections import OBJECTIONS
from steadyhelm.corrections.protests import PROTESTS
from steadyhelm.corrections.reading import Reading

_OBJECTS: Final = 0.4
_OUTBURSTS: Final = frozenset({"swearing", "opens with a sigh"})
# "Again" alone is as often an order: start it again.
_OBJECTIONS: Final = frozenset(
    cue.name for cue in (*OBJECTIONS, *PROTESTS) if cue.leans >= _OBJECTS and cue.name != "again"
)

_OPENING: Final = r"^\W*(?:(?:ok(?:ay)?|oh|ah|well|now|please|pls|and|then|just)[,.: ]+)*"
_ENDS: Final = (
    r"(?=\W*$|\s*[,.;:!()\u2013\u2014-]|\s+(?:please|pls|thanks?|thank|for|today|tonight|i|we|let|and|so|now"
    r"|then|just|until|before)\b)"
)
_DONE: Final = (
    r"(?:that(?:'s| is|s|'ll be| will be)? (?:all|it|everything|fine|good|ok|okay)"
    r"|we(?:'re| are|re)? (?:all )?(?:good|done|fine|set)|i(?:'m| am|m)? (?:all )?(?:good|done|fine|set)"
    r"|(?:it'?s |it is )?(?:all )?(?:good|fine|ok|okay|set|done)"
    r"|nothing (?:else|more)|thanks?|thank you|thx|ty)"
)
# Praise by denial, a delay, an end: what follows the no makes it none.
_HARMLESS_NO: Final = re.compile(
    rf"{_OPENING}(?:not (?:too |so |half )?bad(?: at all)?|not (?:yet|now){_ENDS}"
    r"|no more (?:changes?|edits?|tweaks?|questions?|issues?|problems?|errors?|bugs?)\b"
    rf"|(?:no+|nope|nah)[,.;!]? {_DONE}{_ENDS})"
)
_RUNS: Final = (
    r"(?:servers?|containers?|services?|process(?:es)?|jobs?|daemons?|builds?|pipelines?|ci|workers?|instances?"
    r"|emulators?|simulators?|vms?|apps?|watchers?|timers?|scripts?|deploy(?:ment)?s?|docker|downloads?)"
)
# To stop something that runs, or to wait for something that comes, is an order like any other.
_ORDER: Final = re.compile(
    rf"{_OPENING}(?:(?:stop|pause|cancel|abort|halt) (?:(?:the|that|this|my|our|all|any|both) )?"
    rf"(?:[\w.-]{{1,40}} ){{0,2}}{_RUNS}\b|wait (?:for|until|till) (?!(?:me|my|i|you|a|approval|confirmation"
    r"|permission|instructions|feedback|it)\b)[\w.-]{1,40})"
)
_NEVER_MIND: Final = re.compile(
    rf"{_OPENING}(?:never ?mind|nvm)\b(?=.{{0,60}}\b(?:works?|working|worked|fine|good|found|got it|solved"
    r"|sorted|figured|fixed)\b)"
)
_CLOSING: Final = re.compile(
    r"\b(?:(?:anything|something|what) (?:else|more|further)|any (?:other|more|further) \w+"
    r"|(?:need|want|like) anything)\b[^?\n]{0,120}\?\W*$"
)
_BARE_NO: Final = re.compile(
    rf"{_OPENING}(?:no+|nope|nah|none|nothing(?: else| more)?|not really)(?:[,.;! ]+(?:{_DONE}|not now"
    r"|not really|for now|today))?\W*$"
)
_WORKS: Final = re.compile(r"\b(?:works?|working|worked)\b")


def is_content(
    reading: Reading, found: Mapping[str, str], before: Before, *, is_outburst: bool, interrupted: bool
) -> bool:
    """Whether the words of an objection are none here; `found` are the cues in the reply."""
    head = reading.head
    if _BARE_NO.search(head) and _CLOSING.search(before.tail):
        return True
    if (is_outburst or _OUTBURSTS & found.keys()) and _is_glad(found, head):
        return True
    match = _HARMLESS_NO.search(head) or _NEVER_MIND.search(head)
    if match is None and not interrupted:
        match = _ORDER.search(head)
    return match is not None and not _OBJECTIONS & found_in(head[match.end() :]).keys()


def _is_glad(found: Mapping[str, str], head: str) -> bool:
    """Whether an outburst is one of joy: it comes with praise, or it works, and nothing is objected to."""
    is_praise = "praise" in found or _WORKS.search(head) is not None
    return is_praise and not (_OBJECTIONS - _OUTBURSTS) & found.keys()
