"""Read every setting in one place: arguments win over environment, file and default, in this order.

A settings file is the one `STEADYHELM_CONFIG` names, else `steadyhelm.toml` in the working directory, else
`config.toml` in Steadyhelm's own folder.
An environment variable is the setting's name in capitals: `alerts.webhook` is
`STEADYHELM_ALERTS_WEBHOOK`.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.decisions import Mode
from steadyhelm.engine.capture import PayloadMode
from steadyhelm.environment import CONFIG, get_home
from steadyhelm.errors import SettingsError
from steadyhelm.judge import FIXED_WEIGHT
from steadyhelm.setting_table import SETTINGS, Setting
from steadyhelm.stores.locations import DatabaseLocation

FILE_NAME: Final = "steadyhelm.toml"
_DETECTORS: Final = "detectors"
_TOOLS: Final = "tools"
_TABLE_EXAMPLES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    _DETECTORS: {"goal_drift": {"enabled": False}},
    _TOOLS: {"get_status": {"kind": "poll"}},
}


def home() -> Path:
    """Return Steadyhelm's own folder: `STEADYHELM_HOME`, else `.steadyhelm` in the user's home."""
    return Path(get_home())


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set. Field names are setting names with `_` for the dot."""

    mode: Mode = "observe"
    disabled: bool = False
    on_failure: str = "open"
    db: str = ""
    durability: str = "fast"
    durable_timeout_s: float = 5.0
    synchronous: str = "NORMAL"
    payloads: PayloadMode = "redacted"
    sample_rate: float = 1.0
    queue_cap: int = 2000
    journal_cap_mb: float = 256.0
    most_live_runs: int = 10_000
    calibration_runs: int = 30
    version: str = ""
    embedder: str = "idf"
    model_dir: str = ""
    alerts_webhook: str = ""
    alerts_min_severity: str = "MED"
    alerts_cooldown_s: float = 60.0
    alerts_digest_s: float = 600.0
    alerts_allow_hosts: tuple[str, ...] = ()
    alerts_signing_secret: str = ""
    redaction_keys: tuple[str, ...] = ()
    redaction_patterns: tuple[str, ...] = ()
    retention_payload_days: float = 30.0
    retention_run_days: float = 180.0
    policy_remind_threshold: float = 0.3
    policy_replan_threshold: float = 0.5
    policy_rollback_threshold: float = 0.7
    policy_ask_threshold: float = 0.9
    policy_weights: dict[str, float] = field(default_factory=dict)
    policy_context_window: int = 0
    guidance_remind: str = ""
    guidance_replan: str = ""
    guidance_rollback: str = ""
    guidance_ask: str = ""
    guidance_remind_every: int = 0
    budget_steps: int = 0
    budget_tokens: int = 0
    budget_cost_usd: float = 0.0
    budget_wall_s: float = 0.0
    budget_daily_steps: int = 0
    budget_daily_tokens: int = 0
    budget_daily_cost_usd: float = 0.0
    budget_utc_offset_h: float = 0.0
    budget_from_profiles: bool = False
    budget_prices: bool = False
    budget_min_velocity: float = 0.01
    budget_velocity_window: int = 10
    budget_expansion_factor: float = 1.5
    budget_contraction_factor: float = 0.7
    budget_ceiling_factor: float = 3.0
    budget_landing_reserve: float = 0.1
    budget_child_share: float = 0.5
    budget_extensions: int = 1
    budget_extension_progress: float = 0.9
    budget_extension_share: float = 0.1
    checkpoints_folder: str = ""
    checkpoints_per_run: int = 20
    otel_enabled: bool = False
    judge: str = ""
    judging_run_calls: int = 10
    judging_run_tokens: int = 60_000
    judging_run_cost_usd: float = 0.1
    judging_daily_calls: int = 500
    judging_daily_tokens: int = 1_000_000
    judging_daily_cost_usd: float = 1.0
    judging_deadline_s: float = 20.0
    judging_weight: float = FIXED_WEIGHT
    server_public_url: str = ""
    server_trace_url: str = ""
    server_allow_hosts: tuple[str, ...] = ()
    server_trusted_proxy: str = ""
    detectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def database(self) -> DatabaseLocation:
        """The location of the database."""
        return DatabaseLocation(self.db or str(home() / "steadyhelm.db"))


class LoadedSettings(NamedTuple):
    """Settings, and the origin of every value."""

    settings: Settings
    origins: dict[str, str]


_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_BY_FORMER_NAME: Final = {setting.former_name: setting for setting in SETTINGS if setting.former_name}


