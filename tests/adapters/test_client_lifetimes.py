import contextlib
import gc
import traceback
import weakref

import pytest
from lookalike import Lookalike, asks, came, monitor_at, runs_of, said, stories, user

from steadyhelm import RunStopped
from steadyhelm.adapters.clients import OpenAIClientAdapter

GOAL = user("Find the ledger of March")
OTHER = user("Something else")


class Client(Lookalike):
    """One that can be closed, and copied as the libraries' own are."""

    def close(self):
        """Nothing more can be asked."""

    def copy(self):
        """Another one with the same replies."""
        return type(self)(*self.chat.completions._replies)


class Big:
    """Something of the host's that it wants to be rid of."""


@pytest.fixture
def monitor(tmp_path):
    """One that only watches."""
    with contextlib.closing(monitor_at(tmp_path / "w.db")) as made:
        yield made


def pieces():
    """A reply that comes in pieces, and is never read to its end."""
    for words in ("It is ", "3."):
        delta = {"content": words}
        yield {"object": "chat.completion.chunk", "choices": [{"delta": delta, "finish_reason": None}]}


def stream_of(client):
    """A reply in pieces, the first of them read."""
    stream = client.chat.completions.create(messages=[GOAL], stream=True)
    next(stream)
    return stream


def outcomes(monitor):
    """How the runs have ended, oldest first; empty while one goes on."""
    return [run.outcome for run in runs_of(monitor)]


class TestNothingOfTheHostsIsKept:
    @pytest.mark.parametrize("reply", [said("done"), asks("lookup", "c1", key="a")], ids=["done", "open"])
    def test_a_client_that_is_dropped_goes(self, monitor, reply):
        """
        Conversations are remembered for a long time, and their clients, with their sockets, are not.
        """
        client = monitor.wrap(Client(reply))
        client.ask(GOAL)
        there = weakref.ref(client)
        del client
        gc.collect()

        assert there() is None

    def test_a_client_goes_while_its_stream_is_still_read(self, monitor):
        """
        A stream that does not need its client any more does not keep it, and is watched to its end.
        """
        client = monitor.wrap(Client(pieces))
        stream, there = stream_of(client), weakref.ref(client)
        del client
        gc.collect()
        monitor.wrap(Client()).ask(OTHER)
        list(stream)

        assert there() is None
        assert ["user: Find the ledger of March", "model: It is 3."] == stories(monitor)[0]

    def test_a_failed_request_keeps_no_frames(self, monitor):
        """
        An error holds the frames it passed, with all that is in them: its kind is enough to remember.
        """
        client = monitor.wrap(Client(lambda: {}["no such model"]))
        there = []

        def host():
            big = Big()
            there.append(weakref.ref(big))
            client.ask(GOAL)

        with pytest.raises(KeyError):
            host()
        gc.collect()

        assert there[0]() is None

    def test_a_stop_that_is_raised_again_is_a_new_one(self, tmp_path):
        """
        Each time it says the same and has a traceback of its own, which does not grow.
        """
        with contextlib.closing(monitor_at(tmp_path / "e.db", "enforce")) as monitor:
            client = monitor.wrap(Client(*(asks("lookup", f"c{n}", key="a") for n in range(30))))
            messages, stops = [GOAL], []
            for n in range(30):
                try:
                    messages += [client.ask(*messages), came(f"c{n}", "no entry for a")]
                except RunStopped as stop:
                    stops.append(stop)

        assert len(stops) > 2
        assert len(stops) == len(set(map(id, stops)))
        assert 1 == len({(str(stop), stop.run_id, id(stop.decision)) for stop in stops})
        assert 1 == len({len(traceback.extract_tb(stop.__traceback__)) for stop in stops})


