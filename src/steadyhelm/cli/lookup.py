"""Finds what a person named on the command line."""

from typing import TYPE_CHECKING, Final

from steadyhelm.errors import NotFoundError
from steadyhelm.reports.terminal import safe

if TYPE_CHECKING:
    from steadyhelm.store import Store

_NAMED: Final = 8


def agent_named(store: "Store", name: str) -> str:
    """The agent with this name, or with the only name that begins so; raises NotFoundError."""
    known = [row.agent_id for row in store.agents()]
    if name in known:
        return name
    alike = [agent for agent in known if name and agent.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise NotFoundError(
            f"Several agents begin with {safe(name)!r}: {_listed(alike)}. Give more of the name."
        )
    if not known:
        raise NotFoundError(
            f"There is no agent {safe(name)!r}: nothing was recorded yet. "
            "`steadyhelm init` shows how to begin."
        )
    raise NotFoundError(f"There is no agent {safe(name)!r}. Known agents: {_listed(known)}.")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(safe(name, most=60) for name in names[:_NAMED]) + more
