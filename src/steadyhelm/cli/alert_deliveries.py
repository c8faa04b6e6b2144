"""Alerts on their way: what waits in the outbox, a test of the way there, and sending what is due."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from steadyhelm.cli.output import FAILED, USAGE, ago, fail, print_fitting, print_json
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say, severity

if TYPE_CHECKING:
    from steadyhelm.settings import Settings
    from steadyhelm.sinks.alerts.sender import SendResult
    from steadyhelm.store import Delivery

_MOST: Final = 1000
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
    "trouble",
)
_NO_ADDRESS: Final = (
    "no address to send alerts to. Set alerts.webhook in steadyhelm.toml or STEADYHELM_ALERTS_WEBHOOK in the "
    "environment"
)

States = Literal["pending", "sent", "failed", "muted"]


def plain(delivery: "Delivery") -> dict[str, Any]:
    """A delivery as plain data, what it says opened up."""
    known: dict[str, Any] = msgspec.to_builtins(delivery)
    try:
        known["body"] = msgspec.json.decode(delivery.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        known["body"] = None
    return known


def deliveries(
    context: typer.Context,
    state: Annotated[States | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line.")] = False,
) -> None:
    """List alerts and how they fared, newest first."""
    with closing(context.obj.store()) as store:
        found = store.list_deliveries(state=state, limit=limit)
    if as_json:
        for delivery in found:
            print_json(plain(delivery))
        return
    nothing = f"No alert is {state}." if state else "No alert was queued yet."
    print_fitting(
        _TITLES,
        [_line(delivery) for delivery in found],
        spare=("agent", "severity", "tries", "reason", "queued", "channel"),
        empty=f"{nothing} Alerts need an address: try one with steadyhelm alerts test --url URL",
    )


def send_test(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", help="Send it here, instead of to alerts.webhook.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Send a test alert right now, and say how that went."""
    from steadyhelm.errors import AddressRefusedError

    settings: Settings = context.obj.load().settings
    if url is not None:
        settings = msgspec.structs.replace(settings, alerts_webhook=url)
    if not settings.alerts_webhook:
        fail(f"{_NO_ADDRESS}, or give --url.", USAGE)
    try:
        receipt = _tried(settings)
    except AddressRefusedError as exc:
        receipt = _refused(str(exc))
    if as_json:
        print_json(receipt)
    else:
        _say_receipt(receipt)
    if not receipt.ok:
        raise typer.Exit(FAILED)


def send(context: typer.Context) -> None:
    """Send the alerts that are due now, instead of waiting for the next watched run."""
    from steadyhelm.parts import build_alert_worker

    settings: Settings = context.obj.load().settings
    if not settings.alerts_webhook:
        fail(f"{_NO_ADDRESS}.", USAGE)
    with closing(context.obj.store(read_only=False)) as store:
        worker = build_alert_worker(settings, store)
        assert worker is not None
        now = time.time()
        due = {
            it.delivery_id for it in store.list_deliveries(state="pending", limit=_MOST) if it.next_at <= now
        }
        arrived = worker.deliver_due()
        waiting = store.list_deliveries(state="pending", limit=_MOST)
        failed = [it for it in store.list_deliveries(state="failed", limit=_MOST) if it.delivery_id in due]
    say(f"Sent {counted(arrived, 'alert')}; {len(waiting)} still waiting.")
    not_arrived = [*failed, *(it for it in waiting if it.delivery_id in due)]
    for delivery in not_arrived:
        say(f"{delivery.state}: {safe(delivery.delivery_id)}: {safe(delivery.error or 'no answer yet')}")
    if not_arrived:
        raise typer.Exit(FAILED)


def _line(delivery: "Delivery") -> tuple[Any, ...]:
    return (
        safe(delivery.delivery_id, most=40),
        delivery.state,
        safe(delivery.channel, most=20),
        delivery.reason,
        severity(delivery.severity),
        safe(delivery.agent_id, most=24),
        delivery.incident_id,
        ago(delivery.created_at),
        delivery.attempts,
        safe(delivery.error, most=80),
    )


def _tried(settings: "Settings") -> "SendResult":
    """Send past the outbox, with a store nobody else sees: a test needs no database."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from steadyhelm.parts import build_alert_worker, channel_for, open_store

    with TemporaryDirectory(prefix="steadyhelm-") as folder:
        apart = msgspec.structs.replace(settings, db_path=str(Path(folder) / "test.db"))
        with closing(open_store(apart)) as store:
            worker = build_alert_worker(settings, store)
            assert worker is not None
            return worker.send_test(channel_for(settings.alerts_webhook))


def _refused(why: str) -> "SendResult":
    from steadyhelm.sinks.alerts.sender import SendResult

    return SendResult(channel="", kind="", host="", ok=False, error=why)


def _say_receipt(receipt: "SendResult") -> None:
    where = f"{receipt.kind} at {receipt.host}" if receipt.host else "the address"
    if receipt.ok:
        say(f"Sent: {safe(where)} answered {receipt.status} in {receipt.ms:.0f} ms.")
        return
    say(f"Not sent to {safe(where)} after {receipt.ms:.0f} ms: {safe(receipt.error)}")
    if "allow_hosts" in receipt.error:
        say("Set alerts.allow_hosts in steadyhelm.toml, or STEADYHELM_ALERTS_ALLOW_HOSTS=host,host.")
