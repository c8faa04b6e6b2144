"""What a linter cannot see: the core is made of plain functions of their input.

No clock, no randomness, no files, no logging, no threads: the same trace gives the same decision live, in a
replay and in a bug report a year later.
"""

import ast
from pathlib import Path

import pytest

import steadyhelm

ROOT = Path(steadyhelm.__file__).parent

PURE = sorted(
    path
    for pattern in (
        "events.py",
        "findings.py",
        "baselines.py",
        "declarations.py",
        "decisions.py",
        "incidents.py",
        "store_rows.py",
        "detector.py",
        "checkpoint.py",
        "sink.py",
        "embedder.py",
        "judge.py",
        "fingerprints.py",
        "hostile_text.py",
        "redaction/*.py",
        "windows.py",
        "lazy_properties.py",
        "lexicons.py",
        "regex_literals.py",
        "beyond_ascii.py",
        "calibration.py",
        "fatigue.py",
        "noise.py",
        "embedders/idf.py",
        "loops/*.py",
        "goals/*.py",
        "style/*.py",
        "corrections/*.py",
        "budgets/*.py",
        "judging/*.py",
        "detectors/*.py",
        "policy/*.py",
        "engine/session.py",
        "engine/responses.py",
        "engine/run_memory.py",
        "engine/incident_records.py",
        "engine/incident_tracker.py",
        "engine/judged_events.py",
        "engine/run_budget.py",
        "engine/drift_state.py",
        "engine/drift_findings.py",
        "engine/detector_runner.py",
        "engine/steering.py",
        "engine/totals.py",
        "engine/intervention_outcomes.py",
        "engine/coercion.py",
    )
    for path in ROOT.glob(pattern)
)

ALLOWED = {
    "abc",
    "binascii",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "math",
    "msgspec",
    "re",
    "statistics",
    "string",
    "typing",
    "unicodedata",
    "urllib.parse",
    "zlib",
    "steadyhelm.errors",
}
PURE_MODULES = {
    f"steadyhelm.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}" for path in PURE
}

# What a file may use beside that, and why.
EXCEPTIONS = {
    # The defaults of an event's or a finding's time and id; who needs the same one twice gives its own.
    "events.py": {"time", "uuid", "time.time", "uuid.uuid4"},
    "findings.py": {"time", "time.time"},
    # Reads the host's objects by their real types; what a signal handler raises meanwhile passes on.
    "fingerprints.py": {
        "steadyhelm.host_objects",
        "steadyhelm.interrupts",
        "steadyhelm.object_descriptions",
    },
    "engine/coercion.py": {"steadyhelm.host_objects", "steadyhelm.object_descriptions"},
    # Counts a failing plug-in; nothing is decided by it.
    "engine/session.py": {"steadyhelm.engine.health"},
    "engine/detector_runner.py": {"steadyhelm.engine.health"},
    # A price list belongs to a day; the call's own time comes in as an argument.
    "budgets/prices.py": {"datetime", "genai_prices", "datetime.fromtimestamp"},
    # The date of a time that comes in as an argument.
    "budgets/daily.py": {"datetime"},
    # Profiles, word lists and weights are data files: read once, and then what they say is plain data.
    "style/profile_files.py": {"pathlib", "importlib.resources", "steadyhelm.environment"},
    "lexicons.py": {"pkgutil"},
    "redaction/commands.py": {"pkgutil"},
    "corrections/model.py": {"pkgutil"},
}

FORBIDDEN_CALLS = ("open", "print", "input", "exec", "eval", "__import__", "globals", "vars")
FORBIDDEN_ROOTS = {
    "asyncio",
    "datetime",
    "importlib",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "sys",
    "threading",
    "time",
    "uuid",
}


def faults(source, allowed=frozenset()):
    """What in this source a pure module must not do, as `line: what`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        strange = set(_imported(node)) - ALLOWED - PURE_MODULES - allowed
        found += [f"{node.lineno}: import {what}" for what in sorted(strange)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(f"{node.lineno}: {node.func.id}()")
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            if dotted.partition(".")[0] in FORBIDDEN_ROOTS and dotted not in allowed:
                found.append(f"{node.lineno}: {dotted}")
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            found.append(f"{node.lineno}: {type(node).__name__.lower()}")
    return found


def _imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        return ["." * node.level + (node.module or "")]
    if node.module == "steadyhelm" or f"{node.module}.{node.names[0].name}" in PURE_MODULES:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [node.module]


def _dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


class TestTheCore:
    @pytest.mark.parametrize("path", PURE, ids=lambda path: path.relative_to(ROOT).as_posix())
    def test_it_is_pure(self, path):
        """
        Every module of the core imports only what is allowed and calls nothing that is forbidden.
        """
        allowed = EXCEPTIONS.get(path.relative_to(ROOT).as_posix(), frozenset())

        assert [] == faults(path.read_text(encoding="utf-8"), allowed)

    def test_none_slipped_out(self):
        """
        Every part of the core is among the files looked at.
        """
        names = {path.relative_to(ROOT).as_posix() for path in PURE}

        assert {"events.py", "detectors/action_loop.py", "policy/guidance.py", "engine/session.py"} <= names
        assert len(names) >= 20

    @pytest.mark.parametrize("name", EXCEPTIONS)
    def test_every_exception_is_needed(self, name):
        """
        An exception nobody needs any more is taken off the list.
        """
        source = (ROOT / name).read_text(encoding="utf-8")

        assert all(faults(source, EXCEPTIONS[name] - {one}) for one in EXCEPTIONS[name])


class TestTheCheck:
    @pytest.mark.parametrize(
        "source",
        [
            "import time",
            "import time as clock",
            "import random",
            "import uuid",
            "import logging",
            "import threading",
            "import socket",
            "import subprocess",
            "import os",
            "import numpy",
            "from os import environ",
            "from time import monotonic",
            "from steadyhelm import assembly",
            "from steadyhelm.engine import monitor",
            "from steadyhelm.engine.health import Health",
            "from . import events",
            "from .events import TraceEvent",
            "def f():\n    import random",
            "open('file')",
            "print('hello')",
            "def f():\n    return time.time()",
            "x = time.monotonic()",
            "y = os.environ['HOME']",
            "z = datetime.datetime.now()",
            "__import__('random')",
            "import importlib",
            "async def f(): ...",
        ],
    )
    def test_it_bites(self, source):
        """
        Source that looks at a clock, the world or another layer is reported.
        """
        assert faults(source)

    @pytest.mark.parametrize(
        "source",
        [
            "import math\nfrom collections.abc import Sequence",
            "from steadyhelm.events import TraceEvent",
            "from steadyhelm.policy.response_levels import respond",
            "event.time.time",
            "def opened(open):\n    return open",
        ],
    )
    def test_it_lets_pure_source_pass(self, source):
        """
        Source that only computes is not.
        """
        assert [] == faults(source)

    def test_it_names_line_and_fault(self):
        """
        A fault is named with its line.
        """
        assert ["2: import random", "3: print()"] == faults("x = 1\nimport random\nprint(x)")
