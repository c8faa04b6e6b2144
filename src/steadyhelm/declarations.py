"""What a user declares about a tool: its kind, and the arguments to ignore."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.errors import SettingsError
from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import encode_canonical, fingerprint, hash_call

TOOL_KINDS: Final = ("poll", "read", "write", "batch", "schedule", "idempotent")
"""poll: asks until something changes; read: looks something up; write: changes something; batch: is called
for one thing after another, with equal answers; schedule: is called again and again on purpose; idempotent:
doing it again is no progress and no harm."""


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """The declaration of one tool."""

    kind: str = ""
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind and self.kind not in TOOL_KINDS:
            raise SettingsError(f"A tool's kind must be one of {', '.join(TOOL_KINDS)}, got {self.kind!r}.")

    def apply_to(self, event: TraceEvent) -> TraceEvent:
        """Return the event with this kind, and without the ignored arguments."""
        args = event.input_data
        if not self.ignore or not isinstance(args, dict):
            return structs.replace(event, tool_kind=self.kind or event.tool_kind)
        meant = {name: value for name, value in args.items() if name not in self.ignore}
        return structs.replace(
            event,
            tool_kind=self.kind or event.tool_kind,
            input_data=meant,
            call_hash=hash_call(event.action_name, encode_canonical(meant)),
            result_hash=fingerprint(event).result,
        )


def add_kinds(
    known: Mapping[str, ToolDeclaration], kinds: Mapping[str, str]
) -> Mapping[str, ToolDeclaration]:
    """Return the declarations with these kinds of tools in place of theirs; what they ignore stays.

    >>> add_kinds({"wait": ToolDeclaration(ignore=("id",))}, {"wait": "poll"})["wait"]
    ToolDeclaration(kind='poll', ignore=('id',))
    """
    valid = {tool: kind for tool, kind in kinds.items() if kind in TOOL_KINDS}
    if not valid:
        return known
    changed = {
        tool: structs.replace(known.get(tool) or ToolDeclaration(), kind=kind) for tool, kind in valid.items()
    }
    return {**known, **changed}


def add_asides(
    known: Mapping[str, ToolDeclaration], asides: Mapping[str, Sequence[str]]
) -> Mapping[str, ToolDeclaration]:
    """Return the declarations with these arguments ignored as well; a tool's own list is the last word.

    >>> add_asides({"wait": ToolDeclaration(kind="poll")}, {"wait": ["note"]})["wait"]
    ToolDeclaration(kind='poll', ignore=('note',))
    """
    learnt = {
        tool: structs.replace(known.get(tool) or ToolDeclaration(), ignore=tuple(names))
        for tool, names in asides.items()
        if tool not in known or not known[tool].ignore
    }
    return {**known, **learnt} if learnt else known


def parse_declarations(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ToolDeclaration]:
    """Return the declarations from settings, by tool; raises SettingsError for one that is not valid."""
    known = {}
    for name, options in tables.items():
        unknown = sorted(set(options) - {"kind", "ignore"})
        if unknown:
            raise SettingsError(f"tools.{name}.{unknown[0]} is not a setting. Allowed: kind, ignore.")
        kind, ignore = (
            options.get("kind", ""),
            read_ignored(f"tools.{name}.ignore", options.get("ignore", ())),
        )
        if kind not in ("", *TOOL_KINDS):
            raise SettingsError(f"tools.{name}.kind must be one of {', '.join(TOOL_KINDS)}, got {kind!r}.")
        known[name] = ToolDeclaration(kind=kind, ignore=ignore)
    return known


def read_ignored(setting: str, names: Any) -> tuple[str, ...]:
    """Return the arguments to ignore; raises SettingsError, which names the setting, for anything else."""
    is_list = isinstance(names, Collection) and not isinstance(names, (str, bytes, Mapping))
    if not is_list or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"{setting} must be a list of argument names, got {names!r}.")
    return tuple(names)
