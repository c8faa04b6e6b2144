"""Marks for tests of what only newer versions of a framework can do: `make test-oldest` leaves them out."""

from importlib.metadata import version

import pytest

from steadyhelm.adapters.frameworks import parse_version


def needs(package: str, oldest: str, why: str) -> pytest.MarkDecorator:
    """Skip a test where the package is older; `why` says what its older versions do."""
    is_older = parse_version(version(package)) < parse_version(oldest)
    return pytest.mark.skipif(is_older, reason=f"{package} before {oldest}: {why}")
