"""How people agree, go on, ask and turn to the next thing: all that is no objection."""

from typing import Final

from steadyhelm.corrections.cue import Cue, like, opens, said

_YES: Final = (
    opens(
        "opens with yes",
        -1.3,
        "(?:yes|yeah|yep|yup|yea|ya|ye|y|sure|ok|okay|k|kk|alright|all right|right|correct|agreed?|exactly"
        "|absolutely|definitely|of course|fine|good|great|nice|perfect|cool|awesome|excellent|lovely|sweet"
        "|amazing|lgtm|love it|sounds good|looks good|go|go ahead|do it|send it|ship it|proceed|please do"
        "|approved?|confirmed?|makes sense|that works|works for me|thanks|thank you|ty|thx|no (?:problem"
        "|worries)|👍|✅) | (?:evet|tamam|olur|peki|ja|genau|gut|passt|oui|d'accord|sí|si|vale|claro|sim|да"
        "|хорошо|давай|好的?|可以|行|はい|네)",
    ),
    said(
        "praise",
        -0.8,
        "thanks? | thank you | thx | ty | cheers | great | nice | perfect | awesome | cool | love | "
        "excellent | good (?:job|work|catch|point|idea|call|stuff|question|one) | well done | amazing | "
        "wow | beautiful | (?:looks?|sounds?) (?:good|great|nice) | makes sense | lgtm | agreed? | "
        "exactly | works? (?:great|well|fine|perfectly|now) | danke|merci|gracias|obrigad[oa]|teşekkürler"
        "|sağol|спасибо",
    ),
    said("let us", -0.7, "let'?s | let us"),
    opens(
        "goes on",
        -1.0,
        "(?:you can )?(?:continue|proceed|go on|go ahead|go for it|keep going|carry on|resume|next|do it"
        "|do both|do all|do that|do so|do them|send it|ship it|start|begin|devam|weiter|continúa|продолжай"
        "|继续)",
        address=True,
    ),
    like(
        "picks an option",
        -0.8,
        # No word of the repeated group may be made of others in it: two readings a word double the time.
        r"^\W*(?:(?:yes|yeah|ok|okay|let'?s|i think|i like|i'd|go|do|pick|choose|option|use|prefer"
        r"|for|the|with|say|take|try|number|maybe|probably|definitely|and)\W+)*(?:option\s*)?(?:[a-e]"
        r"|[1-9]|[a-e1-9]\)|first|second|third|last|latter|former|both|all(?: of (?:them|it|the above))?"
        r"|either|neither|everything)(?![\w'./-])",
    ),
    said(
        "speaks of options",
        -0.3,
        "option | approach | variant | alternative | recommend(?:ed|ation|ations)? | suggest(?:ed|ion"
        "|ions)? | propos(?:al|ed) | your call | plan",
    ),
)

_NEXT: Final = (
    opens(
        "ships",
        -1.2,
        "(?:you can |go ahead and )?(?:commit|push|merge|rebase|tag|release|open (?:a |the )?(?:draft )?pr"
        "|create (?:a |the )?(?:draft )?pr|stage|squash|pull|publish|deploy|ship)",
        address=True,
    ),
    opens(
        "orders",
        -0.6,
        "(?:add|update|create|make|run|implement|rename|write|check|review|explain|show|use|change|move"
        "|refactor|test|do|give|look|find|list|read|investigate|analy[sz]e|install|set|put|start|open"
        "|apply|generate|extract|convert|try|build|compare|improve|replace|split|combine|include|document"
        "|describe|summari[sz]e|tell|verify|research|search|plan|draft|prepare|design|debug|address|handle"
        "|resolve|get|keep|adjust|adopt|append|bump|copy|simplify|extend|cover|evaluate|propose|suggest"
        "|reply|respond|comment|mention|sort|format|double)",
        address=True,
    ),
    opens(
        "orders a fix",
        0.0,
        "(?:fix|repair|correct|solve|mend|resolve|debug|investigate)",
        address=True,
    ),
    opens("asks whether one can", -0.5, "(?:can|could|would|will) (?:you|we|u|i)", address=True),
    opens(
        "opens with a question",
        -0.5,
        "(?:what|how|where|when|which|who|is|are|do|does|did|was|were|will|should|would|has|have|any)",
        address=True,
    ),
    opens(
        "adds",
        -0.4,
        "(?:also|and|now|then|next|another|one more|additionally|plus|btw|by the way|besides|finally"
        "|lastly|ps|oh)",
    ),
    said(
        "another topic",
        -0.5,
        "unrelated | separate(?:ly)? | different (?:topic|task|thing|question|issue) | new (?:task|topic"
        "|feature|issue|branch|session|question) | switch(?:ing)? to | mov(?:e|ing) on | next (?:task"
        "|thing|up|step) | something else | side (?:note|question)",
    ),
    said("please", -0.2, "please | pls | plz | kindly"),
    like(
        "review passed on",
        -0.7,
        r"\bseverity\b|\bconsider (?:using|adding|renaming|extract|mov|chang)|\bcopilot\b"
        r"|\breview(?:er)?\b|\bfeedback\b|\bnit\b|\bcomment(?:s|ed)?\b|\bfindings?\b",
    ),
    said(
        "could be",
        -0.2,
        "could | might | improve(?:ment|ments)? | nicer | possible | feature | support",
    ),
    like(
        "own doing",
        -0.8,
        r"\bmy (?:bad|mistake|fault)\b",
        r"\bi (?:messed|screwed|broke|forgot|accidentally|was wrong|misread|missed|made a mistake"
        r"|changed my mind)\b",
        r"\b(?:whoops|oops|accidentally|never ?mind|nvm|on second thought)\b",
        r"\bi(?:'ve| have)? (?:just )?(?:updated|fixed|changed|merged|rebased|pushed|added|installed"
        r"|switched|deleted|created|committed|moved|renamed|pulled|restarted|approved|set)\b",
    ),
    like(
        "asks to explain",
        -0.6,
        r"\b(?:can|could) (?:you|u) (?:please |also |quickly |just |help me |maybe )*(?:explain|check|tell"
        r"|show|look|review|understand|find|investigate|verify|see|confirm|describe|summari[sz]e|compare"
        r"|walk|analy[sz]e|research)\b",
        r"\bhow (?:do|does|can|would|to|is|are|should)\b",
        r"\bwhat(?:'s| is| are| does| do| would| about| happens| if)\b",
        r"\bwhere (?:is|are|do|does|can)\b",
        r"\bis there (?:a|any|an)\b",
        r"\bany (?:idea|chance|way|other|reason)",
    ),
    like(
        "wishes",
        -0.4,
        r"\b(?:i(?:'d| would) (?:like|love|prefer)|i want|we (?:want|need|could|can|should)"
        r"|can we (?:also |maybe |please |now |then )*(?:add|make|have|get|do|use|also|change|rename"
        r"|include|move|support|show)|it would be|maybe (?:we|you|add)|would be (?:nice|good|great))\b",
    ),
    like(
        "supposes",
        -0.4,
        r"\b(?:what|how) (?:if|about|happens)\b",
        r"^\W*(?:so |and |but )?(?:if|when|in case|assuming|let's say)\b",
    ),
    said(
        "speaks of others",
        -0.2,
        "(?:user|customer|coworker|colleague|reviewer|someone|somebody|team|client|people|others?)",
    ),
    said("we", 0.0, "we | we're | our | us | we've"),
    said("you", 0.0, "you | u | your | you're | you've | ur"),
)

ASSENTS: Final[tuple[Cue, ...]] = (*_YES, *_NEXT)
