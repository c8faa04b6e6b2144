"""Resolve what all commands share: the settings, the database, and the agent or run a person named.

A command takes what it is about as an argument, and what narrows a list as an option. An agent's name may
be given as either: see `AgentCommand`.
"""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
import typer.core

from steadyhelm.cli.output import parse_duration
from steadyhelm.errors import NotFoundError, SettingsError
from steadyhelm.findings import Severity
from steadyhelm.reports.terminal import safe
from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from steadyhelm.settings import LoadedSettings
    from steadyhelm.store import RunStore
    from steadyhelm.store_rows import StoredRun
    from steadyhelm.stores.sql_store import SQLStore

_NAMES_SHOWN: Final = 8
_LATEST: Final = "latest"

AgentArgument = Annotated[
    str, typer.Argument(metavar="AGENT", help="The agent's name, or the beginning of it.")
]
OnlyAgent = Annotated[
    str | None,
    typer.Option("--agent", metavar="AGENT", help="Only this agent: its name, or the beginning of it."),
]
OwnerOfRun = Annotated[
    str | None,
    typer.Option("--agent", metavar="AGENT", help="Whose run: its name, or the beginning of it."),
]
RUN_HELP: Final = "The run's id, or the beginning of it; latest is the newest run."
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only what happened in this time: 30m, 24h, 7d."),
]


class AgentCommand(typer.core.TyperCommand):
    """A command that takes an agent's name as an argument or after `--agent`, whichever it declares."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; a name in the other place is moved to the declared one."""
        if any(param.name == "agent" and param.param_type_name == "argument" for param in self.params):
            return super().parse_args(ctx, _move_agent_first(args))
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left and not ctx.params["agent"]:
            ctx.params["agent"] = left.pop(0)
        if left:
            ctx.fail(f"Got unexpected extra argument(s) ({safe(' '.join(left))})")
        return left


def _move_agent_first(args: list[str]) -> list[str]:
    """Return the arguments with the value of `--agent`, if there is one, as the first of them."""
    for place, arg in enumerate(args):
        option, equals, name = arg.partition("=")
        value = [name] if equals else args[place + 1 : place + 2]
        if option == "--agent" and value:
            return [*value, *args[:place], *args[place + 1 + (not equals) :]]
    return args


SEVERITY_CHOICES: Final = "low|med|high|critical"
"""What may be typed for a severity; MEDIUM is taken for MED."""


def parse_severity(text: str) -> Severity:
    """Return the severity that was typed, in small or capital letters."""
    name = text.strip().upper()
    try:
        return Severity("MED" if name == "MEDIUM" else name)
    except ValueError as exc:
        known = ", ".join(SEVERITY_CHOICES.split("|"))
        raise typer.BadParameter(f"{safe(text, most=40)!r} is not one of {known}.") from exc


class GlobalOptions(NamedTuple):
    """The options given before the subcommand."""

    database: str | Path | None = None
    config_file: Path | None = None

    @property
    def command(self) -> str:
        """The beginning of a command that is to use the same database and settings file."""
        words = ["steadyhelm"]
        if self.database is not None:
            words += ["--db", shlex.quote(str(DatabaseLocation(str(self.database))))]
        if self.config_file is not None:
            words += ["--config", shlex.quote(str(self.config_file))]
        return safe(" ".join(words))

    def load(self) -> "LoadedSettings":
        """Return the settings, with where each comes from."""
        from steadyhelm.settings import load

        if self.database == "":  # a variable that was not set: not a wish for the database of the settings
            raise SettingsError("--db must be the path of a file, or begin with postgresql://, got ''.")
        arguments = {"db": str(self.database)} if self.database is not None else {}
        return load(arguments, path=self.config_file)

    def open_store(self, *, read_only: bool = True) -> "SQLStore":
        """Return the database; raises NotFoundError with what to do when there is none yet."""
        from steadyhelm.components import open_store, store_pending

        settings = self.load().settings
        if not settings.database.may_exist():
            raise NotFoundError(
                f"There is no database at {settings.database} yet. "
                "Watch an agent first (`steadyhelm init` shows how), or try `steadyhelm demo`."
            )
        store_pending(settings)
        return open_store(settings, read_only=read_only)


def find_agent(store: "RunStore", name: str) -> str:
    """Return the agent with this name, or with the only name that begins so; raises NotFoundError."""
    known = [row.agent_id for row in store.list_agents()]
    if name in known:
        return name
    alike = [agent for agent in known if name and agent.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    raise NotFoundError(_explain_unknown(safe(name), alike, known))


def _explain_unknown(name: str, alike: list[str], known: list[str]) -> str:
    if alike:
        return f"Several agents begin with {name!r}: {_join_names(alike)}. Give more of the name."
    if not known:
        return f"There is no agent {name!r}: nothing is recorded yet. `steadyhelm init` shows how to begin."
    return f"There is no agent {name!r}. Known agents: {_join_names(known)}."


def choose_agent(store: "RunStore", name: str | None) -> str | None:
    """Return the agent to which `--agent` narrows a list; None is all of them."""
    return None if name is None else find_agent(store, name)


def find_run(store: "RunStore", run: str, agent: str | None) -> "StoredRun":
    """Return the run that was named, or the newest one for `latest`; raises NotFoundError."""
    agent_id = choose_agent(store, agent)
    if run != _LATEST:
        return store.find_run(run, agent_id=agent_id)
    newest = store.list_runs(agent_id, limit=1)
    if not newest:
        whose = "" if agent_id is None else f" of {safe(agent_id)}"
        raise NotFoundError(f"No run{whose} is stored.")
    return newest[0]


def find_start(since: str | None) -> float | None:
    """Return the moment at which the time of `--since` begins; None is the first record."""
    return None if since is None else time.time() - parse_duration(since, "--since")


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(safe(name, most=60) for name in names[:_NAMES_SHOWN]) + more
