"""The pytest plug-in: `steadyhelm_watch`, a monitor that keeps runs in memory for a test to check.

It is loaded with pytest itself, so nothing is imported here before a test uses the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from steadyhelm.testing.watch import Watch


@pytest.fixture
def steadyhelm_watch(request: pytest.FixtureRequest) -> "Iterator[Watch]":
    """Watch the agent of one test: no file, no network, nothing left behind.

    Pass it to your agent in place of its monitor, or decorate its tools with `steadyhelm_watch.tool`;
    then assert what must not have happened: `assert_no_loop`, `assert_within`, `assert_no_drift`.
    """
    from steadyhelm.testing.watch import Watch  # noqa: PLC0415 - loaded only when it is used

    watch = Watch(request.node.name)
    yield watch
    watch.close()
