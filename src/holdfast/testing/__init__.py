"""What you need to test a detector, a sink, a store or your own agent: shipped, and used by our own tests.

conformance suites every plug-in must pass, `FakeClock` is a clock you set.
"""

from holdfast.testing.clock import FakeClock
from holdfast.testing.detector_checks import DETECTOR_CHECKS
from holdfast.testing.sink_checks import SINK_CHECKS
from holdfast.testing.store_checks import STORE_CHECKS
from holdfast.testing.traces import events, fired_at, said_at

__all__ = [
    "DETECTOR_CHECKS",
    "SINK_CHECKS",
    "STORE_CHECKS",
    "FakeClock",
    "events",
    "fired_at",
    "said_at",
]
