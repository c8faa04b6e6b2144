"""`steadyhelm config`: show every setting and where its value comes from; change one in the settings file."""

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from msgspec import Struct, structs

from steadyhelm.cli.context import GlobalOptions
from steadyhelm.cli.output import (
    AsJson,
    diff_texts,
    fail,
    print_json,
    print_table,
    refuse_early_options,
    write_private_file,
)
from steadyhelm.declarations import ToolDeclaration, parse_declarations
from steadyhelm.errors import SettingsError, SteadyhelmError
from steadyhelm.redaction import Redactor
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from steadyhelm.settings import LoadedSettings, Settings

app = typer.Typer(help="Show every setting and its origin, or change one.", rich_markup_mode=None)

HIDDEN: Final = "(hidden)"
_VALUE_WIDTH: Final = 60


class ShownSetting(Struct, frozen=True, kw_only=True):
    """One setting, its value, and where the value comes from."""

    name: str
    value: Any
    origin: str


class SettingChange(NamedTuple):
    """A change of one setting in the settings file, not written yet."""

    shared: GlobalOptions
    name: str
    path: Path
    before: str
    document: "TOMLDocument"

    @classmethod
    def plan(cls, shared: GlobalOptions, name: str, value: str) -> "SettingChange":
        """Return the change that sets a value; raises SettingsError when it is not valid."""
        path = _choose_settings_path(shared)
        document = _read_document(path)
        before = document.as_string()
        *tables, key = _split_name(name)
        table: MutableMapping[str, Any] = document
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, MutableMapping):
                fail(f"{safe(part)} in {safe(path)} is not a table, so {safe(name)} cannot be set there.")
        checked = table[key] = _parse_value(name, value)
        _require_monitor_starts(shared, name, checked)
        return cls(shared, name, path, before, document)

    def list_lines(self) -> list[str]:
        """Return the difference that it makes to the file, line by line; none where there is none."""
        before = self.before if self.path.exists() else None
        return list(diff_texts(self.path, before, self.document.as_string()))

    def write(self) -> None:
        """Write the settings file, and say where the value is overridden."""
        _write_document(self.path, self.document)
        say(f"Set {safe(self.name)} in {safe(self.path)}.")
        origin = self.shared.load().origins.get(self.name, "file")
        if not origin.startswith("file"):
            say(f"It has no effect now: the {safe(origin)} overrides the file.")


@app.callback(invoke_without_command=True)
def config(context: typer.Context, as_json: AsJson = False) -> None:
    """Show every setting, its value, and where the value comes from."""
    if context.invoked_subcommand is not None:
        if as_json:
            refuse_early_options(context)
        return
    shared: GlobalOptions = context.obj
    values = list(list_values(shared.load()))
    if as_json:
        print_json({"settings": values})
    else:
        rows = [(it.name, safe(format_value(it.value), most=_VALUE_WIDTH), it.origin) for it in values]
        print_table(("setting", "value", "from"), rows, empty="")
    for name in find_unknown_variables():
        say(f"steadyhelm: {safe(name)} is set, but there is no such setting. Check its spelling.")


# A negative number is a value, not an option.
@app.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The setting, such as mode or budget.steps.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value.")],
) -> None:
    """Set a value in the settings file. Comments and layout stay."""
    SettingChange.plan(context.obj, name, value).write()


@app.command("unset")
def unset_value(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The setting, such as mode or budget.steps.")],
) -> None:
    """Remove a value from the settings file. The default then applies again."""
    path = _choose_settings_path(context.obj)
    document = _read_document(path)
    *tables, key = _split_name(name)
    table: Any = document
    for part in tables:
        table = table.get(part, {}) if isinstance(table, MutableMapping) else {}
    if not isinstance(table, MutableMapping) or key not in table:
        say(f"{safe(name)} is not set in {safe(path)}. Nothing was changed.")
        return
    del table[key]
    _write_document(path, document)
    say(f"Removed {safe(name)} from {safe(path)}.")


