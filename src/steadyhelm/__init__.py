"""Keeps AI agents on course.

Names load when they are first used: importing the package costs next to nothing.
"""

import importlib
import os
import sys

# Every hook of a coding agent imports the package, and `typing` takes longer than all the rest of it.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final

    from steadyhelm.adapters.crewai import DriftCrew as DriftCrew
    from steadyhelm.assembly import DriftMonitor as DriftMonitor
    from steadyhelm.baselines import BaselineStats as BaselineStats
    from steadyhelm.budgets.adaptive_budget import AdaptiveBudget as AdaptiveBudget
    from steadyhelm.budgets.limits import Budget as Budget
    from steadyhelm.calibration import calibrate as calibrate
    from steadyhelm.checkpoint import Checkpoint as Checkpoint
    from steadyhelm.checkpoint import CheckpointKeeper as CheckpointKeeper
    from steadyhelm.checkpoints.disk import DiskKeeper as DiskKeeper
    from steadyhelm.checkpoints.memory import MemoryKeeper as MemoryKeeper
    from steadyhelm.compat.multi_resolution import MultiResolutionLoopDetector as MultiResolutionLoopDetector
    from steadyhelm.compat.strategies import LoopDetection as LoopDetection
    from steadyhelm.compat.strategies import LoopEvent as LoopEvent
    from steadyhelm.compat.strategies import LoopSignal as LoopSignal
    from steadyhelm.compat.strategies import LoopType as LoopType
    from steadyhelm.compat.windowed import DriftDetector as DriftDetector
    from steadyhelm.compat.windowed import Event as Event
    from steadyhelm.corrections.reply_classifier import ReplyLabel as ReplyLabel
    from steadyhelm.corrections.reply_classifier import classify_user_reply as classify_user_reply
    from steadyhelm.decisions import BudgetDecision as BudgetDecision
    from steadyhelm.decisions import BudgetState as BudgetState
    from steadyhelm.decisions import Decision as Decision
    from steadyhelm.decisions import DriftAction as DriftAction
    from steadyhelm.decisions import DriftAssessment as DriftAssessment
    from steadyhelm.decisions import DriftSeverity as DriftSeverity
    from steadyhelm.decisions import DriftSignals as DriftSignals
    from steadyhelm.decisions import DriftTrend as DriftTrend
    from steadyhelm.decisions import Intervention as Intervention
    from steadyhelm.decisions import TaskProfile as TaskProfile
    from steadyhelm.detector import Detector as Detector
    from steadyhelm.detectors.action_loop import ActionLoop as ActionLoop
    from steadyhelm.detectors.goal_drift import GoalDrift as GoalDrift
    from steadyhelm.detectors.resource_spike import ResourceSpike as ResourceSpike
    from steadyhelm.embedder import Embedder as Embedder
    from steadyhelm.engine.health import FlushResult as FlushResult
    from steadyhelm.engine.monitor import Monitor as Monitor
    from steadyhelm.engine.session import Session as Session
    from steadyhelm.errors import FormatError as FormatError
    from steadyhelm.errors import MissingExtraError as MissingExtraError
    from steadyhelm.errors import NotFoundError as NotFoundError
    from steadyhelm.errors import RunStopped as RunStopped
    from steadyhelm.errors import SettingsError as SettingsError
    from steadyhelm.errors import SteadyhelmError as SteadyhelmError
    from steadyhelm.errors import StoreError as StoreError
    from steadyhelm.events import RunInfo as RunInfo
    from steadyhelm.events import RunSummary as RunSummary
    from steadyhelm.events import TraceEvent as TraceEvent
    from steadyhelm.findings import DetectorType as DetectorType
    from steadyhelm.findings import DriftEvent as DriftEvent
    from steadyhelm.findings import Severity as Severity
    from steadyhelm.goals.quality import ContextQuality as ContextQuality
    from steadyhelm.goals.reminders import GoalReminderInjector as GoalReminderInjector
    from steadyhelm.goals.tree import GoalTree as GoalTree
    from steadyhelm.goals.vocabulary import GoalDNA as GoalDNA
    from steadyhelm.incidents import Incident as Incident
    from steadyhelm.installation import install as install
    from steadyhelm.installation import uninstall as uninstall
    from steadyhelm.judge import JudgeVerdict as JudgeVerdict
    from steadyhelm.judge import Question as Question
    from steadyhelm.judges import AnthropicJudge as AnthropicJudge
    from steadyhelm.judges import OpenAIJudge as OpenAIJudge
    from steadyhelm.policy.drift_engine import DriftEngine as DriftEngine
    from steadyhelm.portable_session import make_session as make_session
    from steadyhelm.portable_session import save_session as save_session
    from steadyhelm.settings import Settings as Settings
    from steadyhelm.sink import Sink as Sink
    from steadyhelm.sinks.callback import Callback as Callback
    from steadyhelm.store import Store as Store
    from steadyhelm.stores.sqlite import SQLiteStore as SQLiteStore
    from steadyhelm.style.scoring import ReplyScore as ReplyScore
    from steadyhelm.style.scoring import score_reply as score_reply

    ActionLoopDetector = ActionLoop
    GoalDriftDetector = GoalDrift
    ResourceSpikeDetector = ResourceSpike
    TraceStore = SQLiteStore

