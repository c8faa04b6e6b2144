"""How people tell what they see, which is how most faults are reported."""

from typing import Final

from steadyhelm.corrections.cue import LATELY, Cue, like, opens, said

# What the user looks at.
_SEEN: Final = (
    opens(
        "opens with the thing",
        0.4,
        "(?:the|this|that|these|those|it|its|it's|there(?:'s| is| are)?|all|some) | now (?:it|the|i|this"
        "|that|there)",
    ),
    opens("opens with I", 0.2, "(?:i|i'm|im|i've|we|we're|my)"),
    opens("opens with you", 0.8, "(?:you|u|your|you're|ur)"),
    like(
        "the thing does",
        0.5,
        r"^\W*(?:the|this|that|these|those|it|your|there|they|all|some|my|our|now"
        r"|[\w./-]+(?: [\w./-]+){0,4}) (?:is|are|was|were|isn't|aren't|does|doesn't|do|don't|should"
        r"|shouldn't|still|looks?|seems?|has|have|keeps?|needs?|must|can't|won't|didn't|fails?|shows?"
        r"|gets?|goes|says|works?|never|only|always|just)\b",
    ),
    like(
        "I see",
        0.4,
        r"\bi(?:'m| am|m)? (?:now |still |also |only |just |can |do )*(?:see(?:ing)?|get(?:ting)?|got"
        r"|notice[d]?|found|spotted|ran|run|tried|have|had|looked)\b",
    ),
    like(
        "I cannot",
        0.7,
        rf"\b(?:i|we|you|users?) {LATELY}(?:can'?t|cannot|can not|don'?t|do not|didn'?t|couldn'?t|am not"
        rf"|'m not|wasn'?t)\b",
        r"\bi'?m not\b",
    ),
    said(
        "it seems",
        0.3,
        "seems?(?: to| like)? | looks? (?:like|as) | appears? | apparently | somehow | feels? | maybe | "
        "perhaps | probably | i (?:think|guess|believe|doubt) | not sure | wonder(?:ing)? | pretty sure",
    ),
    like(
        "when I",
        0.3,
        r"\b(?:when|if|after|whenever|every ?time|once|while) (?:i|you|we|the user|a user|running|doing"
        r"|clicking|it|user)\b",
    ),
    said("right now", 0.2, "right now | at the moment | currently | now | today"),
    said(
        "before",
        0.3,
        "already | before | earlier | previously | last time | we had | used to | was (?:fine|working|fast"
        "|ok) | existing",
    ),
    said(
        "it shows",
        0.2,
        "show(?:s|ing|ed|n)? | display(?:s|ing|ed)? | list(?:s|ing|ed) | print(?:s|ing|ed)? | says? | "
        "return(?:s|ed|ing)? | giv(?:es|ing)",
    ),
    opens(
        "make it so",
        0.3,
        "(?:make|keep|put|move|use|have|let) (?:it|them|this|that|only|the|both|all|everything)",
    ),
    said(
        "checks",
        0.0,
        "tests? | lint(?:er|ing|s)? | ci | builds? | compil(?:e|es|er|ing|ation) | pipeline",
    ),
    said("it", 0.0, "it | its | it's"),
    said("this", 0.0, "this | that | these | those"),
    like("now it", 0.5, r"\bnow (?:it|i|the|there|this|that|all|my|when|they|none|nothing|every)\b"),
)

# The commonest of these in other languages; not measured, the data is nearly all English.
_ELSEWHERE: Final = (
    like(
        "objection in another language",
        1.2,
        r"\b(?:funktioniert nicht|geht nicht|immer noch|falsch|stimmt nicht|fehler|no funciona"
        r"|sigue (?:sin|fallando)|todavía|está mal|incorrecto|ne (?:marche|fonctionne) pas|toujours pas"
        r"|faux|não funciona|ainda não|errado|çal\u0131şm\u0131yor|hâlâ|hala|yanl\u0131ş|olmad\u0131"
        r"|değil|yok|не работает"
        r"|вс[её] ещ[её]|неправильно|неверно|ошибка)\b",
        r"不对|不行|错了|还是|没有|不是|報錯|报错|違う|動かない|まだ|エラー|안 ?(?:돼|되)|아니|틀렸",
    ),
)

REMARKS: Final[tuple[Cue, ...]] = (*_SEEN, *_ELSEWHERE)
