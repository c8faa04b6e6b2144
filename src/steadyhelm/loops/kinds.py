"""What kind of step a call is: whether it looks, works, plans or waits."""

import functools
import re
from typing import Any, Final, Literal

StepKind = Literal["work", "look", "wait", "plan"]

DECLARED: Final[dict[str, StepKind]] = {"poll": "wait", "read": "look", "write": "work", "idempotent": "look"}

_LOOKED_AT: Final = 8192
_PARTS_LOOKED_AT: Final = 500
_WORK_WORDS: Final = frozenset(
    """
    add append apply book cancel click commit create delete deploy edit exchange fill insert install make
    merge mkdir modify move multiedit patch post press publish push put remove rename replace save select
    send set submit type undo update upload write
    """.split()  # noqa: SIM905 - forty quoted words read worse
)
_PLAN_WORDS: Final = frozenset({"todo", "todos", "task", "tasks", "plan", "think", "thought", "reflect"})
_WAIT_WORDS: Final = frozenset({"wait", "sleep", "poll", "await", "watch"})
_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERBS: Final = ("action", "op", "operation", "method", "mode")
_HAS_VERB: Final = frozenset(_VERBS)

_EDITOR: Final[dict[str, StepKind]] = {
    "view": "look",
    "str_replace": "work",
    "create": "work",
    "insert": "work",
    "undo_edit": "work",
}
_SHELL_PARTS: Final = re.compile(r"[;&|\n]+")
_SHELL_WORK: Final = frozenset(
    {"rm", "mv", "cp", "mkdir", "rmdir", "touch", "chmod", "chown", "ln", "tee", "dd", "patch", "kill",
     "pkill", "make", "cmake", "systemctl", "alembic"}
)  # fmt: skip
_SHELL_WORK_OF: Final = {
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
_REDIRECTED: Final = re.compile(r"[^0-9&>=-]>{1,2}\s*(?!/dev/null)[\w./~$\"']")
_SHELL_WAIT: Final = re.compile(r"^\s*(?:sleep|wait)\b|\bsleep \d{2,}\b")


def kind_of(name: str, args: Any) -> StepKind:
    """What kind of step a call is, by its tool's name and its arguments.

    >>> kind_of("Bash", {"command": "git commit -m fix"}), kind_of("Bash", {"command": "git log"})
    ('work', 'look')
    >>> kind_of("str_replace_editor", {"command": "view", "path": "a.py"}), kind_of("TodoWrite", {})
    ('look', 'plan')
    """
    by_name = _kind_of_name(name)
    if by_name == "plan" or not isinstance(args, dict):
        return by_name
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        command = " ".join(str(part) for part in command[:_PARTS_LOOKED_AT])
    if isinstance(command, str):
        return _kind_of_command(command)
    if by_name != "look" or _HAS_VERB.isdisjoint(args):
        return by_name
    return _kind_of_verb(args)


@functools.lru_cache(maxsize=512)
def _kind_of_name(name: str) -> StepKind:
    words = {word.lower() for word in _NAME.findall(name[:100])}
    if words & _PLAN_WORDS:
        return "plan"
    if words & _WAIT_WORDS:
        return "wait"
    return "work" if words & _WORK_WORDS else "look"


def _kind_of_verb(args: dict[str, Any]) -> StepKind:
    """By what a tool of many trades is told to do."""
    doing = next((args[name].lower() for name in _VERBS if isinstance(args.get(name), str)), None)
    return "wait" if doing in _WAIT_WORDS else "work" if doing in _WORK_WORDS else "look"


def _kind_of_command(command: str) -> StepKind:
    if command in _EDITOR:
        return _EDITOR[command]
    command = command[:_LOOKED_AT]
    if ("sleep" in command or "wait" in command) and _SHELL_WAIT.search(command):
        return "wait"
    if ">" in command and _REDIRECTED.search(command):
        return "work"
    for part in _SHELL_PARTS.split(command):
        words = part.split(None, 3)
        if words and words[0] == "sudo":
            del words[0]
        if words and (
            words[0] in _SHELL_WORK or (len(words) > 1 and words[1] in _SHELL_WORK_OF.get(words[0], ()))
        ):
            return "work"
    return "look"
