"""Tools to test a detector, a sink, a store or your own agent; the project's own tests use them too.

`Watch` and `assert_healthy` check your agent's runs, `events`, `fired_at` and `said_at` are runs as pictures,
the `*_CHECKS` are the conformance suites every plug-in must pass, `FakeClock` is a clock you set.
Names load when they are first used, so that a pytest run that does not use them loads nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from steadyhelm.testing.doubles import FakeClock as FakeClock
    from steadyhelm.testing.plug_in_checks import DETECTOR_CHECKS as DETECTOR_CHECKS
    from steadyhelm.testing.plug_in_checks import SINK_CHECKS as SINK_CHECKS
    from steadyhelm.testing.store_checks import STORE_CHECKS as STORE_CHECKS
    from steadyhelm.testing.traces import events as events
    from steadyhelm.testing.traces import fired_at as fired_at
    from steadyhelm.testing.traces import said_at as said_at
    from steadyhelm.testing.watch import Watch as Watch
    from steadyhelm.testing.watch import assert_healthy as assert_healthy

_MODULES: Final = {
    "DETECTOR_CHECKS": "plug_in_checks",
    "SINK_CHECKS": "plug_in_checks",
    "STORE_CHECKS": "store_checks",
    "FakeClock": "doubles",
    "Watch": "watch",
    "assert_healthy": "watch",
    "events": "traces",
    "fired_at": "traces",
    "said_at": "traces",
}

__all__ = [*_MODULES]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'steadyhelm.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"steadyhelm.testing.{_MODULES[name]}"), name)
    return value
