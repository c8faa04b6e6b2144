"""Every setting by its name: which values it accepts, and what it is for."""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import MODES
from steadyhelm.engine.capture import PAYLOAD_MODES
from steadyhelm.environment import PREFIX
from steadyhelm.findings import Severity
from steadyhelm.stores.locations import is_address

_LARGE_NUMBER: Final = 10_000
"""From here on a limit is shown without an exponent."""


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
