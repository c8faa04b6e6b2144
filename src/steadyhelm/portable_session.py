"""Make a session anywhere, save it between two events, and continue it in another process.

```python
session = make_session(settings, run, baseline)
session.observe(event)
state = save_session(session)  # bytes: keep them in a table, a file or an engine's own state
session = make_session(settings, state=state)  # here or on another machine
```
"""

import zlib
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.baselines import BaselineStats
from steadyhelm.bounded import BoundedDict
from steadyhelm.components import make_detector_factory, make_steering
from steadyhelm.declarations import parse_declarations
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.engine.health import Health
from steadyhelm.engine.session import Session
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo
from steadyhelm.forks import ForkSafeLock
from steadyhelm.incidents import Thresholds
from steadyhelm.settings import Settings

FORMAT_VERSION: Final = 1
_COMPRESSION_LEVEL: Final = 1
_FACTORIES_KEPT: Final = 8
_MAX_STATE_BYTES: Final = 64 << 20
"""A damaged state must not fill the memory."""

_factories: Final[BoundedDict[bytes, SessionFactory]] = BoundedDict(_FACTORIES_KEPT)
_factories_lock: Final = ForkSafeLock()


class _SavedSession(Struct):
    version: int
    run: RunInfo
    reference: Reference
    session: bytes


def make_session(
    settings: Settings,
    run: RunInfo | None = None,
    baseline: BaselineStats | Reference | None = None,
    state: bytes | None = None,
) -> Session:
    """Return the session of a run: a new one, or the one that was saved as `state`.

    A saved session has its run, the baseline it was compared with, what people had marked as false alarms and
    what could not be checked: `run` and `baseline` are not used then. Mode, detectors, budget and texts
    follow the settings, which must be those it was saved with.

    Args:
        settings: The detectors and their options, the policy and the budget.
        run: The run; needed where there is no state.
        baseline: What is normal for the agent; None compares with nothing.
        state: The result of `save_session`.

    Raises:
        FormatError: The state cannot be read, or is of another version.
        SettingsError: The settings are not valid.
    """
    if state is not None:
        saved = _decode(state)
        session = _find_factory(settings).begin(saved.run, saved.reference)
        session.restore(saved.session)
        return session
    if run is None:
        raise TypeError("make_session needs a run or a saved state.")
    if isinstance(baseline, BaselineStats):
        baseline = Reference(baseline, Thresholds())
    return _find_factory(settings).begin(run, baseline)


def save_session(session: Session) -> bytes:
    """Return everything that is needed to continue the session elsewhere, at most some tens of kilobytes."""
    reference = Reference(session.baseline, session.thresholds, None, session.tool_kinds)
    saved = _SavedSession(FORMAT_VERSION, session.run, reference, session.state())
    return zlib.compress(msgspec.msgpack.encode(saved), _COMPRESSION_LEVEL)


def _decode(state: bytes) -> _SavedSession:
    try:
        unpacked = zlib.decompressobj().decompress(state, _MAX_STATE_BYTES)
        saved = msgspec.msgpack.decode(unpacked, type=_SavedSession)
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FormatError(f"The saved session cannot be read: {exc}.") from exc
    if saved.version != FORMAT_VERSION:
        raise FormatError(f"The saved session has version {saved.version}, not {FORMAT_VERSION}.")
    return saved


def _find_factory(settings: Settings) -> SessionFactory:
    """Return what makes sessions by these settings, built once: checking every option takes its time."""
    key = msgspec.msgpack.encode(settings)
    with _factories_lock:
        found = _factories.get(key)
        if found is None:
            found = _factories[key] = SessionFactory(
                make_detectors=make_detector_factory(settings),
                health=Health(),
                mode=settings.mode,
                tools=parse_declarations(settings.tools),
                steering=make_steering(settings),
            )
    return found
