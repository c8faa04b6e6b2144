"""What both stores are: the parts that one SQL serves, whichever database is under them."""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from steadyhelm.store import Store
from steadyhelm.stores.baselines import SQLBaselines
from steadyhelm.stores.incidents import SQLIncidents, SQLOutbox
from steadyhelm.stores.locations import DatabaseLocation
from steadyhelm.stores.people import SQLPeople
from steadyhelm.stores.reading import SQLEvents, SQLRuns
from steadyhelm.stores.spending import SQLSpending
from steadyhelm.stores.upkeep import SQLRetention, SQLUpkeep
from steadyhelm.stores.writing import SQLWriter


class SQLStore(
    SQLWriter,
    SQLRuns,
    SQLEvents,
    SQLBaselines,
    SQLSpending,
    SQLIncidents,
    SQLOutbox,
    SQLPeople,
    SQLUpkeep,
    SQLRetention,
    Store,
):
    """A store in a database that is asked in SQL."""

    @property
    @abstractmethod
    def location(self) -> DatabaseLocation:
        """Where the database is."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Any]:
        """Return a connection that can only read; for queries that no role has."""

    @property
    def replacements(self) -> int:
        """How often the database was found deleted or replaced, and was opened or created again."""
        return self._connections.replacements
