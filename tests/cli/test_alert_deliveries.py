import pytest
from watched_agent import Listener, queue_alert


class TestDeliveries:
    def test_newest_first(self, steadyhelm, store):
        """
        The outbox shows each alert with its state and what it says.
        """
        queue_alert(store, "loop-short")
        queue_alert(store, "loop-long")

        documents = steadyhelm("alerts deliveries --json").document["deliveries"]

        assert ["loop-long", "loop-short"] == [document["run_id"] for document in documents]
        assert "loop-long" == documents[0]["body"]["incident"]["run_id"]
        assert "pending" in steadyhelm("alerts deliveries").out

    def test_one_state(self, steadyhelm, store):
        """
        Only alerts in the state asked for are shown.
        """
        queue_alert(store)

        assert [] == steadyhelm("alerts deliveries --state sent --json").document["deliveries"]
        assert 1 == len(steadyhelm("alerts deliveries --state pending --json").document["deliveries"])

    def test_unknown_state(self, steadyhelm):
        """
        A state that does not exist is a usage error.
        """
        assert 2 == steadyhelm("alerts deliveries --state lost").status

    def test_none(self, steadyhelm):
        """
        An empty outbox says how to try an address.
        """
        assert "steadyhelm alerts test --url URL" in steadyhelm("alerts deliveries").err


class TestTest:
    def test_arrives(self, steadyhelm, listener, monkeypatch):
        """
        A test alert reaches the address, and the answer names status and time.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_ALLOW_HOSTS", "127.0.0.1")

        answer = steadyhelm("alerts test --url {url}", url=listener.url)

        assert 0 == answer.status
        assert "webhook at 127.0.0.1 answered 200 in" in answer.err
        assert "This is a test" in listener.bodies[0]["event"]["message"]

    def test_needs_no_database(self, steadyhelm, database, listener, monkeypatch):
        """
        An address can be tried before the first run is watched.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", listener.url)
        database.unlink()

        assert [True] == [receipt["ok"] for receipt in steadyhelm("alerts test --json").documents]
        assert not database.exists()

    def test_refused_address(self, steadyhelm, listener):
        """
        An address that alerts must not reach is refused, with the setting that allows it.
        """
        answer = steadyhelm("alerts test --url {url}", url=listener.url)

        assert 1 == answer.status
        assert "No alert is sent to 127.0.0.1" in answer.err
        assert "alerts.allow_hosts" in answer.err
        assert [] == listener.bodies

    def test_an_answer_that_is_an_error(self, steadyhelm, monkeypatch):
        """
        A refusal by the other side is a failure, with its status.
        """
        monkeypatch.setenv("STEADYHELM_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        grumpy = Listener(status=404)

        answer = steadyhelm("alerts test --url {url} --json", url=grumpy.url)
        grumpy.close()

        assert (1, [(False, 404)]) == (answer.status, [(it["ok"], it["status"]) for it in answer.documents])

    def test_no_address(self, steadyhelm):
        """
        Without any address it says how to set one.
        """
        answer = steadyhelm("alerts test")

        assert 2 == answer.status
        assert "STEADYHELM_ALERTS_WEBHOOK" in answer.err

    def test_not_a_url(self, steadyhelm):
        """
        What is no address is a usage error.
        """
        assert 2 == steadyhelm("alerts test --url ftp://example.org").status


class TestSend:
    @pytest.fixture(autouse=True)
    def address(self, apart, listener, monkeypatch):
        """Alerts go to the server on loopback."""
        monkeypatch.setenv("STEADYHELM_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", listener.url)

    def test_sends_what_is_due(self, steadyhelm, store, listener):
        """
        What waits in the outbox is sent, once.
        """
        queue_alert(store)

        first, second = steadyhelm("alerts send"), steadyhelm("alerts send")

        assert (0, "Sent 1 alert; 0 still waiting.\n") == first[::2]
        assert (0, "Sent 0 alerts; 0 still waiting.\n") == second[::2]
        assert 1 == len(listener.bodies)
        assert ["sent"] == [delivery.state for delivery in store.list_deliveries()]

    def test_leaves_muted_ones(self, steadyhelm, store, listener):
        """
        Nobody is told about what was muted.
        """
        incident = queue_alert(store)
        steadyhelm("alerts mute {id}", id=incident.incident_id)

        assert 0 == steadyhelm("alerts send").status
        assert [] == listener.bodies
        assert ["muted"] == [delivery.state for delivery in store.list_deliveries()]

    def test_says_what_did_not_arrive(self, steadyhelm, store, monkeypatch):
        """
        An alert that did not arrive is named with the reason, and the status is 1.
        """
        grumpy = Listener(status=500)
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", grumpy.url)
        queue_alert(store)

        answer = steadyhelm("alerts send")
        grumpy.close()

        assert 1 == answer.status
        assert "Sent 0 alerts; 1 still waiting." in answer.err
        assert "answered 500" in answer.err

    def test_no_address(self, steadyhelm, monkeypatch):
        """
        Without an address nothing can be sent.
        """
        monkeypatch.delenv("STEADYHELM_ALERTS_WEBHOOK")

        assert 2 == steadyhelm("alerts send").status
