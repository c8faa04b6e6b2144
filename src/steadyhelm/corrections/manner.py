"""Corrections of manner and outbursts, by rule.

Both are too rare in the data to be learnt or measured (one reply in a hundred).
So these rules only say which kind of correction it is; by themselves they make a correction only of a short
message that is about nothing else.
An accusing question is here too, since real replies hold three.
"""

import re
from typing import Final, NamedTuple

from steadyhelm.corrections.reading import Reading

_SHORT: Final = 10
_OUTBURST: Final = 20
_REMARK: Final = 30
_SURE, _LIKELY, _RARE = 0.85, 0.6, 0.02
_ALONE, _OUTRAGED, _ACCUSED = 0.6, 0.55, 0.4
"""How probable a correction is at least when a reply is nothing else."""

# How the agent speaks: long, chatty, full of signs.
_SPEECH: Final = re.compile(
    r"\btoo (?:verbose|wordy|chatty|long-?winded)\b|\b(?:be|more) (?:brief|concise|terse|succinct)\b"
    r"|\bkeep it (?:short|brief)\b|\b(?:shorter|fewer|less|no more) (?:answers?|replies|words|text"
    r"|explanations?|prose|emojis?|talk)\b|\btl;?dr\b|\b(?:stop|no|without|quit|don'?t) (?:the |using "
    r"|adding |writing )*(?:emojis?|apologi[sz]\w+|summari[sz]\w+|explain\w*|filler)\b|\b(?:too many"
    r"|stop (?:adding|writing)|no) (?:code )?comments\b|\bget to the point\b|\bcut the (?:fluff|crap"
    r"|chatter)\b|\byou (?:talk|write|explain|say) too much\b|\bjust (?:the|give me the"
    r"|show me the) (?:answer|code|diff)\b|\b(?:answer|reply|speak|write) (?:to me )?in (?:english|german"
    r"|french|spanish|turkish|my language)\b|^\W*(?:much |way |even |a bit )?shorter(?=\W*$|[,.!]| please"
    r"| pls)|\bskip the (?:preamble|intro\w*|pleasantries|fluff|recap|commentary|small talk)\b"
    r"|\b(?:answer|reply|respond)(?: me)? (?:in|with) (?:one|a single|two|1|2) (?:short )?(?:words?"
    r"|sentences?|lines?|paragraphs?)\b|\bno need (?:to|for) (?:you to )?(?:explain\w*|explanations?"
    r"|summari\w+|apolog\w+|narrat\w+|recap\w*|preambles?)\b"
)
# Whether it asks: too much, or too little.
_ASKING: Final = re.compile(
    r"\b(?:stop|quit) asking\b|\bdon'?t (?:keep )?ask(?:ing)?\b|\b(?:ask|check with) me (?:first|before)\b"
    r"|\bwithout asking\b|\bshould have asked\b|\bslow down\b"
    r"|\bone (?:thing|step|question|change|file) at a time\b"
)
# How it works: runs ahead, leaves the agreed way. An order for what comes next often reads the same.
_WORK: Final = re.compile(
    r"\bwait for (?:my|me)\b|\b(?:don'?t|do not|never|stop) (?:auto-?)?(?:commit|push|merg|stag|stash)\w*\b"
    r"|\b(?:not|don'?t) commit (?:yet|anything)\b|\bcommit (?:and push )?(?:\w+ )*more often\b"
    r"|\b(?:follow|stick to|respect|read|use) (?:the|our|my|your) (?:\w+ )?(?:workflow|process"
    r"|conventions?|guidelines?|style guide|skills?|template|instructions|rules)\b|\bstick to (?:the"
    r"|our) \w+\b|\b(?:stop|don'?t) (?:running|run) ahead\b"
)
_ANGER: Final = re.compile(
    r"\b(?:fuck\w*|wtf|ffs|bullshit|shit|stupid|idiot\w*|useless|ridiculous|pathetic|insane|garbage)\b"
    r"|\bhow many times\b|\bare you (?:kidding|serious|even)\b|\bseriously\?|\bsick of\b"
    r"|\bwaste of (?:time|tokens|money)\b|\bi give up\b|\bi(?: thought i)?(?: have| already| just"
    r"| literally)* told (?:you|u)\b|\bagain\s*(?:\?!|!\?|\?\?|!!)|\bwhat (?:are|were) (?:you"
    r"|u) (?:even )?doing\b|\byou(?:'re| are) not listening\b"
)
# What nobody says kindly, so that it needs no other sign.
_OUTRAGE: Final = re.compile(
    r"\bare (?:you|u) (?:fucking )?(?:kidding|serious)\b|^\W*seriously\W*\?|\bfor (?:god|christ|heaven|fuck"
    r"|pete)'?s'? sake\b|\bdid (?:you|u) even (?:read|look|run|test|try|check|listen|open|see)\b"
    r"|\b(?:third|fourth|fifth|tenth|\d{1,3}(?:rd|th)) time (?:you|u)\b"
)
# To be asked why one did something is to be told that one should not have.
_ACCUSES: Final = re.compile(
    r"\bwhy (?:the (?:hell|heck|fuck) )?(?:did|would|have|are) (?:you|u) (?:just |even |also |still )?"
    r"(?:touch|delet|remov|chang|edit|modif|overwr|rewr|renam|revert|broke|break|ignor|skip|commit|push"
    r"|merg|disabl|drop|undo|mov|replac|install|us(?:e|ing)\b)"
)


class Manner(NamedTuple):
    """Of a correction, the shares that are of style and an outburst; `least` is its least probability."""

    style: float = _RARE
    frustration: float = _RARE / 2
    least: float = 0.0

    @property
    def is_outburst(self) -> bool:
        """Whether it is put in anger, or sounds like it."""
        return self.frustration >= _LIKELY


def manner_of(reading: Reading) -> Manner:
    """What kind of correction it would be."""
    head, words = reading.head, len(reading.words)
    is_outrage = bool(_OUTRAGE.search(head))
    if words <= _OUTBURST and (is_outrage or _ANGER.search(head)):
        return Manner(frustration=_LIKELY, style=_RARE, least=_OUTRAGED if is_outrage else 0.0)
    if _SPEECH.search(head) or _ASKING.search(head):
        return Manner(style=_SURE, frustration=_RARE, least=_ALONE if words <= _SHORT else 0.0)
    if _WORK.search(head) and words <= _REMARK:
        return Manner(style=_LIKELY, frustration=_RARE)
    return Manner(least=_ACCUSED if words <= _OUTBURST and _ACCUSES.search(head) else 0.0)
