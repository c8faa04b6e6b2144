"""Read Claude Code transcripts: sessions as JSON Lines, with sub-agents as runs of their own.

The format is internal to that program and changes; unknown parts are skipped and counted.
"""

import re
from typing import Any, ClassVar, Final

from steadyhelm.recordings.content import add_reply, add_results, as_list, as_object, as_text, join_text
from steadyhelm.recordings.run_builder import RunBuilder
from steadyhelm.recordings.run_entries import Notes, read_number
from steadyhelm.recordings.transcript_reader import TranscriptReader, parse_time

AGENT: Final = "claude-code"
SUBAGENT: Final = "claude-code/subagent"

_MESSAGE_TYPES: Final = frozenset({"user", "assistant", "system", "attachment"})
# Bookkeeping: titles, modes, queues, snapshots, progress that the lines of the sub-agents repeat.
_BOOKKEEPING_TYPES: Final = frozenset(
    {
        *("summary", "progress", "queue-operation", "file-history-snapshot", "file-history-delta"),
        *("ai-title", "custom-title", "agent-name", "agent-color", "agent-setting", "agent_metadata"),
        *("mode", "permission-mode", "last-prompt", "tools-used", "cost-state", "atis-latch", "tag"),
        *("api-request", "api-request-start", "api-request-end", "api-request-blob", "api-request-shape"),
        *("bridge-session", "relocated", "pr-link"),
        *("content-replacement", "history-suppression", "attribution-snapshot", "worktree-state"),
        *("result", "stream_event", "rate_limit_event"),
    }
)
_SESSION_KEYS: Final = ("sessionId", "session_id", "leafUuid", "messageId", "uuid")
_INTERRUPTED_PREFIX: Final = "[Request interrupted by user"
_REJECTED_PREFIX: Final = "The user doesn't want to proceed with this tool use"
_REFUSAL_MESSAGE_MARK: Final = "To tell you how to proceed, the user said:\n"
_CONTINUED_PREFIX: Final = "This session is being continued from a previous conversation"
_HARNESS_TEXT: Final = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|task-|user-prompt-submit-hook|user-memory-input"
    r"|teammate-message|ide_|new-diagnostics)|Caveat: The messages below|Stop hook feedback:"
    r"|Base directory for this skill:)"
)
_SLASH_COMMAND: Final = re.compile(
    r"\s*<command-message>.*?<command-name>(.*?)</command-name>"
    r"(?:.*?<command-args>(.*?)</command-args>)?",
    re.DOTALL,
)
_MAX_COMMAND_CHARACTERS: Final = 8192
_USAGE_KEYS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class ClaudeCode(TranscriptReader):
    """A reader of sessions, also of one that is still being written.

    >>> line = b'{"type": "user", "sessionId": "s", "message": {"role": "user", "content": "fix it"}}'
    >>> [event] = ClaudeCode().feed(line)
    >>> event.action_type, event.text
    ('user_message', 'fix it')
    """

    title: ClassVar[str] = "Claude Code transcript"

    def __init__(self, *, name: str = "") -> None:
        super().__init__(name=name)
        self._uuids: set[str] = set()
        self._branches: dict[str, str] = {}
        self._session: str | None = None

    @staticmethod
    def can_read(value: Any) -> bool:
        """Return whether this is a line of a session."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind in ("user", "assistant"):
            return isinstance(line.get("message"), dict)
        return (kind in _MESSAGE_TYPES or kind in _BOOKKEEPING_TYPES) and any(
            key in line for key in _SESSION_KEYS
        )

    def _is_repeated(self, uuid: str | None) -> bool:
        """Return whether a line was read before: a resumed session may repeat earlier ones."""
        if uuid in self._uuids:
            return True
        if uuid is not None:
            self._uuids.add(uuid)
        return False

    def add_line(self, value: Any) -> None:
        """Add a line to the run of its session or sub-agent."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind not in _MESSAGE_TYPES:
            if kind not in _BOOKKEEPING_TYPES:
                self._count_unknown("the line type", line.get("type"))
            return
        if self._is_repeated(as_text(line.get("uuid"))):
            return
        run = self._find_run(line)
        t = parse_time(line.get("timestamp"))
        if kind == "assistant":
            self._add_assistant(run, line, t)
        elif kind == "user":
            _add_user(run, line, t)
        elif kind == "system":
            _add_system(run, line, t)
        else:
            _add_attachment(run, as_object(line.get("attachment")), t)

    def _find_run(self, line: dict[str, Any]) -> RunBuilder:
        session = as_text(line.get("sessionId")) or as_text(line.get("session_id")) or self._session
        self._session = session
        branch = self._find_branch(line)
        if branch is None:
            run = self._get_run(session, agent_id=AGENT)
        else:
            main = session or self._name or "session"
            run = self._get_run(f"{main}/{branch}", agent_id=SUBAGENT, parent_run_id=main)
        run.version = as_text(line.get("version")) or run.version
        cwd = as_text(line.get("cwd"))
        if cwd is not None:
            run.metadata.setdefault("cwd", cwd)
        return run

    def _find_branch(self, line: dict[str, Any]) -> str | None:
        """Return the sub-agent of a line; older sessions show it only by the line it follows."""
        parent_call = as_text(line.get("parent_tool_use_id"))
        if line.get("isSidechain") is not True:
            return parent_call
        uuid, parent = as_text(line.get("uuid")), as_text(line.get("parentUuid"))
        branch = as_text(line.get("agentId")) or parent_call or self._branches.get(parent or "")
        branch = branch or uuid or "sidechain"
        if uuid is not None:
            self._branches[uuid] = branch
        return branch

    def _add_assistant(self, run: RunBuilder, line: dict[str, Any], t: float | None) -> None:
        message = as_object(line.get("message"))
        model = as_text(message.get("model"))
        if line.get("isApiErrorMessage") is True:
            words = join_text(message.get("content"))
            run.add_state("api_error", words, t, error=words if isinstance(words, str) else "error")
            return
        if model == "<synthetic>":
            run.add_state("harness", join_text(message.get("content")), t)
            return
        key = as_text(message.get("id")) or as_text(line.get("requestId")) or as_text(line.get("uuid"))
        run.begin_reply(key, model=model, tokens=_sum_tokens(message.get("usage")))
        content = message.get("content")
        add_reply(run, content, t, lambda kind: self._count_unknown("the content block", kind))


