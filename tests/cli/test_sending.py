import pytest
from watched_agent import Listener, queue_alert


class TestDeliveries:
    def test_newest_first(self, holdfast, store):
        """
        The outbox shows each alert with its state and what it says.
        """
        queue_alert(store, "loop-short")
        queue_alert(store, "loop-long")

        documents = holdfast("alerts deliveries --json").documents

        assert ["loop-long", "loop-short"] == [document["run_id"] for document in documents]
        assert "loop-long" == documents[0]["body"]["incident"]["run_id"]
        assert "pending" in holdfast("alerts deliveries").out

    def test_one_state(self, holdfast, store):
        """
        Only alerts in the state asked for are shown.
        """
        queue_alert(store)

        assert [] == holdfast("alerts deliveries --state sent --json").documents
        assert 1 == len(holdfast("alerts deliveries --state pending --json").documents)

    def test_unknown_state(self, holdfast):
        """
        A state that does not exist is a usage error.
        """
        assert 2 == holdfast("alerts deliveries --state lost").status

    def test_none(self, holdfast):
        """
        An empty outbox says how to try an address.
        """
        assert "holdfast alerts test --url URL" in holdfast("alerts deliveries").err


class TestTest:
    def test_arrives(self, holdfast, listener, monkeypatch):
        """
        A test alert reaches the address, and the answer names status and time.
        """
        monkeypatch.setenv("HOLDFAST_ALERTS_ALLOW_HOSTS", "127.0.0.1")

        answer = holdfast("alerts test --url {url}", url=listener.url)

        assert 0 == answer.status
        assert "webhook at 127.0.0.1 answered 200 in" in answer.err
        assert "This is a test" in listener.bodies[0]["event"]["message"]

    def test_needs_no_database(self, holdfast, database, listener, monkeypatch):
        """
        An address can be tried before the first run is watched.
        """
        monkeypatch.setenv("HOLDFAST_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        monkeypatch.setenv("HOLDFAST_ALERTS_WEBHOOK", listener.url)
        database.unlink()

        assert [True] == [receipt["ok"] for receipt in holdfast("alerts test --json").documents]
        assert not database.exists()

    def test_refused_address(self, holdfast, listener):
        """
        An address that alerts must not reach is refused, with the setting that allows it.
        """
        answer = holdfast("alerts test --url {url}", url=listener.url)

        assert 1 == answer.status
        assert "No alert is sent to 127.0.0.1" in answer.err
        assert "alerts.allow_hosts" in answer.err
        assert [] == listener.bodies

    def test_an_answer_that_is_an_error(self, holdfast, monkeypatch):
        """
        A refusal by the other side is a failure, with its status.
        """
        monkeypatch.setenv("HOLDFAST_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        grumpy = Listener(status=404)

        answer = holdfast("alerts test --url {url} --json", url=grumpy.url)
        grumpy.close()

        assert (1, [(False, 404)]) == (answer.status, [(it["ok"], it["status"]) for it in answer.documents])

    def test_no_address(self, holdfast):
        """
        Without any address it says how to set one.
        """
        answer = holdfast("alerts test")

        assert 2 == answer.status
        assert "HOLDFAST_ALERTS_WEBHOOK" in answer.err

    def test_not_a_url(self, holdfast):
        """
        What is no address is a usage error.
        """
        assert 2 == holdfast("alerts test --url ftp://example.org").status


class TestSend:
    @pytest.fixture(autouse=True)
    def address(self, apart, listener, monkeypatch):
        """Alerts go to the server on loopback."""
        monkeypatch.setenv("HOLDFAST_ALERTS_ALLOW_HOSTS", "127.0.0.1")
        monkeypatch.setenv("HOLDFAST_ALERTS_WEBHOOK", listener.url)

    def test_sends_what_is_due(self, holdfast, store, listener):
        """
        What waits in the outbox is sent, once.
        """
        queue_alert(store)

        first, second = holdfast("alerts send"), holdfast("alerts send")

        assert (0, "Sent 1 alert; 0 still waiting.\n") == first[::2]
        assert (0, "Sent 0 alerts; 0 still waiting.\n") == second[::2]
        assert 1 == len(listener.bodies)
        assert ["sent"] == [delivery.state for delivery in store.deliveries()]

    def test_leaves_muted_ones(self, holdfast, store, listener):
        """
        Nobody is told about what was muted.
        """
        incident = queue_alert(store)
        holdfast("alerts mute {id}", id=incident.incident_id)

        assert 0 == holdfast("alerts send").status
        assert [] == listener.bodies
        assert ["muted"] == [delivery.state for delivery in store.deliveries()]

    def test_says_what_did_not_arrive(self, holdfast, store, monkeypatch):
        """
        An alert that did not arrive is named with the reason, and the status is 1.
        """
        grumpy = Listener(status=500)
        monkeypatch.setenv("HOLDFAST_ALERTS_WEBHOOK", grumpy.url)
        queue_alert(store)

        answer = holdfast("alerts send")
        grumpy.close()

        assert 1 == answer.status
        assert "Sent 0 alerts; 1 still waiting." in answer.err
        assert "answered 500" in answer.err

    def test_no_address(self, holdfast, monkeypatch):
        """
        Without an address nothing can be sent.
        """
        monkeypatch.delenv("HOLDFAST_ALERTS_WEBHOOK")

        assert 2 == holdfast("alerts send").status
