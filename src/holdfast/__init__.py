"""Keeps AI agents on course.

Names load when they are first used: importing the package costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.adapters.crewai import DriftCrew as DriftCrew
    from holdfast.assembly import DriftMonitor as DriftMonitor
    from holdfast.baselines import BaselineStats as BaselineStats
    from holdfast.budgets.adaptive_budget import AdaptiveBudget as AdaptiveBudget
    from holdfast.calibration import calibrate as calibrate
    from holdfast.checkpoint import Checkpoint as Checkpoint
    from holdfast.checkpoint import CheckpointKeeper as CheckpointKeeper
    from holdfast.checkpoints.disk import DiskKeeper as DiskKeeper
    from holdfast.checkpoints.memory import MemoryKeeper as MemoryKeeper
    from holdfast.corrections.foresight import foresee_correction as foresee_correction
    from holdfast.corrections.replies import ReplyLabel as ReplyLabel
    from holdfast.corrections.replies import classify_user_reply as classify_user_reply
    from holdfast.decisions import BudgetDecision as BudgetDecision
    from holdfast.decisions import BudgetState as BudgetState
    from holdfast.decisions import Decision as Decision
    from holdfast.decisions import DriftAction as DriftAction
    from holdfast.decisions import DriftAssessment as DriftAssessment
    from holdfast.decisions import DriftSeverity as DriftSeverity
    from holdfast.decisions import DriftSignals as DriftSignals
    from holdfast.decisions import DriftTrend as DriftTrend
    from holdfast.decisions import Intervention as Intervention
    from holdfast.decisions import TaskProfile as TaskProfile
    from holdfast.detector import Detector as Detector
    from holdfast.detectors.action_loop import ActionLoop as ActionLoop
    from holdfast.detectors.goal_drift import GoalDrift as GoalDrift
    from holdfast.detectors.resource_spike import ResourceSpike as ResourceSpike
    from holdfast.embedder import Embedder as Embedder
    from holdfast.engine.dispatch import FlushResult as FlushResult
    from holdfast.engine.monitor import Monitor as Monitor
    from holdfast.engine.session import Session as Session
    from holdfast.errors import FormatError as FormatError
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.errors import MissingExtraError as MissingExtraError
    from holdfast.errors import NotFoundError as NotFoundError
    from holdfast.errors import RunStopped as RunStopped
    from holdfast.errors import SettingsError as SettingsError
    from holdfast.errors import StoreError as StoreError
    from holdfast.events import RunInfo as RunInfo
    from holdfast.events import RunSummary as RunSummary
    from holdfast.events import TraceEvent as TraceEvent
    from holdfast.findings import DetectorType as DetectorType
    from holdfast.findings import DriftEvent as DriftEvent
    from holdfast.findings import Severity as Severity
    from holdfast.goals.dna import GoalDNA as GoalDNA
    from holdfast.goals.quality import ContextQuality as ContextQuality
    from holdfast.goals.reminders import GoalReminderInjector as GoalReminderInjector
    from holdfast.goals.tree import GoalTree as GoalTree
    from holdfast.incidents import Incident as Incident
    from holdfast.loops.loop_records import LoopDetection as LoopDetection
    from holdfast.loops.loop_records import LoopEvent as LoopEvent
    from holdfast.loops.loop_records import LoopSignal as LoopSignal
    from holdfast.loops.loop_records import LoopType as LoopType
    from holdfast.loops.multi_resolution import MultiResolutionLoopDetector as MultiResolutionLoopDetector
    from holdfast.loops.windowed import DriftDetector as DriftDetector
    from holdfast.loops.windowed import Event as Event
    from holdfast.policy.drift_engine import DriftEngine as DriftEngine
    from holdfast.settings import Settings as Settings
    from holdfast.sink import Sink as Sink
    from holdfast.sinks.callback import Callback as Callback
    from holdfast.store import Store as Store
    from holdfast.stores.sqlite import SQLiteStore as SQLiteStore
    from holdfast.style.reply_score import ReplyScore as ReplyScore
    from holdfast.style.scoring import score_reply as score_reply

    ActionLoopDetector = ActionLoop
    GoalDriftDetector = GoalDrift
    ResourceSpikeDetector = ResourceSpike
    TraceStore = SQLiteStore

__version__: Final = "0.1.0"

_HOMES: Final = {
    "ActionLoop": "holdfast.detectors.action_loop:ActionLoop",
    "ActionLoopDetector": "holdfast.detectors.action_loop:ActionLoop",
    "AdaptiveBudget": "holdfast.budgets.adaptive_budget:AdaptiveBudget",
    "BaselineStats": "holdfast.baselines:BaselineStats",
    "BudgetDecision": "holdfast.decisions:BudgetDecision",
    "BudgetState": "holdfast.decisions:BudgetState",
    "Callback": "holdfast.sinks.callback:Callback",
    "Checkpoint": "holdfast.checkpoint:Checkpoint",
    "CheckpointKeeper": "holdfast.checkpoint:CheckpointKeeper",
    "ContextQuality": "holdfast.goals.quality:ContextQuality",
    "Decision": "holdfast.decisions:Decision",
    "Detector": "holdfast.detector:Detector",
    "DetectorType": "holdfast.findings:DetectorType",
    "DiskKeeper": "holdfast.checkpoints.disk:DiskKeeper",
    "DriftAction": "holdfast.decisions:DriftAction",
    "DriftAssessment": "holdfast.decisions:DriftAssessment",
    "DriftCrew": "holdfast.adapters.crewai:DriftCrew",
    "DriftDetector": "holdfast.loops.windowed:DriftDetector",
    "DriftEngine": "holdfast.policy.drift_engine:DriftEngine",
    "DriftEvent": "holdfast.findings:DriftEvent",
    "DriftMonitor": "holdfast.assembly:DriftMonitor",
    "DriftSeverity": "holdfast.decisions:DriftSeverity",
    "DriftSignals": "holdfast.decisions:DriftSignals",
    "DriftTrend": "holdfast.decisions:DriftTrend",
    "Embedder": "holdfast.embedder:Embedder",
    "Event": "holdfast.loops.windowed:Event",
    "FlushResult": "holdfast.engine.dispatch:FlushResult",
    "FormatError": "holdfast.errors:FormatError",
    "GoalDNA": "holdfast.goals.dna:GoalDNA",
    "GoalDrift": "holdfast.detectors.goal_drift:GoalDrift",
    "GoalDriftDetector": "holdfast.detectors.goal_drift:GoalDrift",
    "GoalReminderInjector": "holdfast.goals.reminders:GoalReminderInjector",
    "GoalTree": "holdfast.goals.tree:GoalTree",
    "HoldfastError": "holdfast.errors:HoldfastError",
    "Incident": "holdfast.incidents:Incident",
    "Intervention": "holdfast.decisions:Intervention",
    "LoopDetection": "holdfast.loops.loop_records:LoopDetection",
    "LoopEvent": "holdfast.loops.loop_records:LoopEvent",
    "LoopSignal": "holdfast.loops.loop_records:LoopSignal",
    "LoopType": "holdfast.loops.loop_records:LoopType",
    "MemoryKeeper": "holdfast.checkpoints.memory:MemoryKeeper",
    "MissingExtraError": "holdfast.errors:MissingExtraError",
    "Monitor": "holdfast.engine.monitor:Monitor",
    "MultiResolutionLoopDetector": "holdfast.loops.multi_resolution:MultiResolutionLoopDetector",
    "NotFoundError": "holdfast.errors:NotFoundError",
    "ReplyLabel": "holdfast.corrections.replies:ReplyLabel",
    "ReplyScore": "holdfast.style.reply_score:ReplyScore",
    "ResourceSpike": "holdfast.detectors.resource_spike:ResourceSpike",
    "ResourceSpikeDetector": "holdfast.detectors.resource_spike:ResourceSpike",
    "RunInfo": "holdfast.events:RunInfo",
    "RunStopped": "holdfast.errors:RunStopped",
    "RunSummary": "holdfast.events:RunSummary",
    "SQLiteStore": "holdfast.stores.sqlite:SQLiteStore",
    "Session": "holdfast.engine.session:Session",
    "Settings": "holdfast.settings:Settings",
    "SettingsError": "holdfast.errors:SettingsError",
    "Severity": "holdfast.findings:Severity",
    "Sink": "holdfast.sink:Sink",
    "Store": "holdfast.store:Store",
    "StoreError": "holdfast.errors:StoreError",
    "TaskProfile": "holdfast.decisions:TaskProfile",
    "TraceEvent": "holdfast.events:TraceEvent",
    "TraceStore": "holdfast.stores.sqlite:SQLiteStore",
    "calibrate": "holdfast.calibration:calibrate",
    "classify_user_reply": "holdfast.corrections.replies:classify_user_reply",
    "foresee_correction": "holdfast.corrections.foresight:foresee_correction",
    "score_reply": "holdfast.style.scoring:score_reply",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _HOMES[name].split(":")
    except KeyError:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}") from None
    value = globals()[name] = getattr(importlib.import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
