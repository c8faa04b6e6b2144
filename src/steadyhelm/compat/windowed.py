"""A loop detector over a window of typed events, which returns the names of the patterns to report."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from steadyhelm.errors import SettingsError
from steadyhelm.fatigue import Fatigue
from steadyhelm.noise import mask_noise

READ_LOOP: Final = "read-loop"
EDIT_REVERT: Final = "edit-revert"
TEST_FAIL_LOOP: Final = "test-fail-loop"

REPEATS_OF_LOOP: Final = 3
_MAX_ERROR_CHARS: Final = 8192

ToolKind = Literal["read", "write", "command"]


class Event(Struct, frozen=True):
    """One action on one target: a file read or written, a command run.

    `content_hash` identifies the content of the file after the event, empty when that is not known.
    `error` is the text of a failure, None when there was none.
    """

    tool: str
    target: str
    content_hash: str
    timestamp: float
    error: str | None = None


Predicate = Callable[[Sequence[Event]], Sequence[Event] | bool]
"""Takes the window, oldest first; returns the events that show the pattern at the newest event, or a bool."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WRITE_WORDS: Final = frozenset(
    (
        "write",
        "edit",
        "multiedit",
        "replace",
        "patch",
        "create",
        "insert",
        "append",
        "save",
        "update",
        "delete",
        "undo",
    )
)
_READ_WORDS: Final = frozenset(("read", "view", "open", "cat", "show", "get", "fetch", "load"))


