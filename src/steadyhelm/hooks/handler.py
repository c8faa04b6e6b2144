"""Handle a hook event: decode it, watch the step, encode the response; no error reaches the agent."""

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from steadyhelm.errors import SettingsError, SteadyhelmError, StoreError
from steadyhelm.hooks import waiting_steps
from steadyhelm.hooks.log import write_log
from steadyhelm.hooks.request import STATUS_LINE, STEP_SUFFIX, WORK_TIMEOUT_S, Deadline, HookRequest
from steadyhelm.hooks.sessions import HookParts, HookSessions, TooManyRunsError, build_hook_parts
from steadyhelm.hooks.status_line import build_status_line
from steadyhelm.hooks.waiting_steps import WaitingStep
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.dialects import DIALECTS, HookDialect, recognise_dialect
from steadyhelm.recordings.lenient_json import repair_json
from steadyhelm.redaction import Redactor
from steadyhelm.settings import load
from steadyhelm.sink import Loss
from steadyhelm.stores import open_store
from steadyhelm.stores.sql_store import SQLStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steadyhelm.recordings.hook_events.hook_step import HookAnswer, HookStep
    from steadyhelm.settings import Settings

LOCK_TIMEOUT_S: Final = 0.3
"""How long to wait for a locked store; then the agent continues without a response, and the step waits."""
_RECORDING_MARGIN_S: Final = 0.25
"""What must be left of the time for the event itself while earlier steps are recorded."""
_NOT_KEPT_REASON: Final = "hook: the step could not be recorded, and payloads are not kept"
_UNREADABLE_REASON: Final = "hook: a step that waited cannot be read"
_MAX_PARTS: Final = 8
_parts: "dict[bytes, HookParts]" = {}


class _Event(NamedTuple):
    """A decoded event with everything that handles it."""

    request: HookRequest
    dialect: HookDialect
    step: "HookStep"
    settings: "Settings"
    parts: HookParts


def handle_request(request: HookRequest) -> bytes | None:
    """Return what to print: nothing without guidance, or after an error, which is logged.

    Return None when the agent's time was over before the event was handled: then nothing was done.
    The note of the event is removed when it is recorded, waits, is counted as lost, or is not to be recorded.
    """
    try:
        return _handle(request)
    except TimeoutError:
        return None
    except Exception as exc:  # noqa: BLE001 - the agent must not notice
        write_log(_name_error(exc), _redact(exc))
        count_loss(request, _name_error(exc))
        return b""


def _try_to_record(event: _Event, request: HookRequest) -> "HookAnswer | None":
    """Return the answer to an event; None where it waits on disk, because the store is not free."""
    try:
        return _record_event(event)
    except (StoreError, TimeoutError) as exc:
        if isinstance(exc, TimeoutError) and not request.is_late:
            raise
        write_log(_name_error(exc), _redact(exc))
        _keep_step(event)
        return None


def _handle(request: HookRequest) -> bytes:
    command, agent, mode = _parse_options(request.arguments)
    settings = load({"mode": mode}).settings
    if settings.disabled:
        request.remove_note()
        return b"steadyhelm: off" if command == STATUS_LINE else b""
    payload = _decode_payload(request.body)
    if command == STATUS_LINE:
        timeout_s = min(LOCK_TIMEOUT_S, request.deadline.get_left_s())
        name = _get_parts(settings).capture.name(claude_code.AGENT)
        return build_status_line(payload, settings, agent=name, timeout_s=timeout_s)
    event = _read_event(request, agent, payload, settings)
    if event is None:
        request.remove_note()
        return b""
    answer = _try_to_record(event, request)
    if answer is None:
        return b""
    said = event.dialect.write(event.step, answer) if answer.words or answer.note else {}
    return msgspec.json.encode(said) if said else b""


def _record_event(event: _Event) -> "HookAnswer":
    """Record the steps that wait, while there is time, and this one."""
    request = event.request
    with _open_store(event.settings, request.deadline) as store:
        record_waiting(event.parts, store, request.deadline)
        sessions = HookSessions(event.parts, event.dialect, store, _make_clock(request))
        answer = sessions.handle(
            event.step,
            late=request.is_late,
            token=request.token,
            noted=waiting_steps.list_tokens(),
            deadline=request.deadline,
        )
        request.remove_note()
    return answer


def _read_event(
    request: HookRequest, agent: str, payload: dict[str, Any], settings: "Settings"
) -> _Event | None:
    """Return the event; None for one of a newer agent, which is not needed."""
    dialect = DIALECTS[agent] if agent else recognise_dialect(payload)
    step = dialect.read(payload)
    if step.kind == "other":
        return None
    if not step.session_id:
        raise SettingsError("The event names no session.")
    return _Event(request, dialect, step, settings, _get_parts(settings))


def _make_clock(request: HookRequest) -> "Callable[[], float]":
    """Return the clock of an event: it happened when it came, also when it is recorded later."""
    at = request.at
    return (lambda: at) if request.is_late else time.time


# Steps that wait.


def _keep_step(event: _Event) -> None:
    """Let the step wait on disk. Where that is not possible its note stays, and a later hook counts it."""
    capture, database = event.parts.capture, str(event.settings.database)
    waiting = WaitingStep(database=database, at=event.request.at, loss=_NOT_KEPT_REASON)
    if capture.keeps_text:
        step = waiting_steps.redact_step(event.step, capture)
        waiting = WaitingStep(database=database, at=event.request.at, agent=event.dialect.agent, step=step)
    problem = waiting_steps.put_step(event.request, waiting)
    if problem or waiting.loss:
        write_log(problem or waiting.loss)
    if not problem:
        event.request.remove_note()


