"""Read the value that a call gets behind the name of a secret, or with it: arguments, pairs, defaults."""

import re
from typing import Final

from steadyhelm.redaction.named_values import Name, is_likely_secret, is_secret_value, names_password
from steadyhelm.redaction.names import Strength
from steadyhelm.redaction.quoting import QUOTE, SPACE, Value, read_value
from steadyhelm.redaction.values import is_ordinary

_SEEN_BEFORE: Final = 80
_MIN_ARGUMENT_CHARS: Final = 8

_BLANKS: Final = r"(?:[ \t]|%20)"
_COMMA: Final = re.compile(
    rf"(?P<quote>[\])]?{QUOTE})?(?:{_BLANKS}{{0,4}},{SPACE}{{0,24}}(?:<<)?|;s:\d{{1,5}}:)(?=[bu]?{QUOTE})"
)
_CALL: Final = re.compile(rf"(?:\(|\{{)[ ]?(?:[A-Z]\w{{2,30}}(?:::\w{{1,20}})?\()?(?=[bfruN@]{{0,2}}{QUOTE})")
_CHAIN: Final = re.compile(
    rf"\]?{QUOTE}(?:\]{QUOTE})?[ ]?[\])]{{1,3}}{SPACE}{{0,8}}"
    rf"\.(?:type|fill|send_keys|sendKeys|set_?[vV]alue|val|input"
    rf"|press_?[sS]equentially|set_?[tT]ext|enter_?\w{{0,10}}|write|paste)\([ ]?(?={QUOTE})"
)
_DEFAULT: Final = re.compile(
    rf"[ ]?[:=][\w .,:=|\[\]]{{1,60}}\((?:{QUOTE}[\w.-]{{1,60}}{QUOTE}, )?default[ ]?=[ ]?(?={QUOTE})"
)
"""What is between a name and its value in `password: str = Field(default="hunter2")`."""
_FURTHER: Final = re.compile(
    rf"(?:::\w{{1,20}})?\([ ]?(?:(?:{QUOTE}[^\"'`\r\n\\]{{0,80}}{QUOTE}(?:\.\w{{1,12}}\(\))?"
    rf"|[\w.$@&]{{1,60}}),[ ]?){{1,3}}?"
    rf"(?=[bu@]?{QUOTE}[^\"'`\\,\s]{{4}})"
)
"""What is in front of the password in `BasicAuth("ann", "hunter2")`."""
_CALL_BEFORE: Final = re.compile(
    r"(?:define|putenv|setenv|[sS]et\w{0,30}|put|add\w{0,20}|append|header|option|param|with\w{0,20}|environ"
    r"|getenv|get|fetch|env|of|fill|type|Pair)\([ ]?[\"'][#.]?\Z"
)
_CALL_ENDS: Final = (")", "}", ".toCharArray()", ".getBytes()", ".to")


def read_second(text: str, name: Name) -> Value | None:
    """Read the value behind a name and a comma: arguments of a call, or a list of words of a command."""
    match = _COMMA.match(text, name.end)
    is_named = name.text.isupper() or text[max(0, name.start - 1) : name.start] == "{"
    if not match or not (match["quote"] or is_named):
        return None
    value = read_value(text, match.end())
    if not value:
        return None
    content = text[value.start : value.end]
    is_pair = name.text.startswith("-") or _CALL_BEFORE.search(
        text[max(0, name.start - _SEEN_BEFORE) : name.start]
    )
    if is_pair and not content.startswith("-"):
        return value if is_secret_value(content, name.text, name.strength) else None
    return (
        value
        if is_likely_secret(content, name)
        or (" " in content and name.strength is Strength.HEADER and not is_ordinary(content))
        else None
    )


def read_call(text: str, name: Name) -> Value | None:
    """Read the value in brackets behind a name, or given to what a name was looked up for."""
    call = _CALL.match(text, name.end)
    match = call or _CHAIN.match(text, name.end) or _DEFAULT.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if value and value.quote:
        content = text[value.start : value.end]
        if is_likely_secret(content, name) or (call and _is_only_argument(text, name, value)):
            return value
    return _read_further(text, name)


def _is_only_argument(text: str, name: Name, value: Value) -> bool:
    """Return whether a call sets a password to a plain word: `setPassword("swordfish")`."""
    content = text[value.start : value.end]
    return (
        names_password(name)
        and len(content) >= _MIN_ARGUMENT_CHARS
        and " " not in content
        and text.startswith(_CALL_ENDS, value.end + len(value.quote))
        and is_secret_value(content, name.text, name.strength)
    )


def _read_further(text: str, name: Name) -> Value | None:
    """Read a later argument of a call that is named for credentials: `BasicAuth("ann", "hunter2")`."""
    is_auth = name.strength is Strength.WEAK and name.text.endswith("Auth")
    if not (is_auth or name.strength is Strength.STRONG) or text[name.end : name.end + 1] not in {"(", ":"}:
        return None
    match = _FURTHER.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    is_secret = value and value.quote and is_likely_secret(text[value.start : value.end], name)
    return value if is_secret else None
