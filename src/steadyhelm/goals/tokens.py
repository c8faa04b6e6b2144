"""The words of a text that say what it is about, folded so that `users` and `user` are one.

Words every text holds, and words agents use whatever they work on (run, test, read, fix, file ...),
carry no evidence either way and are left out.
"""

import functools
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, NamedTuple

from steadyhelm import fingerprints

LOOKED_AT: Final = 512
MOST_LOOKED_AT: Final = fingerprints.LOOKED_AT
_SHORTEST: Final = 3
_LONGEST: Final = 40
_KNOWN_BY_HEART: Final = 4096

_SHORT, _MIDDLING = 4, 6
# What a folded word weighs, by its length: where nothing better is known, a longer word is a rarer one.
RARITY: Final = tuple(
    0.6 if size <= _SHORT else 0.8 if size <= _MIDDLING else 1.0 for size in range(_LONGEST + 2)
)

_WORD: Final = re.compile(r"[^\W\d_]+")
_LETTERS_ONLY: Final = bytes(code if chr(code).isalpha() else 32 for code in range(128)) + bytes(128)
_PART: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff]{2,}")

_EVERY_TEXT: Final = """
    a am an as at be by do go he i if in is it me my no of on or so to up us we the this that these
    those its itself his her him they them their theirs our ours you your yours mine and but nor not yes
    then else than for from into off onto out over under down upon with without within about above
    across after again against all almost along already also although always among any anything are
    around aren away back because been before being below between both can cannot could couldn did didn
    does doesn doing don done during each either enough etc even ever every everything few first further
    had hadn has hasn have haven having here hers how however indeed instead isn just last later least
    less let like likely long longer made make making many may maybe might more most much must need
    neither never next none nothing now often okay alright once one only other otherwise own per perhaps
    please put quite rather really right said same say second see seem seen several shall should shouldn
    show shown since some something soon still such sure take taken taking thank thanks there therefore
    thing think thought three through throughout thus together too toward try tried two until unless use
    used using usually various very via want was wasn way well went were weren what whatever when where
    whether which while who whole whom whose why will won would wouldn yet great good better best
    perfect excellent nice hello welcome sorry apologize apology glad happy feel appreciate today day
    currently current recent recently previous previously earlier new old initial initially final
    finally main key general specific specifically particular particularly certain actual actually exact
    exactly correct correctly incorrect proper properly appropriate available additional additionally
    separate single multiple different similar related relevant necessary required important original
    simple simply clear clearly full fully complete completely successful successfully direct directly
    manual manually careful carefully potential possible possibly able unable common overall entire
    entirely especially typically
"""
_EVERY_TASK: Final = """
    accept access achieve act action add adjust advise agent aim allow analyse analyze analysis answer
    appear apply approach ask assert assist assistance assistant assume attempt avoid base bash begin
    behave behavior behaviour break bring bug build call cause change check choose clarify clarification
    class clean close code codebase collect come command commit compare conclude confirm confirmation
    consider contain content context continue count cover create debug decide def delete depend describe
    description detail detect determine diagnose difference directory discuss document double edit
    enable encounter end ensure error evaluate examine example exception execute execution exist expect
    explain explore extract face fact fail failure feature figure file fill find fine finish fix focus
    folder follow form format forward found function gather generate get give given git going gone got
    grab grep guess guide handle happen head help hold http https human idea identify implement
    implementation import improve include indicate info inform information input insert inspect install
    instruct instruction investigate involve issue item json keep kind know known launch lead learn
    leave line lint linter list load locate location log look lookup mark match mean meet member mention
    message method minute miss model modify modification module moment move name note notice null number
    object obtain occur open option output outcome part pass patch path pattern perform pick piece place
    plan point prepare present pretty print problem proceed process produce progress prompt provide pull
    purpose push pytest python question quick quickly raise reach read ready real reason receive record
    refer reference regard relate remain remember remove rename repeat replace reply repo report
    repository reproduce request require research resolve respond response result retrieve retry return
    review rewrite run save scan scope script search section select send set setup share shell short
    situation solution solve sort source start state status step stop store string structure study
    submit suggest suggestion suite summarize summary support suppose switch system talk task team tell
    term terminate test text time tool total touch trace track trigger true turn type understand undo
    update upgrade url validate value variable verify verification version view visit wait walk warn
    work workflow workspace wrap write wrong www
"""


class Words(NamedTuple):
    """A text's words: the content words, folded, in order and each once; and how many plain ones."""

    content: list[str]
    plain: int


