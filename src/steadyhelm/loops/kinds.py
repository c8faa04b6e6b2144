"""What kind of step a call is, by the name of its tool and its arguments: work, a look, a wait or a plan."""

import functools
import re
from typing import Any, Final, Literal

from steadyhelm.loops.call_arguments import COMMAND_ARGUMENTS, first_argument
from steadyhelm.loops.statements import STATEMENT_ARGUMENT_SET, changes_data, changes_data_through_shell

StepKind = Literal["work", "look", "wait", "plan"]

DECLARED_KINDS: Final[dict[str, StepKind]] = {
    "poll": "wait",
    "read": "look",
    "write": "work",
    "batch": "look",
    "schedule": "look",
    "idempotent": "look",
}

_MAX_COMMAND_CHARS: Final = 8192
_MAX_COMMAND_PARTS: Final = 500
_WORK_WORDS: Final = frozenset(
    """
    add append apply approve archive assign book cancel charge click commit convert create delete deploy
    disable dispatch drag edit enable exchange fill fix format import insert install invite label make merge
    migrate migration mkdir modify move multiedit patch pay post press print publish push put refund register
    reject remove rename replace reply restore rollback save select send set submit swipe tag tap toggle
    transfer trigger type undo update upload write
    """.split()  # noqa: SIM905 - forty quoted words read worse
)
_NOUNS_OF_WORK: Final = frozenset(
    {"archive", "book", "commit", "dispatch", "import", "label", "patch", "post", "print", "tag", "transfer",
     "trigger"}
)  # fmt: skip
"""Verbs of work that also name what is looked at, behind a verb of looking or before `search`."""
_LOOK_VERBS: Final = frozenset(
    {
        "ask",
        "browse",
        "check",
        "consult",
        "describe",
        "fetch",
        "find",
        "get",
        "list",
        "query",
        "read",
        "search",
        "show",
        "view",
    }
)
_ASKING_VERBS: Final = _LOOK_VERBS | {
    "await", "check", "describe", "inspect", "monitor", "poll", "query", "wait", "watch",
}  # fmt: skip
_ASKED_FOR: Final = frozenset(
    {"get", "list", "output", "progress", "read", "result", "results", "state", "status"}
)
_JOBS: Final = frozenset(
    {"archive", "commit", "deploy", "import", "install", "merge", "migration", "print", "refund",
     "restore", "transfer", "upload"}
)  # fmt: skip
"""Verbs of work that also name a piece of work, whose state is asked for: `check_upload`, `deploy_status`."""
_SEARCH_WORDS: Final = frozenset({"lookup", "search"})
_PLAN_WORDS: Final = frozenset({"todo", "todos", "task", "tasks", "plan", "think", "thought", "reflect"})
_AIM_WORDS: Final = frozenset({"agenda", "goal", "goals", "outline", "roadmap", "strategy"})
_WORDS_BESIDE_AIM: Final = frozenset(
    {"define", "my", "new", "note", "revise", "rewrite", "save", "set", "store", "update", "write"}
)
_DELEGATION_WORDS: Final = frozenset({"agent", "agents", "delegate", "handoff", "subagent"})
_HANDOFF_WORDS: Final = frozenset(
    {"escalate", "forward", "handoff", "handover", "route", "switch", "transfer"}
)
_TRANSFER_WORDS: Final = frozenset({"transfer", "to"})
_WAIT_WORDS: Final = frozenset({"wait", "sleep", "poll", "await", "watch"})
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERB_ARGUMENTS: Final = ("action", "op", "operation", "method", "mode")
_MAX_VERB_CHARS: Final = 40
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
     "pkill", "make", "cmake", "alembic", "pg_restore", "createdb", "dropdb", "unzip", "wget",
     "rsync", "scp"}
)  # fmt: skip
_SHELL_WORK_SUBCOMMANDS: Final = {
    "git": frozenset(
        {"add", "commit", "mv", "rm", "checkout", "switch", "reset", "restore", "stash", "merge", "rebase",
         "cherry-pick", "revert", "apply", "pull", "push", "clone", "init", "worktree", "tag", "bisect", "am",
         "clean", "submodule"}
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
    "docker": frozenset({"build", "run", "compose", "rm", "stop", "start", "restart", "push", "pull"}),
    "gh": frozenset({"pr"}),
    "systemctl": frozenset(
        {"start", "stop", "restart", "reload", "try-restart", "enable", "disable", "mask", "unmask", "edit",
         "daemon-reload", "kill", "set-property", "isolate", "reset-failed", "reboot", "--user", "--now"}
    ),
    "terraform": frozenset({"apply", "destroy", "import"}),
    "helm": frozenset({"install", "upgrade", "rollback", "uninstall"}),
    "kubectl": frozenset(
        {"apply", "delete", "create", "patch", "set", "scale", "rollout", "label", "annotate", "cordon",
         "uncordon", "drain"}
    ),
    "sed": frozenset({"-i", "-i.bak", "-ie", "-Ei", "-ri", "-iE", "-ni"}),
    "perl": frozenset({"-i", "-pi", "-pie"}),
}  # fmt: skip
_SHELL_LOOKS: Final = frozenset({"checks", "diff", "history", "list", "ps", "status", "view"})
"""What a command that changes things only looks at, when it is its third word: `gh pr checks`."""
_SHELL_WORK_FLAGS: Final = frozenset({"--fix", "--write", "--in-place", "--apply", "--fix-only", "migrate"})
_SHELL_REDIRECT: Final = re.compile(r"[^0-9&>=-]>{1,2}\s*(?!/dev/null)[\w./~$\"']")
_SCRIPT_WORK: Final = re.compile(
    r"\bopen\([^)\n]{1,200}[\"'][wax]b?\+?[\"']|\.write_(?:text|bytes)\("
    r"|\b(?:os\.(?:remove|rename|replace|makedirs)|shutil\.(?:copy|move|rmtree))\w{0,5}\("
)
"""What a script given to the shell does to files."""
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
        is_change = by_name == "look" and isinstance(args, str) and changes_data(name, args)
        return "work" if is_change else by_name
    command = first_argument(args, COMMAND_ARGUMENTS)
    if isinstance(command, list):
        command = " ".join(str(part) for part in command[:_MAX_COMMAND_PARTS])
    if isinstance(command, str):
        return _classify_command(command)
    if by_name != "look":
        return by_name
    if not STATEMENT_ARGUMENT_SET.isdisjoint(args) and changes_data(name, args):
        return "work"
    return by_name if _VERB_ARGUMENT_SET.isdisjoint(args) else _classify_verb(args)


@functools.lru_cache(maxsize=512)
def _classify_name(name: str) -> StepKind:
    order = [word.lower() for word in _WORD_IN_NAME.findall(name[:100])]
    words = set(order)
    is_plan = words & _PLAN_WORDS or (words & _AIM_WORDS and words <= _AIM_WORDS | _WORDS_BESIDE_AIM)
    if is_plan and not _asks_for_state(order):
        return "plan"
    if words & _DELEGATION_WORDS or words >= _TRANSFER_WORDS:
        return "look"
    if words & _WAIT_WORDS:
        return "wait"
    work = words & _WORK_WORDS
    if work <= _JOBS and _asks_for_state(order):
        return "look"  # `check_upload`, `deploy_status`
    if work <= _NOUNS_OF_WORK and (_LOOK_VERBS.issuperset(order[:1]) or _SEARCH_WORDS.issuperset(order[-1:])):
        return "look"  # `get_post`, `archive_search`
    return "work" if work else "look"


def asks_for_state(tool: str) -> bool:
    """Return whether a tool only asks how something stands, by the words of its name.

    >>> asks_for_state("task_state"), asks_for_state("get_task"), asks_for_state("update_task_status")
    (True, True, False)
    """
    return _asks_for_state([word.lower() for word in _WORD_IN_NAME.findall(tool[:100])])


def _asks_for_state(words: list[str]) -> bool:
    if _ASKING_VERBS.issuperset(words[:1]):
        return True
    return _ASKED_FOR.issuperset(words[-1:]) and _WORK_WORDS.intersection(words) <= _JOBS


@functools.lru_cache(maxsize=256)
def reads_by_name(name: str) -> bool:
    """Return whether a tool reads, searches or asks, by the words of its name."""
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_ASKING_VERBS | _ASKED_FOR | _SEARCH_WORDS)


