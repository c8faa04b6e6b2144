"""Watch every agent of a process with one call: `steadyhelm.install()`.

No framework is imported for it. A framework that is imported already is patched at once, any other when the
program imports it; what is replaced in it is in the adapter's `entry`, or in `patches` where that is long.
"""

import difflib
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steadyhelm.adapters.frameworks import FRAMEWORKS, Framework
from steadyhelm.boundary.patches import Patches
from steadyhelm.decisions import MODES
from steadyhelm.engine import registry
from steadyhelm.errors import SettingsError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.logs import logger

if TYPE_CHECKING:
    from steadyhelm.assembly import DriftMonitor

_DEFAULT_AGENT: Final = "agent"
_NO_PROGRAM: Final = frozenset({"", "-", "-c", "-m", "__main__"})


def install(
    mode: str | None = None,
    goal: str | None = None,
    frameworks: Iterable[str] | None = None,
    *,
    agent_id: str | None = None,
    monitor: "DriftMonitor | None" = None,
) -> "DriftMonitor":
    """Watch the agents of every installed framework from now on; return the monitor that watches them.

    ```python
    import steadyhelm

    steadyhelm.install(mode="guide")
    ```

    Agents, runners and functions that the program imported before are watched too; the log says what is
    watched and how it can be steered. A second call replaces the first.

    Args:
        mode: `observe`, `guide` or `enforce`; by default what the settings say.
        goal: What the agents are for; the goal of a run counts more.
        frameworks: Names such as `langchain` or `openai_agents`; by default all.
        agent_id: The name everything is kept under; by default the program's.
        monitor: A monitor to watch with, instead of one made from the other arguments.

    Raises:
        SettingsError: An argument is wrong.
    """
    if monitor is not None and (mode is not None or goal is not None or agent_id is not None):
        raise SettingsError("A monitor has a mode, a goal and an agent_id of its own: leave them out.")
    if monitor is not None and not callable(getattr(monitor, "record_event", None)):
        raise SettingsError(f"monitor must be a DriftMonitor, got {monitor!r}.")
    chosen = _choose_frameworks(frameworks)
    options: dict[str, Any] = {"mode": mode, "goal_description": goal}
    given = {name: value for name, value in options.items() if value is not None}

    def make_monitor() -> "DriftMonitor":
        from steadyhelm.assembly import DriftMonitor  # noqa: PLC0415 - loaded when the first agent needs it

        return DriftMonitor(agent_id or _name_program(), **given)

    uninstall()
    installation = _Installation(chosen, (lambda: monitor) if monitor is not None else make_monitor)
    installation.owns_monitor = monitor is None
    made = installation.monitor
    _start(installation)
    return made


def install_by_environment(mode: str) -> None:
    """Install when the first framework is imported. Logs what is wrong with the mode, and never raises."""
    if mode.lower() not in MODES:
        logger.warning(
            "Steadyhelm watches nothing: STEADYHELM_INSTALL must be one of %s, got %r.",
            ", ".join(MODES),
            mode,
        )
        return

    def make_monitor() -> "DriftMonitor":
        from steadyhelm.assembly import DriftMonitor  # noqa: PLC0415

        return DriftMonitor(_name_program(), mode=mode.lower())

    _start(_Installation(FRAMEWORKS, make_monitor))


def uninstall() -> None:
    """Undo `install()`: restore what it replaced, and close the monitor it made. Idempotent.

    A replacement that another library has replaced in turn stays, and does nothing more than call the
    original.
    """
    installation = _Installation.current
    if installation is not None:
        _Installation.current = None
        installation.undo()


def _start(installation: "_Installation") -> None:
    _Installation.current = installation
    sys.meta_path.insert(0, installation.finder)
    installation.patch_imported()


class _Target(NamedTuple):
    """A module of a framework, and the function that patches it."""

    framework: Framework
    module: str
    function: str


