"""Calls that name their target by a handle that is made anew each time: a `ref` of a page, a session.

Browsers number their elements anew at each look. Beside a label such a number says nothing of the target.
"""

import re
from typing import Any, Final

from msgspec import structs

from steadyhelm.fingerprints import encode_canonical, hash_bytes, hash_call
from steadyhelm.loops.index_pages import is_acknowledgement
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.steps import ToolStep

_MIN_RESULT_CHARS: Final = 20
_MAX_HANDLE_CHARS: Final = 64
_HANDLES: Final = frozenset(
    {"ref", "element_ref", "elementRef", "tab_ref", "node_ref", "nonce", "session", "session_id", "sessionId",
     "sid", "snapshot", "snapshot_id"}
)  # fmt: skip
_NUMBERED_REF: Final = re.compile(
    r"(?!v\d)(?:[a-z]{1,4}[-_]?\d{1,6}){1,2}\Z|(?=[a-z]{0,30}\d)[0-9a-f-]{6,64}\Z", re.IGNORECASE
)
"""A handle beside no label: a version or a name may be the target itself."""
_PLACES: Final = frozenset(
    {"index", "uid", "handle", "element_id", "elementId", "node_id", "nodeId", "backend_node_id"}
)
"""Handles only where a label says what stands there."""
_LABELS: Final = frozenset({"label", "name", "element", "text", "title", "description", "aria_label"})


def hash_without_handles(step: ToolStep) -> tuple[int, list[str]] | None:
    """Return the number of a call without its handles, and these; None where it has none, or nothing else."""
    args = step.event.input_data
    if not isinstance(args, dict):
        return None
    handles: list[str] = []
    kept = _drop_handles(args, handles)
    if kept is args:
        for name, value in args.items():
            inner = _drop_handles(value, handles) if isinstance(value, dict) else value
            if inner is not value:
                kept = {**kept, name: inner}
    if not handles or not any(kept.values()):
        return None
    return hash_call(step.event.action_name, encode_canonical(kept)), handles


def drop_from_outcome(outcome: CallOutcome, handles: list[str]) -> CallOutcome:
    """Return an outcome without the handles that it repeats."""
    sample = outcome.sample
    for it in handles:
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


def _drop_handles(args: dict[Any, Any], handles: list[str]) -> dict[Any, Any]:
    """Return arguments without handles, which are added to the list; the arguments themselves if none is."""
    has_label = not _LABELS.isdisjoint(args)
    names = _HANDLES | _PLACES if has_label else _HANDLES
    if names.isdisjoint(args):
        return args
    dropped = [name for name in args if name in names and _is_handle(args[name], has_label=has_label)]
    handles += [str(args[name]) for name in dropped]
    return {name: value for name, value in args.items() if name not in dropped} if dropped else args


def _is_handle(value: Any, *, has_label: bool) -> bool:
    if isinstance(value, str) and len(value) <= _MAX_HANDLE_CHARS:
        return any(map(str.isdigit, value)) if has_label else _NUMBERED_REF.match(value) is not None
    return has_label and isinstance(value, int)
