"""Calls that name their target by a handle that is made anew each time: a `ref` of a page, a session.

Browsers number their elements anew at each look. Beside a label such a number says nothing of the target.
"""

import re
from typing import Any, Final

from msgspec import structs

from steadyhelm.fingerprints import encode_canonical, hash_bytes, hash_call
from steadyhelm.loops.effects import is_screen_action
from steadyhelm.loops.index_pages import is_acknowledgement
from steadyhelm.loops.kinds import reads_by_name
from steadyhelm.loops.outcomes import MAX_SAMPLE_CHARS, CallOutcome
from steadyhelm.loops.steps import ToolStep

_MIN_RESULT_CHARS: Final = 20
_MIN_HANDLE_CHARS: Final = 2
_MAX_HANDLE_CHARS: Final = 64
_HANDLES: Final = frozenset(
    {"ref", "element_ref", "elementRef", "tab_ref", "node_ref", "nonce"}
)  # fmt: skip
_NUMBERED_REF: Final = re.compile(
    r"(?!v\d)(?:[a-z]{1,4}[-_]?\d{1,6}){1,2}\Z|(?=[a-z]{0,30}\d)[0-9a-f-]{6,64}\Z", re.IGNORECASE
)
"""A handle beside no label: a version or a name may be the target itself."""
_SESSIONS: Final = frozenset({"session", "session_id", "sessionId", "sid"})
_MADE_UP: Final = re.compile(r"(?=[a-f-]{0,40}\d)[0-9a-f-]{8,64}\Z", re.IGNORECASE)
"""A session made up for a look. What is done with a session is done with that one."""
_PLACES: Final = frozenset(
    {"index", "uid", "handle", "element_id", "elementId", "node_id", "nodeId", "backend_node_id"}
)
"""Handles only on a screen, where a label says what stands there."""
_LABELS: Final = frozenset({"label", "name", "element", "text", "title", "description", "aria_label"})


def hash_without_handles(step: ToolStep) -> tuple[int, list[str]] | None:
    """Return the number of a call without its handles, and these; None where it has none, or nothing else."""
    args = step.event.input_data
    if not isinstance(args, dict):
        return None
    handles: list[str] = []
    kept = _drop_handles(step, args, handles)
    if kept is args:
        for name, value in args.items():
            inner = _drop_handles(step, value, handles) if isinstance(value, dict) else value
            if inner is not value:
                kept = {**kept, name: inner}
    if not handles or not any(kept.values()):
        return None
    return hash_call(step.event.action_name, encode_canonical(kept)), handles


def drop_from_outcome(outcome: CallOutcome, handles: list[str]) -> CallOutcome:
    """Return an outcome without the handles that it repeats."""
    sample = outcome.sample
    if outcome.size > MAX_SAMPLE_CHARS:
        return outcome  # what lies in the middle may have changed
    for it in handles:
        if len(it) < _MIN_HANDLE_CHARS:
            continue  # it may be a count as well
        sample = re.sub(rf"(?<!\w){re.escape(it)}(?!\w)", "~", sample)
    if sample == outcome.sample:
        return outcome
    return structs.replace(outcome, sample=sample, raw=hash_bytes(sample.encode("utf-8", "replace")))


def shows_target(outcome: CallOutcome) -> bool:
    """Return whether a result shows enough to tell one target from another with the same label."""
    return (
        outcome.known
        and not outcome.failed
        and outcome.size >= _MIN_RESULT_CHARS
        and not is_acknowledgement(outcome.sample)
    )


def _drop_handles(step: ToolStep, args: dict[Any, Any], handles: list[str]) -> dict[Any, Any]:
    """Return arguments without handles, which are added to the list; the arguments themselves if none is."""
    has_label = not _LABELS.isdisjoint(args)
    dropped = []
    for name, value in args.items():
        if name in _HANDLES:
            is_handle = _is_handle(value, has_label=has_label)
        elif name in _SESSIONS:
            is_handle = isinstance(value, str) and _MADE_UP.match(value) is not None
            is_handle = is_handle and reads_by_name(step.event.action_name)
        else:
            is_handle = has_label and name in _PLACES and _is_handle(value, has_label=True)
            is_handle = is_handle and is_screen_action(step.event.action_name)
        if is_handle:
            dropped.append(name)
            handles.append(str(value))
    return {name: value for name, value in args.items() if name not in dropped} if dropped else args


def _is_handle(value: Any, *, has_label: bool) -> bool:
    if isinstance(value, str) and len(value) <= _MAX_HANDLE_CHARS:
        return any(map(str.isdigit, value)) if has_label else _NUMBERED_REF.match(value) is not None
    return has_label and isinstance(value, int)
