import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import steadyhelm

NAMES = [
    "ActionLoop",
    "ActionLoopDetector",
    "AdaptiveBudget",
    "AnthropicJudge",
    "BaselineStats",
    "Budget",
    "BudgetDecision",
    "BudgetState",
    "Callback",
    "Checkpoint",
    "CheckpointKeeper",
    "ContextQuality",
    "Decision",
    "Detector",
    "DetectorType",
    "DiskKeeper",
    "DriftAction",
    "DriftAssessment",
    "DriftCrew",
    "DriftDetector",
    "DriftEngine",
    "DriftEvent",
    "DriftMonitor",
    "DriftSeverity",
    "DriftSignals",
    "DriftTrend",
    "Embedder",
    "Event",
    "FlushResult",
    "FormatError",
    "GoalDNA",
    "GoalDrift",
    "GoalDriftDetector",
    "GoalReminderInjector",
    "GoalTree",
    "Incident",
    "Intervention",
    "JudgeVerdict",
    "LoopDetection",
    "LoopEvent",
    "LoopSignal",
    "LoopType",
    "MemoryKeeper",
    "MissingExtraError",
    "Monitor",
    "MultiResolutionLoopDetector",
    "NotFoundError",
    "OpenAIJudge",
    "Question",
    "ReplyLabel",
    "ReplyScore",
    "ResourceSpike",
    "ResourceSpikeDetector",
    "RunInfo",
    "RunStopped",
    "RunSummary",
    "SQLiteStore",
    "Session",
    "Settings",
    "SettingsError",
    "Severity",
    "Sink",
    "SteadyhelmError",
    "Store",
    "StoreError",
    "TaskProfile",
    "TraceEvent",
    "TraceStore",
    "calibrate",
    "classify_user_reply",
    "install",
    "make_session",
    "save_session",
    "score_reply",
    "uninstall",
]


def loaded_by(code):
    """The packages from outside the standard library that a fresh interpreter has after this code."""
    script = f"""
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    home = Path(steadyhelm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {name.partition(".")[0] for name in json.loads(done.stdout)}
    return {name for name in modules if name not in sys.stdlib_module_names and not name.startswith("__mp")}


class TestNames:
    def test_the_list_is_pinned(self):
        """
        A public name appears or goes only together with this list.
        """
        assert ["__version__", *NAMES] == steadyhelm.__all__

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "DriftCrew"])
    def test_every_name_loads(self, name):
        """
        Every public name can be imported.
        """
        assert getattr(steadyhelm, name) is not None

    def test_a_name_that_needs_a_framework_says_so(self):
        """
        Without CrewAI its name tells which packages to add, as any import of it would.
        """
        with pytest.raises(steadyhelm.MissingExtraError, match=r"pip install 'steadyhelm\[crewai\]'"):
            _ = steadyhelm.DriftCrew

    def test_every_name_is_listed(self):
        """
        Looking into the package shows every name.
        """
        assert set(steadyhelm.__all__) <= set(dir(steadyhelm))

    def test_an_unknown_name_is_an_attribute_error(self):
        """
        A name that is not there fails as it does in any module.
        """
        with pytest.raises(AttributeError, match="module 'steadyhelm' has no attribute 'Nonsense'"):
            _ = steadyhelm.Nonsense

    def test_the_seeds_names_are_the_same_classes(self):
        """
        The names of the first design stand for the classes of today.
        """
        assert steadyhelm.ActionLoop is steadyhelm.ActionLoopDetector
        assert steadyhelm.SQLiteStore is steadyhelm.TraceStore


class TestImporting:
    def test_the_package_loads_nothing_from_outside(self):
        """
        Importing the package loads no package but itself: names load when they are first used.
        """
        assert {"steadyhelm"} == loaded_by("import steadyhelm")

    # msgspec takes typing_extensions where it is installed.
    MSGSPEC = frozenset({"steadyhelm", "msgspec", "typing_extensions"})

    @pytest.mark.parametrize("name", ["TraceEvent", "Session", "ActionLoop", "SettingsError", "calibrate"])
    def test_the_core_needs_msgspec_alone(self, name):
        """
        Records, session and detectors load msgspec and nothing else.
        """
        assert loaded_by(f"import steadyhelm; steadyhelm.{name}") <= self.MSGSPEC

    def test_the_front_door_needs_msgspec_alone(self):
        """
        So does the monitor, until an alert is sent or a command is run.
        """
        assert loaded_by("import steadyhelm; steadyhelm.DriftMonitor") <= self.MSGSPEC
