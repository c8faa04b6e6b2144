"""What tests that break things share."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("failing_calls.c")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The compiled library that lets calls of the system fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no compiler for the library that lets calls of the system fail")
    built = tmp_path_factory.mktemp("library") / "failing_calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, _SOURCE, "-ldl"], check=True)
    return built
