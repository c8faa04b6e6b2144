"""Callbacks of the host: for findings, decisions, incidents, and hooks such as `force_checkpoint`."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from steadyhelm.bounded import BoundedDict
from steadyhelm.decisions import HOOKS, Decision, DriftAction, Hook
from steadyhelm.engine.health import Health
from steadyhelm.errors import SettingsError
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import Incident, IncidentState

Callback = Callable[[DriftEvent], object]
HookCallback = Callable[[Decision], object]
IncidentCallback = Callable[[Incident], object]

_INCIDENTS_KEPT: Final = 1000


class Listeners:
    """Calls callbacks on the agent's own thread; what they raise is counted, and the agent continues.

    That includes `SystemExit`, a cancellation, and a `KeyboardInterrupt` that the callback raises itself.
    What a signal handler raises meanwhile passes on.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self._findings: list[tuple[Callback, Severity]] = []
        self._hooks: list[tuple[Hook, HookCallback]] = []
        self._decisions: list[HookCallback] = []
        self._incidents: list[IncidentCallback] = []
        self._known: BoundedDict[str, tuple[IncidentState, int]] = BoundedDict(_INCIDENTS_KEPT)
        self._calling = threading.local()

    def add(self, callback: Callback, least: Severity) -> None:
        """Call this with every finding of at least that severity."""
        require_function("The on_drift callback", callback)
        self._findings.append((callback, least))

    def add_hook(self, hook: Hook, callback: HookCallback) -> None:
        """Call this with the decision that asks for the hook."""
        if hook not in HOOKS:
            raise SettingsError(f"There is no hook {hook!r}. Hooks: {', '.join(HOOKS)}.")
        require_function(f"The {hook} callback", callback)
        self._hooks.append((hook, callback))

    def add_for_decisions(self, callback: HookCallback) -> None:
        """Call this with every decision that calls for more than going on."""
        require_function("The on_decision callback", callback)
        self._decisions.append(callback)

    @property
    def has_decision_callback(self) -> bool:
        """Whether anybody receives decisions."""
        return bool(self._decisions)

    def add_for_incidents(self, callback: IncidentCallback) -> None:
        """Call this with every incident that opens, gets worse or closes."""
        require_function("The on_incident callback", callback)
        self._incidents.append(callback)

    def notify(self, decision: Decision) -> None:
        """Call the callbacks for a decision, its findings and its hooks."""
        if decision.findings and self._findings:
            self.notify_findings([it for it in decision.findings if not it.is_ongoing])
        is_call = decision.action is not DriftAction.CONTINUE or decision.guidance
        for on_decision in self._decisions if is_call else ():
            self._call("on_decision callback", on_decision, decision)
        for hook, callback in self._hooks if decision.hooks else ():
            if hook in decision.hooks:
                self._call(f"{hook} callback", callback, decision)

    def notify_findings(self, findings: Sequence[DriftEvent]) -> None:
        """Call the callbacks for these findings."""
        for finding in findings:
            for callback, least in self._findings:
                if finding.severity.rank >= least.rank:
                    self._call("on_drift callback", callback, finding)

    def notify_incidents(self, incidents: Sequence[Incident]) -> None:
        """Call the callbacks for those of these incidents that are new, worse than before, or closed."""
        for incident in incidents if self._incidents else ():
            now = incident.state, incident.severity.rank
            before = self._known.get(incident.incident_id)
            if before is not None and before[0] == now[0] and before[1] >= now[1]:
                continue
            self._known[incident.incident_id] = now
            for callback in self._incidents:
                self._call("on_incident callback", callback, incident)

    def after_fork(self) -> None:
        """Start afresh in a child process: no callback is being called there."""
        self._calling = threading.local()

    def _call(self, what: str, callback: Callable[[Any], object], subject: object) -> None:
        if getattr(self._calling, "now", False):
            return  # a callback that records events of its own must not call itself without end
        self._calling.now = True
        try:
            callback(subject)
        except BaseException as exc:  # noqa: BLE001 - not even an exit of the host's own callback ends the agent
            self._health.swallow(what, exc)
        finally:
            self._calling.now = False


def require_function(name: str, value: object) -> None:
    """Raise SettingsError when an argument that is called later cannot be called."""
    if not callable(value):
        raise SettingsError(f"{name} must be a function, got {value!r}.")
