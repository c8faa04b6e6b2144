"""Classify a call: whether it looks something up, does work, plans or waits."""

import functools
import re
from typing import Any, Final, Literal

StepKind = Literal["work", "look", "wait", "plan"]

DECLARED_KINDS: Final[dict[str, StepKind]] = {
    "poll": "wait",
    "read": "look",
    "write": "work",
    "idempotent": "look",
}

_MAX_COMMAND_CHARS: Final = 8192
_MAX_COMMAND_PARTS: Final = 500
_WORK_WORDS: Final = frozenset(
    """
    add append apply book cancel click commit create delete deploy edit exchange fill insert install make
    merge mkdir modify move multiedit patch post press publish push put remove rename replace save select
    send set submit type undo update upload write
    """.split()  # noqa: SIM905 - forty quoted words read worse
)
_PLAN_WORDS: Final = frozenset({"todo", "todos", "task", "tasks", "plan", "think", "thought", "reflect"})
_WAIT_WORDS: Final = frozenset({"wait", "sleep", "poll", "await", "watch"})
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERB_ARGUMENTS: Final = ("action", "op", "operation", "method", "mode")
_VERB_ARGUMENT_SET: Final = frozenset(_VERB_ARGUMENTS)

_EDITOR_COMMANDS: Final[dict[str, StepKind]] = {
    "view": "look",
    "str_replace": "work",
    "create": "work",
    "insert": "work",
    "undo_edit": "work",
}
_SHELL_SEPARATORS: Final = re.compile(r"[;&|\n]+")
_SHELL_WORK: Final = frozenset(
    {"rm", "mv", "cp", "mkdir", "rmdir", "touch", "chmod", "chown", "ln", "tee", "dd", "patch", "kill",
     "pkill", "make", "cmake", "systemctl", "alembic"}
)  # fmt: skip
_SHELL_WORK_SUBCOMMANDS: Final = {
    "git": frozenset(
        {"add", "commit", "mv", "rm", "checkout", "switch", "reset", "restore", "stash", "merge", "rebase",
         "cherry-pick", "revert", "apply", "pull", "push", "clone", "init", "worktree", "tag"}
    ),
    "cargo": frozenset({"build", "add", "fix", "fmt"}),
    "go": frozenset({"build", "get", "mod", "generate", "fmt"}),
    "npm": frozenset({"i", "ci", "install", "run"}),
    "pnpm": frozenset({"i", "add", "install"}),
    "yarn": frozenset({"add", "install"}),
    "pip": frozenset({"install"}),
    "pip3": frozenset({"install"}),
    "uv": frozenset({"add", "sync", "pip"}),
    "apt": frozenset({"install", "update"}),
    "apt-get": frozenset({"install", "update"}),
    "brew": frozenset({"install"}),
    "docker": frozenset({"build", "run", "compose", "rm", "stop"}),
    "gh": frozenset({"pr"}),
    "terraform": frozenset({"apply"}),
    "kubectl": frozenset({"apply", "delete"}),
    "sed": frozenset({"-i", "-i.bak", "-ie", "-Ei", "-ri", "-iE", "-ni"}),
    "perl": frozenset({"-i", "-pi", "-pie"}),
}  # fmt: skip
_SHELL_REDIRECT: Final = re.compile(r"[^0-9&>=-]>{1,2}\s*(?!/dev/null)[\w./~$\"']")
_SHELL_WAIT: Final = re.compile(r"^\s*(?:sleep|wait)\b|\bsleep \d{2,}\b")


def classify_call(name: str, args: Any) -> StepKind:
    """Return what kind of step a call is, by the name of its tool and its arguments.

    >>> classify_call("Bash", {"command": "git commit -m fix"}), classify_call("Bash", {"command": "git log"})
    ('work', 'look')
    >>> classify_call("str_replace_editor", {"command": "view", "path": "a.py"})
    'look'
    >>> classify_call("TodoWrite", {})
    'plan'
    """
    by_name = _classify_name(name)
    if by_name == "plan" or not isinstance(args, dict):
        return by_name
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        command = " ".join(str(part) for part in command[:_MAX_COMMAND_PARTS])
    if isinstance(command, str):
        return _classify_command(command)
    if by_name != "look" or _VERB_ARGUMENT_SET.isdisjoint(args):
        return by_name
    return _classify_verb(args)


@functools.lru_cache(maxsize=512)
def _classify_name(name: str) -> StepKind:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    if words & _PLAN_WORDS:
        return "plan"
    if words & _WAIT_WORDS:
        return "wait"
    return "work" if words & _WORK_WORDS else "look"


def _classify_verb(args: dict[str, Any]) -> StepKind:
    """Return the kind by the argument that names what a tool with many functions should do."""
    verb = next((args[name].lower() for name in _VERB_ARGUMENTS if isinstance(args.get(name), str)), None)
    return "wait" if verb in _WAIT_WORDS else "work" if verb in _WORK_WORDS else "look"


def _classify_command(command: str) -> StepKind:
    if command in _EDITOR_COMMANDS:
        return _EDITOR_COMMANDS[command]
    command = command[:_MAX_COMMAND_CHARS]
    if ("sleep" in command or "wait" in command) and _SHELL_WAIT.search(command):
        return "wait"
    if ">" in command and _SHELL_REDIRECT.search(command):
        return "work"
    for part in _SHELL_SEPARATORS.split(command):
        words = part.split(None, 3)
        if words and words[0] == "sudo":
            del words[0]
        if words and (
            words[0] in _SHELL_WORK
            or (len(words) > 1 and words[1] in _SHELL_WORK_SUBCOMMANDS.get(words[0], ()))
        ):
            return "work"
    return "look"
