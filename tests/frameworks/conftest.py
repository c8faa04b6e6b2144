"""Which frameworks are here, and a monitor for each test.

`STEADYHELM_FRAMEWORKS` names the frameworks whose tests run: one that is named and cannot be imported is an
error, never a skipped test.
"""

import functools
import importlib.util
import os
from pathlib import Path

import pytest
from blocking import no_blocking

from steadyhelm import DriftMonitor

HERE = Path(__file__).parent
WANTED = os.environ.get("STEADYHELM_FRAMEWORKS", "").split()
FILES = {name: name.replace("-", "_") for name in WANTED}
OWN_TESTS = {
    "test_agent_framework.py": "agent-framework",
    "test_claude_agent.py": "claude",
    "test_claude_code_end_to_end.py": "claude",
    "test_clients.py": "openai-client",
    "test_codex_cli.py": "coding-agents",
    "test_crewai.py": "crewai",
    "test_gemini_cli.py": "coding-agents",
    "test_google_adk.py": "google-adk",
    "test_judge_clients.py": "openai-client",
    "test_langchain.py": "langchain",
    "test_litellm.py": "litellm",
    "test_llama_index.py": "llama-index",
    "test_openai_agents.py": "openai-agents",
    "test_pydantic_ai.py": "pydantic-ai",
    "test_strands.py": "strands",
}

# The stages are named as their frameworks are: nobody shall find them under those names.
collect_ignore = ["stages", *(test for test, framework in OWN_TESTS.items() if framework not in WANTED)]


@functools.cache
def stage_of(name):
    """The stage of a framework; one that cannot be imported is an error."""
    path = HERE / "stages" / f"{FILES[name]}.py"
    spec = importlib.util.spec_from_file_location(f"stage_{FILES[name]}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TheStage()


def pytest_collection_modifyitems(items):
    """A framework's own warnings are not ours to fix."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def monitors(tmp_path):
    """Makes monitors, and closes them in the end."""
    made = []

    def make(mode="observe", **options):
        path = tmp_path / f"watched{len(made)}.db"
        made.append(DriftMonitor("agent", db_path=path, mode=mode, **options))
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


@pytest.fixture(autouse=True)
def _no_blocking_on_event_loops():
    """Every test fails in which a call of ours makes an event loop wait; `blocking` says what is allowed."""
    with no_blocking():
        yield
