"""The live stream: what an agent records arrives, is resumed exactly, and ends when the server does."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import anyio
import pytest
from served_store import record_clean, run_server

from steadyhelm import DriftMonitor
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.routes import PREFIX
from steadyhelm.server.stream import Streams
from steadyhelm.stores import open_store

STREAM = f"{PREFIX}/stream"


class Follower:
    """Reads one stream, event by event."""

    def __init__(self, client, last_event_id=None):
        headers = {} if last_event_id is None else {"last-event-id": str(last_event_id)}
        self._context = client.stream("GET", STREAM, headers=headers, timeout=60)
        self._lines = self._context.__enter__().iter_lines()

    def next(self):
        """The next event: its kind and its content; fails when two heartbeats come before it."""
        kind, heartbeats = "", 0
        for line in self._lines:
            heartbeats += line.startswith(": ")
            assert heartbeats < 2, "nothing arrives any more"
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        return "end", {}

    def close(self):
        self._context.__exit__(None, None, None)


@pytest.fixture
def monitor(database):
    opened = DriftMonitor("worker", db_path=database, alert_webhook="")
    yield opened
    opened.close()


def wait_for(follower, run_id):
    """The first change that has this run, and all events before it."""
    seen = []
    while True:
        kind, content = follower.next()
        seen.append((kind, content))
        assert kind == "change", kind
        if any(run["run_id"] == run_id for run in content["runs"]):
            return content, seen


def test_what_an_agent_records_arrives(client, monitor):
    """A change has the complete row of the run."""
    follower = Follower(client)
    assert "hello" == follower.next()[0]
    run_id = record_clean(monitor)
    monitor.flush()
    content, _ = wait_for(follower, run_id)
    (row,) = [run for run in content["runs"] if run["run_id"] == run_id]
    assert ("worker", "rename a field") == (row["agent"]["name"], row["goal"])
    follower.close()


def test_an_answer_to_the_page_names_the_latest_change_in_it(running_server, client, monitor):
    """
    A page that knows the number of its data needs not ask again when a stream begins behind it.
    """
    with running_server.client(origin=running_server.url) as page:
        signed_in = page.post(f"{PREFIX}/session", json={"token": running_server.token}).json()
        page.headers["steadyhelm-secret"] = signed_in["secret"]
        before = page.get(f"{PREFIX}/runs").headers["steadyhelm-change"]
        monitor.start_run(goal="count")
        monitor.flush()
        after = page.get(f"{PREFIX}/runs").headers["steadyhelm-change"]
    with closing(Follower(client)) as follower:
        kind, hello = follower.next()

    assert int(before) < int(after)
    assert ("hello", int(after)) == (kind, hello["id"])
    assert "steadyhelm-change" not in client.get(f"{PREFIX}/runs").headers


def test_a_stream_resumes_over_a_restart(database, home, monitor):
    """Behind the last event that was seen, nothing is lost and nothing is sent twice."""
    with run_server(database, home) as first, first.client(authorization=f"Bearer {first.token}") as client:
        follower = Follower(client)
        _, hello = follower.next()
        seen_run = record_clean(monitor, "seen")
        monitor.flush()
        content, _ = wait_for(follower, seen_run)
        follower.close()
    missed = record_clean(monitor, "missed")
    monitor.flush()
    with (
        run_server(database, home) as second,
        second.client(authorization=f"Bearer {second.token}") as client,
    ):
        follower = Follower(client, content["id"])
        kind, again = follower.next()
        assert ("change", True) == (kind, again["id"] > content["id"] > hello["id"])
        assert missed in {run["run_id"] for run in again["runs"]}
        follower.close()


@pytest.mark.parametrize("last", [10**9, 0])
def test_an_unknown_number_resets(client, database, last):
    """A number that was never given, or is not known any more, leads to a reset."""
    if last == 0:
        with closing(open_store(database)) as store, store._connections.transaction() as connection:
            connection.execute("DELETE FROM changes WHERE id < (SELECT max(id) FROM changes)")
    follower = Follower(client, last)
    assert "reset" == follower.next()[0]
    follower.close()


def test_actions_arrive_too(client, running_server):
    """What somebody does on one page is news for the others."""
    follower = Follower(client)
    follower.next()
    with running_server.client(authorization=f"Bearer {running_server.token}") as other:
        other.post(f"{PREFIX}/agents/1/declarations", json={"tool": "test", "kind": "poll"})
    kind, content = follower.next()
    assert ("change", [1]) == (kind, content["agents"])
    follower.close()


def test_each_of_many_actions_arrives(client, running_server):
    """
    Nothing is missed, whichever threads of the server read, write and follow.

        follow    |    |    |    |    |     in any thread
        requests   rr w rr w rr w rr w      in all the others
    """
    follower = Follower(client)
    follower.next()
    with (
        running_server.client(authorization=f"Bearer {running_server.token}") as other,
        ThreadPoolExecutor(6) as readers,
    ):
        for place in range(20):
            reads = [readers.submit(other.get, f"{PREFIX}/overview") for _ in range(6)]
            other.post(f"{PREFIX}/agents/1/declarations", json={"tool": f"tool {place}", "kind": "poll"})
            kind, content = follower.next()
            assert ("change", [1]) == (kind, content["agents"])
            assert {200} == {it.result().status_code for it in reads}
    follower.close()


def test_a_change_right_after_the_first_stream_began_arrives(database):
    """
    The reader of changes begins where the first stream does, however late it comes to its turn.

        stream    hello 7
        store              change 8
        reader                       first read: sends 8
    """

    async def follow_late() -> list[bytes]:
        streams = Streams(store, AgentViews(store))
        events = streams.listen(None)
        seen = [await anext(events)]
        with closing(DriftMonitor("worker", db_path=database, alert_webhook="")) as monitor:
            record_clean(monitor)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.follow)
            with anyio.move_on_after(30):
                seen.append(await anext(events))
            tasks.cancel_scope.cancel()
        await events.aclose()
        return seen

    store = open_store(database)
    hello, change = anyio.run(follow_late)
    store.close()
    assert (b"event: hello" in hello, b"event: change" in change) == (True, True)


def test_streams_share_one_reader(client, running_server, monitor):
    """Eight streams get the same event, encoded once."""
    clients = [running_server.client(authorization=f"Bearer {running_server.token}") for _ in range(8)]
    followers = [Follower(it) for it in clients]
    assert {"hello"} == {it.next()[0] for it in followers}
    run_id = record_clean(monitor)
    monitor.flush()
    contents = [json.dumps(wait_for(it, run_id)[0]) for it in followers]
    assert 1 == len(set(contents))
    assert 8 == client.get(f"{PREFIX}/health").json()["streams"]
    for follower, it in zip(followers, clients, strict=True):
        follower.close()
        it.close()


def test_stopping_ends_open_streams(database, home):
    """A server that stops ends its streams, and does not wait for who listens."""
    ended = threading.Event()
    with run_server(database, home) as found:
        client = found.client(authorization=f"Bearer {found.token}")
        follower = Follower(client)
        follower.next()

        def read() -> None:
            try:
                while follower.next()[0] != "end":
                    pass
            except Exception:  # noqa: BLE001 - the connection may also be cut
                pass
            ended.set()

        reader = threading.Thread(target=read)
        reader.start()
        found.server.streams.stop_soon()
        assert ended.wait(30)
        reader.join()
    client.close()
