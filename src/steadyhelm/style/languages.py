"""Detect the language of a reply by its script, or by the small words that every sentence needs.

Ten languages in Latin letters are distinguished; another one is `und`, undetermined.
None means that there are too few words to decide.
"""

from collections.abc import Sequence
from typing import Final

from steadyhelm.lexicons import load_lexicon
from steadyhelm.style.prose import Prose

ENGLISH: Final = "en"
UNDETERMINED: Final = "und"

_LATIN: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "tr")
_SCRIPTS: Final = ("ja", "ko", "zh", "ru", "el", "ar", "he", "hi", "th")
LANGUAGES: Final = tuple(sorted((*_LATIN, *_SCRIPTS)))

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
        rival = max(_count_small_words(opening, language) for language in _LATIN if language != ENGLISH)
        if rival <= _count_small_words(opening, ENGLISH):
            return ENGLISH
    return _detect_latin(words, english)


def _detect_latin(words: Sequence[str], english: int) -> str | None:
    found = {language: _count_small_words(words, language) for language in _LATIN if language != ENGLISH}
    other = max(found, key=found.__getitem__)
    if found[other] >= max(_MIN_SMALL_WORDS, _KNOWN_SHARE * len(words), _LEAD_FACTOR * english):
        return other
    if english >= _MIN_SMALL_WORDS and english > found[other]:
        return ENGLISH
    if len(words) >= _MIN_WORDS and english < _FOREIGN_BELOW_SHARE * len(words):
        return UNDETERMINED
    return None


def _count_small_words(words: Sequence[str], language: str) -> int:
    small_words = load_lexicon(__package__, "small_words")[language].word_set
    return sum(map(small_words.__contains__, words))


def _detect_script(text: str) -> str | None:
    letters = sum(map(str.isalpha, text))
    if not letters:
        return None
    for language, letters_of_script in load_lexicon(__package__, "scripts").entries.items():
        # Japanese uses Chinese characters too; a little kana is enough to recognise it.
        least = _KANA_SHARE if language == "ja" else _SCRIPT_SHARE
        if letters_of_script.count(text) > least * letters:
            return language
    return None
