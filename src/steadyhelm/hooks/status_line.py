"""The status line: how the session is doing, in one short line of harmless text."""

from typing import TYPE_CHECKING, Any, Final

from steadyhelm.errors import SteadyhelmError
from steadyhelm.recordings.hook_events import claude_code
from steadyhelm.recordings.hook_events.hook_step import get_id, get_number
from steadyhelm.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.store import RunRow, RunStore

_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000
_TIMES_TAKEN_UP: Final = 50


def line(payload: dict[str, Any], settings: "Settings") -> bytes:
    """The line for one session."""
    session = get_id(payload, "session_id")
    if not session or not settings.database.exists():
        return b"steadyhelm: watching"
    store = SQLiteStore(settings.database, read_only=True, timeout_s=0.5)
    try:
        run = _latest(store, session)
        if run is None:
            return b"steadyhelm: watching"
        incidents = store.list_incidents(run.agent_id, run.run_id, limit=100)
    finally:
        store.close()
    going_on = sorted({incident.kind for incident in incidents if incident.state == "open"})
    parts = [f"drifting: {', '.join(going_on)}" if going_on else "on course", f"{run.tool_calls} calls"]
    if incidents:
        parts.append(f"{len(incidents)} incident{'s' if len(incidents) > 1 else ''}")
    tokens = run.tokens or _told_tokens(payload)
    if tokens:
        parts.append(f"{short(tokens)} tokens")
    words = f"steadyhelm: {' · '.join(parts)}"
    return "".join(it for it in words if it.isprintable()).encode("utf-8", "replace")


def short(count: float) -> str:
    """A count as a person reads it.

    >>> short(950), short(12_300), short(2_500_000)
    ('950', '12k', '2.5M')
    """
    if count >= _MILLION:
        return f"{count / _MILLION:.1f}M"
    return f"{count / _THOUSAND:.0f}k" if count >= _THOUSAND else f"{count:.0f}"


def _latest(store: "RunStore", session: str) -> "RunRow | None":
    found = None
    for n in range(1, _TIMES_TAKEN_UP):
        run_id = session if n == 1 else f"{session}~{n}"
        try:
            row = store.find_run(run_id, agent_id=claude_code.AGENT)
        except SteadyhelmError:
            return found
        if row.run_id != run_id:
            return found
        found = row
    return found


def _told_tokens(payload: dict[str, Any]) -> float:
    window = payload.get("context_window")
    if not isinstance(window, dict):
        return 0.0
    return get_number(window, "total_input_tokens") + get_number(window, "total_output_tokens")
