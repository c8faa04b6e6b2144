"""Alerts and log lines lead to the page, where its address is known."""

import logging

from served_store import record_loop

from steadyhelm import DriftMonitor
from steadyhelm.policy.alerting import Alert
from steadyhelm.sinks.alerts.channel import list_facts

URL = "https://helm.example.com/x/"


def test_an_incident_links_to_the_page(tmp_path, monkeypatch, caplog):
    """With `server.public_url`, the WARNING line and the alert in the outbox have the address."""
    monkeypatch.setenv("STEADYHELM_SERVER_PUBLIC_URL", URL)
    monkeypatch.setenv("STEADYHELM_ALERTS_ALLOW_HOSTS", "127.0.0.1")
    with caplog.at_level(logging.WARNING, "steadyhelm"):
        monitor = DriftMonitor("worker", db_path=tmp_path / "a.db", alert_webhook="https://127.0.0.1:9/x")
        record_loop(monitor)
        monitor.flush()
        incident = next(it for it in monitor.store.list_incidents() if it.kind == "loop")
        alerts = [Alert.from_body(it.body) for it in monitor.store.list_deliveries()]
        monitor.close()
    link = f"https://helm.example.com/x/#/incidents/{incident.incident_id}"
    assert any(f" or {link}" in record.getMessage() for record in caplog.records)
    assert ("Page", link) in [fact for alert in alerts for fact in list_facts(alert)]


def test_without_an_address_there_is_no_link(tmp_path, caplog):
    """Without the setting, and with one that is no address, nothing is added."""
    with caplog.at_level(logging.WARNING, "steadyhelm"):
        monitor = DriftMonitor("worker", db_path=tmp_path / "a.db", alert_webhook="")
        record_loop(monitor)
        monitor.close()
    assert not any("#/incidents" in record.getMessage() for record in caplog.records)