def _choose_settings_path(shared: GlobalOptions) -> Path:
    """Return the settings file in use, or the one to create in the working directory."""
    from steadyhelm.environment import CONFIG, get_variables
    from steadyhelm.settings import FILE_NAME, find_settings_file

    wanted = shared.config_file or (Path(get_variables()[CONFIG]) if get_variables().get(CONFIG) else None)
    if wanted is not None and not wanted.exists():
        return wanted
    return find_settings_file(shared.config_file) or Path(FILE_NAME)


def _split_name(name: str) -> list[str]:
    """Return the tables and the key of a setting; raises SettingsError when there is no such setting."""
    from steadyhelm.setting_table import SETTINGS
    from steadyhelm.settings import suggest_setting

    if any(setting.name == name for setting in SETTINGS):
        return name.split(".")
    group, _, rest = name.partition(".")
    if group == "tools":
        tool, _, key = rest.rpartition(".")  # a tool's name may have dots
        if tool and key in ToolDeclaration.__struct_fields__:
            return [group, tool, key]
    detector, _, option = rest.partition(".")
    known = group == "detectors" and detector in list_detectors()
    if known and any(option == it.name for it in list_options(detector)):
        return [group, detector, option]
    hint = _suggest_option(name) if group == "detectors" else suggest_setting(name)
    raise SettingsError(
        f"There is no setting {safe(name)!r}. {hint or '`steadyhelm config` lists all of them.'}"
    )


def _suggest_option(name: str) -> str:
    from difflib import get_close_matches

    known = [
        f"detectors.{detector}.{it.name}" for detector in list_detectors() for it in list_options(detector)
    ]
    meant = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"Did you mean {meant[0]}?" if meant else ""


def _check_table_value(group: str, what: str, option: str, value: Any) -> None:
    """Raise SettingsError for a value that an option of a tool or a detector cannot take."""
    if group == "tools":
        parse_declarations({what: {option: value}})
    else:
        _check_option(what, option, value)


def _parse_toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _parse_value(name: str, text: str) -> Any:
    """Return a value as TOML stores it; text that is not a TOML value is taken as a string."""
    from steadyhelm.setting_table import SETTINGS
    from steadyhelm.settings import check_value

    value = _parse_toml(text)
    if not any(setting.name == name for setting in SETTINGS):
        group, what, option = _split_name(name)
        _check_table_value(group, what, option, value)
        return value
    # Not with the file around it: it may hold the wrong value that this one takes the place of.
    checked = check_value(name, value)
    return list(checked) if isinstance(checked, tuple) else checked


def _require_monitor_starts(shared: GlobalOptions, name: str, value: Any) -> None:
    """Raise SettingsError for a value that a monitor refuses, such as an address that alerts must not go to.

    It is judged together with the settings in force; where those are refused already, with the defaults.
    """
    from steadyhelm.setting_table import SETTINGS
    from steadyhelm.settings import Settings, check_value

    setting = next((it for it in SETTINGS if it.name == name), None)
    if setting is None:
        return  # an option of a tool or a detector, which is checked by itself
    change = {setting.attribute: check_value(name, value)}
    try:
        current = shared.load().settings
    except SettingsError:
        current = Settings()
    fault = _find_refusal(structs.replace(current, **change))
    if fault and _find_refusal(current):
        fault = _find_refusal(structs.replace(Settings(), **change))
    if fault:
        raise SettingsError(f"{name} stays as it was. {fault}")


def _find_refusal(settings: "Settings") -> str:
    """Return why a monitor refuses settings that are valid one by one; empty when it does not."""
    from steadyhelm.components import make_redactor, make_steering
    from steadyhelm.sinks.alerts.address_guard import check_alert_address

    try:
        make_redactor(settings)
        make_steering(settings)
        check_alert_address(settings.alerts_webhook, settings.alerts_allow_hosts)
    except SteadyhelmError as exc:
        return str(exc)
    return ""


def _check_option(detector: str, option: str, value: Any) -> None:
    """Create the detector with this option; raises SettingsError when the value is not valid."""
    from steadyhelm.components import make_detector_factory
    from steadyhelm.engine.health import Health
    from steadyhelm.settings import load

    settings = load({"detectors": {detector: {option: value}}}, environment={}).settings
    make_detector_factory(settings, Health())()


