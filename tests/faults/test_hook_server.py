"""Hooks of coding agents whose runs are kept on a PostgreSQL server, which may be away."""

import contextlib

import pytest
from hook_processes import call, shared_home

from postgres_server import run_server
from steadyhelm.errors import SteadyhelmError
from steadyhelm.stores import open_store

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server():
    with run_server(settings={"synchronous_commit": "on"}) as server:
        yield server


@pytest.fixture
def own_database(own_server):
    """A database, addressed with a password that this server does not ask for."""
    with own_server.new_database() as url:
        yield url.replace("steadyhelm@", "steadyhelm:s3cret@")


@pytest.fixture
def hooks(own_database):
    with shared_home() as hooks:
        hooks.environment["STEADYHELM_DB"] = own_database
        yield hooks


def count_calls(url):
    with contextlib.suppress(SteadyhelmError), contextlib.closing(open_store(url, read_only=True)) as store:
        return store.find_run("s1", agent_id="claude-code").tool_calls
    return 0


def wait_for_calls(hooks, url, number):
    hooks.wait_until(lambda: count_calls(url) == number, f"not {number} calls")


def test_steps_are_stored(hooks, own_database):
    """
    The steps that hooks report are stored on the server, and no password is left on disk.
    """
    for number in range(3):
        hooks.run(call(number))
    wait_for_calls(hooks, own_database, 3)

    assert b"s3cret" not in hooks.everything_on_disk()


def test_the_server_is_away(hooks, own_server, own_database):
    """
    While the server is away a hook ends well and says nothing; its step is kept, and stored when it is back.
    """
    hooks.run(call(0))
    wait_for_calls(hooks, own_database, 1)
    own_server.stop()
    try:
        said = [hooks.run(call(number)) for number in (1, 2)]
        hooks.wait_until(lambda: any(hooks.steps.iterdir()), "no step is kept")
    finally:
        own_server.launch()
    hooks.run(call(3))
    wait_for_calls(hooks, own_database, 4)

    assert [("", "")] * 2 == said
    assert b"s3cret" not in hooks.everything_on_disk()


def test_away_from_the_start(hooks, own_server, own_database):
    """
    A server that was never reached loses no step either.
    """
    own_server.stop()
    try:
        assert ("", "") == hooks.run(call(0))
    finally:
        own_server.launch()
    hooks.run(call(1))

    wait_for_calls(hooks, own_database, 2)