class _Installation:
    """Patches the frameworks that are imported, and those that will be.

    Args:
        frameworks: The frameworks to watch.
        make_monitor: Makes the monitor, when it is first needed.
    """

    current: "_Installation | None" = None

    def __init__(self, frameworks: Sequence[Framework], make_monitor: "Callable[[], DriftMonitor]") -> None:
        self.frameworks = [it for it in frameworks if it.patches]
        self.finder = _Finder(self._list_roots(), self.patch_imported)
        self.owns_monitor = True
        self._patches = Patches()
        self._targets = [
            _Target(framework, module, function)
            for framework in self.frameworks
            for module, function in framework.patches.items()
        ]
        self._make_monitor = make_monitor
        self._monitor: DriftMonitor | None = None
        self._is_logged = False
        # Not held while a module is imported: another thread may wait for it with the module's own lock.
        self._lock = ForkSafeLock()

    @property
    def monitor(self) -> "DriftMonitor":
        """The monitor that watches, made at the first use."""
        if self._monitor is None:
            importlib.import_module("steadyhelm.assembly")  # before the lock is taken
            with self._lock:
                self._monitor = self._monitor or self._make_monitor()
        return self._monitor

    def patch_imported(self, executed: str = "") -> None:
        """Patch what is imported and not patched yet, and the module just executed. Never raises."""
        for target in self._claim_imported(executed):
            try:
                self._patch(target)
            except Exception as exc:  # noqa: BLE001 - the program must not notice
                problem = f"{target.framework.title} is not watched: {type(exc).__name__}: {exc}"
                self.monitor.health.count(problem)
        if self._monitor is not None and not self._is_logged:
            self._is_logged = True
            self._log_summary()

    def undo(self) -> None:
        """Restore everything, and close the monitor if it was made here."""
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        self.finder.is_active = False
        self._patches.undo()
        if self._monitor is not None and self.owns_monitor:
            self._monitor.close()

    def _claim_imported(self, executed: str) -> list[_Target]:
        """Return the targets whose modules are imported; each is returned once."""
        with self._lock:
            imported = [it for it in self._targets if it.module == executed or _is_imported(it.module)]
            for target in imported:
                self._targets.remove(target)
        return imported

    def _patch(self, target: _Target) -> None:
        if target.framework.describe_missing():
            return  # named in the summary
        package = registry.OWN[registry.ADAPTERS][target.framework.name].partition(":")[0]
        function = getattr(importlib.import_module(package), target.function)
        if self._patches.is_active and not self.monitor.disabled:
            function(self.monitor, self._patches)

    def _list_roots(self) -> frozenset[str]:
        return frozenset(root for framework in self.frameworks for root in framework.roots)

    def _log_summary(self) -> None:
        """Log what is watched and how it can be steered, in one line."""
        mode = self.monitor.mode
        here = [it for it in self.frameworks if it.is_installed]
        old = [it for it in here if it.describe_missing()]
        watched = [_describe(it, mode) for it in here if it not in old]
        problems = [f"{it.title} needs {it.describe_missing()}" for it in old]
        log = logger.warning if problems or not watched else logger.info
        log(
            "Steadyhelm watches in mode %s: %s%s.",
            mode,
            "; ".join(watched) or "no framework is installed",
            "".join(f". Not watched: {problem}" for problem in problems),
        )


def _describe(framework: Framework, mode: str) -> str:
    return framework.title if mode == "observe" else f"{framework.title} (can {framework.steers})"


class _Finder:
    """A meta path finder that reports when an import of a watched package is complete.

    It finds nothing itself: it lets the other finders find the module, and only notices its end.
    """

    def __init__(self, roots: frozenset[str], on_imported: Callable[[str], None]) -> None:
        self.is_active = True
        self._roots = roots
        self._first_names = frozenset(root.partition(".")[0] for root in roots)
        self._on_imported = on_imported
        self._thread = _ImportState()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders find, with a loader that reports the end of the import."""
        if not self.is_active or fullname.partition(".")[0] not in self._first_names:
            return None
        if fullname in self._thread.finding or not self._is_watched(fullname):
            return None
        self._thread.finding.add(fullname)
        try:
            return self._find(fullname, path, target)
        finally:
            self._thread.finding.discard(fullname)

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = (
                find_spec(fullname, path, target) if find_spec and finder is not self else None
            )
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _ReportingLoader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

    def _is_watched(self, fullname: str) -> bool:
        return any(fullname == root or fullname.startswith(f"{root}.") for root in self._roots)

    def execute(self, loader: Any, module: ModuleType) -> None:
        """Execute a module; report when it was the outermost of a watched package in this thread."""
        self._thread.depth += 1
        try:
            loader.exec_module(module)
        finally:
            self._thread.depth -= 1
        if self._thread.depth == 0 and self.is_active:
            self._on_imported(module.__name__)


class _ImportState(threading.local):
    """What a thread imports now."""

    def __init__(self) -> None:
        self.depth = 0
        self.finding: set[str] = set()


class _ReportingLoader:
    """A loader in place of another until the module is executed: nobody else sees it."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__dict__["_loader"], attribute)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as the real loader does."""
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the real loader back, and execute the module with it."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._finder.execute(self._loader, module)


def _is_imported(module: str) -> bool:
    """Return whether a module is imported to its end."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return module in sys.modules and not getattr(spec, "_initializing", False)


def _choose_frameworks(names: Iterable[str] | None) -> Sequence[Framework]:
    if names is None:
        return FRAMEWORKS
    if isinstance(names, str) or not isinstance(names, Iterable):
        example = names if isinstance(names, str) else FRAMEWORKS[0].name
        raise SettingsError(f'frameworks must be a list of names, such as ["{example}"], got {names!r}.')
    known = {it.name: it for it in FRAMEWORKS}
    chosen = []
    for name in names:
        found = known.get(str(name).replace("-", "_"))
        if found is None:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise SettingsError(f"There is no framework {name!r}.{hint} Known: {', '.join(known)}.")
        chosen.append(found)
    return chosen


def _name_program() -> str:
    """Return the name of the program that runs, for the agent."""
    started = sys.argv[0] if sys.argv else ""
    path = Path(started)
    name = path.parent.name if path.stem == "__main__" else path.stem
    return _DEFAULT_AGENT if name in _NO_PROGRAM else name
