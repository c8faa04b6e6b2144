"""Run the frameworks' own test suites with Steadyhelm installed, and list the tests that fail only then.

Usage: python -m benchmarks.foreign [--folder FOLDER] [SUITE ...]

Each suite comes from its framework's source archive and runs in an environment of its own, three times:
without Steadyhelm, in observe mode, and in guide mode with nothing to say. A test that failed only with
Steadyhelm is run again without it and with it, since some fail now and then by themselves; where a framework
is steered by middleware, it is run again with middleware that does nothing instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import ROOT

MODES = ("", "observe", "guide")


class Suite(NamedTuple):
    """The tests of one framework: its package, the extra of ours, what its tests need, and which are run.

    `has_middleware` is whether it is steered by middleware: what fails with one that does nothing is its own.
    """

    package: str
    extra: str
    needs: tuple[str, ...]
    paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    has_middleware: bool = False


PYTEST = ("pytest>=8.3", "pytest-asyncio")
SUITES = {
    "langchain": Suite(
        "langchain",
        "langchain",
        (
            *PYTEST,
            "syrupy",
            "blockbuster>=1.5",
            "pytest-mock",
            "pytest-socket",
            "langchain-tests",
            "langchain-openai",
            "toml",
        ),
        ("tests/unit_tests/agents", "tests/unit_tests/tools"),
        ("--disable-socket", "--allow-unix-socket"),
        has_middleware=True,
    ),
    "openai-agents": Suite(
        "openai-agents",
        "openai-agents",
        (*PYTEST, "inline-snapshot", "pytest-mock", "fakeredis", "websockets", "graphviz"),
        tuple(
            f"tests/{name}.py"
            for name in (
                "test_agent_runner",
                "test_agent_runner_streamed",
                "test_agent_hooks",
                "test_global_hooks",
                "test_run_hooks",
                "test_guardrails",
                "test_handoff_tool",
                "test_function_tool",
                "test_run_step_execution",
                "test_run_step_processing",
                "test_tool_guardrails",
                "test_max_turns",
                "test_tracing_errors",
            )
        ),
    ),
    "strands": Suite(
        "strands-agents",
        "strands",
        (*PYTEST, "moto", "pytest-xdist"),
        ("tests/strands/agent", "tests/strands/event_loop", "tests/strands/hooks"),
    ),
    "pydantic-ai": Suite(
        "pydantic-ai",
        "pydantic-ai",
        (*PYTEST, "trio", "dirty-equals", "inline-snapshot", "pytest-mock", "vcrpy", "pytest-recording"),
        ("tests/test_tools.py", "tests/test_streaming.py", "tests/test_agent.py"),
    ),
}


def main() -> int:
    """Run the suites; 1 when a test fails because of Steadyhelm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "foreign")
    asked = parser.parse_args()
    failing = [name for name in asked.suites or SUITES if not run_suite(name, asked.folder / name)]
    return 1 if failing else 0


def run_suite(name: str, folder: Path) -> bool:
    """Run one suite in all modes and print what came of it; return whether no test fails newly."""
    suite = SUITES[name]
    folder.mkdir(parents=True, exist_ok=True)
    python = _make_environment(suite, folder)
    source = _fetch_source(suite, python, folder)
    paths = [path for path in suite.paths if (source / path).exists()]
    if not paths:
        print(f"{name}: its source archive has no tests.")
        return True
    outcomes = {mode: _run_tests(suite, python, source, paths, mode) for mode in MODES}
    passing = {test for test, outcome in outcomes[""].items() if outcome == "passed"}
    print(f"{name} {source.name}: {len(passing)} of {len(outcomes[''])} tests pass without Steadyhelm")
    is_clean = True
    for mode in MODES[1:]:
        suspects = sorted(test for test in passing if outcomes[mode].get(test) != "passed")
        newly = _confirm(suite, python, source, suspects, mode)
        print(f"  {mode}: {len(newly)} newly failing; recorded: {_read_counts(source, mode)}")
        print("".join(f"    {test}\n" for test in newly), end="")
        is_clean = is_clean and not newly
    return is_clean


def _confirm(suite: Suite, python: Path, source: Path, suspects: list[str], mode: str) -> list[str]:
    """Return the tests that pass without Steadyhelm and fail with it once more."""
    if not suspects:
        return []
    reference = "noop" if suite.has_middleware and mode != "observe" else ""
    modes = (reference, mode)
    again = {each: _run_tests(suite, python, source, suspects, each, suffix="again") for each in modes}
    return [test for test in suspects if again[reference].get(test) == "passed" != again[mode].get(test)]


def _run_tests(
    suite: Suite, python: Path, source: Path, paths: Iterable[str], mode: str, suffix: str = ""
) -> dict[str, str]:
    outcomes = _outcomes_path(source, mode, suffix)
    outcomes.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "STEADYHELM_FOREIGN_MODE": mode,
        "STEADYHELM_FOREIGN_OUTCOMES": str(outcomes),
        "STEADYHELM_HOME": str(source.parent / "home"),
        "OPENAI_API_KEY": "none",
    }
    command = [str(python), "-m", "pytest", "-q", "-p", "benchmarks.foreign_plugin", "-p", "no:cacheprovider"]
    command += ["--continue-on-collection-errors", *suite.options, *paths]
    log = outcomes.with_suffix(".log")
    with log.open("w", encoding="utf-8") as file:
        subprocess.run(command, cwd=source, env=environment, stdout=file, stderr=file, check=False)
    lines = outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []
    if not lines:
        sys.exit(f"No test ran: see {log}.")
    # The last report of a test counts: what fails after the call was reported as passed before.
    return dict(json.loads(line) for line in lines)


def _read_counts(source: Path, mode: str) -> str:
    path = Path(f"{_outcomes_path(source, mode)}.recorded")
    return path.read_text(encoding="utf-8") if path.exists() else "nothing"


def _outcomes_path(source: Path, mode: str, suffix: str = "") -> Path:
    return source.parent / f"{mode or 'bare'}{suffix}.jsonl"


def _make_environment(suite: Suite, folder: Path) -> Path:
    """Return the Python of an environment with the framework, what its tests need, and Steadyhelm."""
    python = folder / ".venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
        _pip(python, "install", "--editable", f"{ROOT}[{suite.extra}]", *suite.needs)
    return python


def _fetch_source(suite: Suite, python: Path, folder: Path) -> Path:
    """Return the folder with the source archive of the version that is installed."""
    found = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    name = suite.package if suite.package != "pydantic-ai" else "pydantic-ai-slim"
    version = subprocess.run(
        [str(python), "-c", found, name], capture_output=True, text=True, check=True
    ).stdout.strip()
    unpacked = folder / f"{suite.package.replace('-', '_')}-{version}"
    if not unpacked.exists():
        source = ("--no-deps", "--no-binary", suite.package, "--dest", str(folder))
        _pip(python, "download", *source, f"{suite.package}=={version}")
        [archive] = folder.glob(f"*{version}.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
    return unpacked


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "--quiet", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
