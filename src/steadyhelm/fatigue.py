"""How tired a reader would be of hearing about a pattern, and how far a tool or a file can be trusted.

Both are small states that are saved with the run, and plain functions of what they were told.
Neither decides anything: they give numbers, and the policy decides.
"""

import enum
import math
from collections.abc import Collection
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from steadyhelm.errors import SettingsError

PATTERNS_KEPT: Final = 256
SUBJECTS_KEPT: Final = 256


class Reading(NamedTuple):
    """What fatigue makes of one pattern that fired at the event just observed.

    `due` says whether the pattern's cooldown is over, so that it is worth telling somebody.
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
    """The EMA as it stood at one event, and the last event somebody was told at (0: never)."""

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
        _positive_share("alpha", self.alpha)
        _positive_share("saturation", self.saturation)
        if not _is_whole(self.cooldown_events) or self.cooldown_events < 0:
            raise SettingsError(f"cooldown_events must be 0 or more events, got {self.cooldown_events!r}.")
        if not _is_number(self.stretch) or self.stretch < 0:
            raise SettingsError(f"stretch must be 0 or more, got {self.stretch!r}.")

    def observe(self, fired: Collection[str] = ()) -> tuple[Reading, ...]:
        """Take one event in: the patterns that fired at it. All others grow calmer by themselves."""
        self.event_count += 1
        return tuple(self._noted(pattern) for pattern in dict.fromkeys(fired))

    def ema(self, pattern: str) -> float:
        """The pattern's EMA as of the latest event, 0 to 1."""
        return self._ema_at(pattern, self.event_count)

    def cooldown(self, pattern: str) -> float:
        """How many events must pass after an alert before the next one; never fewer than the base."""
        return self.cooldown_events * (1.0 + self.stretch * self.ema(pattern))

    def is_hard(self, pattern: str) -> bool:
        """Whether the pattern is chronic."""
        return self.ema(pattern) > self.saturation

    def last_alert(self, pattern: str) -> int | None:
        """The number of the event at which somebody was last told, the first event being 1."""
        known = self.patterns.get(pattern)
        return known.last_alert or None if known else None

    def start_afresh(self, pattern: str | None = None) -> None:
        """Somebody stepped in: forget this pattern, or all of them.

        The cooldown goes too: a pattern that comes back after an intervention is news.
        """
        if pattern is None:
            self.patterns.clear()
        else:
            self.patterns.pop(pattern, None)

    def _ema_at(self, pattern: str, event: int) -> float:
        known = self.patterns.get(pattern)
        if known is None:
            return 0.0
        # Events at which it did not fire only take their share off, so they need not be visited one by one.
        return float(known.ema * (1.0 - self.alpha) ** (event - known.at))

    def _noted(self, pattern: str) -> Reading:
        before = self._ema_at(pattern, self.event_count - 1)
        ema = min(1.0, self.alpha + (1.0 - self.alpha) * before)
        known = self.patterns.get(pattern) or self._added(pattern)
        known.ema, known.at = ema, self.event_count
        cooldown = self.cooldown(pattern)
        due = not known.last_alert or self.event_count - known.last_alert > cooldown
        if due:
            known.last_alert = self.event_count
        hard = ema > self.saturation
        return Reading(pattern, due, hard, hard and before <= self.saturation, ema, cooldown)

    def _added(self, pattern: str) -> _Pattern:
        if len(self.patterns) >= PATTERNS_KEPT:
            longest_silent = min(self.patterns, key=lambda name: self.patterns[name].at)
            del self.patterns[longest_silent]
        added = self.patterns[pattern] = _Pattern()
        return added


SubjectKind = Literal["tool", "file"]


class TrustBand(enum.StrEnum):
    """How a subject stands, worst first. What to do about it is the policy's business."""

    DISTRUSTED = "distrusted"
    DOUBTFUL = "doubtful"
    ORDINARY = "ordinary"
    TRUSTED = "trusted"

    @classmethod
    def from_mean(cls, mean: float) -> "TrustBand":
        """Distrusted below .2, doubtful below .4, ordinary below .8, trusted from there on."""
        for limit, band in _BANDS:
            if mean < limit:
                return band
        return cls.TRUSTED


_BANDS: Final = ((0.2, TrustBand.DISTRUSTED), (0.4, TrustBand.DOUBTFUL), (0.8, TrustBand.ORDINARY))


class Standing(NamedTuple):
    """How far a subject is trusted: the posterior's mean, its standard deviation, and the name for it."""

    mean: float
    uncertainty: float
    band: TrustBand


class _Evidence(Struct, array_like=True):
    """What was seen of one subject, the prior not counted."""

    clean: float = 0.0
    findings: float = 0.0


class Trust(Struct, kw_only=True):
    """A Beta posterior for every tool and every file: findings lower it, clean use raises it.

    Args:
        prior_clean: Clean uses a subject starts with.
        prior_findings: Findings it starts with.
        memory: Observations remembered per subject: trust long earned can still be lost.

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
        """A finding concerned this subject; its weight is cut to 0..1, so a finding's score will do."""
        seen = self._room_for(kind, name, weight)
        seen.findings += _cut(weight)

    def raise_(self, kind: SubjectKind, name: str, weight: float = 1.0) -> None:
        """The subject was used and nothing was found."""
        seen = self._room_for(kind, name, weight)
        seen.clean += _cut(weight)

    def of(self, kind: SubjectKind, name: str) -> Standing:
        """How far this subject is trusted; one never seen stands at the prior."""
        return self._standing(self._table(kind).get(name, _Evidence()))

    def standings(self, kind: SubjectKind) -> dict[str, Standing]:
        """Every subject known, the least trusted first."""
        shown = {name: self._standing(seen) for name, seen in self._table(kind).items()}
        return dict(sorted(shown.items(), key=lambda item: (item[1].mean, item[0])))

    def _table(self, kind: SubjectKind) -> dict[str, _Evidence]:
        return self.tools if kind == "tool" else self.files

    def _standing(self, seen: _Evidence) -> Standing:
        a, b = self.prior_clean + seen.clean, self.prior_findings + seen.findings
        mean = a / (a + b)
        return Standing(mean, math.sqrt(mean * (1.0 - mean) / (a + b + 1.0)), TrustBand.from_mean(mean))

    def _room_for(self, kind: SubjectKind, name: str, weight: float) -> _Evidence:
        """The subject's evidence, moved to the young end of its table, with room for one more observation."""
        table = self._table(kind)
        seen = table.pop(name, None)
        if seen is None:
            seen = _Evidence()
            if len(table) >= SUBJECTS_KEPT:
                del table[self._least_missed(table)]
        table[name] = seen
        total = seen.clean + seen.findings
        room = self.memory - _cut(weight)
        if total > room:
            # Only what was seen fades, never the prior: the mean stays away from 0 and 1 for ever.
            seen.clean *= room / total
            seen.findings *= room / total
        return seen

    def _least_missed(self, table: dict[str, _Evidence]) -> str:
        """The subject untouched for longest, one in good standing if there is any."""
        for name, seen in table.items():
            if self._standing(seen).mean >= _BANDS[1][0]:
                return name
        return next(iter(table))


def _cut(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _positive_share(name: str, value: Any) -> None:
    if not _is_number(value) or not 0.0 < value <= 1.0:
        raise SettingsError(f"{name} must be above 0 and at most 1, got {value!r}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
