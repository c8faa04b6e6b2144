"""Alert fatigue per pattern, and trust in tools and files.

Both are small states that are saved with the run, and depend only on what was recorded.
Neither decides anything: they return numbers, and the policy decides.
"""

import enum
import math
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.errors import SettingsError
from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.call_arguments import find_path

MAX_PATTERNS: Final = 256
MAX_SUBJECTS: Final = 256
_DOUBTFUL_KEPT: Final = 10


class FatigueReading(NamedTuple):
    """The fatigue of one pattern that fired at the event just observed.

    `due` says whether the pattern's cooldown is over, so that it may be reported.
    `hard` says whether it has become chronic: the EMA is above its saturation.
    `escalated` is true only at the event at which it became so.
    """

    pattern: str
    due: bool
    hard: bool
    escalated: bool
    ema: float
    cooldown: float


class _Pattern(Struct, array_like=True):
    """The EMA at one event, and the event of the last alert (0: never)."""

    ema: float = 0.0
    at: int = 0
    last_alert: int = 0


class Fatigue(Struct, kw_only=True):
    """An EMA of how often each pattern fires per event, and what follows from it.

    The EMA weighs recent events more: it is a trend, never a share, and must not be shown as a percentage.

    Args:
        alpha: How much the newest event counts; .3 forgets half in two events.
        cooldown_events: Events between two alerts of one pattern while it is rare.
        saturation: The EMA above which a pattern is chronic, and a soft alert becomes a hard one.
        stretch: How much longer the cooldown of a chronic pattern is: cooldown * (1 + stretch * ema).

    >>> fatigue = Fatigue()
    >>> [reading.due for _ in range(4) for reading in fatigue.observe(["read-loop"])]
    [True, False, False, False]
    >>> round(fatigue.ema("read-loop"), 4), fatigue.is_hard("read-loop")
    (0.7599, True)
    """

    alpha: float = 0.3
    cooldown_events: int = 5
    saturation: float = 0.5
    stretch: float = 3.0
    event_count: int = 0
    patterns: dict[str, _Pattern] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_share("alpha", self.alpha)
        _check_share("saturation", self.saturation)
        if not _is_whole(self.cooldown_events) or self.cooldown_events < 0:
            raise SettingsError(f"cooldown_events must be 0 or more events, got {self.cooldown_events!r}.")
        if not _is_number(self.stretch) or self.stretch < 0:
            raise SettingsError(f"stretch must be 0 or more, got {self.stretch!r}.")

    def observe(self, fired: Collection[str] = ()) -> tuple[FatigueReading, ...]:
        """Record one event with the patterns that fired at it, and return their readings; others decay."""
        self.event_count += 1
        return tuple(self._record(pattern) for pattern in dict.fromkeys(fired))

    def ema(self, pattern: str) -> float:
        """Return the EMA of a pattern at the latest event, 0 to 1."""
        return self._ema_at(pattern, self.event_count)

    def cooldown(self, pattern: str) -> float:
        """Return how many events must pass after an alert before the next one; never fewer than the base."""
        return self.cooldown_events * (1.0 + self.stretch * self.ema(pattern))

    def is_hard(self, pattern: str) -> bool:
        """Return whether the pattern is chronic."""
        return self.ema(pattern) > self.saturation

    def last_alert(self, pattern: str) -> int | None:
        """Return the number of the event of the last alert, the first event being 1; None without any."""
        known = self.patterns.get(pattern)
        return known.last_alert or None if known else None

    def reset(self, pattern: str | None = None) -> None:
        """Forget this pattern, or all of them, after an intervention.

        The cooldown is reset too: a pattern that comes back after an intervention is news.
        """
        if pattern is None:
            self.patterns.clear()
        else:
            self.patterns.pop(pattern, None)

    def _ema_at(self, pattern: str, event: int) -> float:
        known = self.patterns.get(pattern)
        if known is None:
            return 0.0
        # Each event without it multiplies the EMA by the same factor: they are not visited one by one.
        return float(known.ema * (1.0 - self.alpha) ** (event - known.at))

    def _record(self, pattern: str) -> FatigueReading:
        before = self._ema_at(pattern, self.event_count - 1)
        ema = min(1.0, self.alpha + (1.0 - self.alpha) * before)
        known = self.patterns.get(pattern) or self._add(pattern)
        known.ema, known.at = ema, self.event_count
        cooldown = self.cooldown(pattern)
        due = not known.last_alert or self.event_count - known.last_alert > cooldown
        if due:
            known.last_alert = self.event_count
        hard = ema > self.saturation
        return FatigueReading(pattern, due, hard, hard and before <= self.saturation, ema, cooldown)

    def _add(self, pattern: str) -> _Pattern:
        if len(self.patterns) >= MAX_PATTERNS:
            oldest = min(self.patterns, key=lambda name: self.patterns[name].at)
            del self.patterns[oldest]
        added = self.patterns[pattern] = _Pattern()
        return added


SubjectKind = Literal["tool", "file"]


class TrustBand(enum.StrEnum):
    """The levels of trust, worst first."""

    DISTRUSTED = "distrusted"
    DOUBTFUL = "doubtful"
    ORDINARY = "ordinary"
    TRUSTED = "trusted"

    @classmethod
    def from_mean(cls, mean: float) -> "TrustBand":
        """Return distrusted for a mean below .2, doubtful below .4, ordinary below .8, else trusted."""
        for limit, band in _TRUST_BANDS:
            if mean < limit:
                return band
        return cls.TRUSTED


_TRUST_BANDS: Final = ((0.2, TrustBand.DISTRUSTED), (0.4, TrustBand.DOUBTFUL), (0.8, TrustBand.ORDINARY))


