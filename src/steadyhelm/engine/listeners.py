"""The functions a host wants called: with findings, and when we ask it to do something beside the ladder."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from steadyhelm.decisions import HOOKS, Decision, Hook
from steadyhelm.engine.health import Health
from steadyhelm.errors import SettingsError
from steadyhelm.findings import DriftEvent, Severity

Callback = Callable[[DriftEvent], object]
HookCallback = Callable[[Decision], object]


class Listeners:
    """Calls them on the agent's own thread; what they raise is counted, and the agent goes on."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._findings: list[tuple[Callback, Severity]] = []
        self._hooks: list[tuple[Hook, HookCallback]] = []
        self._calling = threading.local()

    def add(self, callback: Callback, least: Severity) -> None:
        """Call this with every finding of at least that severity."""
        self._findings.append((callback, least))

    def add_hook(self, hook: Hook, callback: HookCallback) -> None:
        """Call this with the decision that asks for the hook."""
        if hook not in HOOKS:
            raise SettingsError(f"There is no hook {hook!r}. Hooks: {', '.join(HOOKS)}.")
        self._hooks.append((hook, callback))

    def tell(self, decision: Decision) -> None:
        """Tell whoever wants to know about this decision."""
        if decision.findings and self._findings:
            self.found(decision.findings)
        for hook, callback in self._hooks if decision.hooks else ():
            if hook in decision.hooks:
                self._guarded(f"{hook} callback", callback, decision)

    def found(self, findings: Sequence[DriftEvent]) -> None:
        """Tell whoever wants to know about these findings."""
        for finding in findings:
            for callback, least in self._findings:
                if finding.severity.rank >= least.rank:
                    self._guarded("on_drift callback", callback, finding)

    def after_fork(self) -> None:
        """In a child process nothing is being called yet."""
        self._calling = threading.local()

    def _guarded(self, what: str, callback: Callable[[Any], object], told: Decision | DriftEvent) -> None:
        if getattr(self._calling, "now", False):
            return  # a callback that records events of its own must not call itself without end
        self._calling.now = True
        try:
            callback(told)
        except Exception as exc:  # noqa: BLE001 - the agent must not notice
            self._health.swallowed(what, exc)
        finally:
            self._calling.now = False
