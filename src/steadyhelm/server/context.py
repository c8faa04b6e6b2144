"""What the handlers of the API share."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from steadyhelm.errors import NotFoundError
from steadyhelm.people import AuditEntry
from steadyhelm.server.access import Access, Identity
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.records.settings import SettingValue
from steadyhelm.settings import Settings
from steadyhelm.stores.sql_store import SQLStore


class SentTest(Protocol):
    """How sending a test alert went."""

    @property
    def ok(self) -> bool:
        """Whether the channel took it."""

    @property
    def host(self) -> str:
        """Where it was sent."""

    @property
    def error(self) -> str:
        """Why it was not sent; empty when it was."""


class ServerContext(NamedTuple):
    """The store, the settings, and what the command line hands over.

    `list_settings` returns every setting with its origin, `send_test` sends a test alert; `settings_file` is
    the file the settings were read from, empty for none; `page_digest` names the page that is served.
    """

    store: SQLStore
    views: AgentViews
    settings: Settings
    access: Access
    list_settings: Callable[[], Iterable[SettingValue]]
    send_test: Callable[[], SentTest]
    settings_file: str = ""
    page_digest: str = ""
    is_demo: bool = False
    started_at: float = 0.0
    count_streams: Callable[[], int] = lambda: 0


class Call(NamedTuple):
    """One request to a handler: who, which object, with what."""

    context: ServerContext
    identity: Identity | None
    path: dict[str, Any]
    query: dict[str, Any]
    body: Any
    cookie: str = ""

    @property
    def store(self) -> SQLStore:
        """The store."""
        return self.context.store

    @property
    def views(self) -> AgentViews:
        """What is kept of the agents."""
        return self.context.views

    @property
    def by(self) -> str:
        """Who is named in the audit log."""
        return self.identity.by if self.identity is not None else ""

    def note(self, action: str, what: str, detail: str = "") -> None:
        """Add to the audit log what was done, to what."""
        entry = AuditEntry(at=time.time(), author=self.by, action=action, object=what, detail=detail)
        self.store.add_audit(entry)

    def find_agent(self) -> str:
        """Return the name of the agent that the path names; raises NotFoundError."""
        with self.store.reading() as connection:
            row = connection.execute(
                "SELECT agent_id FROM agents WHERE id = ?", (self.path["agent"],)
            ).fetchone()
        if row is None:
            raise NotFoundError("There is no such agent. It may have been deleted.")
        return str(row[0])
