"""Read every setting in one place: arguments win over environment, file and default, in this order.

A settings file is the one `STEADYHELM_CONFIG` names, else `steadyhelm.toml` in the working directory, else
`config.toml` in Steadyhelm's own folder.
An environment variable is the setting's name in capitals: `alerts.webhook` is
`STEADYHELM_ALERTS_WEBHOOK`.
"""

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from steadyhelm.decisions import MODES, Mode
from steadyhelm.engine.capture import PAYLOAD_MODES, PayloadMode
from steadyhelm.environment import CONFIG, PREFIX, get_home
from steadyhelm.errors import SettingsError
from steadyhelm.findings import Severity
from steadyhelm.judge import FIXED_WEIGHT
from steadyhelm.stores.locations import DatabaseLocation, is_address

FILE_NAME: Final = "steadyhelm.toml"
_DETECTORS: Final = "detectors"
_TOOLS: Final = "tools"

_LARGE_NUMBER: Final = 10_000
"""From here on a limit is shown without an exponent."""


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


class Setting(NamedTuple):
    """One setting: its name, the check of its value, and what it is for."""

    name: str
    check: Callable[[Any], Any]
    about: str
    secret: bool = False
    former_name: str = ""

    @property
    def attribute(self) -> str:
        """Its field in Settings."""
        return self.name.replace(".", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.attribute.upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it, the one that wins first."""
        return (self.variable, PREFIX + self.former_name.upper()) if self.former_name else (self.variable,)


class LoadedSettings(NamedTuple):
    """Settings, and the origin of every value."""

    settings: Settings
    origins: dict[str, str]


# The checks of values, named for what they accept: each returns the value or raises ValueError with what is
# allowed.


def _one_of(*allowed: str) -> Callable[[Any], Any]:
    def check(value: Any) -> str:
        for name in allowed:
            if isinstance(value, str) and value.lower() == name.lower():
                return name
        raise ValueError(f"one of {', '.join(allowed)}")

    return check


def _number(low: float, high: float = float("inf"), *, whole: bool = False) -> Callable[[Any], Any]:
    allowed = f"a {'whole ' if whole else ''}number from {low:g}"
    if high < float("inf"):
        allowed += f" to {high:g}" if high < _LARGE_NUMBER else f" to {high:.0f}"

    def check(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(allowed) from None
        if isinstance(value, bool) or not math.isfinite(number) or not low <= number <= high:
            raise ValueError(allowed)
        if whole and not number.is_integer():
            raise ValueError(allowed)
        return int(number) if whole else number

    return check


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")  # noqa: TRY004 - one kind of error carries what is allowed
    return value


def _database(value: Any) -> str:
    text = _text(value)
    is_address(text)  # raises SettingsError for an address that is none
    return text


def _judge(value: Any) -> str:
    package, _, model = value.partition(":") if isinstance(value, str) else ("?", "", "")
    if value and (package not in {"openai", "anthropic"} or not model):
        raise ValueError("openai:MODEL, anthropic:MODEL, or empty for none")
    return str(value)


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in {"1", "true", "yes", "on"}:
        return True
    if str(value).lower() in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("true or false")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ValueError("a list of texts (in the environment: separated by commas)")


def _weights(value: Any) -> dict[str, float]:
    allowed = "a table of numbers (in the environment: goal_dna_drift=0.5,stuck_time=0)"
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name: weight for name, _, weight in parts}
    if not isinstance(value, dict):
        raise ValueError(allowed)  # noqa: TRY004 - see _text
    try:
        return {str(name).strip(): float(weight) for name, weight in value.items()}
    except (TypeError, ValueError):
        raise ValueError(allowed) from None


SETTINGS: Final = (
    Setting(
        "mode", _one_of(*MODES), "observe: only watch; guide: send guidance to the model; enforce: also block"
    ),
    Setting("disabled", _switch, "turn Steadyhelm off"),
    Setting(
        "on_failure",
        _one_of("open", "closed"),
        "closed: in mode enforce, a step that Steadyhelm failed to check is blocked",
    ),
    Setting(
        "db",
        _database,
        "the SQLite file, or postgresql://…; empty for a file in Steadyhelm's own folder",
        former_name="db_path",
    ),
    Setting("durability", _one_of("fast", "durable"), "durable: a decision waits until its event is on disk"),
    Setting("durable_timeout_s", _number(0, 3600), "seconds a decision waits at most in durable mode"),
    Setting("synchronous", _one_of("NORMAL", "FULL"), "FULL: survives a power failure, not only a crash"),
    Setting("payloads", _one_of(*PAYLOAD_MODES), "what is stored of arguments and results"),
    Setting("sample_rate", _number(0, 1), "the share of runs that is watched"),
    Setting("queue_cap", _number(1, 10_000_000, whole=True), "records held in memory until they are stored"),
    Setting("journal_cap_mb", _number(0), "megabytes of the journal from which events are dropped"),
    Setting("most_live_runs", _number(1, whole=True), "live runs held in memory"),
    Setting("calibration_runs", _number(1, whole=True), "clean runs until an agent's baseline counts"),
    Setting("version", _text, "the agent's version: a new one learns its own baseline"),
    Setting("embedder", _one_of("idf", "minilm"), "how goal drift compares texts"),
    Setting("model_dir", _text, "the folder of minilm's weights; empty for the default one"),
    Setting("alerts.webhook", _text, "a Slack, Discord or other address alerts go to", secret=True),
    Setting("alerts.min_severity", _one_of(*Severity), "the lowest severity that is alerted"),
    Setting("alerts.cooldown_s", _number(0), "seconds between alerts of one agent and detector"),
    Setting("alerts.digest_s", _number(1), "seconds after which an open incident is alerted again"),
    Setting("alerts.allow_hosts", _texts, "private or plain-http hosts that alerts may reach"),
    Setting("alerts.signing_secret", _text, "signs generic webhooks", secret=True),
    Setting("redaction.keys", _texts, "further words: a field whose name contains one is removed"),
    Setting("redaction.patterns", _texts, "further regular expressions: what they match is removed"),
    Setting("retention.payload_days", _number(0), "days that arguments and results are kept; 0 for ever"),
    Setting("retention.run_days", _number(0), "days that runs are kept; 0 for ever"),
    Setting("policy.remind_threshold", _number(0, 1), "the drift score from which the agent is reminded"),
    Setting("policy.replan_threshold", _number(0, 1), "the drift score from which it is asked to plan again"),
    Setting("policy.rollback_threshold", _number(0, 1), "the drift score from which it is rolled back"),
    Setting("policy.ask_threshold", _number(0, 1), "the drift score from which the user is asked"),
    Setting("policy.weights", _weights, "how much each signal counts; those not named keep their weight"),
    Setting("policy.context_window", _number(0, whole=True), "tokens the model's context holds; 0: unknown"),
    Setting("guidance.remind", _text, "the opening of a reminder; empty for the built-in one"),
    Setting("guidance.replan", _text, "the opening of the request to plan again"),
    Setting("guidance.rollback", _text, "the opening of the message after a rollback"),
    Setting("guidance.ask", _text, "the opening of the request to ask the user"),
    Setting("guidance.remind_every", _number(0, whole=True), "steps between reminders of the goal; 0: none"),
    Setting("budget.steps", _number(0, whole=True), "tool calls a run may make; 0 for no limit"),
    Setting("budget.tokens", _number(0, whole=True), "tokens a run may use; 0 for no limit"),
    Setting("budget.cost_usd", _number(0), "dollars a run may cost; 0 for no limit"),
    Setting("budget.wall_s", _number(0), "seconds a run may take; 0 for no limit"),
    Setting(
        "budget.daily_steps", _number(0, whole=True), "tool calls an agent may make in a day; 0 for no limit"
    ),
    Setting(
        "budget.daily_tokens", _number(0, whole=True), "tokens an agent may use in a day; 0 for no limit"
    ),
    Setting("budget.daily_cost_usd", _number(0), "dollars an agent may cost in a day; 0 for no limit"),
    Setting("budget.utc_offset_h", _number(-12, 14), "hours by which your day begins before that of UTC"),
    Setting("budget.from_profiles", _switch, "limits of a task type come from tasks completed before"),
    Setting("budget.prices", _switch, "look up the cost of model calls that do not report it"),
    Setting("budget.min_velocity", _number(0, 1), "progress per step that counts as good"),
    Setting("budget.velocity_window", _number(1, 1000, whole=True), "steps over which progress is measured"),
    Setting("budget.expansion_factor", _number(1, 100), "what good progress multiplies the limits by"),
    Setting("budget.contraction_factor", _number(0, 1), "what poor progress multiplies them by"),
    Setting("budget.ceiling_factor", _number(1, 100), "how far a limit that follows earlier tasks may grow"),
    Setting("budget.landing_reserve", _number(0, 0.9), "the share of each limit reserved for finishing"),
    Setting("budget.child_share", _number(0, 1), "the share of the rest that a run inside a run gets"),
    Setting("budget.extensions", _number(0, 1000, whole=True), "emergency extensions granted to one run"),
    Setting("budget.extension_progress", _number(0, 1), "progress a run needs to get one"),
    Setting("budget.extension_share", _number(0, 1), "the largest one, as a share of the original limit"),
    Setting("checkpoints.folder", _text, "where checkpoints are kept; empty keeps them in memory"),
    Setting("checkpoints.per_run", _number(1, 10_000, whole=True), "checkpoints kept of one run"),
    Setting("otel.enabled", _switch, "report findings to OpenTelemetry"),
    Setting("judge", _judge, "a model that judges what rules cannot: openai:MODEL or anthropic:MODEL"),
    Setting("judging.run_calls", _number(0, whole=True), "questions asked about one run; 0 for no limit"),
    Setting("judging.run_tokens", _number(0, whole=True), "tokens of them; 0 for no limit"),
    Setting("judging.run_cost_usd", _number(0), "dollars of them, where the price is known; 0 for no limit"),
    Setting("judging.daily_calls", _number(0, whole=True), "questions asked in a day; 0 for no limit"),
    Setting("judging.daily_tokens", _number(0, whole=True), "tokens of a day's questions; 0 for no limit"),
    Setting("judging.daily_cost_usd", _number(0), "dollars of them, where the price is known; 0: no limit"),
    Setting("judging.deadline_s", _number(0.1, 600), "seconds after which a question is given up"),
    Setting("judging.weight", _number(0, 1), "how far verdicts of the judge are trusted"),
    Setting("server.public_url", _text, "the page's address: alerts and log lines link to it"),
    Setting("server.trace_url", _text, "an address with {trace_id}, where traces are shown elsewhere"),
    Setting("server.allow_hosts", _texts, "further names under which the page may be asked for"),
    Setting("server.trusted_proxy", _text, "the address of the proxy in front of the server, which has TLS"),
)

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
    values: dict[str, Any] = {}
    origins = {setting.name: "default" for setting in SETTINGS}
    tables: dict[str, dict[str, dict[str, Any]]] = {_DETECTORS: {}, _TOOLS: {}}
    found = find_settings_file(path, environment)
    if found is not None:
        _read_file(found, values, tables, origins)
    for setting in SETTINGS:
        variable = next((name for name in setting.variables if name in environment), None)
        if variable is not None:
            values[setting.name] = _check_value(setting, environment[variable])
            origins[setting.name] = f"environment {variable}"
    for name, value in (arguments or {}).items():
        if value is not None and name not in tables:
            setting = _find_setting(name, "argument")
            values[setting.name] = _check_value(setting, value)
            origins[setting.name] = "argument"
    for group, table in tables.items():
        for name, options in _read_tables(group, (arguments or {}).get(group) or {}, "the arguments").items():
            table.setdefault(name, {}).update(options)
            origins.update({f"{group}.{name}.{option}": "argument" for option in options})
    fields = {_BY_NAME[name].attribute: value for name, value in values.items()}
    return LoadedSettings(Settings(**fields, detectors=tables[_DETECTORS], tools=tables[_TOOLS]), origins)


def find_settings_file(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the settings file in use, or None. Raises SettingsError when a named file is missing."""
    environment = os.environ if environment is None else environment
    if path is None and environment.get(CONFIG):
        path = Path(environment[CONFIG]).expanduser()
    if path is not None:
        if not path.is_file():
            raise SettingsError(f"There is no settings file at {path}. `steadyhelm init` creates one.")
        return path
    for candidate in (Path(FILE_NAME), home() / "config.toml"):
        if candidate.is_file():
            return candidate
    return None


def _read_file(
    path: Path,
    values: dict[str, Any],
    tables: dict[str, dict[str, dict[str, Any]]],
    origins: dict[str, str],
) -> None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise SettingsError(f"The settings file {path} cannot be read: {exc}.") from exc
    for group, table in tables.items():
        for name, options in _read_tables(group, content.pop(group, {}), str(path)).items():
            table[name] = options
            origins.update({f"{group}.{name}.{option}": f"file {path}" for option in options})
    for name, value in _flatten(content):
        setting = _find_setting(name, str(path))
        values[setting.name] = _check_value(setting, value)
        origins[setting.name] = f"file {path}"


def _read_tables(group: str, content: Any, where: str) -> dict[str, dict[str, Any]]:
    """Return the options by detector or tool. Raises SettingsError when they are not tables."""
    if not isinstance(content, dict):
        one = group.removesuffix("s")
        raise SettingsError(f"{group} in {where} must hold a table per {one}, got {content!r}.")
    for name, options in content.items():
        if not isinstance(options, dict):
            example = {"enabled": False} if group == _DETECTORS else {"kind": "poll"}
            raise SettingsError(
                f"{group}.{name} in {where} must be a table of its options, "
                f"such as {example}, got {options!r}."
            )
    return content


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
        hint = _suggest_setting(name) or f"Settings: {', '.join(_BY_NAME)}."
        raise SettingsError(f"There is no setting {name!r} ({where}). {hint}")
    return _BY_NAME[name]


def _suggest_setting(name: str) -> str:
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


def _check_value(setting: Setting, value: Any) -> Any:
    try:
        return setting.check(value)
    except ValueError as exc:
        shown = "(hidden)" if setting.secret else repr(value)
        raise SettingsError(f"{setting.name} must be {exc}, got {shown}.") from None
