"""Read the default of a secret, which is used where its variable is not set: `getenv("X") or "hunter2"`."""

import re
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value
from steadyhelm.redaction.names import Strength
from steadyhelm.redaction.quoting import OPERATOR, QUOTE, Value, read_value

_SEEN_BEFORE: Final = 80

_SEEN_BEHIND: Final = 320
_ARGUMENT_BEGINS: Final = ("(", '"', "'")
_KEY: Final = rf"{QUOTE}[\w.-]{{1,60}}{QUOTE}"
_SOURCE: Final = (
    rf"{QUOTE}?\]?[ ]?{OPERATOR}[ ]?{QUOTE}?(?:<%=|\{{\{{)?[ ]?"
    rf"[A-Za-z_$.][\w.:$?]{{0,60}}(?:[(\[]{_KEY}(?:[)\]]|(?=,)))?(?:[ ]if[ ][\w.]{{1,40}})?"
)
"""What is between a name and the sign of the default: `= process.env.X`, `: <%= ENV['X']`."""
_SIGN: Final = (
    r"(?:[ ]{1,2}(?:\|\||\?\?|\?:|or\b|else\b)[ ]{0,2}|\.unwrap_or(?:_else)?\((?:\|_\|[ ]?)?|[ ]\{[ ]?"
    r"|[ ]\|[ ]?default[ (])"
)
_DEFAULT: Final = re.compile(
    rf"(?:{_SOURCE}(?:{_SIGN}|(?<=[\"'])[ ]?,[ ])|{QUOTE}[)\]]{{1,2}}{_SIGN}|{_SIGN})(?={QUOTE}[^\s\"'])"
)
_ARGUMENT: Final = re.compile(rf"(?:{QUOTE}[)\]]{{1,2}})?,[ ]{{0,2}}(?={QUOTE}[^\s\"'])")
_CHOICE_BEFORE: Final = re.compile(
    r"(?:coalesce|COALESCE|nvl|NVL|ifnull|IFNULL|firstNonEmpty|cmp\.Or)\((?:[\w.]{1,40}\([\"'])?\Z"
)
"""A call that returns the first of its arguments that is there."""
_IN_BRACES: Final = (
    r"(?::[-=]|:(?![-+?=]|\d{1,3}(?::-?\d{1,3})?\}))\\{0,4}[\"']?([^\s{}\"'`\\$]{4,200})\\{0,4}[\"']?\}"
)
"""A default of a shell, or in a file of settings, and not the sign of another operation."""
_OWN_DEFAULT: Final = re.compile(_IN_BRACES)
_OTHER_DEFAULT: Final = re.compile(rf"{QUOTE}?[ ]?(?:{OPERATOR})[ ]?{QUOTE}?\$\{{[\w.]{{1,60}}{_IN_BRACES}")


def read_default(text: str, name: Name) -> Value | None:
    """Return the quoted text that code uses where the variable of a secret is not set."""
    if name.strength is Strength.HEADER:
        return None
    match = _DEFAULT.match(text, name.end)
    before = text[max(0, name.start - _SEEN_BEFORE) : name.start]
    if not match and before.endswith(_ARGUMENT_BEGINS) and _CHOICE_BEFORE.search(before):
        match = _ARGUMENT.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    return value if value and is_likely_secret(text[value.start : value.end], name) else None


def read_braced_default(text: str, name: Name) -> Value | None:
    """Return the default in the braces of a variable: `${DB_PASSWORD:-hunter2}`, `PASSWORD=${X:-hunter2}`."""
    if text.find("}", name.end, name.end + _SEEN_BEHIND) < 0:
        return None
    is_inside = text.startswith("${", max(0, name.start - 2))
    match = _OWN_DEFAULT.match(text, name.end) if is_inside else _OTHER_DEFAULT.match(text, name.end)
    is_secret = match and is_secret_value(match[1], name.text, name.strength)
    return Value(*match.span(1), "") if match and is_secret else None