__version__: "Final" = "0.1.0"

_HOMES: "Final" = {
    "ActionLoop": "steadyhelm.detectors.action_loop:ActionLoop",
    "ActionLoopDetector": "steadyhelm.detectors.action_loop:ActionLoop",
    "AdaptiveBudget": "steadyhelm.budgets.adaptive_budget:AdaptiveBudget",
    "Budget": "steadyhelm.budgets.limits:Budget",
    "BaselineStats": "steadyhelm.baselines:BaselineStats",
    "BudgetDecision": "steadyhelm.decisions:BudgetDecision",
    "BudgetState": "steadyhelm.decisions:BudgetState",
    "Callback": "steadyhelm.sinks.callback:Callback",
    "Checkpoint": "steadyhelm.checkpoint:Checkpoint",
    "CheckpointKeeper": "steadyhelm.checkpoint:CheckpointKeeper",
    "ContextQuality": "steadyhelm.goals.quality:ContextQuality",
    "Decision": "steadyhelm.decisions:Decision",
    "Detector": "steadyhelm.detector:Detector",
    "DetectorType": "steadyhelm.findings:DetectorType",
    "DiskKeeper": "steadyhelm.checkpoints.disk:DiskKeeper",
    "DriftAction": "steadyhelm.decisions:DriftAction",
    "DriftAssessment": "steadyhelm.decisions:DriftAssessment",
    "DriftCrew": "steadyhelm.adapters.crewai:DriftCrew",
    "DriftDetector": "steadyhelm.compat.windowed:DriftDetector",
    "DriftEngine": "steadyhelm.policy.drift_engine:DriftEngine",
    "DriftEvent": "steadyhelm.findings:DriftEvent",
    "DriftMonitor": "steadyhelm.assembly:DriftMonitor",
    "DriftSeverity": "steadyhelm.decisions:DriftSeverity",
    "DriftSignals": "steadyhelm.decisions:DriftSignals",
    "DriftTrend": "steadyhelm.decisions:DriftTrend",
    "Embedder": "steadyhelm.embedder:Embedder",
    "Event": "steadyhelm.compat.windowed:Event",
    "FlushResult": "steadyhelm.engine.health:FlushResult",
    "FormatError": "steadyhelm.errors:FormatError",
    "GoalDNA": "steadyhelm.goals.vocabulary:GoalDNA",
    "GoalDrift": "steadyhelm.detectors.goal_drift:GoalDrift",
    "GoalDriftDetector": "steadyhelm.detectors.goal_drift:GoalDrift",
    "GoalReminderInjector": "steadyhelm.goals.reminders:GoalReminderInjector",
    "GoalTree": "steadyhelm.goals.tree:GoalTree",
    "Incident": "steadyhelm.incidents:Incident",
    "Question": "steadyhelm.judge:Question",
    "OpenAIJudge": "steadyhelm.judges:OpenAIJudge",
    "JudgeVerdict": "steadyhelm.judge:JudgeVerdict",
    "AnthropicJudge": "steadyhelm.judges:AnthropicJudge",
    "Intervention": "steadyhelm.decisions:Intervention",
    "LoopDetection": "steadyhelm.compat.strategies:LoopDetection",
    "LoopEvent": "steadyhelm.compat.strategies:LoopEvent",
    "LoopSignal": "steadyhelm.compat.strategies:LoopSignal",
    "LoopType": "steadyhelm.compat.strategies:LoopType",
    "MemoryKeeper": "steadyhelm.checkpoints.memory:MemoryKeeper",
    "MissingExtraError": "steadyhelm.errors:MissingExtraError",
    "Monitor": "steadyhelm.engine.monitor:Monitor",
    "MultiResolutionLoopDetector": "steadyhelm.compat.multi_resolution:MultiResolutionLoopDetector",
    "NotFoundError": "steadyhelm.errors:NotFoundError",
    "ReplyLabel": "steadyhelm.corrections.reply_classifier:ReplyLabel",
    "ReplyScore": "steadyhelm.style.scoring:ReplyScore",
    "ResourceSpike": "steadyhelm.detectors.resource_spike:ResourceSpike",
    "ResourceSpikeDetector": "steadyhelm.detectors.resource_spike:ResourceSpike",
    "RunInfo": "steadyhelm.events:RunInfo",
    "RunStopped": "steadyhelm.errors:RunStopped",
    "RunSummary": "steadyhelm.events:RunSummary",
    "SQLiteStore": "steadyhelm.stores.sqlite:SQLiteStore",
    "Session": "steadyhelm.engine.session:Session",
    "Settings": "steadyhelm.settings:Settings",
    "SettingsError": "steadyhelm.errors:SettingsError",
    "Severity": "steadyhelm.findings:Severity",
    "Sink": "steadyhelm.sink:Sink",
    "SteadyhelmError": "steadyhelm.errors:SteadyhelmError",
    "Store": "steadyhelm.store:Store",
    "StoreError": "steadyhelm.errors:StoreError",
    "TaskProfile": "steadyhelm.decisions:TaskProfile",
    "TraceEvent": "steadyhelm.events:TraceEvent",
    "TraceStore": "steadyhelm.stores.sqlite:SQLiteStore",
    "calibrate": "steadyhelm.calibration:calibrate",
    "classify_user_reply": "steadyhelm.corrections.reply_classifier:classify_user_reply",
    "install": "steadyhelm.installation:install",
    "make_session": "steadyhelm.portable_session:make_session",
    "save_session": "steadyhelm.portable_session:save_session",
    "score_reply": "steadyhelm.style.scoring:score_reply",
    "uninstall": "steadyhelm.installation:uninstall",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> "Any":
    try:
        module, attribute = _HOMES[name].split(":")
    except KeyError:
        raise AttributeError(f"module 'steadyhelm' has no attribute {name!r}") from None
    value = globals()[name] = getattr(importlib.import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _is_hook() -> bool:
    """Return whether this process is a hook of a coding agent, which runs no agent itself."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 - pathlib takes long to load
    return program in {"-m", "steadyhelm", "steadyhelm.exe"} and sys.argv[1:2] == ["hook"]


if os.environ.get("STEADYHELM_INSTALL") and not _is_hook():
    from steadyhelm.installation import install_by_environment

    install_by_environment(os.environ["STEADYHELM_INSTALL"])
