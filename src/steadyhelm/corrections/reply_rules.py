"""Rules for what is too rare to be learnt: the tone of a correction, and replies that only sound like one.

The rules of tone say which kind of correction it is; by themselves they make a correction only of a short
message that is about nothing else.
The rules for non-objections ("not bad", "no, that's all", "stop the server") lower the learnt probability
where such a phrase is found and nothing else objects.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from steadyhelm.corrections.features import find_cues
from steadyhelm.corrections.messages import PACKAGE, AgentMessage, ParsedMessage
from steadyhelm.lexicons import load_lexicon

_MAX_STYLE_ONLY_WORDS: Final = 10
_MAX_OUTBURST_WORDS: Final = 20
_MAX_WORK_STYLE_WORDS: Final = 30
_SURE, _LIKELY, _RARE = 0.85, 0.6, 0.02
_MIN_IF_STYLE_ONLY, _MIN_IF_OUTRAGE, _MIN_IF_ACCUSING = 0.6, 0.55, 0.4
"""The least probability of a correction in a reply that is nothing else."""

_MIN_OBJECTING_WEIGHT: Final = 0.4
_OUTBURST_CUES: Final = frozenset({"swearing", "opens with a sigh"})
# "Again" alone is as often an order: start it again.
_AMBIGUOUS_CUES: Final = frozenset({"again"})


class Tone(NamedTuple):
    """How a correction is put, as shares of it: about style, and in anger.

    `min_correction` is the least probability that the reply is a correction at all.
    """

    style: float = _RARE
    frustration: float = _RARE / 2
    min_correction: float = 0.0

    @property
    def is_outburst(self) -> bool:
        """Whether it is angry, or sounds like it."""
        return self.frustration >= _LIKELY


def find_tone(message: ParsedMessage) -> Tone:
    """Return how the message is put, if it is a correction."""
    head, words, rules = message.head, len(message.words), load_lexicon(PACKAGE, "tone")
    is_outrage = rules["outrage"].search(head) is not None
    if words <= _MAX_OUTBURST_WORDS and (is_outrage or rules["anger"].search(head)):
        return Tone(frustration=_LIKELY, style=_RARE, min_correction=_MIN_IF_OUTRAGE if is_outrage else 0.0)
    if rules["about wording"].search(head) or rules["about asking"].search(head):
        is_alone = words <= _MAX_STYLE_ONLY_WORDS
        return Tone(style=_SURE, frustration=_RARE, min_correction=_MIN_IF_STYLE_ONLY if is_alone else 0.0)
    if rules["about working"].search(head) and words <= _MAX_WORK_STYLE_WORDS:
        return Tone(style=_LIKELY, frustration=_RARE)
    is_accusing = words <= _MAX_OUTBURST_WORDS and rules["accusing question"].search(head)
    return Tone(min_correction=_MIN_IF_ACCUSING if is_accusing else 0.0)


def is_non_objection(
    message: ParsedMessage,
    cues: Mapping[str, str],
    agent: AgentMessage,
    *,
    is_outburst: bool,
    interrupted: bool,
) -> bool:
    """Return whether the objecting words of a reply object to nothing; `cues` are those in the reply."""
    head, rules = message.head, load_lexicon(PACKAGE, "non_objections")
    if rules["bare no"].search(head) and rules["closing question"].search(agent.tail):
        return True
    if (is_outburst or _OUTBURST_CUES & cues.keys()) and _is_joy(cues, head):
        return True
    match = rules["harmless no"].search(head) or rules["never mind"].search(head)
    if match is None and not interrupted:
        match = rules["stops or awaits a process"].search(head)
    return match is not None and not _load_objecting_cues() & find_cues(head[match.end() :]).keys()


def _is_joy(cues: Mapping[str, str], head: str) -> bool:
    """Return whether an outburst is one of joy: there is praise, or it works, and nothing else objects."""
    is_praise = "praise" in cues or load_lexicon(PACKAGE, "non_objections")["works"].search(head) is not None
    return is_praise and not (_load_objecting_cues() - _OUTBURST_CUES) & cues.keys()


@cache
def _load_objecting_cues() -> frozenset[str]:
    entries = load_lexicon(PACKAGE, "objections", "protests").entries.values()
    names = frozenset(entry.name for entry in entries if entry.weight >= _MIN_OBJECTING_WEIGHT)
    return names - _AMBIGUOUS_CUES
