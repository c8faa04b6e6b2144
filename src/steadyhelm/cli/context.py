"""What all commands share: which settings and which database they work with."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from steadyhelm.errors import NotFoundError

if TYPE_CHECKING:
    from steadyhelm.settings import Loaded
    from steadyhelm.stores.sqlite import SQLiteStore


class Shared(NamedTuple):
    """The options given before the subcommand."""

    database: Path | None = None
    config_file: Path | None = None

    def load(self) -> "Loaded":
        """The settings, with where each comes from."""
        from steadyhelm.settings import load

        arguments = {"db_path": str(self.database)} if self.database is not None else {}
        return load(arguments, path=self.config_file)

    def store(self, *, read_only: bool = True) -> "SQLiteStore":
        """The database; says plainly when there is none yet."""
        from steadyhelm.parts import open_store

        settings = self.load().settings
        if not settings.database.exists():
            raise NotFoundError(
                f"There is no database at {settings.database} yet. "
                "Watch an agent first (`steadyhelm init` shows how), or try `steadyhelm demo`."
            )
        return open_store(settings, read_only=read_only)
