"""Handle a hook event: decode it, watch the step, encode the response; no error reaches the agent."""

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from steadyhelm.components import open_store
from steadyhelm.errors import SettingsError, SteadyhelmError, StoreError
from steadyhelm.hooks.sessions import HookParts, HookSessions, build_hook_parts
from steadyhelm.hooks.status_line import status_line
from steadyhelm.recordings.hook_events.dialects import DIALECTS, HookDialect, recognise_dialect
from steadyhelm.replay import with_soft_limits
from steadyhelm.settings import home, load
from steadyhelm.sink import Loss
from steadyhelm.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steadyhelm.settings import Settings

LOG_NAME: Final = "hook.log"
LOCK_TIMEOUT_S: Final = 1.0
"""How long to wait for a locked store; then the agent continues without a response."""
_MAX_LOG_BYTES: Final = 256 << 10
_MAX_PARTS: Final = 8
_parts: "dict[bytes, HookParts]" = {}


def handle_event(arguments: "Sequence[str]", body: bytes, *, late: bool = False) -> bytes:
    """Return what to print: nothing without guidance, or after an error, which is logged.

    When `late`, the agent no longer waits for the response: it is kept for the session's next event.
    """
    try:
        command, agent, mode = _parse_options(arguments)
        settings = with_soft_limits(load({"mode": mode}).settings)
        if settings.disabled:
            return b"steadyhelm: off" if command == "statusline" else b""
        payload = _decode_payload(body)
        if command == "statusline":
            return status_line(payload, settings)
        dialect = DIALECTS[agent] if agent else recognise_dialect(payload)
        return _watch_step(dialect, payload, settings, late=late)
    except Exception as exc:  # noqa: BLE001 - the agent must not notice
        # A store that cannot be used cannot count the error either, and the agent is waiting.
        log_error(_error_reason(exc), exc, count=not isinstance(exc, StoreError))
        return b""


def log_error(reason: str, exc: object = "", *, count: bool = True) -> None:
    """Write an error to the log that `hook status` reads, and count it in the store."""
    with contextlib.suppress(Exception):
        path = home() / LOG_NAME
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
            path.replace(path.with_name(f"{LOG_NAME}.old"))
        words = " ".join(str(exc).split())[:500].encode("ascii", "backslashreplace").decode()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as log:
            log.write(f"{stamp} {reason}{': ' if words else ''}{words}\n")
    if not count:
        return
    with contextlib.suppress(Exception), _open_store(load().settings) as store:
        store.write([Loss(reason, 1, time.time())])


def _watch_step(dialect: HookDialect, payload: dict[str, Any], settings: "Settings", *, late: bool) -> bytes:
    step = dialect.read(payload)
    if step.kind == "other":
        # An event of a newer agent; it is not needed.
        return b""
    if not step.session_id:
        raise SettingsError("The event names no session.")
    with _open_store(settings) as store:
        answer = HookSessions(_get_parts(settings), dialect, store).handle(step, late=late)
    said = dialect.write(step, answer) if answer.words or answer.note else {}
    return msgspec.json.encode(said) if said else b""


@contextlib.contextmanager
def _open_store(settings: "Settings") -> "Iterator[SQLiteStore]":
    if not settings.database.exists():
        open_store(settings).close()
    store = SQLiteStore(settings.database, synchronous=settings.synchronous, timeout_s=LOCK_TIMEOUT_S)
    try:
        yield store
    finally:
        store.close()


def _get_parts(settings: "Settings") -> HookParts:
    """Return the parts for these settings; they are built once a process."""
    key = msgspec.msgpack.encode(settings)
    if key not in _parts:
        if len(_parts) >= _MAX_PARTS:
            _parts.clear()
        _parts[key] = build_hook_parts(settings)
    return _parts[key]


def _decode_payload(body: bytes) -> dict[str, Any]:
    # Half a surrogate pair in a text must not make the event unreadable.
    payload = msgspec.json.decode(body.decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise SettingsError(f"The event is {type(payload).__name__}, not an object.")
    return payload


def _parse_options(arguments: "Sequence[str]") -> tuple[str, str, str | None]:
    """Return the command, the agent and the mode in the arguments."""
    command, agent, mode = "", "", None
    words = [part for word in arguments for part in word.split("=", 1)]
    while words:
        word = words.pop(0)
        if word == "--agent" and words:
            agent = words.pop(0)
        elif word == "--mode" and words:
            mode = words.pop(0)
        elif word == "statusline":
            command = word
        else:
            raise SettingsError(f"steadyhelm hook does not know {word!r}.")
    if agent and agent not in DIALECTS:
        raise SettingsError(f"--agent must be one of {', '.join(DIALECTS)}, got {agent!r}.")
    return command, agent, mode


def _error_reason(exc: Exception) -> str:
    """Return a reason short enough to count errors by."""
    if isinstance(exc, msgspec.MsgspecError | RecursionError):
        return "hook: the event is not JSON"
    if isinstance(exc, SettingsError):
        return "hook: an option, a setting or the event is invalid"
    if isinstance(exc, SteadyhelmError):
        return "hook: the store cannot be used"
    return f"hook: {type(exc).__name__}"


def prune_store() -> None:
    """Remove what is older than the retention settings; called when the resident has been idle."""
    with contextlib.suppress(Exception):
        settings = load().settings
        with _open_store(settings) as store:
            payloads, runs = settings.retention_payload_days, settings.retention_run_days
            now = time.time()
            store.prune(
                payloads_before=now - payloads * 86_400 if payloads else None,
                runs_before=now - runs * 86_400 if runs else None,
            )


def read_log(folder: Path | None = None) -> list[str]:
    """Return recent errors, oldest first."""
    try:
        text = ((folder or home()) / LOG_NAME).read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.splitlines()