def _sum_tokens(usage: Any) -> int:
    """Return the sum of input, its cached part, and output."""
    counts = (read_number(as_object(usage).get(key), key, Notes()) for key in _USAGE_KEYS)
    return int(sum(count or 0 for count in counts))


def _add_user(run: RunBuilder, line: dict[str, Any], t: float | None) -> None:
    """Add the content of a user line: tool results, messages of the harness, or a user message."""
    texts = add_results(run, as_object(line.get("message")).get("content"), t, **_describe_result(run, line))
    if line.get("isCompactSummary") is True:
        run.add_state("compaction_summary", "\n".join(texts), t)
        return
    by_machine = line.get("isMeta") is True or not _is_human(line)
    spoken = _get_refusal_message(line)
    for text in texts:
        name = "harness" if by_machine else _classify_harness_text(text)
        if name is None:
            spoken.append(_read_slash_command(text) or text)
        elif text.strip():
            run.add_state(name, text, t)
    if any(text.strip() for text in spoken):
        run.add_user_message("\n".join(spoken), t)


def _is_human(line: dict[str, Any]) -> bool:
    """Return whether a person wrote the prompt; newer versions record where it came from."""
    return (
        as_object(line.get("origin")).get("kind") in (None, "human") and line.get("promptSource") != "system"
    )


def _classify_harness_text(text: str) -> str | None:
    """Return the kind of a message that the harness sent; None when the user wrote it."""
    if text.lstrip().startswith(_INTERRUPTED_PREFIX):
        return "interrupted"
    if text.startswith(_CONTINUED_PREFIX):
        return "compaction_summary"
    if _HARNESS_TEXT.match(text) and _read_slash_command(text) is None:
        return "harness"
    return None


def _read_slash_command(text: str) -> str | None:
    """Return a prompt that the user called by its name, as typed; None for other texts."""
    called = _SLASH_COMMAND.match(text[:_MAX_COMMAND_CHARACTERS])
    return f"{called[1].strip()} {(called[2] or '').strip()}".strip() if called else None


def _describe_result(run: RunBuilder, line: dict[str, Any]) -> dict[str, Any]:
    """Return what a line records about its result besides the text."""
    outcome = as_object(line.get("toolUseResult"))
    about: dict[str, Any] = {}
    if outcome.get("interrupted") is True:
        about["interrupted"] = True
    if (agent := as_text(outcome.get("agentId"))) is not None:
        about["child_run_id"] = f"{run.parent_run_id or run.run_id}/{agent}"
    if _is_refused(line):
        about["rejected"] = True
    return about


def _is_refused(line: dict[str, Any]) -> bool:
    outcome = line.get("toolUseResult")
    return isinstance(outcome, str) and outcome.removeprefix("Error: ").startswith(_REJECTED_PREFIX)


def _get_refusal_message(line: dict[str, Any]) -> list[str]:
    """Return the message of a user who refused a call; it is part of the call's result."""
    if not _is_refused(line):
        return []
    said = line["toolUseResult"].partition(_REFUSAL_MESSAGE_MARK)[2]
    return [said] if said.strip() else []


def _add_system(run: RunBuilder, line: dict[str, Any], t: float | None) -> None:
    """Add a notice of the program if it changes something for the agent."""
    subtype = line.get("subtype")
    if subtype == "compact_boundary":
        about = as_object(line.get("compactMetadata"))
        kept = {key: about[key] for key in ("trigger", "preTokens") if isinstance(about.get(key), (str, int))}
        run.add_state("compacted", as_text(line.get("content")), t, **kept)
    elif subtype == "api_error":
        words = as_text(line.get("content")) or as_text(as_object(line.get("error")).get("message"))
        run.add_state("api_error", words, t, error=words or "error")
    elif subtype == "local_command":
        run.add_state("harness", as_text(line.get("content")), t)


def _add_attachment(run: RunBuilder, attachment: dict[str, Any], t: float | None) -> None:
    """Add what a user typed while the agent was working; ignore other attachments."""
    if attachment.get("type") != "queued_command" or attachment.get("commandMode", "prompt") != "prompt":
        return
    prompt = attachment.get("prompt")
    texts = [join_text(part) for part in (as_list(prompt) or [prompt])]
    text = "\n".join(text for text in texts if isinstance(text, str))
    if text.strip() and _classify_harness_text(text) is None:
        run.add_user_message(text, t)
