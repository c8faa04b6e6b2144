"""The errors that Steadyhelm raises on purpose.

::

    SteadyhelmError
     ├── SettingsError         a setting has a value it cannot have
     ├── MissingExtraError     an optional package is not installed
     ├── FormatError           a file or line is not what it should be
     ├── NotFoundError         no record has that id, or several do
     ├── AddressRefusedError   an alert would go to an address it must not reach
     ├── StoreError            the database cannot be used
     │    ├── ForkedStoreError the parent process used it when this process was forked
     │    ├── NewerStoreError  it was written by a newer Steadyhelm
     │    └── BrokenStoreError it is not a database, or a damaged one
     └── RunStopped            enforce mode ended the run

Only `RunStopped` ever reaches the agent's own code, and only in enforce mode.
"""


class SteadyhelmError(Exception):
    """The base class of every error here. Each can be pickled, as a pool of processes does, and copied."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exception calls `__init__` with `args`, which are not what that takes in every class here.
        return _create_without_init, (type(self), self.args), self.__dict__


class SettingsError(SteadyhelmError, ValueError):
    """A setting has a value it cannot have; the message names setting, value and what is allowed."""


class MissingExtraError(SteadyhelmError, ImportError):
    """A feature needs packages that are not installed."""

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(
            f"The {what} needs packages that are not installed. "
            f"Add them with: pip install 'steadyhelm[{extra}]'"
        )
        self.extra = extra


class FormatError(SteadyhelmError, ValueError):
    """A file or a line in it is not what it should be."""


class NotFoundError(SteadyhelmError, LookupError):
    """No record has that id, or a shortened id fits several."""


class AddressRefusedError(SteadyhelmError):
    """An alert's address is private, loopback or a metadata service, and was not allowed by name."""


class StoreError(SteadyhelmError):
    """The database cannot be used as asked."""


class ForkedStoreError(StoreError):
    """The parent process was using the database when this process was forked: it cannot be used here."""


class NewerStoreError(StoreError):
    """The database was written by a newer Steadyhelm; it is left untouched."""


class BrokenStoreError(StoreError):
    """The file is not a Steadyhelm database, or it is damaged; it is left untouched."""


class RunStopped(SteadyhelmError):  # noqa: N818 - not a fault: the run was ended on purpose
    """Enforce mode ended this run; `decision` says why."""

    def __init__(self, message: str, *, run_id: str, decision: object) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.decision = decision


def _create_without_init(kind: type[SteadyhelmError], args: tuple[object, ...]) -> SteadyhelmError:
    return kind.__new__(kind, *args)