class DriftDetector:
    """Notice read-loops, edit-reverts and test-fail-loops in the latest events, and limit repeated alerts.

    Args:
        window: The number of latest events that are compared.
        alpha: How much the newest event counts in the EMA of a pattern's frequency.
        cooldown_events: Events between two alerts of one pattern; more when it is chronic.
        saturation: The EMA above which a pattern is escalated.
        tools: The kind of a tool by its name, where the name does not show it: "read", "write" or "command".

    `events` is the window, `evidence` the events that showed each pattern when it last fired.

    >>> detector = DriftDetector()
    >>> [detector.record(Event("read", "a.py", "h1", float(second))) for second in range(5)]
    [[], [], ['read-loop'], [], []]
    """

    def __init__(
        self,
        window: int = 20,
        alpha: float = 0.3,
        cooldown_events: int = 5,
        *,
        saturation: float = 0.5,
        tools: Mapping[str, ToolKind] | None = None,
    ) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise SettingsError(f"window must be 1 event or more, got {window!r}.")
        for name, kind in (tools or {}).items():
            if kind not in get_args(ToolKind):
                raise SettingsError(f"tools[{name!r}] must be 'read', 'write' or 'command', got {kind!r}.")
        self.events: deque[Event] = deque(maxlen=window)
        self.fatigue = Fatigue(alpha=alpha, cooldown_events=cooldown_events, saturation=saturation)
        self.evidence: dict[str, tuple[Event, ...]] = {}
        self._tools = dict(tools or {})
        self._custom_patterns: dict[str, Predicate] = {}
        self._failed_patterns: dict[str, str] = {}

    @property
    def alpha(self) -> float:
        """The weight of the newest event in the EMA."""
        return self.fatigue.alpha

    @property
    def cooldown(self) -> int:
        """The number of events between two alerts of a rare pattern."""
        return self.fatigue.cooldown_events

    @property
    def event_count(self) -> int:
        """The number of recorded events."""
        return self.fatigue.event_count

    @property
    def ema(self) -> dict[str, float]:
        """The EMA of each pattern: a trend from 0 to 1, not the share of events at which it fires."""
        return {name: self.fatigue.ema(name) for name, _ in self._patterns()}

    @property
    def last_alert(self) -> dict[str, int]:
        """The event of the last alert of each pattern, the first event being 1."""
        alerts = ((name, self.fatigue.last_alert(name)) for name, _ in self._patterns())
        return {name: event for name, event in alerts if event is not None}

    @property
    def escalated(self) -> list[str]:
        """The patterns that have become chronic: a soft alert is no longer enough."""
        return [name for name, _ in self._patterns() if self.fatigue.is_hard(name)]

    @property
    def not_checked(self) -> dict[str, str]:
        """The patterns that could not be checked, each with the reason."""
        size = self.events.maxlen or 0
        reasons = dict(self._failed_patterns)
        if size < REPEATS_OF_LOOP:
            small = f"needs {REPEATS_OF_LOOP} events, and the window holds {size}"
            reasons.update(dict.fromkeys((READ_LOOP, EDIT_REVERT, TEST_FAIL_LOOP), small))
        return reasons

    def record(self, e: Event) -> list[str]:
        """Record one event, and return the names of the patterns to report now."""
        self.events.append(e)
        fired = [name for name, predicate in self._patterns() if self._matches(name, predicate)]
        return [reading.pattern for reading in self.fatigue.observe(fired) if reading.due]

    def add_pattern(self, name: str, predicate: Predicate) -> None:
        """Add a pattern to look for; it gets an EMA and a cooldown like the others."""
        if not callable(predicate):
            raise SettingsError(f"The predicate of pattern {name!r} must be callable, got {predicate!r}.")
        if name in {known for known, _ in self._patterns()}:
            raise SettingsError(f"There is a pattern {name!r} already; choose another name.")
        self._custom_patterns[name] = predicate

    def reset(self) -> None:
        """Forget the window and how often each pattern fired, after an intervention."""
        self.events.clear()
        self.fatigue.reset()

    def classify_tool(self, tool: str) -> ToolKind:
        """Return the kind of a tool: as declared, else by the words of its name."""
        if tool in self._tools:
            return self._tools[tool]
        words = {word.lower() for word in _WORD.findall(tool)}
        if words & _WRITE_WORDS:
            return "write"
        return "read" if words & _READ_WORDS else "command"

    def _patterns(self) -> Iterable[tuple[str, Predicate]]:
        """Return the named predicates to check; override it, or call `add_pattern`, to add others."""
        return (
            (READ_LOOP, self._find_read_loop),
            (EDIT_REVERT, self._find_edit_revert),
            (TEST_FAIL_LOOP, self._find_test_fail_loop),
            *self._custom_patterns.items(),
        )

    def _matches(self, name: str, predicate: Predicate) -> bool:
        try:
            evidence = predicate(self.events)
            matches = bool(evidence)
        except Exception as exc:  # noqa: BLE001 - one broken pattern must not blind the others
            self._failed_patterns[name] = f"its predicate raised {type(exc).__name__}: {exc}"
            return False
        self._failed_patterns.pop(name, None)
        if matches:
            self.evidence[name] = (
                tuple(evidence) if isinstance(evidence, (list, tuple)) else (self.events[-1],)
            )
        return matches

    def _find_read_loop(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the reads of the same file with the same content, if there are enough of them."""
        newest = events[-1]
        if self.classify_tool(newest.tool) != "read":
            return ()
        reads = []
        for event in _list_latest_first(events, newest.target):
            kind = self.classify_tool(event.tool)
            if event.content_hash != newest.content_hash or (kind == "write" and not event.content_hash):
                break
            if kind == "read":
                reads.append(event)
        return reads[::-1] if len(reads) >= REPEATS_OF_LOOP else ()

    def _find_edit_revert(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of a write that brings back an earlier content of the file."""
        newest = events[-1]
        if self.classify_tool(newest.tool) != "write" or not newest.content_hash:
            return ()
        _, *earlier = (event for event in _list_latest_first(events, newest.target) if event.content_hash)
        if not earlier or earlier[0].content_hash == newest.content_hash:
            return ()
        same = (event for event in earlier if event.content_hash == newest.content_hash)
        restored = next(same, None)
        return (restored, earlier[0], newest) if restored else ()

    def _find_test_fail_loop(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the runs of a command that failed with the same error each time, if there are enough."""
        newest = events[-1]
        if newest.error is None or self.classify_tool(newest.tool) != "command":
            return ()
        error = _normalize_error(newest.error)
        runs: list[Event] = []
        for event in _list_latest_first(events, newest.target):
            if event.tool != newest.tool:
                continue
            if event.error is None or _normalize_error(event.error) != error:
                break
            runs.append(event)
        return runs[::-1] if len(runs) >= REPEATS_OF_LOOP else ()


def _list_latest_first(events: Sequence[Event], target: str) -> Iterable[Event]:
    """Return the events of one target, the latest first."""
    return (event for event in reversed(events) if event.target == target)


def _normalize_error(error: Any) -> str:
    """Return an error without the noise that differs from run to run."""
    return " ".join(mask_noise(str(error)[:_MAX_ERROR_CHARS]).split())
