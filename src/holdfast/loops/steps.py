"""One tool call as the loop patterns see it: what kind of step, what was asked, what came back."""

import functools
import re
from typing import Any, Final, Literal

from holdfast.events import TraceEvent
from holdfast.fingerprints import call_hash, canonical, fingerprint, text_hash
from holdfast.noise import alike, skeleton, stable

StepKind = Literal["work", "look", "wait", "plan"]

DECLARED: Final[dict[str, StepKind]] = {"poll": "wait", "read": "look", "write": "work", "idempotent": "look"}

SAMPLE: Final = 600
_HEAD: Final = 400
_FAILURE_WITHIN: Final = 240
_FAILURE_AT_END: Final = 120
_SHORT: Final = 200
_SAME_SIZE: Final = 16
_ASKED: Final = 2048

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

_EDITOR: Final = {
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
_WAITING: Final = re.compile(
    r"still running|status\W{1,6}running\b|running\.\.\.|no new output|no output yet|in[ _-]progress"
    r"|not ready|pending|please wait|queued",
    re.IGNORECASE,
)
_OUTAGE: Final = re.compile(
    r"\b(?:429|502|503|504|529)\b|rate.?limit|too many requests|overloaded|quota|at capacity"
    r"|temporarily unavailable|service unavailable|timed? ?out|timeout|connection (?:refused|reset|aborted)",
    re.IGNORECASE,
)
_FAILED: Final = re.compile(
    r"^\W*(?:error|traceback|fatal|exception|failure|failed)\b|\b(?:error|exception|failure):"
    r"|traceback \(most recent|no replacement was performed|command not found|permission denied"
    r"|no such file|returned: (?:error|failure)|is not recognized"
    # What test runners and tracebacks say: "E   AssertionError: 1 != 2", "1 failed, 2 passed".
    r"|(?m:^(?:e +)?[\w.]*(?:error|exception): )|\b[1-9]\d* failed\b"
)
_SIBLING: Final = "sibling tool call"
# Words that only explain a call, or say how long to wait for it: they do not make it another call.
_ASIDE: Final = frozenset(
    {"description", "reason", "explanation", "rationale", "justification", "purpose", "comment", "thought",
     "intent", "timeout", "request_id", "tool_call_id"}
)  # fmt: skip
_QUOTED: Final = re.compile(r"\{[^}]*\}|'[^']*'|\"[^\"]*\"|`[^`]*`|https?://\S+")
_ERROR_LENGTH: Final = 200


class Step:
    """One tool call, read once however many patterns look at it."""

    __slots__ = (
        *("_asked", "call", "event", "failed", "is_work_done", "kind"),
        *("known", "outage", "raw", "sample", "size"),
    )

    def __init__(self, event: TraceEvent) -> None:
        prints = fingerprint(event)
        text = event.error or result_text(event.output_data)
        self.event = event
        self._asked: bytes | None = None
        self.call = _call(event, prints.call)
        self.raw = prints.result
        self.size = len(text)
        self.sample = text if len(text) <= SAMPLE else text[:_HEAD] + text[_HEAD - SAMPLE :]
        self.known = event.output_data is not None or event.error is not None
        self.failed = _looks_failed(_ends(text), told=event.error is not None)
        self.outage = self.failed and _OUTAGE.search(text, 0, _HEAD) is not None
        self.kind: StepKind = (
            DECLARED[event.tool_kind]
            if event.tool_kind in DECLARED
            else kind_of(event.action_name, event.input_data)
        )
        if self.kind == "look" and 0 < self.size < _SHORT and _WAITING.search(text):
            self.kind = "wait"
        # Whether it changed something, as far as can be told.
        self.is_work_done = self.kind == "work" and self.known and not self.failed

    @property
    def asked(self) -> bytes:
        """Its arguments as canonical text, as much of it as tells calls apart."""
        if self._asked is None:
            self._asked = canonical(self.event.input_data)[:_ASKED]
        return self._asked

    @property
    def is_real_failure(self) -> bool:
        """Whether it failed by its own fault: an outage is nobody's, and waiting is no attempt."""
        return self.failed and self.known and not self.outage and self.kind != "wait"

    def had_seen(self, seq: int) -> bool:
        """Whether the agent had seen the event at that place when it made this call."""
        started = self.event.started_seq
        return started is None or started > seq


_last: tuple[TraceEvent, Step] | None = None


def read_step(event: TraceEvent) -> Step:
    """The event as a step; the latest one is kept, since several patterns ask for it in turn."""
    global _last  # noqa: PLW0603 - a memo of a pure function: a race costs a second reading, nothing else
    known = _last
    if known is not None and known[0] is event:
        return known[1]
    step = Step(event)
    _last = (event, step)
    return step


def kind_of(name: str, args: Any) -> StepKind:
    """What kind of step a call is, by its tool's name and its arguments.

    >>> kind_of("Bash", {"command": "git commit -m fix"}), kind_of("Bash", {"command": "git log"})
    ('work', 'look')
    >>> kind_of("str_replace_editor", {"command": "view", "path": "a.py"}), kind_of("TodoWrite", {})
    ('look', 'plan')
    """
    by_name = _kind_of_name(name)
    if by_name == "plan":
        return "plan"
    command = _command(args)
    if command is not None:
        return _kind_of_command(command)
    if by_name != "look":
        return by_name
    doing = _verb(args)
    return "wait" if doing in _WAIT_WORDS else "work" if doing in _WORK_WORDS else "look"


@functools.lru_cache(maxsize=512)
def _kind_of_name(name: str) -> StepKind:
    words = {word.lower() for word in _NAME.findall(name[:100])}
    if words & _PLAN_WORDS:
        return "plan"
    if words & _WAIT_WORDS:
        return "wait"
    return "work" if words & _WORK_WORDS else "look"


def result_text(output: Any) -> str:
    """The words of a result."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict) and len(output) == 1:
        (only,) = output.values()
        if isinstance(only, str):
            return only
    return canonical(output).decode("utf-8", "replace")


def same_outcome(raw: int, sample: str, size: int, step: Step) -> bool:
    """Whether a step came back with what was seen before, volatile noise aside."""
    if raw == step.raw:
        return True
    # The patterns are costly: they are tried only on texts of about the same size.
    return abs(size - step.size) <= _SAME_SIZE and sample != "" and alike(sample, step.sample)


def error_key(text: str) -> int:
    """A number for an error, without what it quotes: the same complaint about other arguments is the same."""
    return text_hash(
        skeleton(stable(_QUOTED.sub("~", text[:SAMPLE])))[:_ERROR_LENGTH].encode("utf-8", "replace")
    )


def _ends(text: str) -> str:
    """The beginning and the end of a text, where it says how it went."""
    if len(text) <= _FAILURE_WITHIN + _FAILURE_AT_END:
        return text
    return f"{text[:_FAILURE_WITHIN]}\n{text[-_FAILURE_AT_END:]}"


def _looks_failed(ends: str, *, told: bool) -> bool:
    """Whether a result tells of a failure; a call that failed only because its sibling did is none."""
    lowered = ends.lower()
    if told:
        return _SIBLING not in lowered
    # Plain searches first, written out: most results hold none of these, and the pattern costs more.
    suspicious = (
        "error" in lowered
        or "fail" in lowered
        or "exception" in lowered
        or "traceback" in lowered
        or "fatal" in lowered
        or "denied" in lowered
        or "no such" in lowered
        or "not found" in lowered
        or "no replacement" in lowered
        or "not recognized" in lowered
    )
    return suspicious and _FAILED.search(lowered) is not None


def _kind_of_command(command: str) -> StepKind:
    if command in _EDITOR:
        return "work" if _EDITOR[command] == "work" else "look"
    if ("sleep" in command or "wait" in command) and _SHELL_WAIT.search(command):
        return "wait"
    if ">" in command and _REDIRECTED.search(command):
        return "work"
    return "work" if any(_changes_something(part) for part in _SHELL_PARTS.split(command)) else "look"


def _changes_something(part: str) -> bool:
    words = part.split(None, 3)
    if words and words[0] == "sudo":
        words = words[1:]
    if not words:
        return False
    return words[0] in _SHELL_WORK or (len(words) > 1 and words[1] in _SHELL_WORK_OF.get(words[0], ()))


def _command(args: Any) -> str | None:
    if not isinstance(args, dict):
        return None
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return command if isinstance(command, str) else None


def _verb(args: Any) -> str | None:
    """What a tool of many trades is told to do."""
    if not isinstance(args, dict):
        return None
    for name in ("action", "op", "operation", "method", "mode"):
        if isinstance(args.get(name), str):
            return str(args[name]).lower()
    return None


def _call(event: TraceEvent, known: int) -> int:
    """The call without the words that only explain it."""
    args = event.input_data
    if not isinstance(args, dict) or _ASIDE.isdisjoint(args):
        return known
    meant = {name: value for name, value in args.items() if name not in _ASIDE}
    return call_hash(event.action_name, canonical(meant))
