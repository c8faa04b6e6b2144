"""What the tests of judges share: a model server on the loopback, and monitors that ask it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judge_endpoint import WAIT_S, Client, Endpoint, answer

from steadyhelm import DriftMonitor
from steadyhelm.judges import OpenAIJudge


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Return a model that judges everything healthy."""
    server = Endpoint(answer("healthy"))
    yield server
    server.close()


@pytest.fixture
def make_monitor(tmp_path: Path, endpoint: Endpoint) -> Iterator[Callable[..., DriftMonitor]]:
    """Return a function that makes monitors of one database, with a judge behind the endpoint."""
    made = []

    def make(**options: Any) -> DriftMonitor:
        given = {"judge": OpenAIJudge(Client(endpoint.port), "a-model"), "db_path": tmp_path / "s.db"}
        monitor = DriftMonitor("agent", **given | options)
        made.append(monitor)
        return monitor

    yield make
    for monitor in made:
        monitor.close()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits for a condition, and fails when it does not come true."""

    def wait(is_true: Callable[[], object]) -> None:
        pause = threading.Event()
        for _ in range(int(WAIT_S / 0.01)):
            if is_true():
                return
            pause.wait(0.01)
        pytest.fail("waited in vain")

    return wait
