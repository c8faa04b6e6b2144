"""How people say that something does not work, is not right, or not what they wanted."""

from typing import Final

from steadyhelm.corrections.cue import ALMOST, LATELY, NOT, Cue, like, said

# It does not work.
_BROKEN: Final = (
    said(
        "broken",
        1.2,
        "brok(?:e|en) | break(?:s|ing)? | crash(?:es|ed|ing)? | hang(?:s|ing)? | stuck | blocks? | "
        "freez(?:es|ing)|frozen? | panic(?:s|ked)? | segfaults? | regress(?:ion|ions|ed|es) | corrupt(?:ed"
        "|s)? | mess(?:ed up)? | screwed up | down",
    ),
    said("failing", 1.2, "fail(?:s|ed|ing|ure|ures)? | red | tim(?:ed|es|ing) ?out | timeouts?"),
    said(
        "error",
        0.5,
        "errors? | exceptions? | tracebacks? | undefined | not found | denied | fatal | warnings? | "
        "conflicts?",
    ),
    like(
        "does not work",
        1.6,
        rf"{NOT} {ALMOST}(?:work|load|render|show|display|appear|updat|compil|build|start|respond|fir(?:e"
        rf"|ing)"
        r"|run|trigger|pass|appl|match|reflect|resolv|open|sav|chang|happen|do anything|seem|look|go|get"
        r"|end|clear|connect|persist|refresh|scroll|click|function|help|exist)",
    ),
    said(
        "no effect",
        1.2,
        "nothing (?:happens|happened|changed|shows|appears|works) | no (?:change|difference|effect|longer"
        "|luck|output|result) | same (?:issue|error|problem|thing|result|output|failure|bug|as before) | "
        "empty | blank",
    ),
    said("still", 1.2, "still | yet again | even after | keeps | once more | remains?"),
    said("again", 0.5, "again | back to | any ?more"),
    said("bug", 0.4, "bugs? | buggy | issues? | (?<!no )problems? | glitch(?:es)? | flaky | leaks?"),
    said(
        "is not",
        0.8,
        "(?:does|is|are|was|did|wo|were)n'?t | (?:does|is|are|was|did|were|will) not | cant",
    ),
    said(
        "vanished",
        1.0,
        "miss(?:ing|ed|es)? | forg[eo]t(?:ten)? | l(?:eft|eave) out | skipped | dropped | lost | "
        "disappear(?:ed|s)? | vanish(?:ed|es)? | gone | ignored | overlooked | incomplete | "
        "partial(?:ly)? | only (?:shows?|showing|see|works?|working|did|does|do|half|some|one|part|the)",
    ),
    like(
        "fix the checks",
        1.0,
        r"\bfix (?:the |all |these |those |your )*(?:\w+ )?(?:tests?|lint(?:er|ing|s)?|ci|builds?"
        r"|typecheck|errors?|warnings?)\b",
    ),
    like(
        "there is none",
        0.9,
        r"\bthere(?:'s| is| are| was| were)? (?:still )?(?:no|not|nothing|none)\b",
        r"\b(?:see|get|have|has|shows?|finds?) (?:no|nothing|none)\b",
        r"\bnowhere\b",
    ),
    like(
        "since the change",
        0.9,
        r"\b(?:after|since|with|because of) (?:the|your|this|these|those|that|our) (?:last |latest "
        r"|recent |new )?(?:change|changes|fix|update|updates|edit|edits|commit|commits|refactor"
        r"|refactoring|merge|upgrade)\b",
    ),
)

