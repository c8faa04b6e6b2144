"""What a user knows about a tool that nobody could guess: its kind, and the arguments that do not matter."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, structs

from steadyhelm.errors import SettingsError
from steadyhelm.events import TraceEvent
from steadyhelm.fingerprints import call_hash, canonical, fingerprint

TOOL_KINDS: Final = ("poll", "read", "write", "idempotent")
"""poll: asks until something changes; read: looks; write: changes something; idempotent: doing it again is
no progress and no harm."""


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """What is known about one tool."""

    kind: str = ""
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind and self.kind not in TOOL_KINDS:
            raise SettingsError(f"A tool's kind must be one of {', '.join(TOOL_KINDS)}, got {self.kind!r}.")

    def applied(self, event: TraceEvent) -> TraceEvent:
        """The event as this declaration wants it seen."""
        args = event.input_data
        if not self.ignore or not isinstance(args, dict):
            return structs.replace(event, tool_kind=self.kind)
        meant = {name: value for name, value in args.items() if name not in self.ignore}
        return structs.replace(
            event,
            tool_kind=self.kind,
            input_data=meant,
            call_hash=call_hash(event.action_name, canonical(meant)),
            result_hash=fingerprint(event).result,
        )


def declared(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ToolDeclaration]:
    """Declarations from settings, by tool; what cannot be one is refused with words."""
    known = {}
    for name, options in tables.items():
        unknown = sorted(set(options) - {"kind", "ignore"})
        if unknown:
            raise SettingsError(f"tools.{name}.{unknown[0]} is not a setting. Allowed: kind, ignore.")
        kind, ignore = options.get("kind", ""), options.get("ignore", ())
        if kind not in ("", *TOOL_KINDS):
            raise SettingsError(f"tools.{name}.kind must be one of {', '.join(TOOL_KINDS)}, got {kind!r}.")
        if not isinstance(ignore, (list, tuple)) or not all(isinstance(field, str) for field in ignore):
            raise SettingsError(f"tools.{name}.ignore must be a list of argument names, got {ignore!r}.")
        known[name] = ToolDeclaration(kind=kind, ignore=tuple(ignore))
    return known
