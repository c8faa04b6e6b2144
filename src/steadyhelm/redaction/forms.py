"""Read the value behind the name of a secret, in each of the forms in which texts assign one."""

import re
from collections.abc import Callable
from typing import Final

from steadyhelm.redaction.calls import read_call, read_second
from steadyhelm.redaction.defaults import read_braced_default, read_default
from steadyhelm.redaction.named_values import (
    Name,
    is_likely_secret,
    is_secret_value,
    is_sent_password,
    is_small_number,
    is_weak_secret,
    names_a_secret,
)
from steadyhelm.redaction.names import Strength, words_of
from steadyhelm.redaction.quoting import BREAK, OPERATOR, QUOTE, SPACE, Value, read_value
from steadyhelm.redaction.sentences import read_sentence
from steadyhelm.redaction.tables import read_cell
from steadyhelm.redaction.unquoted import is_literal, is_word_secret, may_be_words
from steadyhelm.redaction.values import (
    MIN_MIXING,
    is_identifier,
    is_of_words,
    is_ordinary,
    is_plain_word,
    looks_secret,
    measure_mixing,
)

_SEEN_BEFORE: Final = 80
_PAIR_SEEN_BEFORE: Final = 300
_MIN_BEARER_CHARS: Final = 8
_MIN_PLAIN_TOKEN_CHARS: Final = 24
_MIN_PASSWORD_DIGITS: Final = 3
_MAX_PHRASE_WORDS: Final = 12