# It is not right, or not good.
_WRONG: Final = (
    said(
        "wrong",
        1.5,
        r"wrong(?:ly)? | incorrect(?:ly)? | in?accurate | mistakes? | mistaken | false | invalid | "
        r"misleading | nonsense | bogus | hallucinat\w+ | made up | outdated | stale | obsolete | bad | "
        r"backwards? | off track | in circles | typos?",
    ),
    like(
        "not right",
        1.0,
        rf"{NOT} {ALMOST}(?:the |that |a |an )*(?:right|correct|true|accurate|good|great|ideal|what|how"
        rf"|where|case"
        r"|enough|sure|needed|necessary|useful|helpful|relevant|appropriate|realistic|same|valid|desired"
        r"|intended|expected|wanted|meant|acceptable|ok|okay|clear|it|possible|fine|obvious|there"
        r"|supported|big|small|make sense|ready|done|complete)\b",
    ),
    said(
        "ugly",
        1.0,
        r"ugly | weird(?:ly)? | strange(?:ly)? | odd(?:ly)? | suspicious | confus(?:ed|ing|es) | messy | "
        r"hacky | terrible | awful | horrible | harsh | noisy | verbose | redundant | duplicat(?:e|ed|es"
        r"|ion|ing) | over(?:kill|-?engineer\w*|-?complicat\w*|-?think\w*) | too (?:much|many|long|big"
        r"|small|large|thick|far|complex|complicated|wide|narrow|slow|fast|early|late|generic|broad|short"
        r"|hard|dark|bright|strict|low|high|close|tight|aggressive) | un(?:necessary|needed) | useless | "
        r"pointless | sloppy | lazy | slower?",
    ),
    like(
        "out of measure",
        0.6,
        r"\b(?:too|so|such a|way|much|a bit|a lot|a little|pretty|very|more|less) (?:high|low|many|much"
        r"|long|big|large|small|slow|fast|far|few|different|close|short|wide|thin|thick|small|big|larg"
        r"|short|long|slow|simple|clean|crisp)(?:e?r)?\b",
        r"\b(?:twice|multiple times|every time|every other|double[ds]?)\b",
    ),
    said(
        "swearing",
        1.2,
        r"(?:fuck|shit|damn|crap)\w* | wtf | ffs | hell | stupid | idiot\w* | dumb | bullshit | "
        r"ridiculous | annoying | sick of | waste of | insane",
    ),
    like("long face", 0.7, r"[😭😢😡😠🤦😤😞🙄😩🤔😅🤨😬]", r":\(|:/(?!/)", r"!\?|\?!|\?\?"),
)

# What was expected, and what came.
_EXPECTED: Final = (
    said("should", 0.3, "should(?:n't|nt)? | supposed to | must | (?:needs?|ha(?:ve|s)|ought) to"),
    like("should not", 0.9, r"\b(?:should|must|need|does|do|may|can) ?(?:not|n'?t)\b", r"\bshouldn'?t\b"),
    said(
        "expected",
        1.0,
        "(?:un)?expect(?:ed|s|ing|ation|ations|edly)? | would have (?:thought|assumed) | i (?:thought"
        "|assumed) | intended | surpris(?:ed?|ing)",
    ),
    like(
        "I meant",
        1.4,
        rf"\bi(?:'m| am| was|'ve| have|'d| would)? {LATELY}(?:did not |didn't )*"
        r"(?:meant?|asked|said|saying|told|wanted|talking about|referr?(?:ing|ed)? to|specified|mentioned"
        r"|requested|looking for|care about)\b",
        r"\bmy (?:point|question|intention|intent|request|ask)\b",
        r"\bthe (?:point|idea|goal|intention|issue|problem|question) (?:is|was|here)\b",
        r"\bwhat i (?:mean|want|need|ask)",
    ),
    said("instead", 0.7, "instead(?: of)? | rather(?: than)? | not just | as opposed to"),
    like(
        "this, not that",
        0.9,
        r"[,;(\-\u2013\u2014] ?(?:and )?not \w+",
        r"\bnot \w+ (?:\w+ )?but\b",
        r"\bis not a\b",
    ),
    said("only", 0.0, "only | just | simply | exactly | actually | really | literally"),
    said(
        "better",
        0.2,
        "prefer(?:red|ably)? | i'?d (?:rather|like) | would(?:n't| not)? it (?:not )?(?:be|make) | better | "
        "cleaner | simpler | (?:how|what) about | ca(?:n't|nt) we | could(?:n't)? we | no (?:point|need)",
    ),
    like(
        "good, but",
        1.0,
        r"\b(?:better|good|nice|great|ok|okay|fine|closer|works?|almost|progress|correct|right|sure|yes"
        r"|agree|true|fair)\b[^.?!\n]{0,80}?\b(?:but|however|though|except|although)\b",
    ),
    like("but", 0.4, r"[a-z,.] ?\b(?:but|however|though|although|yet|except|whereas)\b"),
    like("and not", 0.6, r"(?:\b(?:and|but)|[,\-\u2013]) (?:not|no|nor)\b"),
    like(
        "negation",
        0.5,
        r"\b(?:not|no(?! (?:problem|worries|rush|need))|never|none|nothing|nowhere|cannot|without|dont)\b",
        r"n't\b",
    ),
    like(
        "should be",
        0.4,
        r"\bshould (?:be|have|only|also|still|always|never|stay|remain|look|show|work|use|go|match|contain"
        r"|return|just)\b",
        r"\bneeds? to be\b",
    ),
)

OBJECTIONS: Final[tuple[Cue, ...]] = (*_BROKEN, *_WRONG, *_EXPECTED)
