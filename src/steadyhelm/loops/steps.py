"""One tool call as the loop detectors see it: what kind of step it is, its arguments and its outcome."""

import functools
import re
from typing import Any, Final, Literal

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.fingerprints import encode_arguments, encode_canonical, hash_call
from steadyhelm.loops.outcomes import CallOutcome, read_outcome
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
     "pkill", "make", "cmake", "systemctl", "alembic", "pg_restore", "createdb", "dropdb", "unzip", "wget",
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
_TAKES_NEXT: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:git bisect (?:good|bad|skip|old|new)"
    r"|git (?:checkout|switch)(?: -q| --quiet| -d| --detach)* (?:v?\d[\w.-]*|[0-9a-f]{7,40}|HEAD[~^]\d*)\s*\Z"
    r"|git (?:rebase|am|cherry-pick) --(?:continue|skip)"
    r"|alembic (?:upgrade|downgrade) [+-]\d)"
)
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
    command = first_argument(args, _COMMAND_ARGUMENTS)
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
    if words & _PLAN_WORDS and not _asks_for_state(order):
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
def _reads_by_name(name: str) -> bool:
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


_MAX_ARGUMENT_BYTES: Final = 2048
_MAX_PATH_CHARS: Final = 300

# Arguments that only explain a call, count its attempts, or say how long to wait for it: they do not make it
# another call. Those of the second list are the content of a call that changes something.
_EXPLAINING_WORDS: Final = frozenset(
    {"reason", "reasoning", "explanation", "rationale", "justification", "purpose", "thought", "thoughts",
     "thinking", "intent", "timeout", "attempt", "attempts", "try", "tries", "retry", "retries", "nonce",
     "ts", "bust", "buster", "cachebust", "cachebuster", "salt", "rand", "correlation", "idempotency",
     "trace", "span", "progress", "why"}
)  # fmt: skip
_CONTENT_NAMES: Final = frozenset(
    {"description", "comment", "note", "notes", "remark", "timestamp", "summary", "iteration", "counter",
     "seq", "turn", "max_length", "max_chars", "max_bytes", "max_results", "num_results"}
)  # fmt: skip
_ASIDE_NAMES: Final = frozenset(
    {"request_id", "request_no", "request_number", "requestId", "requested_at", "requestedAt", "request_time",
     "called_at", "calledAt", "invoked_at", "invokedAt", "asked_at", "tool_call_id", "call_id", "toolCallId",
     "call_no", "callNo", "call_count", "callCount", "client_ref", "clientRef", "client_reference",
     "client_request_id", "client_token", "now", "_"}
)  # fmt: skip
_QUALIFYING_WORDS: Final = frozenset(
    {"count", "counter", "number", "no", "num", "id", "key", "index", "n", "text", "task", "current", "ms",
     "s", "seconds", "secs", "max", "cache", "left"}
)  # fmt: skip
_VOLATILE_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?:_|_?ts?|cb|cache_?bust(?:er)?|nonce|rand(?:om)?|attempt|retry|timestamp|sig(?:nature)?|csrf"
    r"|sid|session(?:_?id)?|expires)=[^&#]*&?",
    re.IGNORECASE,
)
"""A parameter of an address that says nothing of the page it leads to."""
_PATH_ARGUMENTS: Final = (
    "path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file",
)  # fmt: skip
_COMMAND_ARGUMENTS: Final = ("command", "cmd")