_BLANKS: Final = r"(?:[ \t]|%20|\\{1,8}t)"
_MARKUP: Final = (
    r"(?:\*{1,2}|</(?:b|strong|em|i|code|label|span|dt|td|th)>(?:\s{0,4}<(?:b|code|span|dd|td)>)?)"
)
_TAG: Final = (
    r"(?:!!?(?!(?:vault|Ref|Sub|GetAtt|Join|secret|env|ENV)\b)[\w:/.-]{0,40}|&[\w-]{1,40})[ \t]{1,4}"
)
_CONVERSION: Final = (
    r"(?:\[\]byte|bytes|bytearray|[sS]tr(?:ing)?(?:(?:\.|::)from)?|std::string|Buffer\.from|Secret(?:Str|Bytes|String)?(?:::new)?"
    r"|(?:base64\.)?b64decode|atob|Some|MD5|SHA[12]?|PASSWORD|md5|sha1|password_hash|hash|bcrypt(?:\.\w{1,20})?)\("
)
_VALUE_WORD: Final = (
    r"(?:(?:android:|string_?|[Pp]arameter)?[vV]alue|val|v|content|default(?:_?[vV]alue)?|data|text)"
)
_NO_VALUE: Final = rf"(?:\Z|{BREAK}(?![ \t]{{1,40}}[bru]?{QUOTE})|{QUOTE}[ ]?(?:[,}}\])]|{BREAK}|\Z))"
"""What follows a sign that ends base64 and does not assign."""
_ASSIGN: Final = re.compile(
    rf"(?:\[\d{{0,4}}\])?(?:{QUOTE}|\))?[\])]{{0,2}}{QUOTE}?[?!]?{_MARKUP}?"
    rf"(?:[ ]#?\d{{1,2}}(?=[ ]?:))?{_BLANKS}{{0,40}}"
    rf"(?::[ ]?(?:&(?:'static[ ])?)?[A-Za-z_][\w.\[\]|<>?]{{0,40}}[ ]?=(?!=|{_NO_VALUE})"
    r"|(?<=[ ])(?:string|String|PROGMEM|\[\]byte|As[ ][A-Za-z]{1,20})[ ]{1,4}=(?!=)"
    rf"|(?P<op>{OPERATOR})){_MARKUP}?(?P<gap>{_BLANKS}{{0,40}}|\+)(?:{_TAG})?"
    rf"(?:(?P<block>[|>][+-]?\d?[ \t]{{0,4}}){BREAK}[ \t]{{1,40}}|{BREAK}?[ \t]{{0,20}}string\(\d{{1,5}}\)[ ]"
    rf"|(?<==){BREAK}[ \t]{{1,40}}(?=[bru]?{QUOTE}))?(?:<code>|{_CONVERSION}(?=[bru]?{QUOTE}))?"
)
_HEADER: Final = re.compile(
    rf"(?:{QUOTE}|\))?[\])]{{0,2}}{QUOTE}?{_BLANKS}{{0,12}}"
    rf"(?:(?:{OPERATOR}){_BLANKS}{{0,12}}|(?<=[ \t])(?={QUOTE}))"
)
_LOOSE: Final = re.compile(
    rf"{QUOTE}?[\])]{{0,2}}{_MARKUP}?[ \t]{{0,40}}(?P<op>={{1,2}}>|-{{1,2}}>|<-|(?<=[ \t])-{{1,2}}(?=[ \t])"
    r"|\u2192|\u21d2|\u2013|\u2014|\\{1,4}u(?:2192|21d2|2013|2014)|\|\||\?\?|<<<|\?"
    r"|(?<=[ \t])[|\u2502\u2503](?=[ \t])"
    r"|\.{3,40}|</(?:td|th|dt|arg)>\s{0,8}<(?:td|dd|arg)[^<>]{0,40}>|>|or\b|with\b)"
    r"[ \t]{0,40}"
)
_ELEMENT: Final = re.compile(
    rf"(?:{QUOTE})?(?:[ \t][^<>\r\n]{{0,100}})?(?:>|\\{{1,4}}u003[eE]){SPACE}{{0,24}}"
    rf"(?:<(?:value|string)>{SPACE}{{0,8}})?(?:<!\[CDATA\[)?(?=[^<\s])"
)
_NAMED_ELEMENT_BEFORE: Final = re.compile(
    rf"<[\w:.-]{{1,60}}[ \t][^<>\r\n]{{0,80}}=[ ]?{QUOTE}[\w.:/-]{{0,80}}\Z"
)
_ELEMENT_ENDS: Final = ("</", "]]>", "\\u003c/", "\\u003C/", "<\\/")
_PAIR: Final = re.compile(
    rf"(?:{QUOTE}{SPACE}{{0,4}}[,;]?|[,;&])?(?:</\w{{1,20}}>)?"
    rf"(?:[ \t]{{0,4}}\{{(?:{SPACE}{{1,24}}\w{{1,30}}[ \t]{{0,20}}=[^\r\n\\]{{0,80}}){{0,4}}?)?"
    rf"(?:{SPACE}{{1,24}}[\w:-]{{1,20}}={QUOTE}[^\"'<>\\]{{0,60}}{QUOTE},?|{SPACE}{{1,24}}[a-z]{{1,20}}=\w{{1,12}},){{0,4}}"
    rf"(?:{SPACE}{{0,8}}{QUOTE}\w{{1,20}}{QUOTE}:[ ]?(?:{QUOTE}[^\"'<>\\]{{0,40}}{QUOTE}|\w{{1,10}}),){{0,3}}"
    rf"(?:{SPACE}{{1,24}}#[^\r\n\\]{{0,80}})?{SPACE}{{0,24}}"
    rf"(?:{QUOTE}?{_VALUE_WORD}{QUOTE}?{_BLANKS}{{0,8}}{OPERATOR}{_BLANKS}{{0,4}}"
    r"|<(?:value|string|data|Value)>)"
)
_VALUE_BEFORE: Final = re.compile(
    rf"\b[vV]al(?:ue)?{QUOTE}?[ ]?[:=][ ]?(?:({QUOTE})([^\"'\\\r\n]{{1,200}}){QUOTE}|([^\s\"'\\,;]{{1,200}}))"
    rf"(?:[,;]|{SPACE}){SPACE}{{0,24}}"
    rf"{QUOTE}?(?:name|Name|key|Key|type|field|id){QUOTE}?[ ]?[:=][ ]?{QUOTE}?\Z"
)
_FIELD_BEFORE: Final = re.compile(rf"[:=][ ]?{QUOTE}?\Z")
"""The end of `_VALUE_BEFORE`, which has at most `_MAX_FIELD_END_CHARS`."""
_MAX_FIELD_END_CHARS: Final = 24
_SAID_BEFORE: Final = re.compile(
    r"(?:^|[\s`\"'])([^\s`\"']{6,60})[`\"']?[ ](?:as|is)(?: the| my| your| our| a)?(?: \w{1,12})?[ ]\Z"
)
_FLAG: Final = re.compile(r"(?:[ \t]|(?P<gap>[ \t]{2,4}))(?![-<|>&;\s])")
_TEMPLATE_BEFORE: Final = re.compile(r"\{\{[^{}\r\n]{0,60}\Z")
"""A template, where the sign of a table passes a value to a filter."""
_USER_AND_PASSWORD: Final = re.compile(
    r"(?:[ \t]{0,3}[:=]|[ \t](?:is|are)|[ ](?=\())[ \t]{0,3}\(?[\w.@+-]{1,60}"
    r"(?:[ ][/|,:][ ]|/|:(?!:))([^\s\"'`\\<>/()]{6,80})"
)
_BRACED: Final = re.compile(r"[ ]?=[ ]?[{\[]([^{}\[\]\s\"'\\]{4,200})[}\]](;?)")
_GAP: Final = re.compile(rf"{SPACE}{{1,6}}(?:[0-9][ ](?=\S))?")
_MULTIPART: Final = re.compile(
    rf"{QUOTE}[^\r\n\\]{{0,80}}(?:{SPACE}{{1,2}}[Cc]ontent-[^\r\n\\]{{1,80}}){{0,2}}{BREAK}{{2}}"
)
_LINE: Final = re.compile(r"[^\r\n\"'`\\<>]{1,4000}")
_WHOLE_LINE: Final = re.compile(r"[^\r\n\\]{1,4000}")
_PARAMETERS: Final = re.compile(r"(?:[^\r\n\\]|\\(?![nr])){1,4000}")
_HAS_PARAMETERS: Final = re.compile(r"[A-Za-z][\w-]{1,20} \w{1,30}=\\{0,4}\"")
_PLAIN: Final = r"(?:[A-Za-z]{1,12}|[A-Za-z]{2}[-_][A-Za-z]{2}|\d{1,3}|\d{1,2}-[A-Z][a-z]{2}-\d{4})"
_PLAIN_COOKIES: Final = re.compile(
    rf"[\w.-]{{1,40}}={_PLAIN}?(?:;[ ]?(?:[Pp]ath=[^\s;]{{0,80}}|[Mm]ax-[Aa]ge=\d{{1,12}}"
    rf"|[Ee]xpires=[\w ,:+-]{{1,40}}|[Dd]omain=[^\s;]{{1,80}}"
    rf"|(?!(?:[Pp]ath|[Mm]ax-[Aa]ge|[Ee]xpires|[Dd]omain)=)[\w.-]{{1,40}}(?:={_PLAIN}?)?)){{0,20}};?\Z"
)
"""Cookies that hold plain words and short numbers, such as the language, with their attributes."""
_WORD: Final = re.compile(r"[^\s\"'`\\,;<>]{3,300}")
_XML_VALUE: Final = re.compile(r"[^<&\r\n\\\]]{1,400}")
_LOGIN_BEFORE: Final = re.compile(
    r"(?:login|machine|default|user|account)(?:\s|\\[nr])+\S{1,60}(?:\s|\\[nr])+"
    r"(?:(?:\+OK|331)[^\r\n\\]{0,60}(?:\s|\\[nr])+)?\Z",
    re.IGNORECASE,
)
_QUOTE: Final = re.compile(QUOTE)
_SCHEME: Final = re.compile(r"([A-Za-z][\w-]{1,20})[ \t]+(\S.*)", re.DOTALL)
_CODES: Final = frozenset({"passcode", "pin", "otp"})
_SEEN_BEHIND: Final = 16
_SERVER_ANSWERS: Final = re.compile(rf"{BREAK}(?:S: |< )?(?:230|530|\+OK|-ERR)[ \-]")
_SCHEMES: Final = frozenset(
    {"bearer", "basic", "digest", "token", "apikey", "key", "negotiate", "oauth", "hawk", "ntlm", "bot"}
)
_STOPS: Final = (".", "!", "?")
_CODE_CALL: Final = re.compile(r"[A-Za-z_$][\w.$)]{0,100}(?:<[\w., |]{0,40}>)?\Z")


