"""Keep steps that could not be recorded while the agent waited, without secrets, until a hook can do it.

A step cannot be turned into events without its session, which is in the store: so the step itself waits.
Each is a file of its own, named by the time it came and its token: no process waits for another to write one,
and a step that two processes keep is kept once.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from steadyhelm.engine.capture import Capture
from steadyhelm.hooks.request import (
    LATE_TIMEOUT_S,
    OPEN_SUFFIX,
    STEP_SUFFIX,
    Deadline,
    HookRequest,
    get_steps_folder,
    try_lock,
)
from steadyhelm.recordings.hook_events.hook_step import BatchCall, HookStep

VERSION: Final = 1
LOST_REASON: Final = "hook: the process that handled the event was ended"
_FULL_REASON: Final = "hook: too many steps wait to be recorded"
_MAX_STEPS: Final = 1000
_MAX_STEP_BYTES: Final = 1 << 20
_NOTE_LOCKED_WITHIN_S: Final = 5.0
"""A note that is older and not locked is of an event whose processes have ended."""
_OPEN_KEPT_S: Final = 2 * LATE_TIMEOUT_S
"""The same where files cannot be locked: their alarm has ended the processes at work on it."""
_HOLD_PAUSE_S: Final = 0.02
_DELETE_PATIENCE_S: Final = 10.0
_RESUMED: Final = re.compile(r"~\d+$")
"""What is added to the id of a run for each time its session is resumed."""


class WaitingStep(Struct, frozen=True, kw_only=True):
    """A step that waits: when it came, of which agent, and for which database.

    Without a step it is a loss to count, with its reason.
    """

    version: int = VERSION
    database: str
    at: float
    agent: str = ""
    step: HookStep | None = None
    loss: str = ""


def _redact_call(call: BatchCall, capture: Capture) -> BatchCall:
    told = capture.text(call.told)
    return structs.replace(call, tool=capture.text(call.tool), args=capture.plain(call.args), told=told)


def redact_step(step: HookStep, capture: Capture) -> HookStep:
    """Return the step without secrets, as it may be written to disk."""
    transcript = capture.text(step.transcript)
    return structs.replace(
        step,
        text=capture.text(step.text),
        tool=capture.text(step.tool),
        args=capture.plain(step.args),
        result=capture.plain(step.result),
        error=None if step.error is None else capture.text(step.error),
        calls=tuple(_redact_call(call, capture) for call in step.calls),
        transcript=transcript if transcript == step.transcript else "",
    )


def put_step(request: HookRequest, waiting: WaitingStep) -> str:
    """Write the step to disk; return why that was not possible, empty when it was."""
    folder = Path(get_steps_folder())
    fresh = folder / f".{request.name}.{os.getpid()}.new"
    content = msgspec.msgpack.encode(waiting)
    if len(content) > _MAX_STEP_BYTES:
        return "hook: the step is too large to wait"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if count_waiting() >= _MAX_STEPS:
            return _FULL_REASON
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        fresh.replace(folder / f"{request.name}{STEP_SUFFIX}")
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        return "hook: a step could not be kept"
    return ""


def list_names() -> list[str]:
    """Return the names of all files that wait, oldest first."""
    try:
        return sorted(os.listdir(get_steps_folder()))  # noqa: PTH208 - a Path for each is not needed
    except OSError:
        return []


def list_tokens() -> list[str]:
    """Return the tokens of all events that have a note or wait as a step."""
    return [read_token(name) for name in list_names()]


def list_due() -> list[str]:
    """Return the names of the steps that wait and of the notes of lost ones, oldest first."""
    return [name for name in list_names() if name.endswith(STEP_SUFFIX) or is_lost(name)]


def count_waiting() -> int:
    """Return how many steps wait to be recorded."""
    return sum(name.endswith(STEP_SUFFIX) for name in list_names())


@contextlib.contextmanager
def hold_folder(patience_s: float) -> Iterator[bool]:
    """Hold the steps that wait, so that only one process records them; yield whether it is this one.

    Wait at most `patience_s` while another process holds them.
    """
    until = Deadline(patience_s)
    try:
        folder = os.open(get_steps_folder(), os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        while (is_locked := try_lock(folder)) is False and not until.has_passed():
            time.sleep(_HOLD_PAUSE_S)
        yield bool(is_locked)
    finally:
        os.close(folder)


def read_step(name: str) -> WaitingStep | None:
    """Return a step that waits; None when it cannot be read."""
    try:
        content = (Path(get_steps_folder()) / name).read_bytes()
        waiting = msgspec.msgpack.decode(content, type=WaitingStep)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return waiting if waiting.version == VERSION else None


def _read_age_s(name: str) -> float | None:
    """Return how old a file is by the time in its name; None where there is none."""
    digits = name.partition("-")[0]
    return time.time() - int(digits) / 1e6 if digits.isdigit() else None


def is_lost(name: str) -> bool:
    """Return whether this file is the note of an event whose processes ended before it was done."""
    age_s = _read_age_s(name) if name.endswith(OPEN_SUFFIX) else None
    if age_s is None or age_s < _NOTE_LOCKED_WITHIN_S:
        return False
    try:
        file = os.open(f"{get_steps_folder()}/{name}", os.O_RDONLY)
    except OSError:
        return False
    try:
        is_free = try_lock(file)
        is_done = os.fstat(file).st_nlink == 0  # while the lock was tried
    finally:
        os.close(file)
    return not is_done and (age_s > _OPEN_KEPT_S if is_free is None else is_free)


def has_step(note: str) -> bool:
    """Return whether the step of this note waits: its process was ended before it removed the note."""
    return (Path(get_steps_folder()) / f"{note.removesuffix(OPEN_SUFFIX)}{STEP_SUFFIX}").exists()


def remove(name: str) -> None:
    """Remove a file that waits; with a step its note, which is left when its process was ended in between."""
    for file in (name.removesuffix(STEP_SUFFIX) + OPEN_SUFFIX, name):
        with contextlib.suppress(OSError):
            (Path(get_steps_folder()) / file).unlink()


def delete_steps(database: str, capture: Capture, agent_id: str, run_id: str | None = None) -> int:
    """Delete the steps of an agent, or of one of its runs, that wait for this database; return how many.

    A session that was resumed has several runs. To which of them a step belongs is known when it is recorded:
    the steps of the whole session are deleted.
    """
    run_ids = {run_id, _RESUMED.sub("", run_id or "")}
    deleted = 0
    with hold_folder(_DELETE_PATIENCE_S):
        for name, agent, run in _list_runs(database, capture):
            if agent == agent_id and (run_id is None or run in run_ids):
                remove(name)
                deleted += 1
    return deleted


def find_agents(database: str, capture: Capture, run_id: str | None = None) -> list[str]:
    """Return the agents with steps that wait for this database, of this run or of any."""
    waiting = _list_runs(database, capture)
    return sorted({agent for _, agent, run in waiting if run_id is None or run == run_id})


def _list_runs(database: str, capture: Capture) -> list[tuple[str, str, str]]:
    """Return the file, the agent and the run of each step that waits for this database."""
    found = []
    for name in list_names():
        waiting = read_step(name) if name.endswith(STEP_SUFFIX) else None
        if waiting is not None and waiting.step is not None and waiting.database == database:
            agent = capture.name(waiting.step.get_agent(waiting.agent))
            found.append((name, agent, waiting.step.run_id))
    return found


def read_token(name: str) -> str:
    """Return the token in the name of a file.

    >>> read_token("01763245600000000-1a2b3c4d.step")
    '1a2b3c4d'
    """
    return name.partition("-")[2].partition(".")[0]
