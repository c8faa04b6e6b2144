"""A pytest plug-in for the frameworks' own test suites: install Steadyhelm, and write what came of each test.

`STEADYHELM_FOREIGN_SUITE` names the suite; `STEADYHELM_FOREIGN_MODE` is the mode, empty for a run without
Steadyhelm; `STEADYHELM_FOREIGN_OUTCOMES` is the file with the outcomes, and a test that is in it is not run
again; `STEADYHELM_FOREIGN_UNTIL` is when to stop. In guide mode no detector is there: nothing is to be said,
so nothing may change.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.foreign_counts import MadeCalls, RecordedCalls

SUITE = os.environ["STEADYHELM_FOREIGN_SUITE"]
MODE = os.environ["STEADYHELM_FOREIGN_MODE"]
OUTCOMES = Path(os.environ["STEADYHELM_FOREIGN_OUTCOMES"])
UNTIL = float(os.environ["STEADYHELM_FOREIGN_UNTIL"])
FLUSH_S = 30.0


def pytest_configure(config: Any) -> None:
    """Install before the suite's own modules are imported."""
    made = MadeCalls(SUITE)
    if MODE == "noop":
        _install_noop()
    config.pluginmanager.register(_Watcher(made) if MODE not in {"", "noop"} else _Reporter())


class _Reporter:
    """Writes the outcome of each test, and leaves out those that have one."""

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out what was run before, also what ended the process."""
        lines = OUTCOMES.read_text(encoding="utf-8").splitlines() if OUTCOMES.exists() else []
        seen = {json.loads(line).get("test") for line in lines}
        done = [item for item in items if item.nodeid in seen]
        items[:] = [item for item in items if item.nodeid not in seen]
        config.hook.pytest_deselected(items=done)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write that a test began: one that ends the process is not tried again."""
        _write(test=nodeid, outcome="started")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the outcome of a test; an error in a fixture is a failure."""
        if report.when == "call" or report.failed or report.skipped:
            _write(test=report.nodeid, outcome=report.outcome)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:  # noqa: ARG002 - pytest's signature
        """Stop when the time is up."""
        if time.time() > UNTIL:
            pytest.exit("the time is up", returncode=0)

    def pytest_sessionfinish(self, exitstatus: int) -> None:  # noqa: ARG002 - pytest's signature
        """Write that every test was run."""
        if time.time() <= UNTIL:
            _write(complete=True)


class _Watcher(_Reporter):
    """Installs Steadyhelm, and writes for each test the calls that were made and those that were recorded."""

    def __init__(self, made: MadeCalls) -> None:
        import steadyhelm  # noqa: PLC0415 - not for a run without it
        from steadyhelm import DriftMonitor  # noqa: PLC0415

        self._made, self._recorded = made, RecordedCalls()
        path = Path(tempfile.mkdtemp(prefix="foreign-")) / "watched.db"
        self._monitor = DriftMonitor(
            "foreign", db_path=path, mode=MODE, make_detectors=list, sinks=[self._recorded]
        )
        steadyhelm.install(monitor=self._monitor)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        """Count the calls of one test."""
        self._made.clear()
        self._recorded.calls.clear()
        try:
            return (yield)
        finally:
            self._monitor.flush(FLUSH_S)
            _write(counted=item.nodeid, made=self._made.calls, recorded=self._recorded.calls)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what was lost, and close the monitor."""
        _write(losses=self._monitor.health.totals())
        self._monitor.close()
        super().pytest_sessionfinish(exitstatus)


def _write(**line: Any) -> None:
    with OUTCOMES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _install_noop() -> None:
    """Give every agent of LangChain a middleware that does nothing: some of its tests fail with any."""
    from langchain.agents.factory import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import AgentMiddleware  # noqa: PLC0415

    from steadyhelm.boundary.patches import Patches  # noqa: PLC0415

    class Noop(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    def make(original: Any) -> Any:
        def create(*args: Any, middleware: Any = (), **options: Any) -> Any:
            return original(*args, middleware=[Noop(), *middleware], **options)

        return create

    Patches().replace_function(create_agent, make)  # type: ignore[arg-type]