def _read_assigned(text: str, name: Name) -> Value | None:
    if name.strength is Strength.HEADER:
        header = _HEADER.match(text, name.end)
        return _read_header(text, header.end()) if header else None
    match = _ASSIGN.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not match or not value:
        return None
    if match["block"] and "phrase" in name.text.lower() and not value.quote:
        value = _read_line(text, value.start)
    if not value.quote and match["op"] in {None, "||=", "??="}:  # `password: str = get()`
        return None
    if text.startswith("${", max(0, name.start - 2)):  # what follows is its default, or an operation
        return None
    value = _drop_stop(text, value)
    return value if _is_assigned_secret(text, name, match, value) else None


def _drop_stop(text: str, value: Value) -> Value:
    """Return a number without the sign that ends its sentence."""
    last = text[value.end - 1 : value.end]
    is_number = not value.quote and last in _STOPS and text[value.start : value.end - 1].isdigit()
    return Value(value.start, value.end - 1, "") if is_number else value


def _read_line(text: str, start: int) -> Value:
    """Read several words, which go on to the end of their line; they are as sure as quoted ones."""
    line = _WHOLE_LINE.match(text, start)
    return Value(start, line.end() if line else start, "\n")


def _is_assigned_secret(text: str, name: Name, match: re.Match[str], value: Value) -> bool:
    content = text[value.start : value.end]
    if value.quote == "`" and " " in content:  # what a command prints
        return False
    if value.quote:
        return len(content.split()) <= _MAX_PHRASE_WORDS and is_secret_value(
            content, name.text, name.strength
        )
    if text[value.end : value.end + 1] in {"(", "["} and _CODE_CALL.match(content):
        return False
    if name.strength is Strength.WEAK:
        return is_weak_secret(content, name.text)
    is_plain = "." in content and is_literal(text, name, match, value)
    if (
        is_ordinary(content, is_quoted=False, is_literal=is_plain)
        or is_small_number(content, name.text)
        or names_a_secret(content, name.text)
    ):
        return False
    return not content.replace("_", "").isalpha() or is_word_secret(text, name, match, value, content)


