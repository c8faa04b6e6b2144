"""What you need to test a detector, a sink, a store or your own agent: shipped, and used by our own tests.

`Watch` and `assert_healthy` hold your agent's runs to what you expect of them, `events`, `fired_at` and
`said_at` are runs as pictures, the `*_CHECKS` are the conformance suites every plug-in must pass,
`FakeClock` is a clock you set.
Names load when they are first used: a pytest that never asks for them does not pay for them.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from steadyhelm.testing.clock import FakeClock as FakeClock
    from steadyhelm.testing.detector_checks import DETECTOR_CHECKS as DETECTOR_CHECKS
    from steadyhelm.testing.sink_checks import SINK_CHECKS as SINK_CHECKS
    from steadyhelm.testing.store_checks import STORE_CHECKS as STORE_CHECKS
    from steadyhelm.testing.traces import events as events
    from steadyhelm.testing.traces import fired_at as fired_at
    from steadyhelm.testing.traces import said_at as said_at
    from steadyhelm.testing.watching import Watch as Watch
    from steadyhelm.testing.watching import assert_healthy as assert_healthy

_HOMES: Final = {
    "DETECTOR_CHECKS": "detector_checks",
    "SINK_CHECKS": "sink_checks",
    "STORE_CHECKS": "store_checks",
    "FakeClock": "clock",
    "Watch": "watching",
    "assert_healthy": "watching",
    "events": "traces",
    "fired_at": "traces",
    "said_at": "traces",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'steadyhelm.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"steadyhelm.testing.{_HOMES[name]}"), name)
    return value
