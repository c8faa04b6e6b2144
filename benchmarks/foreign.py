"""Run the frameworks' own test suites with Steadyhelm installed, and list the tests that fail only then.

Usage: python -m benchmarks.foreign [--folder FOLDER] [--minutes MINUTES] [--fresh] [SUITE ...]

Each suite comes from its framework's source archive or repository, and runs in an environment of its own,
three times: without Steadyhelm, in observe mode, and in guide mode with nothing to say. A test that failed
only with Steadyhelm is run again without it and with it, since some fail now and then by themselves; where a
framework is steered by middleware, it is run again with middleware that does nothing instead.
Calls of models and tools are counted where the framework makes them, and compared one by one with those
recorded; each test with a difference that no rule explains is listed.

A test may take a minute, and one that ends the process counts as failed. What was run is kept in the folder:
called again, it goes on where it was left, by `--minutes` or otherwise; `--fresh` runs everything again.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.foreign_comparison import KINDS, Comparison, compare_calls
from benchmarks.processes import ROOT

MODES = ("", "observe", "guide")
TEST_TIMEOUT_S = 60


class Suite(NamedTuple):
    """The tests of one framework: its package, the extra of ours, what its tests need, and which are run.

    `has_middleware` is whether it is steered by middleware: what fails with one that does nothing is its own.
    `repository` is where the tests are when the source archive has none.
    """

    package: str
    extra: str
    needs: tuple[str, ...]
    paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    has_middleware: bool = False
    repository: str = ""


PYTEST = ("pytest>=8.3", "pytest-timeout")
ASYNCIO = (*PYTEST, "pytest-asyncio")
SUITES = {
    "langchain": Suite(
        "langchain",
        "langchain",
        (
            *ASYNCIO,
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
        (*ASYNCIO, "inline-snapshot", "pytest-mock", "fakeredis", "websockets", "graphviz"),
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
        (*ASYNCIO, "moto", "pytest-xdist"),
        ("tests/strands/agent", "tests/strands/event_loop", "tests/strands/hooks"),
    ),
    "pydantic-ai": Suite(
        "pydantic-ai-slim",
        "pydantic-ai",
        (
            *PYTEST,
            "pydantic-ai-slim[openai,anthropic,google,mcp,evals,logfire]",
            "anyio[trio]",
            "blockbuster>=1.5.26,<1.6",
            "clai",
            "dirty-equals",
            "fastmcp",
            "genai-prices",
            "httpx",
            "inline-snapshot",
            "pytest-mock",
            "pytest-recording",
            "vcrpy",
        ),
        ("tests/test_tools.py", "tests/test_streaming.py", "tests/test_agent.py"),
        ("-W", "ignore:invalid escape sequence:DeprecationWarning"),
        repository="https://github.com/pydantic/pydantic-ai",
    ),
}


class Outcomes(NamedTuple):
    """What is known of one mode: outcomes of tests, their calls by kind, and whether all tests were run."""

    tests: dict[str, str]
    calls: dict[str, dict[str, Comparison]]
    losses: dict[str, int]
    is_complete: bool


def main() -> int:
    """Run the suites; 1 when a test fails because of Steadyhelm, or not all were run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "foreign")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="stop after so long, to go on later")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    asked = parser.parse_args()
    until = time.time() + asked.minutes * 60
    failing = []
    for name in asked.suites or SUITES:
        run = SuiteRun(name, asked.folder / name, until)
        if asked.fresh:
            run.forget()
        if not run.run():
            failing.append(name)
    return 1 if failing else 0


