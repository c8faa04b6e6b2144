"""Build the status line: the state of a session in one short line of safe text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from steadyhelm.errors import SteadyhelmError
from steadyhelm.hooks.sessions import MAX_RUNS_PER_SESSION
from steadyhelm.incidents import Incident
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.hook_step import get_id, get_number
from steadyhelm.stores import open_store

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.store import RunStore
    from steadyhelm.store_rows import StoredRun

_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000


def build_status_line(
    payload: dict[str, Any], settings: "Settings", *, agent: str = claude_code.AGENT, timeout_s: float = 0.3
) -> bytes:
    """Return the line for one session of this agent; wait at most that long for a locked store."""
    session = get_id(payload, "session_id")
    if not session or not settings.database.may_exist():
        return b"steadyhelm: watching"
    store = open_store(settings.database, read_only=True, timeout_s=timeout_s)
    try:
        run = _find_latest_run(store, session, agent)
        if run is None:
            return b"steadyhelm: watching"
        incidents = store.list_incidents(run.agent_id, run.run_id, limit=100)
    finally:
        store.close()
    words = f"steadyhelm: {' · '.join(_describe(run, incidents, run.tokens or _read_tokens(payload)))}"
    return "".join(it for it in words if it.isprintable()).encode("utf-8", "replace")


def format_count(count: float) -> str:
    """Return a count as a person reads it.

    >>> format_count(950), format_count(12_300), format_count(2_500_000)
    ('950', '12k', '2.5M')
    """
    if count >= _MILLION:
        return f"{count / _MILLION:.1f}M"
    return f"{count / _THOUSAND:.0f}k" if count >= _THOUSAND else f"{count:.0f}"


def _find_latest_run(store: "RunStore", session: str, agent: str) -> "StoredRun | None":
    found = None
    for n in range(1, MAX_RUNS_PER_SESSION + 1):
        run_id = session if n == 1 else f"{session}~{n}"
        try:
            row = store.find_run(run_id, agent_id=agent)
        except SteadyhelmError:
            return found
        if row.run_id != run_id:
            return found
        found = row
    return found


def _read_tokens(payload: dict[str, Any]) -> float:
    window = payload.get("context_window")
    if not isinstance(window, dict):
        return 0.0
    return get_number(window, "total_input_tokens") + get_number(window, "total_output_tokens")


def _describe(run: "StoredRun", incidents: "Sequence[Incident]", tokens: float) -> "Iterator[str]":
    """Yield what the line says: what goes on, and how much was done."""
    going_on = sorted({incident.kind for incident in incidents if incident.state == "open"})
    yield f"drifting: {', '.join(going_on)}" if going_on else "on course"
    yield f"{run.tool_calls} calls"
    if incidents:
        yield f"{len(incidents)} incident{'s' if len(incidents) > 1 else ''}"
    if tokens:
        yield f"{format_count(tokens)} tokens"
