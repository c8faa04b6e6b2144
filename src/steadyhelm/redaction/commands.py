"""Find passwords among the arguments of commands, in a line of a shell or in a list."""

import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.redaction.hints import Word, compile_search, find_words
from steadyhelm.redaction.tokens import SecretSpan, to_bytes
from steadyhelm.redaction.values import is_ordinary, joins_words_and_number, looks_dotted, looks_like_password

_RULE: Final = "command argument"
_MAX_LINE_CHARS: Final = 2000
_MAX_WORDS_BEFORE: Final = 16
_ARGUMENT: Final = re.compile(
    r"\"((?:[^\"\\]|\\.){0,400})\"|'([^']{0,400})'|\\\"([^\"\\]{0,400})\\\""
    r"|\\\r?\n|\\{2,4}\\n|((?:[^\s\"'`|;&<>()\\]|\\{1,4}(?![nrt\\\"'\s])){1,400})|([|;&()`\n]|\\{1,4}[nr])"
)
_LIST_ARGUMENT: Final = re.compile(
    r"\\{0,4}[\"'][ \t]{0,4},(?:[ \t\r\n]|\\{1,4}n){0,8}"
    r"(?:\\{0,4}[\"'][a-z]{4,12}\\{0,4}[\"']:[ ]?)?[\[(]?\\{0,4}[\"']([^\"'\\]{1,400})(?=\\{0,4}[\"'])"
)
_LETTER_FLAG: Final = re.compile(r"-[A-Za-z]\Z")
ARGUMENTS_BEFORE: Final = '"arg'
"""How the fields begin that canonical JSON has before that of their command: `args`, `arguments`, `argv`."""
_QUOTES: Final = frozenset("\"'")
_STRING_ENDS: Final = frozenset('"\\')
_SHORT_NAME_CHARS: Final = 4
"""The longest name of a command that is searched for only where it ends a word."""
_UNQUOTED: Final = 4
"""The group of an argument without quotes."""
_ENDS: Final = 5
"""The group of what ends a command."""


class CommandRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How some commands take a password; see `command_rules.toml`."""

    name: str
    why: str
    commands: tuple[str, ...]
    example: str
    counter_example: str
    separate: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    separator: str = ":"
    ends: str = ""
    position: int = 0
    after: tuple[str, ...] = ()
    needs: str = ""
    is_assigned: bool = False
    is_careful: bool = False
    takes_words: bool = False


class Argument(NamedTuple):
    """The secret part of an argument: which argument, and where in it."""

    place: int
    start: int
    end: int


def find_command_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield passwords in commands of a text.

    >>> text = "curl -u ann:hunter2 https://example.org"
    >>> [text[start:end] for start, end, _ in find_command_secrets(text)]
    ['hunter2']
    """
    at = 0
    for command in find_commands(to_bytes(text)):
        if command.start < at:
            continue
        places, arguments = [command.start], [command.text]
        at = command.end
        for start, end, argument in _read_arguments(text, command):
            places.append(start)
            arguments.append(argument)
            at = end
        for index, start, end in find_secret_arguments(arguments):
            yield SecretSpan(places[index] + start, places[index] + end, _RULE)


def _read_arguments(text: str, command: Word) -> Iterator[Word]:
    """Yield what follows a command, in a list of quoted words or in a line of a shell."""
    limit = command.start + _MAX_LINE_CHARS
    item = _LIST_ARGUMENT.match(text, command.end, limit) if text[command.start - 1] in _QUOTES else None
    if item:
        while item:
            yield Word(*item.span(1), item[1])
            item = _LIST_ARGUMENT.match(text, item.end(), limit)
        return
    last: Word | None = None
    for word in _ARGUMENT.finditer(text, command.end, limit):
        if word.lastindex == _ENDS:
            break
        group = word.lastindex
        if group is None:  # the command goes on in the next line
            continue
        start = word.start(group)
        if group != _UNQUOTED and last and last.end == word.start():  # `-p'hunter2'` is one argument
            start = last.start
        elif last:
            yield last
        last = Word(start, word.end(group), text[start : word.end(group)])
    if last:
        yield last


def find_secret_arguments(arguments: Sequence[str]) -> Iterator[Argument]:
    """Yield the secret parts of the arguments of a command; the first known one is the command."""
    by_command = _load_rules()
    for first, argument in enumerate(arguments[:_MAX_WORDS_BEFORE]):
        rules = by_command.get(argument.rpartition("/")[2])
        if rules:
            flags = frozenset(flag for rule in rules for flag in (*rule.separate, *rule.pair))
            for rule in rules:
                yield from _apply(rule, arguments, first, flags)
            return


def find_commands(data: bytes) -> Iterator[Word]:
    """Yield the names of commands that take a password, in a text of one byte a character."""
    rules = _load_rules()
    return (word for word in find_words(data, data, _load_search()) if word.text in rules)


def may_have_secret_argument(text: str, command: Word) -> bool:
    """Return whether what a command takes a password with follows it, in encoded text or not.

    In canonical JSON the arguments may also be in a field before that of the command.
    """
    flags, begin = _load_flags(command.text), max(0, command.start - _MAX_LINE_CHARS)
    return flags.search(text, command.end, command.end + _MAX_LINE_CHARS) is not None or (
        text[command.end : command.end + 1] in _STRING_ENDS
        and text.find(ARGUMENTS_BEFORE, begin, command.start) >= 0
        and flags.search(text, begin, command.start) is not None
    )


