"""Detect the language of a reply by its script, or by the small words that every sentence needs.

Ten languages in Latin letters are distinguished; another one is `und`, undetermined.
None means that there are too few words to decide.
"""

import re
from collections.abc import Sequence
from typing import Final

from steadyhelm.style.prose import Prose

ENGLISH: Final = "en"
UNDETERMINED: Final = "und"

_SMALL_WORDS: Final = {
    ENGLISH: """
        the a an and or but of to in on at is are was were be been it its this that these those with
        for from by as not no you your i we they he she have has had do does did will would can
        could should if then than when what which who there here so up out into over after before
        because only now all
    """,
    "de": """
        der die das den dem des ein eine einen einem einer und oder aber nicht ist sind war waren
        wird werden wurde ich du er sie wir ihr es mit von zu zum zur auf fur im in an bei nach aus
        uber unter auch noch schon nur wenn dann dass weil wie was sich als so kann haben hat ihre
        keine sehr hier jetzt man
    """,
    "fr": """
        le la les un une des du de et ou mais ne pas est sont etait etre je tu il elle nous vous ils
        elles ce cette ces qui que quoi dans sur sous avec pour par sans plus aussi tres se sa son
        ses leur au aux en si comme quand alors donc ici fait peut ont avez c'est j'ai d'un d'une
        l'on n'est
    """,
    "es": """
        el la los las un una unos unas y o pero no es son era ser estar esta estan este esto de del
        al en con por para sin sobre que se su sus lo le les mas muy tambien como cuando si entonces
        ya yo tu nosotros usted hay ha han puede porque aqui ahora donde cada todo
    """,
    "it": """
        il lo la i gli le un uno una e o ma non sono era essere di del della dei delle dal dalla in
        nel nella con su per da che chi si se come quando anche piu molto questo questa questi ho
        hai ha hanno abbiamo puo perche qui ora dove ogni tutto io tu noi voi loro gia
    """,
    "pt": """
        o a os as um uma uns umas e ou mas nao sao era ser estar esta de do da dos das em no na nos
        nas com por para sem sobre que se seu sua seus mais muito tambem como quando entao ja eu
        voce eles ha pode porque aqui agora onde cada tudo isso este
    """,
    "nl": """
        de het een en of maar niet is zijn was waren wordt worden ik je jij hij zij we wij jullie u
        ze er met van voor naar op in aan bij uit over onder ook nog al als dan dat die dit deze
        omdat hoe wat kan heeft hebben geen zeer hier nu om te door
    """,
    "sv": """
        och eller men inte ar var vara blir en ett den det de som att av till for med pa i om under
        over fran jag du han hon vi ni har hade kan ska skulle nar dar sa ocksa mycket detta denna
        dessa mer bara nu eftersom vad hur
    """,
    "pl": """
        i w na z do nie sie jest sa byl bylo to ten ta te tego jak co czy ale oraz lub ze dla od po
        przez przy juz tylko moze mozna jego jej ich my wy oni tak gdy jesli bez pod nad bardzo
        kiedy gdzie ktory ktora
    """,
    "tr": """
        ve bir bu o su icin ile de da mi ne ama var yok daha cok gibi olarak degil her kadar sonra
        once en ki ya hem veya ise artik simdi sadece hepsi iki uzerinde altinda olan olur bunu onu
        ben sen biz siz
    """,
}
_SETS: Final = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_SCRIPTS: Final = (
    ("ja", "\u3040-\u30ff"),
    ("ko", "\uac00-\ud7af\u1100-\u11ff"),
    ("zh", "\u3400-\u9fff\uf900-\ufaff"),
    ("ru", "\u0400-\u04ff"),
    ("el", "\u0370-\u03ff"),
    ("ar", "\u0600-\u06ff"),
    ("he", "\u0590-\u05ff"),
    ("hi", "\u0900-\u097f"),
    ("th", "\u0e00-\u0e7f"),
)
_LETTERS: Final = tuple((language, re.compile(f"[{span}]")) for language, span in _SCRIPTS)
LANGUAGES: Final = tuple(sorted({*_SETS, *(language for language, _ in _SCRIPTS)}))

_SURE_SHARE: Final = 0.2
_KNOWN_SHARE: Final = 0.12
_MIN_SMALL_WORDS: Final = 3
_MIN_WORDS: Final = 30
_FOREIGN_BELOW_SHARE: Final = 0.05
_LEAD_FACTOR: Final = 1.5
_SCRIPT_SHARE: Final = 0.3
_KANA_SHARE: Final = 0.05


def detect_language(prose: Prose) -> str | None:
    """Return the language of a reply as its two-letter code; None when there are too few words.

    >>> from steadyhelm.style.prose import read_prose
    >>> detect_language(read_prose("Das ist nicht der Fehler, den wir suchen."))
    'de'
    >>> detect_language(read_prose("Fixed parser.")) is None
    True
    """
    if not prose.is_latin:
        script = _detect_script(prose.text)
        if script is not None:
            return script
    words = prose.words
    english = _count_small_words(words, ENGLISH)
    if english >= max(_SURE_SHARE * len(words), _MIN_SMALL_WORDS):
        opening = words[:_MIN_WORDS]
        rival = max(_count_small_words(opening, language) for language in _SETS if language != ENGLISH)
        if rival <= _count_small_words(opening, ENGLISH):
            return ENGLISH
    return _detect_latin(words, english)


def _detect_latin(words: Sequence[str], english: int) -> str | None:
    found = {language: _count_small_words(words, language) for language in _SETS if language != ENGLISH}
    other = max(found, key=found.__getitem__)
    if found[other] >= max(_MIN_SMALL_WORDS, _KNOWN_SHARE * len(words), _LEAD_FACTOR * english):
        return other
    if english >= _MIN_SMALL_WORDS and english > found[other]:
        return ENGLISH
    if len(words) >= _MIN_WORDS and english < _FOREIGN_BELOW_SHARE * len(words):
        return UNDETERMINED
    return None


def _count_small_words(words: Sequence[str], language: str) -> int:
    return sum(map(_SETS[language].__contains__, words))


def _detect_script(text: str) -> str | None:
    letters = sum(map(str.isalpha, text))
    if not letters:
        return None
    for language, pattern in _LETTERS:
        # Japanese uses Chinese characters too; a little kana is enough to recognise it.
        least = _KANA_SHARE if language == "ja" else _SCRIPT_SHARE
        if len(pattern.findall(text)) > least * letters:
            return language
    return None
