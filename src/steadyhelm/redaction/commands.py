"""Find passwords among the arguments of commands, in a line of a shell or in a list."""

import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.redaction.hints import Word, compile_search, find_words
from steadyhelm.redaction.tokens import Span, to_bytes
from steadyhelm.redaction.values import is_ordinary, looks_like_password

_RULE: Final = "command argument"
_MAX_LINE_CHARS: Final = 2000
_MAX_WORDS_BEFORE: Final = 16
_ARGUMENT: Final = re.compile(
    r"\"((?:[^\"\\]|\\.){0,400})\"|'([^']{0,400})'|\\\"([^\"\\]{0,400})\\\"|([^\s\"'`|;&<>()\\]{1,400})|([|;&()`\n\\])"
)
_FLAG: Final = re.compile(r"[ \"'ntr,\n]-{1,2}[a-zA-Z]|/rp|[\w]/\w|login|add_user", re.ASCII)
"""A first look at what follows the name of a command: a flag, or what some take without one."""
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
    needs: str = ""
    is_careful: bool = False


class Argument(NamedTuple):
    """The secret part of an argument: which argument, and where in it."""

    place: int
    start: int
    end: int


def find_command_secrets(text: str) -> Iterator[Span]:
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
        for word in _ARGUMENT.finditer(text, command.end, command.start + _MAX_LINE_CHARS):
            if word.lastindex == _ENDS:
                break
            group = word.lastindex or 0
            places.append(word.start(group))
            arguments.append(word[group])
            at = word.end()
        for index, start, end in find_secret_arguments(arguments):
            yield Span(places[index] + start, places[index] + end, _RULE)


def find_secret_arguments(arguments: Sequence[str]) -> Iterator[Argument]:
    """Yield the secret parts of the arguments of a command; the first known one is the command."""
    by_command = _load_rules()
    for first, argument in enumerate(arguments[:_MAX_WORDS_BEFORE]):
        rules = by_command.get(argument.rpartition("/")[2])
        if rules:
            for rule in rules:
                yield from _apply(rule, arguments, first)
            return


def find_commands(data: bytes) -> Iterator[Word]:
    """Yield the names of commands that take a password, in a text of one byte a character."""
    rules = _load_rules()
    search = compile_search(frozenset(rules))
    return (word for word in find_words(data, data, search) if word.text in rules)


def may_have_secret_argument(text: str, end: int) -> bool:
    """Return whether a command that ends here, in encoded text or not, may be followed by a password."""
    return _FLAG.search(text, end, end + _MAX_LINE_CHARS) is not None


def load_command_names() -> frozenset[str]:
    """Return the names of all commands that take a password."""
    return frozenset(_load_rules())


def load_command_rules() -> tuple[CommandRule, ...]:
    """Return all rules of `command_rules.toml`."""
    data = pkgutil.get_data("steadyhelm.redaction", "command_rules.toml")
    return msgspec.toml.decode(data or b"", type=dict[str, tuple[CommandRule, ...]])["rule"]


def _apply(rule: CommandRule, arguments: Sequence[str], first: int) -> Iterator[Argument]:
    plain = 0
    flags = "".join(argument for argument in arguments[first + 1 :] if argument.startswith("-"))
    for index in range(first + 1, len(arguments)):
        argument = arguments[index]
        is_plain = not argument.startswith("-") and arguments[index - 1] not in rule.separate
        plain += is_plain
        start = -1
        if rule.position:
            start = 0 if is_plain and plain == rule.position and rule.needs in flags else -1
        elif rule.pair:
            start = _find_pair(rule, arguments, index)
        else:
            start = _find_start(rule, arguments, index)
        if start >= 0:
            yield from _judge(rule, index, start, argument)


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
    if arguments[index - 1] in rule.pair:
        return 0
    for flag in rule.pair:
        if argument.startswith(flag + "="):
            return len(flag) + 1
        if argument.startswith(flag) and not flag.startswith("--") and rule.separator in argument:
            return len(flag)
    return -1


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
    secret = argument[start:end]
    is_secret = looks_like_password(secret) if rule.is_careful else not is_ordinary(secret)
    if secret and is_secret and not secret.startswith(("$", "[redacted")):
        yield Argument(index, start, end)


@cache
def _load_rules() -> dict[str, list[CommandRule]]:
    rules: dict[str, list[CommandRule]] = {}
    for rule in load_command_rules():
        for command in rule.commands:
            rules.setdefault(command, []).append(rule)
    return rules
