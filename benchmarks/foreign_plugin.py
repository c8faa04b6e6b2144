"""A pytest plug-in for the frameworks' own test suites: install Steadyhelm, and write each test's outcome.

`STEADYHELM_FOREIGN_MODE` is the mode, empty for a run without Steadyhelm; `STEADYHELM_FOREIGN_OUTCOMES` is
the file with the outcomes. In guide mode no detector is there: nothing is to be said, so nothing may change.
"""

import atexit
import json
import os
import tempfile
from pathlib import Path
from typing import Any

MODE = os.environ.get("STEADYHELM_FOREIGN_MODE", "")
OUTCOMES = os.environ["STEADYHELM_FOREIGN_OUTCOMES"]


def pytest_configure(config: Any) -> None:
    """Install before the suite's own modules are imported."""
    if MODE and not hasattr(config, "workerinput"):
        _install_noop() if MODE == "noop" else _install()


def pytest_runtest_logreport(report: Any) -> None:
    """Write the outcome of a test; an error in a fixture is a failure."""
    if report.when == "call" or report.failed:
        with Path(OUTCOMES).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome]) + "\n")


def _install() -> None:
    import steadyhelm  # noqa: PLC0415 - not for a run without it
    from steadyhelm import DriftMonitor  # noqa: PLC0415

    path = Path(tempfile.mkdtemp(prefix="foreign-")) / "watched.db"
    monitor = DriftMonitor("foreign", db_path=path, mode=MODE, make_detectors=list)
    steadyhelm.install(monitor=monitor)
    atexit.register(_write_counts, monitor)


def _install_noop() -> None:
    """Give every agent of LangChain a middleware that does nothing: some of its tests fail with any."""
    from langchain.agents.factory import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import AgentMiddleware, hook_config  # noqa: PLC0415

    from steadyhelm.boundary.patches import Patches  # noqa: PLC0415

    class Noop(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> None: ...
        @hook_config(can_jump_to=["end"])
        async def abefore_model(self, state: Any, runtime: Any) -> None: ...
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


def _write_counts(monitor: Any) -> None:
    monitor.flush(60.0)
    store = monitor.store
    counts: dict[str, int] = {}
    for run_id in store.get_run_ids("foreign", limit=100_000):
        for event in store.get_run_traces("foreign", run_id):
            counts[event.action_type] = counts.get(event.action_type, 0) + 1
    told = {"counts": counts, "losses": monitor.health.totals()}
    Path(f"{OUTCOMES}.recorded").write_text(json.dumps(told), encoding="utf-8")
    monitor.close()
