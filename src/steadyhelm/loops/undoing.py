"""Which calls set something up, which undo what was set up, and which results refuse what was asked."""

import functools
import re
from typing import Any, Final

from steadyhelm.loops.call_arguments import first_argument
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.steps import ToolStep

_MAX_COMMAND_CHARS: Final = 1000
_MAX_REFUSAL_CHARS: Final = 400
_WORDS_OF_ORDER: Final = 5

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COMMAND_END: Final = re.compile(r"[;&|\n]+")
_COMMAND_ARGUMENTS: Final = ("command", "cmd", "sql", "statement", "script", "code")
_VERB_ARGUMENTS: Final = ("action", "op", "operation", "method", "mode")
_UNDOING: Final = frozenset(
    """
    abandon abort cancel clean cleanup clear close decommission del delete deprovision deregister destroy
    detach disable discard disconnect dispose down drop dropdb erase free kill leave logout prune purge
    release remove reset restore retract revert rm rmdir rmvirtualenv rollback stash stop tear teardown
    terminate trash umount undo uninstall unlink unmount unpublish unregister unsubscribe userdel void wipe
    withdraw
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_SETTING_UP: Final = frozenset(
    """
    add allocate apply assign book branch build checkout claim clone copy create createdb
    deploy draft enroll generate hold import init insert install invite issue launch lease
    make mkdir mktemp new open order post prepare propose provision publish put register rent request
    reserve run save schedule setup spawn stage submit subscribe switch unpack unzip up upload useradd
    venv virtualenv write
    """.split()  # noqa: SIM905 - the same
)
# A name with one of these looks: `get_order`, `list_branches`.
_LOOKING: Final = frozenset(
    {
        "check",
        "describe",
        "fetch",
        "find",
        "get",
        "inspect",
        "list",
        "read",
        "search",
        "show",
        "status",
        "view",
    }
)
_GIVES_UP_CHANGES: Final = frozenset({"checkout", "restore"})
_REFUSAL: Final = re.compile(
    r"\b(?:wrong|incorrect|invalid|mismatch|rejected|refused|denied|declined|expired|forbidden|unauthori[sz]ed"
    r"|conflicts?|unsuccessful|failed|fails|failure|error)\b"
    r"|\bnot (?:valid|accepted|allowed|permitted|recogni[sz]ed|correct|match\w*|possible|available)"
    r"|\b(?:do|does|did|could|can|was|is|has)(?:n[o']t|n't| not) (?:match|accept|verif|be |valid|work)"
    r"|\bcannot\b|\bunable to\b|\balready (?:used|taken|expired|spent|redeemed)\b|\btry again\b"
    r"|\"(?:ok|success\w*|paid|sent|done|valid|verified|correct|passed|available|\w{3,20}ed)\"\s?:\s?false\b",
    re.IGNORECASE,
)


def undoes(step: ToolStep) -> bool:
    """Return whether a call undoes what another one did, by the words of its name or its command."""
    words = _read_order(step)
    return not _UNDOING.isdisjoint(words) and words.isdisjoint(_LOOKING)


def sets_up(step: ToolStep) -> bool:
    """Return whether a call sets up something that another call can undo.

    What undoes something may name it: `cancel_order`.
    """
    words = _read_order(step)
    return not _SETTING_UP.isdisjoint(words) and words.isdisjoint(_LOOKING) and words.isdisjoint(_UNDOING)


def refuses(outcome: CallOutcome) -> bool:
    """Return whether a result refuses what was asked, or says that it failed."""
    if outcome.failed:
        return True
    return 0 < outcome.size <= _MAX_REFUSAL_CHARS and _REFUSAL.search(outcome.sample) is not None


def _read_order(step: ToolStep) -> frozenset[str]:
    """Return the words that say what a call orders: those of its command, else of its name and its verb."""
    args: Any = step.event.input_data
    command = first_argument(args, _COMMAND_ARGUMENTS)
    if isinstance(command, str):
        return _read_command(command[:_MAX_COMMAND_CHARS])
    words = _read_name(step.event.action_name)
    if isinstance(args, str):
        return words | _read_command(args[:_MAX_COMMAND_CHARS])
    verb = first_argument(args, _VERB_ARGUMENTS)
    return words | {verb.lower()} if isinstance(verb, str) else words


@functools.lru_cache(maxsize=256)
def _read_name(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD_IN_NAME.findall(name[:100]))


@functools.lru_cache(maxsize=32)
def _read_command(command: str) -> frozenset[str]:
    """Return the words that order something in each part of a command line.

    >>> sorted(_read_command("git switch main && git branch -D fix"))
    ['branch', 'delete', 'fix', 'git', 'main', 'switch']
    """
    orders: set[str] = set()
    for part in _COMMAND_END.split(command):
        words = part.split()
        head = [word.lower() for word in words[:_WORDS_OF_ORDER]]
        orders.update(word for word in head if word.isalpha())
        if words[:1] == ["git"] and _gives_up(words):
            orders.add("delete")
    return frozenset(orders)


def _gives_up(words: list[str]) -> bool:
    """Return whether a command of git deletes a branch, or gives up what was changed."""
    if not {"-D", "-d", "--delete"}.isdisjoint(words):
        return True
    return not _GIVES_UP_CHANGES.isdisjoint(words[1:2]) and not {"--", "."}.isdisjoint(words)
