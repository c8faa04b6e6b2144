"""Build the components of a monitor from the settings: store, detectors, policy, checkpoints, alerts."""

import contextlib
import functools
import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from steadyhelm import stores
from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.limits import Budget
from steadyhelm.budgets.prices import look_up_cost_usd, look_up_price
from steadyhelm.checkpoint import CheckpointKeeper
from steadyhelm.corrections.model import load_weights
from steadyhelm.detector import Detector
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.idf import Idf
from steadyhelm.engine import registry
from steadyhelm.engine.delivery import BatchDelivery
from steadyhelm.engine.health import Health
from steadyhelm.engine.run_services import Price
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import MissingExtraError, SettingsError, SteadyhelmError, StoreError
from steadyhelm.journal.abandoned import has_abandoned
from steadyhelm.judging.usage import JudgeLimits
from steadyhelm.lexicons import LEXICON_PACKAGES, read_lexicon_file
from steadyhelm.logs import logger
from steadyhelm.policy.alerting import AlertPolicy
from steadyhelm.policy.guidance import Wordings
from steadyhelm.redaction import Redactor
from steadyhelm.settings import Settings
from steadyhelm.sink import Sink
from steadyhelm.sinks.store import StoreSink
from steadyhelm.store import Store
from steadyhelm.stores.opening import require_current
from steadyhelm.stores.sql_store import SQLStore

if TYPE_CHECKING:
    from steadyhelm.engine.judge_worker import JudgeWorker
    from steadyhelm.sinks.alerts.worker import AlertStore, AlertWorker

_HARD_LIMITS: Final = ("absolute_token_limit", "absolute_duration_limit_ms")
_PENDING_BATCH_RECORDS: Final = 500
_LOCK_TIMEOUT_S: Final = 1.0
"""How long one try waits for another process that writes; the writer tries again until it succeeds."""


def open_store(
    settings: Settings, *, read_only: bool = False, timeout_s: float = 5.0, may_be_away: bool = False
) -> SQLStore:
    """Return the store the settings name; raises StoreError with what to do when it cannot be used.

    A database that `may_be_away` need not be usable yet: what is written waits for it.
    """
    return stores.open_store(
        settings.database,
        read_only=read_only,
        synchronous=settings.synchronous,
        timeout_s=timeout_s,
        may_be_away=may_be_away,
    )


def make_embedder(settings: Settings) -> Embedder:
    """Return the embedder the settings name."""
    if settings.embedder == "minilm":
        from steadyhelm.embedders.minilm import MiniLM  # noqa: PLC0415 - an extra
        from steadyhelm.embedders.weights import get_default_model_dir  # noqa: PLC0415 - the same

        return MiniLM(
            Path(settings.model_dir).expanduser() if settings.model_dir else get_default_model_dir()
        )
    return Idf()


def make_redactor(settings: Settings) -> Redactor:
    """Return what removes secrets, with the words and patterns of the settings."""
    return Redactor(key_words=settings.redaction_keys, patterns=settings.redaction_patterns)


@functools.cache
def read_data_files() -> None:
    """Read the package's own data into memory: while an agent works, no file is opened."""
    for package in LEXICON_PACKAGES:
        for file in files(package).joinpath("patterns").iterdir():
            if file.name.endswith(".toml"):
                read_lexicon_file(package, file.name.removesuffix(".toml"))
    load_weights()


def make_detector_factory(settings: Settings, health: Health | None = None) -> Callable[[], list[Detector]]:
    """Return a function that makes fresh detectors; every option is checked now, not during a run."""
    installed = registry.list_names(registry.DETECTORS)
    unknown = sorted(set(settings.detectors) - set(installed))
    if unknown:
        from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only

        meant = get_close_matches(unknown[0], installed, n=1)
        hint = f"Did you mean {meant[0]}?" if meant else f"Installed: {', '.join(installed)}."
        raise SettingsError(f"There is no detector named {unknown[0]!r}. {hint}")
    makers = [maker for name in installed if (maker := _prepare_detector(name, settings, health)) is not None]
    # Not a closure: the factory is sent to other processes.
    return functools.partial(_make_detectors, tuple(makers))