class TrustScore(NamedTuple):
    """The trust in a subject: the mean of the posterior, its standard deviation, and its band."""

    mean: float
    uncertainty: float
    band: TrustBand


class _Evidence(Struct, array_like=True):
    """The observations of one subject, without the prior."""

    clean: float = 0.0
    findings: float = 0.0


class Trust(Struct, kw_only=True):
    """A Beta posterior for every tool and every file: findings lower it, clean use raises it.

    Args:
        prior_clean: Clean uses a subject starts with.
        prior_findings: Findings it starts with.
        memory: Observations remembered per subject, so that trust earned long ago can still be lost.

    >>> trust = Trust()
    >>> for _ in range(6):
    ...     trust.lower("file", "src/app.py")
    >>> trust.of("file", "src/app.py").band.value, round(trust.of("file", "src/app.py").mean, 2)
    ('doubtful', 0.2)
    >>> trust.of("tool", "never used").mean
    0.5
    """

    prior_clean: float = 2.0
    prior_findings: float = 2.0
    memory: float = 64.0
    tools: dict[str, _Evidence] = field(default_factory=dict)
    files: dict[str, _Evidence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("prior_clean", "prior_findings"):
            value = getattr(self, name)
            if not _is_number(value) or value <= 0:
                raise SettingsError(f"{name} must be above 0, got {value!r}.")
        if not _is_number(self.memory) or self.memory < 1:
            raise SettingsError(f"memory must be 1 observation or more, got {self.memory!r}.")

    def lower(self, kind: SubjectKind, name: str, weight: float = 1.0) -> None:
        """Record a finding about this subject; the weight, such as its score, is limited to 0..1."""
        seen = self._make_room(kind, name, weight)
        seen.findings += _limit_weight(weight)

    def raise_(self, kind: SubjectKind, name: str, weight: float = 1.0) -> None:
        """Record a use of this subject without a finding."""
        seen = self._make_room(kind, name, weight)
        seen.clean += _limit_weight(weight)

    def of(self, kind: SubjectKind, name: str) -> TrustScore:
        """Return the trust in this subject; the prior for one never seen."""
        return self._score(self._table(kind).get(name, _Evidence()))

    def scores(self, kind: SubjectKind) -> dict[str, TrustScore]:
        """Return the trust in every known subject, the least trusted first."""
        scores = {name: self._score(seen) for name, seen in self._table(kind).items()}
        return dict(sorted(scores.items(), key=lambda item: (item[1].mean, item[0])))

    def _table(self, kind: SubjectKind) -> dict[str, _Evidence]:
        return self.tools if kind == "tool" else self.files

    def _score(self, seen: _Evidence) -> TrustScore:
        a, b = self.prior_clean + seen.clean, self.prior_findings + seen.findings
        mean = a / (a + b)
        return TrustScore(mean, math.sqrt(mean * (1.0 - mean) / (a + b + 1.0)), TrustBand.from_mean(mean))

    def _make_room(self, kind: SubjectKind, name: str, weight: float) -> _Evidence:
        """Return a subject's evidence, moved to the end of its table, with room for one more observation."""
        table = self._table(kind)
        seen = table.pop(name, None)
        if seen is None:
            seen = _Evidence()
            if len(table) >= MAX_SUBJECTS:
                del table[self._find_least_important(table)]
        table[name] = seen
        total = seen.clean + seen.findings
        room = self.memory - _limit_weight(weight)
        if total > room:
            # Only observations fade, never the prior: the mean never reaches 0 or 1.
            seen.clean *= room / total
            seen.findings *= room / total
        return seen

    def _find_least_important(self, table: dict[str, _Evidence]) -> str:
        """Return the subject not used for longest, one that is not distrusted or doubtful if there is any."""
        for name, seen in table.items():
            if self._score(seen).mean >= _TRUST_BANDS[1][0]:
                return name
        return next(iter(table))


def record_clean_use(trust: Trust, event: TraceEvent) -> None:
    """Raise the trust in what an event without findings used."""
    if not trust.tools or event.action_type != TOOL_CALL:
        return
    tool, path = event.action_name, find_path(event.input_data)
    if tool in trust.tools:
        trust.raise_("tool", tool)
    if path in trust.files:
        trust.raise_("file", path)


def record_findings(trust: Trust, event: TraceEvent, names: Sequence[str]) -> None:
    """Lower the trust in what an event with findings used; `names` are the run's calls so far."""
    if event.action_type != TOOL_CALL:
        return
    tool, path = event.action_name, find_path(event.input_data)
    if tool not in trust.tools:
        # Scores exist only for what findings point at: earlier clean calls are counted now.
        trust.raise_("tool", tool, names.count(tool))
    trust.lower("tool", tool)
    if path is not None:
        trust.lower("file", path)


def list_doubtful(trust: Trust) -> list[tuple[str, str, float]]:
    """Return the tools and files with little trust left as (kind, name, score), the lowest first."""
    kinds: tuple[SubjectKind, ...] = ("tool", "file")
    doubtful: list[tuple[str, str, float]] = [
        (kind, subject, round(standing.mean, 3))
        for kind in kinds
        for subject, standing in trust.scores(kind).items()
        if standing.band in {TrustBand.DISTRUSTED, TrustBand.DOUBTFUL}
    ]
    return sorted(doubtful, key=lambda doubt: doubt[2])[:_DOUBTFUL_KEPT]


def _limit_weight(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _check_share(name: str, value: Any) -> None:
    if not _is_number(value) or not 0.0 < value <= 1.0:
        raise SettingsError(f"{name} must be above 0 and at most 1, got {value!r}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
