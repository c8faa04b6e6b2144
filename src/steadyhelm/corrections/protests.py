"""How people turn against what the agent did, and make it stop."""

from typing import Final

from steadyhelm.corrections.cue import LATELY, ONE, Cue, like, opens, said

# You did, you did not.
_YOU: Final = (
    like(
        "you did not",
        1.5,
        rf"\b(?:you|u|it|we) {LATELY}(?:did ?n['o]?t|did not|have ?n'?t|have not|were ?n'?t|are ?n'?t"
        rf"|are not"
        r"|do ?n'?t|do not|never|missed|forgot|skipped|ignored|removed|deleted|broke|changed|lost|dropped"
        r"|overwrote|replaced|misunderst\w+|mis(?:read|took|s)\w*|screwed|messed|invented|assumed)\b",
    ),
    like(
        "you should",
        1.2,
        r"\byou(?:'re| are)? (?:just )?(?:should(?:n't)?|must|need|needed|have to|supposed|could have"
        r"|can't|cannot|wrong|mixing|confus\w+|assuming|only|still|just|already|again|doing|using|not)\b",
    ),
    like(
        "why you",
        0.5,
        r"\b(?:why|how come|what) (?:are|did|do|would|have|were|is|was|does|has|am i|should|could"
        r"|the (?:hell|fuck|heck))\b",
    ),
    like(
        "why not",
        0.8,
        r"\bwhy (?:not|is not|are not|did not|no|(?:is|are|does|do|did|ca|could|would|should)n't)\b",
        rf"\bwhy (?:is|are|does|did|do|was|were|would|can|could|has|have) {ONE}\b",
    ),
    opens("opens with why", 0.6, "why", address=True),
    like(
        "did you",
        1.0,
        r"\b(?:did|have|were|are|do) (?:you|u) (?:not|even|actually|really|just|already|forget|sure|run"
        r"|test|check|verif|try|read|look|update|push|commit|working|using|change|delete|remove)",
    ),
    said(
        "are you sure",
        1.0,
        r"(?:are )?you sure | (?:really|sure)\? | for real | seriously | double[- ]?check | re-?check | "
        r"(?:check|look|try|verify|read) again | re-?(?:do|think|read) | dig deeper | look closer",
    ),
    like(
        "doubting question",
        0.8,
        rf"\b(?:is|are|was|were|does|do|did|should|would|could|ca|has|have|wo|ai)n'?t (?:{ONE}|every"
        rf"|all|both|an?)\b",
        r"\b(?:can|could|should|would|do|does|is|are) (?:we|you|it|this|that|they|there|i) not\b",
    ),
    like(
        "what are you doing",
        1.2,
        r"\bwhat (?:are|were|have) (?:you|u) (?:doing|done|talking|trying|thinking)\b",
        r"\bwhere (?:do|did) (?:you|u) (?:get|find|see|read)\b",
        r"\b(?:technically|pretty sure|there(?:'s| is| are) already)\b",
    ),
    like("or not?", 0.3, r",? (?:right|no|correct|yeah|huh|isn't it|or not|or is there)\s*\?+"),
    like(
        "I told you",
        1.5,
        rf"\b(?:i|we) {LATELY}(?:literally |have )*(?:told|said|asked|instructed|specified)\b",
        r"\bhow many times\b",
        r"\b(?:as|like) i said\b",
        r"\bonce again\b",
        r"\bi repeat\b",
    ),
    like(
        "is it right",
        0.5,
        r"\b(?:is|are|was|were) (?:this|that|it|these|those|the [\w.`-]+|[\w.`-]+) (?:really |actually "
        r"|even |still )?(?:right|correct|true|needed|necessary|expected|intended|safe|used|real|valid"
        r"|accurate)\b",
        r"\bdo we (?:really |actually |even |still )?need\b",
    ),
    like(
        "I do not think",
        0.6,
        r"\bi (?:don'?t|do not|didn'?t|wouldn'?t|would not) (?:\w+ )?(?:think|believe|see|get|understand"
        r"|like|want|need|agree|know why|expect|ask|mean)\b",
    ),
)

# Undo it, stop it.
_STOP: Final = (
    said(
        "undo",
        1.0,
        "revert(?:ed|ing)? | undo | roll(?:ed)? ?back | put (?:it|that|this|them) back | (?:go|going|bring"
        "|change|switch) (?:it |that |this )?back | restore | reset | back out | take (?:it|that"
        "|this) out | get rid of | like (?:before|it was) | as before | previous(?:ly)? | original(?:ly)?",
    ),
    said("remove", 0.3, "remove | delete | drop | strip | keep only | leave"),
    said(
        "do not",
        0.7,
        r"don'?t | do not | never | stop | avoid | no more | leave [\w.-]+ alone | quit | without asking | "
        r"not yet | unless | ignore",
    ),
    opens(
        "opens with stop",
        1.5,
        "stop | wait | hold (?:on|up) | pause | (?:pause|stop|pull back|step back|take a step) | who?ah? | "
        "cancel | abort | halt | hang on",
        address=True,
    ),
    opens(
        "opens with no",
        1.5,
        "(?:no+|nope|nah|na|not|never|wrong|incorrect|negative|non|nein|hay\u0131r|нет)(?! (?:problem|worries"
        "|need|rush))",
    ),
    opens("opens with but", 1.2, "(?:but|however|though|yet|except)", address=True),
    opens(
        "opens with a sigh",
        0.8,
        "(?:hmm*|mh+m?|erm+|err|ehh*m?|emm+|umm*|uhh?|ugh+|argh+|arg+|oof|huh|wtf|omg|damn|oh no|uh oh"
        "|well|yikes)",
    ),
    opens(
        "opens with a correction",
        0.8,
        "(?:actually|sorry|correction|in fact|to be clear|to clarify|just to be clear|i mean)",
        address=True,
    ),
    like("trails off", 0.0, r"\.\.\.|…"),
)

PROTESTS: Final[tuple[Cue, ...]] = (*_YOU, *_STOP)
