"""Callbacks of the host: for findings, and for hooks such as `force_checkpoint`."""

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
    """Calls callbacks on the agent's own thread; what they raise is counted, and the agent continues.

    That includes `SystemExit`, a cancellation, and a `KeyboardInterrupt` that the callback raises itself.
    What a signal handler raises meanwhile passes on.
    """

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

    def notify(self, decision: Decision) -> None:
        """Call the callbacks for the findings and hooks of a decision."""
        if decision.findings and self._findings:
            self.notify_findings([it for it in decision.findings if not it.is_ongoing])
        for hook, callback in self._hooks if decision.hooks else ():
            if hook in decision.hooks:
                self._call(f"{hook} callback", callback, decision)

    def notify_findings(self, findings: Sequence[DriftEvent]) -> None:
        """Call the callbacks for these findings."""
        for finding in findings:
            for callback, least in self._findings:
                if finding.severity.rank >= least.rank:
                    self._call("on_drift callback", callback, finding)

    def after_fork(self) -> None:
        """Start afresh in a child process: no callback is being called there."""
        self._calling = threading.local()

    def _call(self, what: str, callback: Callable[[Any], object], subject: Decision | DriftEvent) -> None:
        if getattr(self._calling, "now", False):
            return  # a callback that records events of its own must not call itself without end
        self._calling.now = True
        try:
            callback(subject)
        except BaseException as exc:  # noqa: BLE001 - not even an exit of the host's own callback ends the agent
            self._health.swallow(what, exc)
        finally:
            self._calling.now = False