class ToolStep:
    """One tool call, read once however many detectors look at it.

    Args:
        event: The call.
        outcome: Its outcome; None reads it from the event.
    """

    __slots__ = ("_arguments", "call_key", "event", "is_work_done", "kind", "outcome")

    def __init__(self, event: TraceEvent, outcome: CallOutcome | None = None) -> None:
        self.event = event
        self.kind: StepKind = _find_kind(event)
        self.call_key, self._arguments = _read_call(event, self.kind)
        self.outcome = read_outcome(event, self.kind) if outcome is None else outcome
        if self.kind == "look" and not event.tool_kind:
            outcome = self.outcome
            if outcome.says_wait or outcome.says_nothing_new:
                self.kind = "wait"
            elif outcome.says_changed and not _reads_by_name(event.action_name):
                self.kind = "work"  # what its name does not tell, its answer does
        # Whether it changed something, as far as that is known.
        self.is_work_done = (
            self.kind == "work"
            and self.outcome.known
            and not self.outcome.failed
            and not self.outcome.says_unchanged
        )

    @property
    def arguments(self) -> bytes:
        """Its arguments as canonical text, cut to a length that still distinguishes calls."""
        if self._arguments is None:
            self._arguments = encode_arguments(self.event)[:_MAX_ARGUMENT_BYTES]
        return self._arguments

    @property
    def is_real_failure(self) -> bool:
        """Whether the call itself failed: an outage does not count, and waiting is no attempt."""
        outcome = self.outcome
        return outcome.failed and outcome.known and not outcome.outage and self.kind != "wait"

    @property
    def takes_next(self) -> bool:
        """Whether it is a command that goes one step on each time: `git bisect good`."""
        command = find_command(self.event.input_data)
        return command is not None and _TAKES_NEXT.match(command[:_MAX_PATH_CHARS]) is not None

    def as_call(self, call_key: int, outcome: CallOutcome) -> "ToolStep":
        """Return this step as a call with another number and outcome."""
        step = ToolStep(self.event, outcome)
        step.call_key = call_key
        return step

    def has_seen(self, seq: int) -> bool:
        """Return whether the agent had seen the event with this `seq` when it made this call."""
        started = self.event.started_seq
        return started is None or started > seq


_last_step: tuple[TraceEvent, ToolStep] | None = None


def read_step(event: TraceEvent) -> ToolStep:
    """Return the event as a step; the latest one is cached, since several detectors ask for it in turn."""
    global _last_step  # noqa: PLW0603 - a memo of a pure function: a race costs a second reading, nothing else
    cached = _last_step
    if cached is not None and cached[0] is event:
        return cached[1]
    step = ToolStep(event)
    _last_step = (event, step)
    return step


def identify_call(event: TraceEvent) -> int:
    """Return the number that identifies a call, without the arguments that only explain it."""
    return _read_call(event, _find_kind(event))[0]


_STATUS_WORDS: Final = frozenset(
    {"status", "health", "healthcheck", "ping", "heartbeat", "list", "pwd", "whoami", "version", "uptime",
     "time", "date", "state", "info", "log"}
)  # fmt: skip
_STATUS_COMMANDS: Final = re.compile(
    r"\s*(?:cd [^;&|]+ && )?(?:git (?:status|log|diff|branch|remote)|pwd|ls|dir|whoami|date|ps|df|free"
    r"|uptime|env|top|nvidia-smi|kubectl (?:get|describe)|docker (?:ps|images|stats|compose ps)"
    r"|\S+ --version)\b[^;&|]*(?:\| *(?:grep|egrep|wc|head|tail|sort|jq|cut|awk)\b[^;&|]*){0,3}\Z"
)


def is_status_look(event: TraceEvent) -> bool:
    """Return whether a call only asks how things stand, as agents do between steps.

    >>> is_status_look(TraceEvent(agent_id="a", run_id="r", action_type="tool_call", action_name="ping"))
    True
    """
    command = find_command(event.input_data)
    if command is not None:
        return _STATUS_COMMANDS.match(command[:_MAX_PATH_CHARS]) is not None
    return any(word.lower() in _STATUS_WORDS for word in _WORD_IN_NAME.findall(event.action_name[:100]))


def find_path(arguments: Any) -> str | None:
    """Return the path of the file a call is about, None when its arguments name none."""
    path = first_argument(arguments, _PATH_ARGUMENTS)
    return path[:_MAX_PATH_CHARS] if isinstance(path, str) and path else None