def _read_header(text: str, start: int) -> Value | None:
    """Read a header's value: to the end of its line, or to the quote that ends it."""
    quote = _QUOTE.match(text, start)
    start = quote.end() if quote else start
    pattern = _PARAMETERS if _HAS_PARAMETERS.match(text, start) else _LINE
    match = pattern.match(text, start)
    if not match:
        return None
    value = match[0].strip()
    if _PLAIN_COOKIES.match(value):
        return None
    scheme = _SCHEME.match(value)
    first = (scheme[2] if scheme else value).split()[0] if value else ""
    is_call = not quote and not scheme and "(" in first
    if (is_ordinary(first, is_quoted=not is_call) and "=[redacted" not in first) or (
        is_plain_word(first) and len(first) < _MIN_PLAIN_TOKEN_CHARS and "=" not in value
    ):
        return None
    if scheme and is_ordinary(scheme[1], is_quoted=False) and scheme[1].lower() not in _SCHEMES:
        return None
    kept = scheme.start(2) if scheme and scheme[1].isalpha() else 0
    begin = match.start() + len(match[0]) - len(match[0].lstrip()) + kept
    return Value(begin, match.start() + len(match[0].rstrip()), "")


def _read_element(text: str, name: Name) -> Value | None:
    before = text[max(0, name.start - _PAIR_SEEN_BEFORE) : name.start]
    is_element = before[-1:] in {"<", ":", ";"} or text.startswith("u003", max(0, name.start - 5))
    if not is_element and not _NAMED_ELEMENT_BEFORE.search(before):
        return None
    match = _ELEMENT.match(text, name.end)
    value = _XML_VALUE.match(text, match.end()) if match else None
    if not value or not text.startswith(_ELEMENT_ENDS, value.end()):
        return None
    is_secret = is_secret_value(value[0].strip(), name.text, name.strength)
    return Value(*value.span(), "<") if is_secret else None