def load(
    arguments: Mapping[str, Any] | None = None,
    *,
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Return the settings and their origins. Arguments are by setting name; None means not set."""
    environment = os.environ if environment is None else environment
    read = _ReadSettings()
    found = find_settings_file(path, environment)
    if found is not None:
        read.read_file(found)
    read.read_environment(environment)
    read.read_arguments(arguments or {})
    fields = {_BY_NAME[name].attribute: value for name, value in read.values.items()}
    settings = Settings(**fields, detectors=read.tables[_DETECTORS], tools=read.tables[_TOOLS])
    return LoadedSettings(settings, read.origins)


class _ReadSettings:
    """Values by name, tables of detectors and tools, and origins; what is read later wins."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.tables: dict[str, dict[str, dict[str, Any]]] = {_DETECTORS: {}, _TOOLS: {}}
        self.origins = {setting.name: "default" for setting in SETTINGS}

    def read_file(self, path: Path) -> None:
        """Read a settings file; raises SettingsError with what is wrong in it."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
            raise SettingsError(f"The settings file {path} cannot be read: {exc}.") from exc
        for group in self.tables:
            self._add_tables(group, read_tables(group, content.pop(group, {}), str(path)), f"file {path}")
        for name, value in _flatten(content):
            self._add_value(_find_setting(name, str(path)), value, f"file {path}")

    def read_environment(self, environment: Mapping[str, str]) -> None:
        """Read the variables of all settings."""
        for setting in SETTINGS:
            variable = next((name for name in setting.variables if name in environment), None)
            if variable is not None:
                self._add_value(setting, environment[variable], f"environment {variable}")

    def read_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Read arguments by setting name; None means not set. Options are added to those of the file."""
        for name, value in arguments.items():
            if value is not None and name not in self.tables:
                self._add_value(_find_setting(name, "argument"), value, "argument")
        for group in self.tables:
            self._add_tables(group, read_tables(group, arguments.get(group) or {}), "argument")

    def _add_value(self, setting: Setting, value: Any, origin: str) -> None:
        where = "" if origin == "argument" else f" ({origin})"
        self.values[setting.name] = _check_value(setting, value, where)
        self.origins[setting.name] = origin

    def _add_tables(self, group: str, tables: Mapping[str, Mapping[str, Any]], origin: str) -> None:
        for name, options in tables.items():
            self.tables[group].setdefault(name, {}).update(options)
            self.origins.update({f"{group}.{name}.{option}": origin for option in options})


def find_settings_file(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the settings file in use, or None. Raises SettingsError when a named file is missing."""
    environment = os.environ if environment is None else environment
    if path is None and environment.get(CONFIG):
        path = Path(environment[CONFIG]).expanduser()
    if path is not None:
        if not _is_file(path):
            raise SettingsError(f"There is no settings file at {path}. `steadyhelm init` creates one.")
        return path
    for candidate in (Path(FILE_NAME), home() / "config.toml"):
        if _is_file(candidate):
            return candidate
    return None


def _is_file(path: Path) -> bool:
    """Return whether there is a file, as far as this user may look: the home may be another user's."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_tables(group: str, content: Any, where: str = "the arguments") -> dict[str, dict[str, Any]]:
    """Return the options by detector or tool. Raises SettingsError when they are not tables."""
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise SettingsError(
            f"{group} in {where} must hold options by the name of a {group.removesuffix('s')}, "
            f"such as {_TABLE_EXAMPLES[group]}, got {content!r}."
        )
    for name, options in content.items():
        if not isinstance(options, Mapping):
            example = next(iter(_TABLE_EXAMPLES[group].values()))
            raise SettingsError(
                f"{group}.{name} in {where} must be a table of its options, "
                f"such as {example}, got {options!r}."
            )
    return {name: dict(options) for name, options in content.items()}


def _flatten(content: dict[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in content.items():
        if isinstance(value, dict):
            pairs.extend((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            pairs.append((name, value))
    return pairs


def _find_setting(name: str, where: str) -> Setting:
    if name in _BY_FORMER_NAME:
        return _BY_FORMER_NAME[name]
    if name not in _BY_NAME:
        hint = suggest_setting(name) or f"Settings: {', '.join(_BY_NAME)}."
        raise SettingsError(f"There is no setting {name!r} ({where}). {hint}")
    return _BY_NAME[name]


def suggest_setting(name: str) -> str:
    """Return a question with the settings that may be meant; empty when none is like this name.

    A name may be misspelt, or stand in the wrong table.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only

    last = name.rpartition(".")[2]
    elsewhere = [known for known in _BY_NAME if known.rpartition(".")[2] == last]
    meant = elsewhere or get_close_matches(name, _BY_NAME, n=1, cutoff=0.75)
    return f"Did you mean {' or '.join(meant)}?" if meant else ""


def suggest_variable(name: str) -> str:
    """Return the environment variable that may be meant by a misspelt one; empty when none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - see above

    known = [setting.variable for setting in SETTINGS]
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.75)), "")


def check_value(name: str, value: Any) -> Any:
    """Return the value of a setting as it is used; raises SettingsError for one that it cannot have."""
    return _check_value(_find_setting(name, "argument"), value)


def _check_value(setting: Setting, value: Any, where: str = "") -> Any:
    try:
        return setting.check(value)
    except SettingsError:  # it says what the value is, without what is secret in it
        raise
    except ValueError as exc:
        shown = "(hidden)" if setting.secret else repr(value)
        raise SettingsError(f"{setting.name} must be {exc}, got {shown}{where}.") from None
