"""What people add to a store: declarations of tools, comments, excluded runs, keys, the audit log."""

# ruff: noqa: S608 - every piece of these queries is our own text; what comes from outside is bound

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from steadyhelm.errors import NotFoundError
from steadyhelm.people import AccessKey, AuditEntry, PeopleStore, StoredComment, ToolMark
from steadyhelm.sink import to_unicode
from steadyhelm.stores.database import StorePart, note_changes, retry_if_rolled_back, retry_on_conflict
from steadyhelm.stores.reading import find_run_row_id
from steadyhelm.stores.sql import AGENT_ROW_ID, Conditions
from steadyhelm.stores.writing import UPDATE_INCIDENT_TOTALS

_SELECT_KEYS: Final = """
    SELECT name, prefix, digest, scopes, created_at, expires_at, last_used_at, id FROM api_keys ORDER BY id"""
_SELECT_AUDIT: Final = "SELECT at, author, action, object, detail, id FROM audit"


class SQLPeople(StorePart, PeopleStore):
    """What people add, in a database."""

    def list_tool_marks(self, agent_id: str) -> list[ToolMark]:
        """Return the tools of an agent that were declared on the page, by name."""
        query = (
            f"SELECT tool, kind, set_by, set_at FROM declarations WHERE agent = {AGENT_ROW_ID} ORDER BY tool"
        )
        with self._connections.reading() as connection:
            return [
                ToolMark(agent_id=agent_id, tool=tool, kind=kind, set_by=set_by, set_at=set_at)
                for tool, kind, set_by, set_at in connection.execute(query, (to_unicode(agent_id),))
            ]

    @retry_on_conflict
    def mark_tool(self, mark: ToolMark) -> None:
        """Declare a tool, replacing an earlier declaration; an empty kind removes it."""
        with self._connections.transaction() as connection:
            agent = self._row_ids.get_agent(connection, to_unicode(mark.agent_id))
            tool = to_unicode(mark.tool)
            connection.execute("DELETE FROM declarations WHERE agent = ? AND tool = ?", (agent, tool))
            if mark.kind:
                row = (agent, tool, mark.kind, to_unicode(mark.set_by), mark.set_at)
                connection.execute("INSERT INTO declarations VALUES (?, ?, ?, ?, ?)", row)
            note_changes(connection, [("agent", None, agent)])

    @retry_on_conflict
    def exclude_run(self, agent_id: str, run_id: str, *, excluded: bool) -> None:
        """Leave a run out of what baselines learn from, or take it in again. Raises NotFoundError."""
        with self._connections.transaction() as connection:
            run = find_run_row_id(connection, agent_id, run_id)
            if run is None:
                raise NotFoundError(f"There is no run {run_id!r}.")
            connection.execute("UPDATE runs SET excluded = ? WHERE id = ?", (excluded, run))
            connection.execute(UPDATE_INCIDENT_TOTALS, (run,))
            agent = self._row_ids.get_agent(connection, to_unicode(agent_id))
            note_changes(connection, [("run", run, agent), ("agent", None, agent)])

    @retry_if_rolled_back
    def add_comment(self, incident_id: str, *, at: float, author: str, content: str) -> StoredComment:
        """Store a comment on an incident. Raises NotFoundError when there is no such incident."""
        row = (to_unicode(incident_id), at, to_unicode(author), to_unicode(content))
        with self._connections.transaction() as connection:
            found = connection.execute(
                "SELECT agent FROM incidents WHERE incident_id = ?", row[:1]
            ).fetchone()
            if found is None:
                raise NotFoundError(f"There is no incident {incident_id!r}.")
            (comment_id,) = connection.execute(
                "INSERT INTO comments (incident_id, at, author, content) VALUES (?, ?, ?, ?) RETURNING id",
                row,
            ).fetchone()
            note_changes(connection, [("incidents", None, found[0])])
        return StoredComment(
            comment_id=comment_id, incident_id=incident_id, at=at, author=author, content=content
        )

    def list_comments(self, incident_ids: Sequence[str]) -> list[StoredComment]:
        """Return the comments on these incidents, oldest first."""
        marks = ", ".join("?" * len(incident_ids))
        query = (
            "SELECT id, incident_id, at, author, content FROM comments"
            f" WHERE incident_id IN ({marks}) ORDER BY id"
        )
        with self._connections.reading() as connection:
            return [
                StoredComment(comment_id=row[0], incident_id=row[1], at=row[2], author=row[3], content=row[4])
                for row in connection.execute(query, [to_unicode(it) for it in incident_ids])
            ]

    @retry_if_rolled_back
    def add_audit(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log."""
        row = (entry.at, *map(to_unicode, (entry.author, entry.action, entry.object, entry.detail)))
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO audit (at, author, action, object, detail) VALUES (?, ?, ?, ?, ?)", row
            )
            note_changes(connection, [("settings", None, None)])

    def list_audit(self, *, before: int | None = None, limit: int = 50) -> list[AuditEntry]:
        """Return entries of the audit log, newest first, those with a smaller id than `before`."""
        where = Conditions().add("id < ?", before)
        with self._connections.reading() as connection:
            rows = connection.execute(
                f"{_SELECT_AUDIT}{where} ORDER BY id DESC LIMIT ?", (*where.values, limit)
            )
            return [
                AuditEntry(at=at, author=author, action=action, object=what, detail=detail, entry_id=entry_id)
                for at, author, action, what, detail, entry_id in rows
            ]

    @retry_if_rolled_back
    def add_key(self, key: AccessKey) -> AccessKey:
        """Store a key; return it with its id."""
        row = (
            *(to_unicode(key.name), key.prefix, key.digest, " ".join(key.scopes)),
            *(key.created_at, key.expires_at),
        )
        with self._connections.transaction() as connection:
            (key_id,) = connection.execute(
                "INSERT INTO api_keys (name, prefix, digest, scopes, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                row,
            ).fetchone()
            note_changes(connection, [("settings", None, None)])
        return structs.replace(key, key_id=key_id)

    def list_keys(self) -> list[AccessKey]:
        """Return all keys, oldest first."""
        with self._connections.reading() as connection:
            return [
                AccessKey(
                    name=name,
                    prefix=prefix,
                    digest=digest,
                    scopes=tuple(scopes.split()),
                    created_at=created_at,
                    expires_at=expires_at,
                    last_used_at=last_used_at,
                    key_id=key_id,
                )
                for name, prefix, digest, scopes, created_at, expires_at, last_used_at, key_id in (
                    connection.execute(_SELECT_KEYS)
                )
            ]

    @retry_on_conflict
    def note_key_used(self, key_id: int, *, at: float) -> None:
        """Note when a key was used last."""
        with self._connections.transaction() as connection:
            connection.execute("UPDATE api_keys SET last_used_at = ? WHERE id = ?", (at, key_id))

    @retry_on_conflict
    def delete_key(self, key_id: int) -> bool:
        """Delete a key. Returns whether there was one."""
        with self._connections.transaction() as connection:
            deleted = connection.execute("DELETE FROM api_keys WHERE id = ?", (key_id,)).rowcount > 0
            note_changes(connection, [("settings", None, None)])
        return deleted