def _read_pair(text: str, name: Name) -> Value | None:
    match = _PAIR.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not value or not is_secret_value(text[value.start : value.end], name.text, name.strength):
        return None
    return value


def _read_before(text: str, name: Name) -> Value | None:
    """Read the value in front of a name: a pair in the other order, or `use x as the password`."""
    begin = max(0, name.start - _PAIR_SEEN_BEFORE)
    before = text[begin : name.start]
    match = _VALUE_BEFORE.search(before) if _may_end_pair(before) else None
    if match:
        group = 2 if match[2] else 3
        is_secret = is_secret_value(match[group], name.text, name.strength)
        return Value(begin + match.start(group), begin + match.end(group), "") if is_secret else None
    match = _SAID_BEFORE.search(before[-_SEEN_BEFORE:]) if before.endswith(" ") else None
    if not match or name.strength is Strength.HEADER or not is_likely_secret(match[1].rstrip(".,:;!?"), name):
        return None
    offset = begin + len(before) - len(before[-_SEEN_BEFORE:])
    return Value(offset + match.start(1), offset + match.end(1), "")


def _may_end_pair(before: str) -> bool:
    """Return False when what is in front of a name has no value, or no field that a name follows."""
    return "al" in before and _FIELD_BEFORE.search(before[-_MAX_FIELD_END_CHARS:]) is not None


def _read_flag(text: str, name: Name) -> Value | None:
    match = _FLAG.match(text, name.end) if name.text.startswith("-") else None
    value = read_value(text, match.end()) if match else None
    if not match or not value:
        return None
    content = text[value.start : value.end]
    if match["gap"] and not value.quote:  # in a list of options
        return value if is_likely_secret(content, name) else None
    is_plain = may_be_words(name) or not is_of_words(content)
    is_secret = is_secret_value(content, name.text, name.strength) and not is_ordinary(
        content, is_quoted=bool(value.quote), is_literal=is_plain
    )
    return value if is_secret else None


def _read_loose(text: str, name: Name) -> Value | None:
    """Read the value behind a sign that does not always assign: an arrow, a dash, a cell of a table, `||`."""
    match = _LOOSE.match(text, name.end)
    value = read_value(text, match.end()) if match else None
    if not match or not value or (match["op"] in {"||", "??", "or", "with"} and not value.quote):
        return None
    if text[value.start : value.end].isdigit() and name.text.lower() in _CODES and "-" in match["op"]:
        return value if is_secret_value(text[value.start : value.end], name.text, name.strength) else None
    if match["op"] == "|" and _TEMPLATE_BEFORE.search(text[max(0, name.start - _SEEN_BEFORE) : name.start]):
        return None
    if match["op"] == "?" and "=" in text[value.start : value.end]:  # the path of an address, and its query
        return None
    return value if is_likely_secret(text[value.start : value.end], name) else None


def _read_next(text: str, name: Name) -> Value | None:
    """Read the value behind a name and a space: `login ann password x`, `PASSWORD 'x'`, `Bearer x`."""
    match = _GAP.match(text, name.end)
    if not match:
        return None
    quoted = read_value(text, match.end())
    if quoted and quoted.quote and name.strength is not Strength.WEAK and "\n" not in match[0]:
        content = text[quoted.start : quoted.end]
        return (
            quoted
            if " " not in content and not is_ordinary(content) and not names_a_secret(content, name.text)
            else None
        )
    word = _WORD.match(text, match.end())
    if not word:
        return None
    return Value(*word.span(), "") if _is_next_secret(text, name, word[0]) else None