def read_words(text: str, looked_at: int = LOOKED_AT) -> Words:
    """The words of a text's beginning.

    >>> read_words("Creating the database migrations for getUserName()")
    Words(content=['databas', 'migrat', 'user'], plain=3)
    """
    found = list(map(_stems, _found(text[:looked_at])))
    content = dict.fromkeys(chain.from_iterable(found))
    content.pop("", None)
    return Words(list(content), found.count(()))


def spelled(text: str, looked_at: int = LOOKED_AT) -> dict[str, str]:
    """The content words of a text's beginning with one spelling each, as words for people."""
    spellings: dict[str, str] = {}
    for raw in _found(text[:looked_at]):
        for stem in filter(None, _stems(raw)):
            part = next(part for part in _PART.findall(raw[:_LONGEST]) if _folded_part(part) == stem)
            spellings.setdefault(stem, part.lower())
    return spellings


def work_words(text: str, looked_at: int = LOOKED_AT) -> set[str]:
    """The folded words of a text's beginning that tell what kind of work it is, whatever it is done on."""
    return {fold(word.lower()) for word in _found(text[:looked_at])} & _WORK


def text_of(value: Any) -> str:
    """Whatever a caller hands over as text that can be read and stored, cut where nobody looks any more."""
    if not isinstance(value, str):
        return fingerprints.canonical(value)[:MOST_LOOKED_AT].decode("utf-8", "replace")
    text = value[:MOST_LOOKED_AT]
    # Half a character, which a broken transcript may hold, cannot be stored.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def weight_of(stems: Iterable[str]) -> float:
    """How much words weigh together: a rare one says more than a common one."""
    return sum(RARITY[len(stem)] for stem in stems)


def fold(word: str) -> str:
    """A word without the endings of English that change its form and not its subject.

    >>> [fold(word) for word in ("queries", "query", "migrating", "migrations", "planned", "classes")]
    ['queri', 'queri', 'migrat', 'migrat', 'plan', 'class']
    """
    if len(word) <= _SHORTEST:
        return word
    word = _without_ending(_singular(word))
    if len(word) > _SHORTEST and word[-1] == "e":
        return word[:-1]
    return f"{word[:-1]}i" if len(word) > _SHORTEST and word[-1] == "y" else word


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word


def _without_ending(word: str) -> str:
    size = len(word)
    if size > 5 and word.endswith("ing"):  # noqa: PLR2004 - `running`, not `king`
        return _undoubled(word[:-3])
    if size > 4 and word.endswith("ed"):  # noqa: PLR2004 - `added`, not `shed`
        return _undoubled(word[:-2])
    if size > 7 and word.endswith("ment"):  # noqa: PLR2004 - `management`, not `comment`
        return word[:-4]
    if size > 5 and word.endswith(("tion", "sion")):  # noqa: PLR2004 - `migration`, not `lion`
        return word[:-3]
    if size > 5 and word.endswith(("ly", "er")):  # noqa: PLR2004 - `runner`, not `user`
        return _undoubled(word[:-2])
    return word


def _undoubled(word: str) -> str:
    doubled = len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word


def _paired(run: re.Match[str]) -> str:
    text = run.group()
    return " ".join(text[i : i + 2] for i in range(len(text) - 1))


def _found(text: str) -> list[str]:
    if text.isascii():
        # Most texts are: this finds the same words in a quarter of the time.
        return text.encode().translate(_LETTERS_ONLY).decode().split()
    # Scripts without spaces are read in pairs of characters, which their words mostly are.
    return _WORD.findall(_UNSPACED.sub(_paired, text))


@functools.lru_cache(maxsize=_KNOWN_BY_HEART)
def _stems(word: str) -> tuple[str, ...]:
    """A word's parts, folded: an identifier is split where a small letter meets a capital.

    Nothing for a plain word, an empty stem for one too short to tell.
    """
    stems = [stem for stem in map(_folded_part, _PART.findall(word[:_LONGEST])) if stem not in _PLAIN]
    return tuple(stem if len(stem) >= _SHORTEST or not stem.isascii() else "" for stem in stems)


def _folded_part(part: str) -> str:
    # Cut after lowering: some letters are longer in small.
    return fold(part.lower()[:_LONGEST])


def _folded(words: str) -> frozenset[str]:
    return frozenset(fold(word) for word in words.split())


_WORK: Final = _folded(_EVERY_TASK)
_PLAIN: Final = _folded(_EVERY_TEXT) | _WORK