def _read_document(path: Path) -> "TOMLDocument":
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        return tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    except (OSError, UnicodeDecodeError, ParseError) as exc:
        fail(f"the settings file {safe(path)} cannot be read: {safe(exc)}.")


def _write_document(path: Path, document: "TOMLDocument") -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    write_private_file(path, document.as_string().encode(), what="The settings")
    if mode is not None:
        path.chmod(mode)


def list_values(loaded: "LoadedSettings") -> Iterator[ShownSetting]:
    """Yield every setting and every detector's option, secrets hidden."""
    from steadyhelm.setting_table import SETTINGS

    for setting in SETTINGS:
        value = getattr(loaded.settings, setting.attribute)
        if setting.secret and value:
            value = HIDDEN
        elif setting.name == "db":
            value = str(loaded.settings.database)
        yield ShownSetting(name=setting.name, value=value, origin=loaded.origins[setting.name])
    yield from _list_option_values(loaded)


def _list_option_values(loaded: "LoadedSettings") -> Iterator[ShownSetting]:
    from steadyhelm.components import complete_options
    from steadyhelm.engine import registry
    from steadyhelm.redaction import Redactor

    redactor = Redactor()
    for detector in list_detectors():
        kind = registry.load(registry.DETECTORS, detector)
        given = complete_options(kind, loaded.settings.detectors.get(detector, {}))
        for option in list_options(detector):
            name = f"detectors.{detector}.{option.name}"
            value = given.get(option.name, option.default)
            shown = HIDDEN if _is_secret(redactor, option.name, value) else value
            yield ShownSetting(name=name, value=shown, origin=loaded.origins.get(name, "default"))


def _is_secret(redactor: "Redactor", name: str, value: Any) -> bool:
    """Return whether a value is hidden: another package's detector may take a key."""
    from steadyhelm.fingerprints import encode_canonical

    pair = {name: value}
    return isinstance(value, str) and redactor.redact(pair, encode_canonical(pair))[0] != pair


def find_unknown_variables() -> list[str]:
    """Return environment variables that look like settings and are not: most likely misspelt."""
    from steadyhelm.environment import NOT_SETTINGS, get_variables
    from steadyhelm.setting_table import SETTINGS

    known = {setting.variable for setting in SETTINGS} | NOT_SETTINGS
    return sorted(name for name in get_variables() if name not in known)


def format_value(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "-"
    return str(value) if value != "" else "-"


_ARGS_SECTION: Final = re.compile(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_ARGS_ENTRY: Final = re.compile(r"^ {4}(\w+): ((?:.+\n?)(?: {8}.+\n?)*)", re.MULTILINE)

# Chosen once for the whole agent by the setting `embedder`, not by a detector's table.
_NOT_OPTIONS: Final = frozenset({"embedder"})


class DetectorOption(NamedTuple):
    """One option of a detector: its name, its default and what it is for."""

    name: str
    default: Any
    about: str


def list_options(detector: str) -> list[DetectorOption]:
    """Return every option of an installed detector, `enabled` first."""
    import inspect

    from steadyhelm.engine import registry

    kind = registry.load(registry.DETECTORS, detector)
    about = _describe_options(inspect.getdoc(kind) or "")
    options = [
        DetectorOption(name, parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in _NOT_OPTIONS and parameter.default is not inspect.Parameter.empty
    ]
    return [DetectorOption("enabled", default=True, about="Whether this detector is on."), *options]


def list_detectors() -> list[str]:
    """Return the names of all installed detectors, ours first."""
    from steadyhelm.engine import registry

    return registry.list_names(registry.DETECTORS)


def _describe_options(docstring: str) -> dict[str, str]:
    section = _ARGS_SECTION.search(docstring + "\n")
    if section is None:
        return {}
    return {name: " ".join(words.split()) for name, words in _ARGS_ENTRY.findall(section[1])}
