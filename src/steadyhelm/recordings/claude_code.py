"""Read Claude Code transcripts: sessions as JSON Lines, their sub-agents kept apart as runs of their own.

The format is internal to that program and changes; whatever is not understood is passed over.
"""

import re
from typing import Any, ClassVar, Final

from steadyhelm.recordings.content import as_list, as_object, as_text, take_reply, take_results, words_of
from steadyhelm.recordings.run_entries import Notes, number
from steadyhelm.recordings.transcript import Transcript
from steadyhelm.recordings.transcript_reader import TranscriptReader, moment

AGENT: Final = "claude-code"
SUBAGENT: Final = "claude-code/subagent"

_SPOKEN: Final = frozenset({"user", "assistant", "system", "attachment"})
# Bookkeeping: titles, modes, queues, snapshots, progress that the lines of the sub-agents repeat.
_UNSPOKEN: Final = frozenset(
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
_INTERRUPTED: Final = "[Request interrupted by user"
_REJECTED: Final = "The user doesn't want to proceed with this tool use"
_SAID: Final = "To tell you how to proceed, the user said:\n"
_CONTINUED: Final = "This session is being continued from a previous conversation"
_HARNESS: Final = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|task-|user-prompt-submit-hook|user-memory-input"
    r"|teammate-message|ide_|new-diagnostics)|Caveat: The messages below|Stop hook feedback:"
    r"|Base directory for this skill:)"
)
_CALLED_PROMPT: Final = re.compile(
    r"\s*<command-message>.*?<command-name>\s*(.*?)\s*</command-name>"
    r"(?:.*?<command-args>\s*(.*?)\s*</command-args>)?",
    re.DOTALL,
)
_PROMPT_LOOKED_AT: Final = 8192
_USAGE: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class ClaudeCode(TranscriptReader):
    """Reads a session, also one that is still going on.

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
    def recognises(value: Any) -> bool:
        """Whether this is a line of a session."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind in ("user", "assistant"):
            return isinstance(line.get("message"), dict)
        return (kind in _SPOKEN or kind in _UNSPOKEN) and any(key in line for key in _SESSION_KEYS)

    def take(self, value: Any) -> None:
        """Hand a line to the session it is of, or to the sub-agent's run."""
        line = as_object(value)
        kind = as_text(line.get("type"))
        if kind not in _SPOKEN:
            if kind not in _UNSPOKEN:
                self._pass_over("the line type", line.get("type"))
            return
        uuid = as_text(line.get("uuid"))
        # A session that is taken up again may repeat what was written before.
        if uuid in self._uuids:
            return
        if uuid is not None:
            self._uuids.add(uuid)
        run = self._run_of(line)
        t = moment(line.get("timestamp"))
        if kind == "assistant":
            self._assistant(run, line, t)
        elif kind == "user":
            _user(run, line, t)
        elif kind == "system":
            _system(run, line, t)
        else:
            _attachment(run, as_object(line.get("attachment")), t)

    def _run_of(self, line: dict[str, Any]) -> Transcript:
        session = as_text(line.get("sessionId")) or as_text(line.get("session_id")) or self._session
        self._session = session
        branch = self._branch(line)
        if branch is None:
            run = self._run(session, agent_id=AGENT)
        else:
            main = session or self._name or "session"
            run = self._run(f"{main}/{branch}", agent_id=SUBAGENT, parent_run_id=main)
        run.version = as_text(line.get("version")) or run.version
        cwd = as_text(line.get("cwd"))
        if cwd is not None:
            run.metadata.setdefault("cwd", cwd)
        return run

    def _branch(self, line: dict[str, Any]) -> str | None:
        """Which sub-agent a line is of; older sessions tell only by the line it follows."""
        parent_call = as_text(line.get("parent_tool_use_id"))
        if line.get("isSidechain") is not True:
            return parent_call
        uuid, parent = as_text(line.get("uuid")), as_text(line.get("parentUuid"))
        branch = as_text(line.get("agentId")) or parent_call or self._branches.get(parent or "")
        branch = branch or uuid or "sidechain"
        if uuid is not None:
            self._branches[uuid] = branch
        return branch

    def _assistant(self, run: Transcript, line: dict[str, Any], t: float | None) -> None:
        message = as_object(line.get("message"))
        model = as_text(message.get("model"))
        if line.get("isApiErrorMessage") is True:
            words = words_of(message.get("content"))
            run.state("api_error", words, t, error=words if isinstance(words, str) else "error")
            return
        if model == "<synthetic>":
            run.state("harness", words_of(message.get("content")), t)
            return
        key = as_text(message.get("id")) or as_text(line.get("requestId")) or as_text(line.get("uuid"))
        run.reply(key, model=model, tokens=_tokens(message.get("usage")))
        content = message.get("content")
        take_reply(run, content, t, lambda kind: self._pass_over("the content block", kind))


