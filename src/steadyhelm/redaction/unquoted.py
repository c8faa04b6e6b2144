"""Judge a value without quotes by its place: code refers to other values there, or settings are written."""

import re
from typing import Final

from steadyhelm.redaction.named_values import Name, names_password
from steadyhelm.redaction.quoting import Value
from steadyhelm.redaction.values import MIN_MIXING, is_of_words, measure_mixing

_SEEN_BEFORE: Final = 80
_MIN_WORD_CHARS: Final = 6
_MIN_LETTERS: Final = 12
_CODE_FOLLOWS: Final = frozenset({")", ",", "]", "}"})
_LINE_ENDS: Final = frozenset({"", "\n", "\r", "\\", '"', "'"})
_SETTING_BEGINS: Final = (";", "?", "&", '"', "'", "-D")
"""What is in front of a setting in an address or in the text of a connection."""
_PASSWORD_ENDINGS: Final = ("password", "passwd", "pass", "pwd")
_LINE_BEGIN: Final = re.compile(r"(?:\A|[\n\r\"']|\\[nr])[ \t]{0,40}(?:-[ ]{1,4})?[\"']?\Z")
_BLOCK_ENDS: Final = re.compile(r"(?:\s|\\{1,4}[nrt]){0,40}[}\])]")
"""The end of an object in code; settings in lines have none."""
_COMMENT: Final = re.compile(r"[ \t]{1,40}#[ \t]")
_SECTION: Final = re.compile(r"(?:^|\n|\\n|\")\[[\w.: -]{1,60}\][ \t]{0,8}(?:\r|\n|\\)")


def is_literal(text: str, name: Name, match: re.Match[str], value: Value) -> bool:
    """Return whether a value without quotes is where no code is: in settings, a shell, a flag, an address."""
    operator, before = match["op"], text[max(0, name.start - _SEEN_BEFORE) : name.start]
    is_password, is_compact = may_be_words(name), match[0].endswith("=") and not match["gap"]
    if not is_password and (not name.text.isupper() or is_of_words(text[value.start : value.end])):
        return False
    if operator is not None and is_compact and is_password and name.text.isupper():
        return True  # a variable of the environment, also in brackets: `(DB_PASSWORD=x make)`
    following = text[value.end : value.end + 1]
    if operator is None or before.endswith(("(", ", ")) or following in _CODE_FOLLOWS:
        return False
    if is_compact:
        return following != ";" or name.text.isupper() or before.endswith(_SETTING_BEGINS)
    is_line = following in _LINE_ENDS or _COMMENT.match(text, value.end) is not None
    if not is_line or not _LINE_BEGIN.search(before):
        return False
    return not _BLOCK_ENDS.match(text, value.end) if operator == ":" else bool(_SECTION.search(text[:2000]))


def may_be_words(name: Name) -> bool:
    """Return whether a name is that of a password; a token is drawn at random."""
    return names_password(name) or name.text.lower().endswith(_PASSWORD_ENDINGS)


def is_word_secret(text: str, name: Name, match: re.Match[str], value: Value, content: str) -> bool:
    """Return whether a value of letters alone is a secret, and not a variable or a word of a sentence."""
    is_compact = match["op"] is not None and match[0].endswith("=") and not match["gap"]
    if is_compact and name.text.isupper() and len(content) >= _MIN_LETTERS and "_" not in content:
        return True  # a variable of the environment: code is not written there
    if not content.islower() and measure_mixing(content) < MIN_MIXING and not content.isupper():
        return False
    following, before = text[value.end : value.end + 2], text[max(0, name.start - 2) : name.start]
    if is_compact:
        is_argument = before.endswith(("(", ", ")) or following[:1] in {")", ","}
        return not is_argument and "_" not in content
    if following[:1] not in _LINE_ENDS or "_" in content or len(content) < _MIN_WORD_CHARS:
        return False
    return match["op"] == ":" or bool(_SECTION.search(text[:2000]))
