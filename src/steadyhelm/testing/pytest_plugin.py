"""The pytest plug-in: `steadyhelm_watch`, a monitor that keeps a run in memory and lets a test judge it.

It is loaded with pytest itself, so nothing is imported here before a test asks for it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from steadyhelm.testing.watching import Watch


@pytest.fixture
def steadyhelm_watch(request: pytest.FixtureRequest) -> "Iterator[Watch]":
    """Watches the agent of one test: no file, no network, nothing left behind.

    Give it to your agent in place of its monitor, or decorate its tools with `steadyhelm_watch.tool`;
    then say what must not have happened: `assert_no_loop`, `assert_within`, `assert_no_drift`.
    """
    from steadyhelm.testing.watching import Watch  # noqa: PLC0415 - only who asks for it pays for it

    watch = Watch(request.node.name)
    yield watch
    watch.close()
