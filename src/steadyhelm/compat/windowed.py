"""The windowed face: typed events in, the names of the patterns worth telling out."""

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

REPEATS: Final = 3
_ERROR_LOOKED_AT: Final = 8192

ToolKind = Literal["read", "write", "command"]


class Event(Struct, frozen=True):
    """What an agent did to what: a file read or written, a command run.

    `content_hash` stands for the file's content as the event left it, empty when that is not known.
    `error` holds the words of a failure, None when there was none.
    """

    tool: str
    target: str
    content_hash: str
    timestamp: float
    error: str | None = None


Predicate = Callable[[Sequence[Event]], Sequence[Event] | bool]
"""Given the window, oldest first: the events that prove the pattern at the newest event, or yes and no."""

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
    """Notices read-loops, edit-reverts and test-fail-loops in the latest events, without crying wolf.

    Args:
        window: Events looked back at.
        alpha: How much the newest event counts in the EMA of a pattern's frequency.
        cooldown_events: Events between two alerts of one pattern; more when it is chronic.
        saturation: The EMA above which a pattern is escalated.
        tools: What kind of tool a name is, where the name does not say it: "read", "write" or "command".

    `events` is the window, `evidence` the events that proved each pattern when it last fired.

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
        self._added: dict[str, Predicate] = {}
        self._broken: dict[str, str] = {}

    @property
    def alpha(self) -> float:
        """How much the newest event counts in the EMA."""
        return self.fatigue.alpha

    @property
    def cooldown(self) -> int:
        """Events between two alerts of a pattern that is rare."""
        return self.fatigue.cooldown_events

    @property
    def event_count(self) -> int:
        """How many events were recorded."""
        return self.fatigue.event_count

    @property
    def ema(self) -> dict[str, float]:
        """Each pattern's EMA: a trend from 0 to 1, not the share of events at which it fires."""
        return {name: self.fatigue.ema(name) for name, _ in self._patterns()}

    @property
    def last_alert(self) -> dict[str, int]:
        """The event at which each pattern was last told, the first event being 1."""
        alerts = ((name, self.fatigue.last_alert(name)) for name, _ in self._patterns())
        return {name: event for name, event in alerts if event is not None}

    @property
    def escalated(self) -> list[str]:
        """The patterns that have become chronic: a soft alert is no longer enough."""
        return [name for name, _ in self._patterns() if self.fatigue.is_hard(name)]

    @property
    def not_checked(self) -> dict[str, str]:
        """The patterns that could not be looked for, each with the reason."""
        size = self.events.maxlen or 0
        reasons = dict(self._broken)
        if size < REPEATS:
            small = f"needs {REPEATS} events, and the window holds {size}"
            reasons.update(dict.fromkeys((READ_LOOP, EDIT_REVERT, TEST_FAIL_LOOP), small))
        return reasons

    def record(self, e: Event) -> list[str]:
        """Take one event in; the names of the patterns it shows that are worth telling now."""
        self.events.append(e)
        fired = [name for name, predicate in self._patterns() if self._holds(name, predicate)]
        return [reading.pattern for reading in self.fatigue.observe(fired) if reading.due]

    def add_pattern(self, name: str, predicate: Predicate) -> None:
        """Look for one more pattern; it gets an EMA and a cooldown like the others."""
        if not callable(predicate):
            raise SettingsError(f"The predicate of pattern {name!r} must be callable, got {predicate!r}.")
        if name in {known for known, _ in self._patterns()}:
            raise SettingsError(f"There is a pattern {name!r} already; choose another name.")
        self._added[name] = predicate

    def reset(self) -> None:
        """Somebody stepped in: forget the window and how often each pattern fired."""
        self.events.clear()
        self.fatigue.reset()

    def kind_of(self, tool: str) -> ToolKind:
        """Whether a tool reads, writes or runs something: as declared, else by the words of its name."""
        if tool in self._tools:
            return self._tools[tool]
        words = {word.lower() for word in _WORD.findall(tool)}
        if words & _WRITE_WORDS:
            return "write"
        return "read" if words & _READ_WORDS else "command"

    def _patterns(self) -> Iterable[tuple[str, Predicate]]:
        """The named predicates looked at; override it, or call `add_pattern`, to look for others."""
        return (
            (READ_LOOP, self._read_loop),
            (EDIT_REVERT, self._edit_revert),
            (TEST_FAIL_LOOP, self._test_fail_loop),
            *self._added.items(),
        )

    def _holds(self, name: str, predicate: Predicate) -> bool:
        try:
            proof = predicate(self.events)
            holds = bool(proof)
        except Exception as exc:  # noqa: BLE001 - one broken pattern must not blind the others
            self._broken[name] = f"its predicate raised {type(exc).__name__}: {exc}"
            return False
        self._broken.pop(name, None)
        if holds:
            self.evidence[name] = tuple(proof) if isinstance(proof, (list, tuple)) else (self.events[-1],)
        return holds

    def _read_loop(self, events: Sequence[Event]) -> Sequence[Event]:
        """The same file read again and again, its content being the same."""
        newest = events[-1]
        if self.kind_of(newest.tool) != "read":
            return ()
        reads = []
        for event in _latest_first(events, newest.target):
            kind = self.kind_of(event.tool)
            if event.content_hash != newest.content_hash or (kind == "write" and not event.content_hash):
                break
            if kind == "read":
                reads.append(event)
        return reads[::-1] if len(reads) >= REPEATS else ()

    def _edit_revert(self, events: Sequence[Event]) -> Sequence[Event]:
        """A write that brings back a content the file had before, undoing what came between."""
        newest = events[-1]
        if self.kind_of(newest.tool) != "write" or not newest.content_hash:
            return ()
        _, *earlier = (event for event in _latest_first(events, newest.target) if event.content_hash)
        if not earlier or earlier[0].content_hash == newest.content_hash:
            return ()
        same = (event for event in earlier if event.content_hash == newest.content_hash)
        undone_to = next(same, None)
        return (undone_to, earlier[0], newest) if undone_to else ()

    def _test_fail_loop(self, events: Sequence[Event]) -> Sequence[Event]:
        """The same command failing with the same error, run after run, whatever was done between the runs."""
        newest = events[-1]
        if newest.error is None or self.kind_of(newest.tool) != "command":
            return ()
        error = _settled(newest.error)
        runs: list[Event] = []
        for event in _latest_first(events, newest.target):
            if event.tool != newest.tool:
                continue
            if event.error is None or _settled(event.error) != error:
                break
            runs.append(event)
        return runs[::-1] if len(runs) >= REPEATS else ()


def _latest_first(events: Sequence[Event], target: str) -> Iterable[Event]:
    """The file's own reads and writes, or the command's own runs."""
    return (event for event in reversed(events) if event.target == target)


def _settled(error: Any) -> str:
    """An error without what changes from run to run although nothing has changed."""
    return " ".join(mask_noise(str(error)[:_ERROR_LOOKED_AT]).split())