def _is_next_secret(text: str, name: Name, word: str) -> bool:
    before = text[max(0, name.start - _SEEN_BEFORE) : name.start]
    if name.text.lower().endswith("bearer"):
        return (
            len(word) >= _MIN_BEARER_CHARS
            and not is_ordinary(word, is_quoted=False)
            and (any(map(str.isdigit, word)) or measure_mixing(word) >= MIN_MIXING)
        )
    is_line = before.endswith(("\n", "\\n", '"', "'")) or not before.strip()
    is_whole = is_line and name.text.lower() in words_of("whole names") and not word.startswith("-")
    if is_whole or _LOGIN_BEFORE.search(before):
        return not is_ordinary(word) and (name.strength > Strength.WEAK or is_weak_secret(word, name.text))
    if name.text == "PASS" and (
        is_line or before.endswith(("C: ", "> ", "FTP: "))
    ):  # to a server of mail or files
        behind = text[text.find(word, name.end) + len(word) :][:_SEEN_BEHIND]
        return is_sent_password(word, behind[:1]) or (
            _SERVER_ANSWERS.match(behind) is not None and not is_ordinary(word)
        )
    if word.isdigit() and name.text.lower() in _CODES:
        return is_secret_value(word, name.text, name.strength)
    if name.strength is not Strength.STRONG or text[name.end : name.end + 1] not in {" ", "\t"}:
        return False
    is_column = text[name.end : name.end + 2] == "  "  # of a table without lines
    is_another_name = word.startswith("-") or (not is_column and ("=" in word or ":" in word))
    is_resource = name.text.lower() in {"secret", "secrets", "token"}  # `kubectl get secret db-1`
    word = word.rstrip(".!?)")
    return not is_another_name and (looks_secret(word) or (not is_resource and is_likely_secret(word, name)))


def _read_braced(text: str, name: Name) -> Value | None:
    """Read the value in the braces of a connection string: `Uid=ann;Pwd={hunter2};`."""
    match = _BRACED.match(text, name.end)
    if not match or not is_likely_secret(match[1], name):
        return None
    is_variable = _is_variable(match[1]) and ";" not in text[max(0, name.start - 1) : name.start] + match[2]
    return None if is_variable else Value(*match.span(1), "")


def _is_variable(word: str) -> bool:
    return word.isidentifier() and sum(map(str.isdigit, word)) < _MIN_PASSWORD_DIGITS


def _read_user_and_password(text: str, name: Name) -> Value | None:
    """Read the second half of `credentials: ann / hunter2`."""
    match = _USER_AND_PASSWORD.match(text, name.end)
    if not match or name.strength is Strength.HEADER or not is_likely_secret(match[1].rstrip(".,;)"), name):
        return None
    is_test = is_identifier(match[0].lstrip(" \t:="))  # `PASS: TestLogin/case_2`
    return None if is_test else Value(*match.span(1), "")


def _read_multipart(text: str, name: Name) -> Value | None:
    is_part = "name=" in text[max(0, name.start - _SEEN_BEFORE) : name.start]
    match = _MULTIPART.match(text, name.end) if is_part else None
    value = _WHOLE_LINE.match(text, match.end()) if match else None
    is_secret = value and is_secret_value(value[0], name.text, name.strength)
    return Value(*value.span(), "") if value and is_secret else None


FORMS: Final[tuple[Callable[[str, Name], Value | None], ...]] = (
    _read_braced, _read_assigned, _read_element, _read_pair, _read_before, read_second, read_call,
    read_default, read_braced_default,
    _read_flag, read_sentence, _read_user_and_password, _read_multipart, read_cell, _read_next, _read_loose,
)  # fmt: skip
"""The forms, in the order in which they are tried."""