def find_command(arguments: Any) -> str | None:
    """Return the command that a call runs in a shell, None when its arguments hold none."""
    command = first_argument(arguments, _COMMAND_ARGUMENTS)
    return command if isinstance(command, str) else None


def works_on_files(event: TraceEvent) -> bool:
    """Return whether a call names a file or runs a command: a run with such a call is a coding session."""
    if event.action_type != TOOL_CALL:
        return False
    arguments = event.input_data
    return find_path(arguments) is not None or first_argument(arguments, _COMMAND_ARGUMENTS) is not None


def first_argument(arguments: Any, names: tuple[str, ...]) -> Any:
    """Return the value of the first of these arguments that a call has, None when it has none of them."""
    if isinstance(arguments, dict):
        for name in names:
            if name in arguments:
                return arguments[name]
    return None


@functools.lru_cache(maxsize=1024)
def _find_asides(names: tuple[str, ...], kind: StepKind) -> frozenset[str]:
    """Return the arguments that are asides; none where nothing else is left."""
    asides = frozenset(name for name in names if isinstance(name, str) and _is_aside(name, kind))
    return asides if len(asides) < len(names) else frozenset()


def _drop_inner_asides(args: dict[str, Any], kind: StepKind) -> dict[str, Any]:
    """Return arguments without asides in objects, and without objects of nothing else."""
    for name, value in list(args.items()):
        if not isinstance(value, dict) or not value:
            continue
        inner = {key: it for key, it in value.items() if not (isinstance(key, str) and _is_aside(key, kind))}
        if len(inner) == len(value):
            continue
        args = {key: it for key, it in args.items() if key != name}
        if inner:
            args[name] = inner
    return args


@functools.lru_cache(maxsize=256)
def _is_handoff(name: str) -> bool:
    """Return whether a tool hands the conversation over to somebody whom its name names."""
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return "to" in words and not words.isdisjoint(_HANDOFF_WORDS)


def _is_aside(name: str, kind: StepKind) -> bool:
    """Return whether an argument of this name says nothing of what a call of this kind is about.

    >>> _is_aside("retryCount", "look"), _is_aside("note", "look"), _is_aside("note", "work")
    (True, True, False)
    """
    if name in _ASIDE_NAMES:
        return True
    if name in _CONTENT_NAMES:
        return kind != "work"
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    return not words.isdisjoint(_EXPLAINING_WORDS) and words <= _EXPLAINING_WORDS | _QUALIFYING_WORDS


def _find_kind(event: TraceEvent) -> StepKind:
    return DECLARED_KINDS.get(event.tool_kind) or classify_call(event.action_name, event.input_data)


def _read_call(event: TraceEvent, kind: StepKind) -> tuple[int, bytes | None]:
    """Return the number of a call, and its canonical arguments if they had to be encoded for it."""
    args = event.input_data
    if isinstance(args, dict):
        meant = args
        if len(args) > 1:
            if "command" in args:
                kind = "look"  # what stands beside a command explains it, whatever the command does
            asides = _find_asides(tuple(args), kind)
            if asides:
                meant = {name: value for name, value in args.items() if name not in asides}
            meant = _drop_inner_asides(meant, kind)
        elif _is_handoff(event.action_name) and _is_aside(next(iter(args), ""), "look"):
            meant = {}  # who is handed over to is in the name, and why is no other call
        url = meant.get("url")
        if isinstance(url, str) and "?" in url and _VOLATILE_PARAMETER.search(url):
            meant = {**meant, "url": _VOLATILE_PARAMETER.sub("", url)}
        if meant is not args:
            return hash_call(event.action_name, encode_canonical(meant)), None
    if event.call_hash:
        return event.call_hash, None
    encoded = encode_canonical(args)
    return hash_call(event.action_name, encoded), encoded[:_MAX_ARGUMENT_BYTES]