@cache
def load_command_names() -> frozenset[str]:
    """Return the names of all commands that take a password."""
    return frozenset(_load_rules())


def load_command_hints() -> frozenset[str]:
    """Return what to search for to find the names of all commands, in small letters."""
    return _write_hints(map(str.lower, _load_rules()))


def _write_hints(names: Iterable[str]) -> frozenset[str]:
    """Return the names as `compile_search` takes them."""
    hints: set[str] = set()
    for name in sorted(names):
        if not hints.intersection(accumulate(name)):  # a name that begins like a whole one is found by that
            hints.add(name + "," if len(name) <= _SHORT_NAME_CHARS else name)
    return frozenset(hints)


def load_command_rules() -> tuple[CommandRule, ...]:
    """Return all rules of `command_rules.toml`."""
    data = pkgutil.get_data("steadyhelm.redaction", "command_rules.toml")
    return msgspec.toml.decode(data or b"", type=dict[str, tuple[CommandRule, ...]])["rule"]


def _apply(
    rule: CommandRule, arguments: Sequence[str], first: int, with_value: frozenset[str]
) -> Iterator[Argument]:
    """Yield the secrets that one rule finds; what follows a flag with a value is not counted."""
    plain = 0
    is_counting = not rule.after
    flags = "".join(argument for argument in arguments[first + 1 :] if argument.startswith("-"))
    for index in range(first + 1, len(arguments)):
        argument = arguments[index]
        is_plain = not argument.startswith("-") and arguments[index - 1] not in with_value
        plain += is_plain and is_counting
        is_counted = is_plain and is_counting and plain == rule.position and rule.needs in flags
        if rule.is_assigned and is_plain and is_counting and 0 < argument.find("=") < len(argument) - 1:
            yield from _judge(rule, index, argument.find("=") + 1, argument)
        is_counting = is_counting or argument in rule.after
        start = _find_pair(rule, arguments, index) if rule.pair else _find_start(rule, arguments, index)
        if is_counted or (start >= 0 and is_counting):
            yield from _judge(rule, index, max(start, 0), argument)


def _find_start(rule: CommandRule, arguments: Sequence[str], index: int) -> int:
    """Return where the password begins in this argument; -1 when there is none."""
    argument = arguments[index]
    if arguments[index - 1] in rule.separate and not argument.startswith("-"):
        return 0
    for flag in rule.attached:
        if argument.startswith(flag) and len(argument) > len(flag) and argument[len(flag)] not in "=-":
            return len(flag)
    return -1


def _find_pair(rule: CommandRule, arguments: Sequence[str], index: int) -> int:
    argument = arguments[index]
    if _ends_with_flag(arguments[index - 1], rule.pair):
        return 0
    for flag in rule.pair:
        if argument.startswith(flag + "="):
            return len(flag) + 1
        if argument.startswith(flag) and not flag.startswith("--") and rule.separator in argument:
            return len(flag)
    return -1


def _ends_with_flag(argument: str, flags: Collection[str]) -> bool:
    """Return whether an argument is one of the flags, or several letters the last of which is one: `-su`."""
    is_group = argument[:1] == "-" and argument[1:].isalpha()
    return argument in flags or (is_group and f"-{argument[-1]}" in flags)


def _judge(rule: CommandRule, index: int, start: int, argument: str) -> Iterator[Argument]:
    end = len(argument)
    if rule.pair or rule.ends:
        separator = argument.find(rule.separator, start)
        if (
            separator <= start - bool(rule.pair and start)
            or separator < 0
            or (rule.ends and separator == start)
        ):
            return
        start = separator + 1
        if rule.ends:
            last = argument.rfind(rule.ends, start)
            end = last if last > 0 else end
    start += argument[start : start + 1] in _QUOTES
    secret = argument[start:end]
    is_secret = _looks_secret(rule, secret) if rule.is_careful else not is_ordinary(secret)
    if secret and is_secret and not secret.startswith(("$", "[redacted")):
        yield Argument(index, start, end)


def _looks_secret(rule: CommandRule, secret: str) -> bool:
    if looks_like_password(secret):
        return True
    return rule.takes_words and (joins_words_and_number(secret) or looks_dotted(secret))


@cache
def _load_search() -> re.Pattern[bytes]:
    return compile_search(_write_hints(_load_rules()))


@cache
def _load_flags(command: str) -> re.Pattern[str]:
    """Return a pattern that finds what a command takes a password with; any word when it needs nothing."""
    rules = _load_rules()[command]
    if any(rule.position and not rule.after for rule in rules):
        return re.compile(r"[ \"']")
    flags = {flag for rule in rules for flag in (*rule.separate, *rule.attached, *rule.pair, *rule.after)}
    letters = {flag for rule in rules for flag in rule.pair if _LETTER_FLAG.match(flag)}
    patterns = [*map(re.escape, sorted(flags - letters))]
    if letters:  # they may follow others: `-su`
        patterns.append(f"-[A-Za-z]{{0,8}}?[{''.join(sorted(flag[1] for flag in letters))}]")
    return re.compile("|".join(patterns))


@cache
def _load_rules() -> dict[str, list[CommandRule]]:
    rules: dict[str, list[CommandRule]] = {}
    for rule in load_command_rules():
        for command in rule.commands:
            rules.setdefault(command, []).append(rule)
    return rules
