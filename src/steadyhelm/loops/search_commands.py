"""Commands that search text, without what only spells them: `grep -rn x src` and `grep -R "x" ./src`."""

import re
from typing import Final

_SEARCH: Final = re.compile(r"(?:cd [^;&|]{1,99} && )?(?:git )?(?:[ef]?grep|rg|ag|ack) ")
_BEGINNINGS: Final = ("grep", "rg ", "cd ", "git grep", "egrep", "fgrep", "ag ", "ack ")
_TOKEN: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")
_COMMAND_END: Final = re.compile(r"\||;|&&|\d?>")
_IDLE_LETTERS: Final = frozenset("rRnHsEFwI")
_IDLE_FLAGS: Final = (
    "--color",
    "--colour",
    "--line-number",
    "--recursive",
    "--no-messages",
    "--with-filename",
)
_TOOLS: Final = {"egrep": "grep", "fgrep": "grep"}
_MAX_CHARS: Final = 400


def normalize_search(command: str) -> str:
    """Return a command that searches text in one spelling; any other command as it is.

    >>> normalize_search('grep -rn "vat" src/') == normalize_search("grep -R vat ./src")
    True
    >>> normalize_search("grep -rn vat src") == normalize_search("grep -rni vat src")
    False
    """
    if len(command) > _MAX_CHARS or not command.startswith(_BEGINNINGS) or _SEARCH.match(command) is None:
        return command
    words: list[str] = []
    flags: set[str] = set()
    end = _COMMAND_END.search(command)
    place = len(command) if end is None else end.start()
    for double, single, plain in _TOKEN.findall(command[:place]):
        if plain.startswith("-") and len(plain) > 1:
            flags |= _list_flags(plain)
        elif plain and len(words) > 1:
            words.append(plain.removeprefix("./").rstrip("/") or plain)
        else:
            words.append(_TOOLS.get(plain, plain) or double or single)
    return "\0".join([*words, *sorted(flags), command[place:]])


def _list_flags(word: str) -> set[str]:
    """Return the flags of a word that change what is found or how much of it is shown."""
    if word.startswith("--"):
        return set() if word.startswith(_IDLE_FLAGS) else {word}
    if not word[1:].isalpha():
        return {word}  # a flag with its value, as in -A3
    return {f"-{letter}" for letter in word[1:] if letter not in _IDLE_LETTERS}