def _classify_verb(args: dict[str, Any]) -> StepKind:
    """Return the kind by the argument that names what a tool with many functions should do."""
    verb = next((args[name].lower() for name in _VERB_ARGUMENTS if isinstance(args.get(name), str)), "")
    words = verb[:_MAX_VERB_CHARS].replace("-", "_").split("_")  # `double_click`
    return "wait" if verb in _WAIT_WORDS else "look" if _WORK_WORDS.isdisjoint(words) else "work"


def _classify_command(command: str) -> StepKind:
    if command in _EDITOR_COMMANDS:
        return _EDITOR_COMMANDS[command]
    command = command[:_MAX_COMMAND_CHARS]
    if ("sleep" in command or "wait" in command) and _SHELL_WAIT.search(command):
        return "wait"
    if (">" in command and _SHELL_REDIRECT.search(command)) or (
        "python" in command and _SCRIPT_WORK.search(command)
    ):
        return "work"
    if ("--" in command and not _SHELL_WORK_FLAGS.isdisjoint(command.split())) or (
        ("sql" in command or "duckdb" in command) and changes_data_through_shell(command)
    ):
        return "work"
    for part in _SHELL_SEPARATORS.split(command):
        words = part.split(None, 3)
        if words and words[0] == "sudo":
            del words[0]
        if words and (words[0] in _SHELL_WORK or _is_work_subcommand(words)):
            return "work"
    return "look"


def _is_work_subcommand(words: list[str]) -> bool:
    if len(words) == 1 or words[1] not in _SHELL_WORK_SUBCOMMANDS.get(words[0], ()):
        return False
    return len(words) == 2 or words[2] not in _SHELL_LOOKS  # noqa: PLR2004 - the third word


@functools.lru_cache(maxsize=256)
def is_handoff(name: str) -> bool:
    """Return whether a tool hands the conversation over to somebody whom its name names."""
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return "to" in words and not words.isdisjoint(_HANDOFF_WORDS)
