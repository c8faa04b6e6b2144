"""A baseline as a file: written whole, and believed only after it was checked."""

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.errors import FormatError, SteadyhelmError

_MARK: Final = "steadyhelm_baseline"
_FORMAT: Final = 1
_LARGEST: Final = 4 << 20
_LONGEST_NAME: Final = 200


def document(baseline: BaselineStats) -> dict[str, Any]:
    """The baseline as one JSON document that `read` understands."""
    return {_MARK: _FORMAT, **baseline.to_dict()}


def write(path: Path, baseline: BaselineStats) -> None:
    """Write it beside its place and move it there whole; only its owner may read it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(msgspec.json.format(msgspec.json.encode(document(baseline)), indent=2) + b"\n")
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as exc:
        raise SteadyhelmError(f"The baseline cannot be written to {path}: {exc}.") from exc


def read(path: Path) -> BaselineStats:
    """The baseline in a file; raises FormatError with what is wrong with it."""
    try:
        if path.stat().st_size > _LARGEST:
            raise FormatError(f"{path} is larger than any baseline ({_LARGEST >> 20} MB).")
        data = msgspec.json.decode(path.read_bytes())
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"{path} is not JSON: {exc}.") from exc
    if not isinstance(data, dict) or data.get(_MARK) != _FORMAT:
        raise FormatError(
            f"{path} is not a baseline. Write one with: steadyhelm baseline export AGENT -o FILE"
        )
    try:
        baseline = BaselineStats.from_dict(data)
    except (msgspec.ValidationError, ValueError) as exc:
        raise FormatError(f"{path} is not a sound baseline: {exc}.") from exc
    for fault in _faults(baseline):
        raise FormatError(f"{path} is not a sound baseline: {fault}. Nothing was changed.")
    return baseline


def _faults(baseline: BaselineStats) -> Iterator[str]:
    from steadyhelm.embedders.idf import BUCKETS

    if not 0 < len(baseline.agent_id) <= _LONGEST_NAME:
        yield f"agent_id must have 1 to {_LONGEST_NAME} characters"
    if baseline.required_runs < 1 or baseline.calibration_runs < 0:
        yield "required_runs must be 1 or more and calibration_runs 0 or more"
    for name, value in _numbers(baseline):
        if not (math.isfinite(value) and value >= 0):
            yield f"{name} must be 0 or more, got {value!r}"
    if not all(-1.0 <= value <= 1.0 for value in baseline.similarities):
        yield "similarities must lie between -1 and 1"
    if baseline.similarities != sorted(baseline.similarities):
        yield "similarities must be sorted"
    if len(baseline.word_counts) not in (0, BUCKETS):
        yield f"word_counts must hold {BUCKETS} counters or none, got {len(baseline.word_counts)}"


def _numbers(baseline: BaselineStats) -> Iterator[tuple[str, float]]:
    for name in baseline.__struct_fields__:
        value = getattr(baseline, name)
        if isinstance(value, float) and name != "mean_goal_similarity":
            yield name, value
    yield "word_runs", float(baseline.word_runs)
    for measure, spread in baseline.spreads.items():
        yield f"spreads.{measure}.p50", spread.p50
        yield f"spreads.{measure}.p95", spread.p95
    for measure, trend in baseline.trends.items():
        for which, sums in (("learning", trend.learning), ("frozen", trend.frozen)):
            yield f"trends.{measure}.{which}.count", float(sums.count)
            yield f"trends.{measure}.{which}.squares", sums.squares
            yield f"trends.{measure}.{which}.total", sums.total
            yield f"trends.{measure}.{which}.mean", abs(sums.mean)