def _tokens(usage: Any) -> int:
    """Input with its cached part, and output."""
    counts = (number(as_object(usage).get(key), key, Notes()) for key in _USAGE)
    return int(sum(count or 0 for count in counts))


def _user(run: Transcript, line: dict[str, Any], t: float | None) -> None:
    """What stands in a user's line: results of tools, words of the harness, or words of a user."""
    texts = take_results(run, as_object(line.get("message")).get("content"), t, **_about_result(run, line))
    if line.get("isCompactSummary") is True:
        run.state("compaction_summary", "\n".join(texts), t)
        return
    by_machine = line.get("isMeta") is True or not _is_human(line)
    spoken = _said_in_refusal(line)
    for text in texts:
        name = "harness" if by_machine else _harness(text)
        if name is None:
            spoken.append(_called_prompt(text) or text)
        elif text.strip():
            run.state(name, text, t)
    if any(text.strip() for text in spoken):
        run.user("\n".join(spoken), t)


def _is_human(line: dict[str, Any]) -> bool:
    """Newer versions say where a prompt came from."""
    return (
        as_object(line.get("origin")).get("kind") in (None, "human") and line.get("promptSource") != "system"
    )


def _harness(text: str) -> str | None:
    """What kind of message the harness sent in the user's place; None when the user wrote it."""
    if text.lstrip().startswith(_INTERRUPTED):
        return "interrupted"
    if text.startswith(_CONTINUED):
        return "compaction_summary"
    if _HARNESS.match(text) and _called_prompt(text) is None:
        return "harness"
    return None


def _called_prompt(text: str) -> str | None:
    """A prompt that the user called by its name, as typed; commands to the program itself begin otherwise."""
    called = _CALLED_PROMPT.match(text[:_PROMPT_LOOKED_AT])
    return f"{called[1]} {called[2] or ''}".strip() if called else None


def _about_result(run: Transcript, line: dict[str, Any]) -> dict[str, Any]:
    """What a line knows about the result in it beyond its words."""
    told = as_object(line.get("toolUseResult"))
    about: dict[str, Any] = {}
    if told.get("interrupted") is True:
        about["interrupted"] = True
    if (agent := as_text(told.get("agentId"))) is not None:
        about["child_run_id"] = f"{run.parent_run_id or run.run_id}/{agent}"
    if _is_refused(line):
        about["rejected"] = True
    return about


def _is_refused(line: dict[str, Any]) -> bool:
    told = line.get("toolUseResult")
    return isinstance(told, str) and told.removeprefix("Error: ").startswith(_REJECTED)


def _said_in_refusal(line: dict[str, Any]) -> list[str]:
    """What a user says who refuses a call; it is written into the call's result."""
    if not _is_refused(line):
        return []
    said = line["toolUseResult"].partition(_SAID)[2]
    return [said] if said.strip() else []


def _system(run: Transcript, line: dict[str, Any], t: float | None) -> None:
    """Notices of the program; only those that change something for the agent are kept."""
    subtype = line.get("subtype")
    if subtype == "compact_boundary":
        about = as_object(line.get("compactMetadata"))
        kept = {key: about[key] for key in ("trigger", "preTokens") if isinstance(about.get(key), (str, int))}
        run.state("compacted", as_text(line.get("content")), t, **kept)
    elif subtype == "api_error":
        words = as_text(line.get("content")) or as_text(as_object(line.get("error")).get("message"))
        run.state("api_error", words, t, error=words or "error")
    elif subtype == "local_command":
        run.state("harness", as_text(line.get("content")), t)


def _attachment(run: Transcript, attachment: dict[str, Any], t: float | None) -> None:
    """Of all that is attached, only what a user typed while the agent was at work is a message."""
    if attachment.get("type") != "queued_command" or attachment.get("commandMode", "prompt") != "prompt":
        return
    prompt = attachment.get("prompt")
    texts = [words_of(part) for part in (as_list(prompt) or [prompt])]
    text = "\n".join(text for text in texts if isinstance(text, str))
    if text.strip() and _harness(text) is None:
        run.user(text, t)