class SuiteRun:
    """The runs of one suite.

    Args:
        name: Its name.
        folder: Where its environment, its source and the outcomes are.
        until: When to stop, in seconds since the epoch.
    """

    def __init__(self, name: str, folder: Path, until: float) -> None:
        self._name, self._suite, self._folder, self._until = name, SUITES[name], folder, until
        folder.mkdir(parents=True, exist_ok=True)
        self._python = _make_environment(self._suite, folder)
        self._source = _fetch_source(self._suite, self._python, folder)

    def forget(self) -> None:
        """Forget the outcomes of earlier runs."""
        for path in self._folder.glob("*.jsonl"):
            path.unlink()

    def run(self) -> bool:
        """Run what has not been run, and print what came of it; return whether all passes as without us."""
        paths = [path for path in self._suite.paths if (self._source / path).exists()]
        if not paths:
            print(f"{self._name}: its source archive has no tests.")
            return True
        found = {mode: self._run_tests(paths, mode) for mode in MODES}
        passing = {test for test, outcome in found[""].tests.items() if outcome == "passed"}
        print(f"{self._source.name}: {len(passing)} of {len(found[''].tests)} tests pass without Steadyhelm")
        is_clean = True
        for mode in MODES[1:]:
            suspects = sorted(test for test in passing if found[mode].tests.get(test) != "passed")
            newly = self._confirm(suspects, mode) if found[mode].is_complete else suspects
            is_clean = is_clean and not newly and found[mode].is_complete
            print(_format_row(mode, newly, found[mode]))
        return is_clean

    def _confirm(self, suspects: list[str], mode: str) -> list[str]:
        """Return the tests that pass without Steadyhelm and fail with it once more."""
        if not suspects:
            return []
        reference = "noop" if self._suite.has_middleware and mode != "observe" else ""
        again = {}
        for each in (reference, mode):
            self._find_outcomes(each, "again").unlink(missing_ok=True)
            again[each] = self._run_tests(suspects, each, "again").tests
        return [test for test in suspects if again[reference].get(test) == "passed" != again[mode].get(test)]

    def _run_tests(self, paths: Iterable[str], mode: str, suffix: str = "") -> Outcomes:
        path = self._find_outcomes(mode, suffix)
        known = _read_outcomes(path)
        if known.is_complete or time.time() > self._until:
            return known
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "STEADYHELM_FOREIGN_SUITE": self._name,
            "STEADYHELM_FOREIGN_MODE": mode,
            "STEADYHELM_FOREIGN_OUTCOMES": str(path),
            "STEADYHELM_FOREIGN_UNTIL": str(self._until),
            "STEADYHELM_HOME": str(self._folder / "home"),
            "OPENAI_API_KEY": "none",
        }
        plugins = ["-p", "benchmarks.foreign_plugin", "-p", "no:cacheprovider"]
        limits = ["--continue-on-collection-errors", f"--timeout={TEST_TIMEOUT_S}"]
        command = [str(self._python), "-m", "pytest", "-q", *plugins, *limits, *self._suite.options, *paths]
        log = path.with_suffix(".log")
        with log.open("a", encoding="utf-8") as file:
            subprocess.run(command, cwd=self._source, env=environment, stdout=file, stderr=file, check=False)
        found = _read_outcomes(path)
        if not found.tests:
            sys.exit(f"No test ran: see {log}.")
        return found

    def _find_outcomes(self, mode: str, suffix: str = "") -> Path:
        return self._folder / f"{mode or 'bare'}{suffix}.jsonl"


def _read_outcomes(path: Path) -> Outcomes:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = Outcomes({}, {}, {}, any('"complete"' in it for it in lines))
    for line in map(json.loads, lines):
        if "test" in line and found.tests.get(line["test"]) != "failed":
            # What fails after the call was reported as passed before.
            found.tests[line["test"]] = line["outcome"]
        if "counted" in line:
            found.calls[line["counted"]] = compare_calls(line["made"], line["recorded"])
        found.losses.update(line.get("losses", {}))
    return found


def _format_row(mode: str, newly: list[str], found: Outcomes) -> str:
    run = "" if found.is_complete else f" of {len(found.tests)} tests run so far"
    rows = [f"  {mode}: {len(newly)} newly failing{run}; lost: {found.losses or 'nothing'}"]
    rows += [f"    fails: {it}" for it in newly]
    for kind in KINDS:
        rows += _format_calls(kind, {test: calls[kind] for test, calls in found.calls.items()})
    return "\n".join(rows)


def _format_calls(kind: str, calls: dict[str, Comparison]) -> list[str]:
    """Return the line about the calls of one kind, and one for each test with unexplained ones."""
    total = functools.reduce(Comparison.add, calls.values(), Comparison())
    run = f"{total.run} recorded as run, {total.not_run} as not run, {total.unexplained} unexplained"
    rows = [f"    {kind} calls: {total.made} made, {total.interrupted} interrupted; {run}"]
    return rows + [
        f"      {test}: {it.missing} made and not recorded as run, {it.surplus} recorded as run and not made"
        for test, it in calls.items()
        if it.unexplained
    ]


def _make_environment(suite: Suite, folder: Path) -> Path:
    """Return the Python of an environment with the framework, what its tests need, and Steadyhelm."""
    python, is_made = folder / ".venv" / "bin" / "python", folder / ".venv" / ".installed"
    if not is_made.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
        _pip(python, "install", "--editable", f"{ROOT}[{suite.extra}]", *suite.needs)
        is_made.touch()
    return python


def _fetch_source(suite: Suite, python: Path, folder: Path) -> Path:
    """Return the folder with the source of the version that is installed."""
    found = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    version = subprocess.run(
        [str(python), "-c", found, suite.package], capture_output=True, text=True, check=True
    ).stdout.strip()
    unpacked = folder / f"{suite.package.replace('-', '_')}-{version}"
    if unpacked.exists():
        return unpacked
    if suite.repository:
        branch = ("--depth", "1", "--branch", f"v{version}")
        subprocess.run(["git", "clone", "--quiet", *branch, suite.repository, str(unpacked)], check=True)
        return unpacked
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
