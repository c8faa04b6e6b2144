"""Keys, retention and channels: what only an administrator does."""

import time
from typing import Final

from steadyhelm.errors import AddressRefusedError, NotFoundError, SettingsError
from steadyhelm.server.context import Call
from steadyhelm.server.records import common, settings

_DAY_S: Final = 86_400.0


def make_key(call: Call) -> settings.MadeKey:
    """Make an API key; its secret is shown once."""
    request: settings.NewKey = call.body
    expires_at = None if request.days is None else time.time() + request.days * _DAY_S
    scopes = tuple(dict.fromkeys(request.scopes))
    key, secret = call.context.access.make_key(request.name, scopes, expires_at)
    call.note("make key", f"{key.name} ({key.prefix}…)", " ".join(scopes))
    shown = settings.ApiKey(
        id=key.key_id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=None,
    )
    return settings.MadeKey(key=shown, secret=secret)


def revoke_key(call: Call) -> common.Done:
    """Revoke an API key."""
    known = {key.key_id: f"{key.name} ({key.prefix}…)" for key in call.store.list_keys()}
    if not call.store.delete_key(call.path["id"]):
        raise NotFoundError("There is no such key.")
    call.note("revoke key", known.get(call.path["id"], str(call.path["id"])))
    return common.Done(message="The key is revoked.")


def prune(call: Call) -> settings.Pruned:
    """Delete what is older than the retention settings allow."""
    chosen, now = call.context.settings, time.time()
    counts = call.store.prune(
        payloads_before=_find_limit(now, chosen.retention_payload_days),
        runs_before=_find_limit(now, chosen.retention_run_days),
    )
    call.note("prune", f"{counts.runs} runs, {counts.payloads} payloads")
    return settings.Pruned(payloads=counts.payloads, runs=counts.runs, events=counts.events)


def test_channel(call: Call) -> settings.TestResult:
    """Send a test alert to the channel of the settings."""
    if not call.context.settings.alerts_webhook:
        raise SettingsError("No channel is set up: set alerts.webhook.")
    try:
        sent = call.context.send_test()
    except AddressRefusedError as exc:
        return settings.TestResult(sent=False, message=str(exc))
    call.note("test channel", sent.host)
    return settings.TestResult(sent=sent.ok, message=sent.error or f"{sent.host} took the test alert.")


def _find_limit(now: float, days: float) -> float | None:
    return now - days * _DAY_S if days else None