def _make_detectors(makers: Iterable[Callable[[], Detector]]) -> list[Detector]:
    return [make() for make in makers]


def _prepare_detector(name: str, settings: Settings, health: Health | None) -> Callable[[], Detector] | None:
    options = dict(settings.detectors.get(name, {}))
    enabled = options.pop("enabled", True)
    if not isinstance(enabled, bool):
        raise SettingsError(f"detectors.{name}.enabled must be true or false, got {enabled!r}.")
    if not enabled:
        return None
    kind = registry.load(registry.DETECTORS, name)
    _check_options(name, kind, options)
    given, options = options, complete_options(kind, options)
    if "embedder" in inspect.signature(kind).parameters:
        options["embedder"] = _try_make_embedder(settings, health)
    return _try_options(name, functools.partial(kind, **options), given)


def _try_options(name: str, make: Callable[[], Detector], given: Mapping[str, Any]) -> Callable[[], Detector]:
    """Return how the detector is made, once one was; raises SettingsError where its options do not fit."""
    try:
        make()
    except TypeError as exc:
        raise SettingsError(f"detectors.{name} has a value of the wrong type in {given}: {exc}.") from exc
    return make


def complete_options(kind: type[Detector], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with those that follow from the others.

    Where no limit was set the default ones are soft; a limit that was set puts the other default out of use.
    """
    if kind.name != "resource_spike":
        return dict(options)
    if any(name in options for name in _HARD_LIMITS):
        return dict.fromkeys(_HARD_LIMITS) | dict(options)
    return {"soft_limits": True} | dict(options)


def _try_make_embedder(settings: Settings, health: Health | None) -> Embedder:
    """Return the embedder; the default one, with a warning, when its weights are missing."""
    try:
        return make_embedder(settings)
    except (SteadyhelmError, OSError) as exc:
        if health is None:
            raise
        logger.warning("Steadyhelm uses the idf embedder instead of %s: %s", settings.embedder, exc)
        health.count(f"embedder {settings.embedder} cannot be used")
        return Idf()


def _check_options(name: str, kind: type[Detector], options: dict[str, Any]) -> None:
    allowed = [parameter for parameter in inspect.signature(kind).parameters if parameter != "embedder"]
    for option in options:
        if option not in allowed:
            raise SettingsError(
                f"detectors.{name}.{option} is not a setting. Allowed: {', '.join(['enabled', *allowed])}."
            )


_SETTING_NAMES: Final = {
    "signal_weights": "policy.weights",
    "nudge_threshold": "policy.remind_threshold",
    "replan_threshold": "policy.replan_threshold",
    "checkpoint_threshold": "policy.rollback_threshold",
    "stop_threshold": "policy.ask_threshold",
    "The budget's ": "budget.",
    "most_extensions": "budget.extensions",
}
_ARGUMENT_NAMES: Final = re.compile("|".join(_SETTING_NAMES))


def make_steering(settings: Settings) -> Steering:
    """Return how runs are steered; raises SettingsError when the settings make no sense."""
    limits = {
        "steps": settings.budget_steps or None,
        "tokens": settings.budget_tokens or None,
        "cost_usd": settings.budget_cost_usd or None,
        "wall_s": settings.budget_wall_s or None,
        "daily_steps": settings.budget_daily_steps or None,
        "daily_tokens": settings.budget_daily_tokens or None,
        "daily_cost_usd": settings.budget_daily_cost_usd or None,
    }
    rules = {
        "min_velocity": settings.budget_min_velocity,
        "velocity_window": settings.budget_velocity_window,
        "expansion_factor": settings.budget_expansion_factor,
        "contraction_factor": settings.budget_contraction_factor,
        "ceiling_factor": settings.budget_ceiling_factor,
        "landing_reserve": settings.budget_landing_reserve,
        "most_extensions": settings.budget_extensions,
        "extension_progress": settings.budget_extension_progress,
        "extension_share": settings.budget_extension_share,
    }
    words = {
        level: getattr(settings, f"guidance_{level}") for level in ("remind", "replan", "rollback", "ask")
    }
    try:
        return _build_steering(settings, limits, rules, words)
    except SettingsError as exc:
        # The engine knows its arguments by other names than the settings have.
        raise SettingsError(_ARGUMENT_NAMES.sub(lambda found: _SETTING_NAMES[found[0]], str(exc))) from None


def _build_steering(
    settings: Settings, limits: dict[str, Any], rules: dict[str, Any], words: dict[str, str]
) -> Steering:
    return Steering(
        nudge_threshold=settings.policy_remind_threshold,
        replan_threshold=settings.policy_replan_threshold,
        checkpoint_threshold=settings.policy_rollback_threshold,
        stop_threshold=settings.policy_ask_threshold,
        signal_weights=settings.policy_weights,
        budget=Budget(**limits),
        budget_rules=rules,
        uses_profiles=settings.budget_from_profiles,
        utc_offset_h=settings.budget_utc_offset_h,
        child_share=settings.budget_child_share,
        context_window=settings.policy_context_window or None,
        remind_every=settings.guidance_remind_every,
        wordings=Wordings(**{level: text for level, text in words.items() if text}),
    )


def make_keeper(settings: Settings, health: Health | None = None) -> CheckpointKeeper:
    """Return what keeps checkpoints: a folder where one is set, else memory."""
    on_loss = health.count if health is not None else None
    # A hook keeps no checkpoints and sends no alerts: it must not take the time to load either.
    if not settings.checkpoints_folder:
        from steadyhelm.checkpoints.memory import MemoryKeeper  # noqa: PLC0415

        return MemoryKeeper(per_run=settings.checkpoints_per_run, on_loss=on_loss)
    from steadyhelm.checkpoints.disk import DiskKeeper  # noqa: PLC0415

    folder = Path(settings.checkpoints_folder).expanduser()
    return DiskKeeper(folder, per_run=settings.checkpoints_per_run, on_loss=on_loss)


def make_judge_worker(
    settings: Settings,
    given: Any,
    *,
    store: Store | None,
    health: Health,
    clock: Callable[[], float] = time.time,
) -> "JudgeWorker | None":
    """Return what asks the judge that is given, or that the settings name; None when there is none."""
    if given is None and not settings.judge:
        return None
    from steadyhelm.engine.judge_worker import (  # noqa: PLC0415 - most monitors have no judge
        DailyAccount,
        JudgeWorker,
    )
    from steadyhelm.judges import build_judge  # noqa: PLC0415 - the same

    daily = JudgeLimits(
        settings.judging_daily_calls, settings.judging_daily_tokens, settings.judging_daily_cost_usd
    )
    return JudgeWorker(
        build_judge(settings.judge if given is None else given, timeout_s=settings.judging_deadline_s),
        health=health,
        daily=DailyAccount(daily, store, clock, utc_offset_h=settings.budget_utc_offset_h),
        run_limits=JudgeLimits(
            settings.judging_run_calls, settings.judging_run_tokens, settings.judging_run_cost_usd
        ),
        deadline_s=settings.judging_deadline_s,
        weight=settings.judging_weight,
        price=functools.partial(price_answer, clock),
    )


def price_answer(
    clock: Callable[[], float], model: str, input_tokens: int, output_tokens: int
) -> float | None:
    """Return what a judge's answer cost; None where no price is known."""
    try:
        return look_up_cost_usd(model, input_tokens, output_tokens, at=clock())
    except MissingExtraError:
        return None


def find_channel(url: str) -> str:
    """Return the name of the channel for this address."""
    for name in registry.list_names(registry.CHANNELS):
        if name != "webhook" and registry.load(registry.CHANNELS, name).matches(url):
            return name
    return "webhook"


def build_alert_worker(
    settings: Settings, store: "AlertStore", health: Health | None = None
) -> "AlertWorker | None":
    """Return the worker that sends alerts, or None when no webhook is set."""
    url = settings.alerts_webhook
    if not url:
        return None
    from steadyhelm.sinks.alerts.address_guard import check_alert_address  # noqa: PLC0415 - see above
    from steadyhelm.sinks.alerts.worker import AlertWorker  # noqa: PLC0415 - see above

    check_alert_address(url, settings.alerts_allow_hosts)
    return AlertWorker(
        store,
        {find_channel(url): url},
        secret=settings.alerts_signing_secret or None,
        allow_hosts=settings.alerts_allow_hosts,
        on_loss=health.count if health is not None else None,
    )


def make_store_sink(
    settings: Settings,
    store: Store,
    *,
    on_baseline: Callable[[BaselineStats], None] | None = None,
    on_alert: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.time,
) -> StoreSink:
    """Return the sink that writes to the store; the callbacks and the clock are those of StoreSink."""
    return StoreSink(
        store,
        calibration_runs=settings.calibration_runs,
        policy=AlertPolicy(
            min_severity=settings.alerts_min_severity,
            cooldown_s=settings.alerts_cooldown_s,
            digest_s=settings.alerts_digest_s,
            public_url=settings.server_public_url,
        ),
        channels=[find_channel(settings.alerts_webhook)] if settings.alerts_webhook else (),
        payload_days=settings.retention_payload_days,
        run_days=settings.retention_run_days,
        on_baseline=on_baseline,
        on_alert=on_alert,
        clock=clock,
    )


def store_pending(settings: Settings) -> None:
    """Store what dead processes left beside the database; what cannot be stored now stays in the journal."""
    database = settings.database
    if not has_abandoned(database.journal_path):
        return
    health = Health()
    with contextlib.suppress(StoreError, OSError), contextlib.ExitStack() as stack:
        # A database of an older version is migrated when somebody asks for it, not by the way.
        if not database.is_server:
            require_current(database.path.absolute())
        store = stack.enter_context(contextlib.closing(open_store(settings, timeout_s=1.0)))
        delivery = BatchDelivery([make_store_sink(settings, store)], health=health, pause=lambda _: False)
        delivery.adopt(but=(), batch=_PENDING_BATCH_RECORDS)
        delivery.deliver_losses()


# --- what an agent starts without, when it cannot be had ------------------------------------------


def try_open_store(settings: Settings) -> SQLStore | None:
    """Return the store; None, with a warning, when it cannot be used: the agent starts all the same."""
    if settings.disabled:
        return None
    try:
        return open_store(settings, timeout_s=_LOCK_TIMEOUT_S, may_be_away=True)
    except StoreError as exc:
        logger.warning("Steadyhelm keeps nothing: %s", exc)
        return None


def try_make_price(settings: Settings, health: Health) -> Price | None:
    """Return the price function; None, with a warning, when prices cannot be looked up."""
    if not settings.budget_prices:
        return None
    try:
        look_up_price({"model": "none", "input_tokens": 1}, 0.0)
    except MissingExtraError as exc:
        logger.warning("Steadyhelm looks up no prices: %s", exc)
        health.count("prices cannot be looked up")
        return None
    return look_up_price


def try_make_otel_sinks(settings: Settings, health: Health) -> list[Sink]:
    """Return the OpenTelemetry sink if it is enabled; none, with a warning, when its package is missing."""
    if not settings.otel_enabled or settings.disabled:
        return []
    try:
        return [registry.load(registry.SINKS, "otel")()]
    except MissingExtraError as exc:
        logger.warning("Steadyhelm tells OpenTelemetry nothing: %s", exc)
        health.count("OpenTelemetry cannot be told")
        return []