class TestTheEndOfAClient:
    def test_a_stream_that_was_left_ends_when_its_client_is_closed(self, monitor):
        """
        Nobody can read the rest of it any more.
        """
        client = monitor.wrap(Client(pieces))
        stream = stream_of(client)
        client.close()

        assert ["left early"] == outcomes(monitor)
        assert "model: It is " == stories(monitor)[0][-1]
        del stream

    def test_a_stream_that_was_dropped_ends_when_its_client_is_closed(self, monitor):
        """
        The same where it is garbage already.
        """
        client = monitor.wrap(Client(pieces))
        stream_of(client)
        gc.collect()
        client.close()

        assert ["left early"] == outcomes(monitor)

    def test_a_request_that_was_taken_back_ends_when_its_client_is_closed(self, monitor):
        """
        Whoever interrupts a request has left it, and has not had a failure.
        """
        client = monitor.wrap(Client(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            client.ask(GOAL)
        client.close()

        assert ["left early"] == outcomes(monitor)

    def test_a_request_that_failed_ends_when_its_client_is_closed(self, monitor):
        """
        It will not be tried again, so its run ends as the error says.
        """
        client = monitor.wrap(Client(ConnectionError("no route")))
        with pytest.raises(ConnectionError):
            client.ask(GOAL)
        client.close()

        assert ["error: ConnectionError"] == outcomes(monitor)
        assert ["user: Find the ledger of March", "model: ConnectionError: no route"] == stories(monitor)[0]

    def test_what_was_left_in_a_client_that_is_gone_ends_with_the_next_request(self, monitor):
        """
        Garbage is collected at any time, so it is noted, and told when any other client is used.
        """
        client = monitor.wrap(Client(pieces))
        stream_of(client)
        del client
        gc.collect()
        monitor.wrap(Client()).ask(OTHER)

        assert ["left early", "done"] == outcomes(monitor)

    @pytest.mark.parametrize("is_closed", [True, False])
    def test_open_calls_may_be_answered_through_another_client(self, monitor, is_closed):
        """
        A host that makes a client for each request goes on with the same run.
        """
        client = monitor.wrap(Client(asks("lookup", "c1", key="a")))
        asked = client.ask(GOAL)
        if is_closed:
            client.close()
        del client
        gc.collect()
        monitor.wrap(Client()).ask(GOAL, asked, came("c1", "no entry"))

        assert ["done"] == outcomes(monitor)

    def test_what_other_clients_left_goes_on(self, monitor):
        """
        Closing one client says nothing about another.
        """
        failing = monitor.wrap(Client(ConnectionError("no route")))
        with pytest.raises(ConnectionError):
            failing.ask(GOAL)
        monitor.wrap(Client()).close()
        failing.ask(GOAL)

        assert ["done"] == outcomes(monitor)


class TestCopies:
    def test_a_copy_that_is_gone_ends_nothing(self, monitor):
        """
        A host that sets options for each request makes many copies: a failed request is tried in the next.
        """
        client = monitor.wrap(Client(ConnectionError("no route")))
        with pytest.raises(ConnectionError):
            client.copy().ask(GOAL)
        gc.collect()
        monitor.wrap(Client()).ask(OTHER)

        assert "" == outcomes(monitor)[0]

    def test_what_failed_in_a_copy_ends_when_the_client_is_closed(self, monitor):
        """
        Copies share its connections, and are closed with it.
        """
        client = monitor.wrap(Client(ConnectionError("no route")))
        with pytest.raises(ConnectionError):
            client.copy().ask(GOAL)
        client.close()

        assert ["error: ConnectionError"] == outcomes(monitor)

    def test_unwrapping_a_copy_ends_only_what_went_through_it(self, monitor):
        """
        The client it was made from is still watched, and goes on.
        """
        client = monitor.wrap(Client(asks("lookup", "c1", key="a")))
        asked = client.ask(GOAL)
        OpenAIClientAdapter.unwrap(client.copy())
        client.ask(GOAL, asked, came("c1", "no entry"))

        assert ["done"] == outcomes(monitor)
