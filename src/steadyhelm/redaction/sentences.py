"""Read the value that a sentence gives to the name of a secret: `the password for ann is hunter2`."""

import re
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value
from steadyhelm.redaction.names import Strength
from steadyhelm.redaction.quoting import BREAK, QUOTE, Value, read_value
from steadyhelm.redaction.values import is_ordinary, looks_secret

_QUALIFIER: Final = (
    r"(?:[ \t]{0,2}\([^()\r\n\\]{1,40}\)"
    r"|[ \t]{1,3}(?:for|FOR|of|to|on|in|at|f\u00fcr|pour|para|di|de|do|da|dla"
    r"|k|ke|na|pro|till|zum|zur|der|des|del|della|van|voor|til|av|od|du)[ \t]{1,3}"
    r"(?:the )?[\"']?[\w.@:/-]{1,60}[\"']?(?:@[\"'][\w.%-]{1,60}[\"'])?(?: \w{1,20})?"
    r"|[ ]d(?:'|\u2019|\\{1,4}u2019)ordine|[ ](?:we|I|you|they)[ ]\w{1,12}|[ ]number)"
)
_IS: Final = re.compile(
    rf"{QUOTE}?(?:'s[ \t]{{1,3}}|{_QUALIFIER}[ \t]{{0,3}}[:=][ \t]{{1,3}}|{_QUALIFIER}?[ \t]{{1,3}}"
    r"(?:(?:is|was|are|were|(?:will|might|may|should|must) be|(?:has|have|had) been|becomes|equals|remains"
    r"|ist|lautet|war|est|sera|es|je|ser\u00e1|\u00e9|\u00e8|\\{1,4}u00e[89]|jest|\u00e4r|\\{1,4}u00e4r|er|now"
    r"|(?:changed|updated|rotated|reset) from|set|changed|reset|updated|rotated"
    r"|just|simply|still|currently|to|as)(?:[ \t]{1,3}|:[ \t]{0,3})){1,4})"
)
_IS_FINNIC: Final = re.compile(r"[ \t]{1,3}on[ \t]{1,3}")
_FINNIC_NAMES: Final = frozenset({"salasana", "tunnussana", "parool"})
"""Names in languages whose word for `is` is an ordinary word of others."""
_WORDS: Final = (
    r"(?![ ](?:manager|policy|hint|rule|hash|store|strength|checked|tried|tested|found|left|used))"
    r"(?:[ ][\w@.'-]{1,40}){1,8}:"
)
_WORDS_AND_COLON: Final = re.compile(_WORDS + "[ ]")
"""What is between the two in `A temporary password is generated for ann@host: hunter2`."""
_MADE: Final = re.compile(r"(?:[ ][\w@.'-]{1,40}){1,4}:[ ]")
_WORDS_AND_BREAK: Final = re.compile(
    rf"{_WORDS}[ ]?(?:{BREAK}[ \t]{{0,8}}){{1,3}}(?=[A-Za-z0-9]{{0,40}}[0-9])"
)
"""The same, with the value in a line of its own."""


def read_sentence(text: str, name: Name) -> Value | None:
    """Return the value that a sentence says behind the name of a secret; none when it says none."""
    if name.text.lower() in _FINNIC_NAMES and (match := _IS_FINNIC.match(text, name.end)):
        return _read_said(text, name, match)
    if "pass" not in name.text.lower():
        return _read_said(text, name, _IS.match(text, name.end)) or _read_made(text, name)
    match = _WORDS_AND_COLON.match(text, name.end)
    if not match and name.strength is Strength.STRONG:
        match = _WORDS_AND_BREAK.match(text, name.end)
    return _read_said(text, name, _IS.match(text, name.end)) or _read_said(text, name, match)


def _read_made(text: str, name: Name) -> Value | None:
    """Read the random text behind `API_SECRET generated: `."""
    match = _MADE.match(text, name.end) if name.strength is Strength.STRONG else None
    value = read_value(text, match.end()) if match else None
    return value if value and looks_secret(text[value.start : value.end]) else None


def _read_said(text: str, name: Name, match: re.Match[str] | None) -> Value | None:
    value = read_value(text, match.end()) if match else None
    if not value:
        return None
    content = (
        text[value.start : value.end].rstrip(".,;:!?)") if not value.quote else text[value.start : value.end]
    )
    is_sure = name.strength > Strength.WEAK and match is not None and match[0].strip() not in {"to", "as"}
    is_said = (
        is_likely_secret(content, name)
        or (is_sure and value.quote and _is_quoted_secret(content, name))
        or (content.isdigit() and is_secret_value(content, name.text, name.strength))
    )
    return Value(value.start, value.start + len(content), value.quote) if is_said else None


def _is_quoted_secret(content: str, name: Name) -> bool:
    return (" " not in content or "phrase" in name.text) and not is_ordinary(content)
