"""`steadyhelm alerts deliveries|test|send`: alerts in the outbox, a test alert, and sending what is due."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from steadyhelm.cli.output import EXIT_FAILED, EXIT_USAGE, AsJson, fail, format_age, print_json, print_table
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import format_severity, safe, say

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.sinks.alerts.sender import SendResult
    from steadyhelm.store_rows import Delivery

_MOST_ROWS: Final = 1000
_TITLES: Final = (
    "id",
    "state",
    "channel",
    "reason",
    "severity",
    "agent",
    "incident",
    "queued",
    "tries",
    "error",
)
_NO_ADDRESS: Final = (
    "no address to send alerts to. Set alerts.webhook in steadyhelm.toml or STEADYHELM_ALERTS_WEBHOOK in the "
    "environment"
)

DeliveryState = Literal["pending", "sent", "failed", "muted"]


def delivery_to_data(delivery: "Delivery") -> dict[str, Any]:
    """Return a delivery as plain data, its body decoded."""
    known: dict[str, Any] = msgspec.to_builtins(delivery)
    try:
        known["body"] = msgspec.json.decode(delivery.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        known["body"] = None
    return known


def deliveries(
    context: typer.Context,
    state: Annotated[DeliveryState | None, typer.Option("--state", help="Only alerts in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many alerts to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List alerts and their delivery, newest first."""
    with closing(context.obj.open_store()) as store:
        found = store.list_deliveries(state=state, limit=limit)
    if as_json:
        print_json({"deliveries": [delivery_to_data(delivery) for delivery in found]})
        return
    nothing = f"No alert is {state}." if state else "No alert was queued yet."
    print_table(
        _TITLES,
        [_format_row(delivery) for delivery in found],
        empty=f"{nothing} Alerts need an address: try one with steadyhelm alerts test --url URL",
    )


def send_test(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", help="The address to send to, instead of alerts.webhook.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a test alert now, and print the result."""
    from steadyhelm.errors import AddressRefusedError

    settings: Settings = context.obj.load().settings
    if url is not None:
        settings = msgspec.structs.replace(settings, alerts_webhook=url)
    if not settings.alerts_webhook:
        fail(f"{_NO_ADDRESS}, or give --url.", EXIT_USAGE)
    try:
        receipt = send_one(settings)
    except AddressRefusedError as exc:
        receipt = _make_refusal(str(exc))
    if as_json:
        print_json(receipt)
    else:
        _print_receipt(receipt)
    if not receipt.ok:
        raise typer.Exit(EXIT_FAILED)


def send(context: typer.Context) -> None:
    """Send the alerts that are due now. Otherwise the next watched run sends them."""
    from steadyhelm.components import build_alert_worker

    settings: Settings = context.obj.load().settings
    if not settings.alerts_webhook:
        fail(f"{_NO_ADDRESS}.", EXIT_USAGE)
    with closing(context.obj.open_store(read_only=False)) as store:
        worker = build_alert_worker(settings, store)
        assert worker is not None
        now = time.time()
        due = {
            it.delivery_id
            for it in store.list_deliveries(state="pending", limit=_MOST_ROWS)
            if it.next_at <= now
        }
        delivered = worker.deliver_due()
        waiting = store.list_deliveries(state="pending", limit=_MOST_ROWS)
        failed = [
            it for it in store.list_deliveries(state="failed", limit=_MOST_ROWS) if it.delivery_id in due
        ]
    say(f"Sent {pluralize(delivered, 'alert')}; {len(waiting)} still waiting.")
    not_delivered = [it for it in (*failed, *waiting) if it.delivery_id in due]
    for delivery in not_delivered:
        say(f"{delivery.state}: {safe(delivery.delivery_id)}: {safe(delivery.error or 'no answer yet')}")
    if not_delivered:
        raise typer.Exit(EXIT_FAILED)


def _format_row(delivery: "Delivery") -> tuple[Any, ...]:
    return (
        safe(delivery.delivery_id, most=40),
        delivery.state,
        safe(delivery.channel, most=20),
        delivery.reason,
        format_severity(delivery.severity),
        safe(delivery.agent_id, most=24),
        delivery.incident_id,
        format_age(delivery.created_at),
        delivery.attempts,
        safe(delivery.error, most=80),
    )


def send_one(settings: "Settings") -> "SendResult":
    """Send without the outbox, with a temporary store: a test needs no database."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from steadyhelm.components import build_alert_worker, find_channel, open_store

    with TemporaryDirectory(prefix="steadyhelm-") as folder:
        apart = msgspec.structs.replace(settings, db=str(Path(folder) / "test.db"))
        with closing(open_store(apart)) as store:
            worker = build_alert_worker(settings, store)
            assert worker is not None
            return worker.send_test(find_channel(settings.alerts_webhook))


def _make_refusal(reason: str) -> "SendResult":
    from steadyhelm.sinks.alerts.sender import SendResult

    return SendResult(channel="", kind="", host="", ok=False, error=reason)


def _print_receipt(receipt: "SendResult") -> None:
    where = f"{receipt.kind} at {receipt.host}" if receipt.host else "the address"
    if receipt.ok:
        say(f"Sent: {safe(where)} answered {receipt.status} in {receipt.ms:.0f} ms.")
        return
    say(f"Not sent to {safe(where)} after {receipt.ms:.0f} ms: {safe(receipt.error)}")
    if "allow_hosts" in receipt.error:
        say("Set alerts.allow_hosts in steadyhelm.toml, or STEADYHELM_ALERTS_ALLOW_HOSTS=host,host.")
