"""Records and contract of what people add to a store: declarations, comments, keys, and who did what."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class ToolMark(Struct, frozen=True, kw_only=True):
    """A tool of one agent that somebody declared on the page: its kind, by whom and when."""

    agent_id: str
    tool: str
    kind: str
    set_by: str = ""
    set_at: float = 0.0


class StoredComment(Struct, frozen=True, kw_only=True):
    """What somebody wrote about an incident."""

    comment_id: int
    incident_id: str
    at: float
    author: str
    content: str


class AuditEntry(Struct, frozen=True, kw_only=True):
    """Who changed what, and when. `entry_id` is 0 until it is stored."""

    at: float
    author: str
    action: str
    object: str
    detail: str = ""
    entry_id: int = 0


class AccessKey(Struct, frozen=True, kw_only=True):
    """A personal API key, of which only a hash is kept. `key_id` is 0 until it is stored."""

    name: str
    prefix: str
    digest: bytes
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    key_id: int = 0


class PeopleStore(Protocol):
    """What people add: declarations of tools, comments, excluded runs, keys, and the audit log."""

    @abstractmethod
    def list_tool_marks(self, agent_id: str) -> list[ToolMark]:
        """Return the tools of an agent that were declared on the page, by name."""

    @abstractmethod
    def mark_tool(self, mark: ToolMark) -> None:
        """Declare a tool, replacing an earlier declaration; an empty kind removes it."""

    @abstractmethod
    def exclude_run(self, agent_id: str, run_id: str, *, excluded: bool) -> None:
        """Leave a run out of what baselines learn from, or take it in again. Raises NotFoundError."""

    @abstractmethod
    def add_comment(self, incident_id: str, *, at: float, author: str, content: str) -> StoredComment:
        """Store a comment on an incident. Raises NotFoundError when there is no such incident."""

    @abstractmethod
    def list_comments(self, incident_ids: Sequence[str]) -> list[StoredComment]:
        """Return the comments on these incidents, oldest first."""

    @abstractmethod
    def add_audit(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log."""

    @abstractmethod
    def list_audit(self, *, before: int | None = None, limit: int = 50) -> list[AuditEntry]:
        """Return entries of the audit log, newest first, those with a smaller id than `before`."""

    @abstractmethod
    def add_key(self, key: AccessKey) -> AccessKey:
        """Store a key; return it with its id."""

    @abstractmethod
    def list_keys(self) -> list[AccessKey]:
        """Return all keys, oldest first."""

    @abstractmethod
    def note_key_used(self, key_id: int, *, at: float) -> None:
        """Note when a key was used last."""

    @abstractmethod
    def delete_key(self, key_id: int) -> bool:
        """Delete a key. Returns whether there was one."""