def record_waiting(parts: HookParts, store: SQLStore, deadline: Deadline, patience_s: float = 0.0) -> None:
    """Record the steps that wait for this database, in order, while there is time; count those lost.

    Another process may be at it: wait at most `patience_s` for it.
    """
    if not waiting_steps.list_due():
        return
    with waiting_steps.hold_folder(patience_s) as is_holder:
        for name in waiting_steps.list_due() if is_holder else ():
            if deadline.get_left_s() < _RECORDING_MARGIN_S:
                return
            if name.endswith(STEP_SUFFIX):
                _record_one(name, parts, store)
            else:
                _count_note(name, store)


def _record_one(name: str, parts: HookParts, store: SQLStore) -> None:
    waiting = waiting_steps.read_step(name)
    if waiting is not None and waiting.database != str(parts.settings.database):
        return
    if waiting is None or (waiting.step is not None and waiting.agent not in DIALECTS):
        _count_one(name, _UNREADABLE_REASON, store)
        return
    if waiting.step is None:
        _count_one(name, waiting.loss, store)
        return
    at = waiting.at
    sessions = HookSessions(parts, DIALECTS[waiting.agent], store, clock=lambda: at)
    try:
        token = waiting_steps.read_token(name)
        sessions.handle(waiting.step, late=True, token=token, noted=waiting_steps.list_tokens())
    except StoreError:
        raise
    except Exception as exc:  # noqa: BLE001 - it must not keep later steps from being recorded
        write_log(_name_error(exc), _redact(exc))
        _count_one(name, _name_error(exc), store)
    else:
        waiting_steps.remove(name)


def _count_note(name: str, store: SQLStore) -> None:
    if waiting_steps.has_step(name):
        waiting_steps.remove(name)
    else:
        _count_one(name, waiting_steps.LOST_REASON, store)


def _count_one(name: str, reason: str, store: SQLStore) -> None:
    _write_loss(store, reason, time.time(), waiting_steps.read_token(name))
    waiting_steps.remove(name)


def _write_loss(store: SQLStore, reason: str, at: float, token: str) -> None:
    """Count a step as lost, unless it was recorded or counted before its process ended."""
    with store.transaction():
        if not store.is_accounted(token):
            store.write([Loss(reason, 1, at, token)])


def record_rest(timeout_s: float = _RECORDING_MARGIN_S) -> None:
    """Record the steps that still wait, when no agent does, within that time once the store is free.

    Wait at most as long for the store, and for another process that records them.
    """
    with contextlib.suppress(Exception):
        settings = load().settings
        if waiting_steps.list_due():
            with _open_store(settings, Deadline(timeout_s), lock_timeout_s=timeout_s) as store:
                until = Deadline(2 * timeout_s + _RECORDING_MARGIN_S)
                record_waiting(_get_parts(settings), store, until, patience_s=timeout_s)


def send_alerts(*, stays: bool) -> None:
    """Send the alerts and the questions for a judge that wait, when no agent does.

    `stays` says whether this process goes on after that: one that ends asks nobody.
    """
    for parts in list(_parts.values()):
        with contextlib.suppress(Exception):
            parts.alerts.send(stays=stays)
        with contextlib.suppress(Exception):
            parts.judging.send(stays=stays)


# Errors.


def count_loss(request: HookRequest, reason: str) -> None:
    """Count a step as lost; when the store cannot be used, the count waits on disk, as its note at least."""
    if not request.is_step:
        return
    with contextlib.suppress(Exception):
        settings = load().settings
        try:
            with _open_store(settings, Deadline(LOCK_TIMEOUT_S)) as store:
                _write_loss(store, reason, request.at, request.token)
        except (StoreError, TimeoutError):
            waiting = WaitingStep(database=str(settings.database), at=request.at, loss=reason)
            if waiting_steps.put_step(request, waiting):
                return
        request.remove_note()


def _redact(exc: object) -> str:
    return Redactor().redact_text(str(exc)) if str(exc) else ""


def _name_error(exc: Exception) -> str:
    """Return a reason short enough to count errors by."""
    if isinstance(exc, TooManyRunsError):
        return "hook: the session was resumed too often"
    if isinstance(exc, SettingsError):
        return "hook: an option, a setting or the event is invalid"
    if isinstance(exc, SteadyhelmError | TimeoutError):
        return "hook: the store cannot be used"
    if isinstance(exc, ValueError | RecursionError):
        return "hook: the event is not JSON"
    return f"hook: {type(exc).__name__}"


# The parts.


@contextlib.contextmanager
def _open_store(
    settings: "Settings", deadline: Deadline, *, lock_timeout_s: float = LOCK_TIMEOUT_S
) -> "Iterator[SQLStore]":
    deadline.require_time()
    timeout_s = min(lock_timeout_s, deadline.get_left_s())
    store = open_store(settings.database, synchronous=settings.synchronous, timeout_s=timeout_s)
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
    try:
        payload = msgspec.json.decode(body)
    except ValueError:
        payload = msgspec.json.decode(repair_json(body)[0])
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
        elif word == STATUS_LINE:
            command = word
        else:
            # What it is must not get into the log: it may be anything.
            raise SettingsError("steadyhelm hook does not know one of its options.")
    if agent and agent not in DIALECTS:
        raise SettingsError(f"--agent must be one of {', '.join(DIALECTS)}.")
    return command, agent, mode


def prune_store() -> None:
    """Remove what is older than the retention settings; called when the resident has been idle."""
    with contextlib.suppress(Exception):
        settings = load().settings
        with _open_store(settings, Deadline(WORK_TIMEOUT_S)) as store:
            payloads, runs = settings.retention_payload_days, settings.retention_run_days
            now = time.time()
            store.prune(
                payloads_before=now - payloads * 86_400 if payloads else None,
                runs_before=now - runs * 86_400 if runs else None,
            )
