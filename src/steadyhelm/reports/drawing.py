"""A run drawn as cells, one a step, with what repeats in brackets above them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Final, NamedTuple

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import fingerprint
from steadyhelm.replay import Judged, spared
from steadyhelm.reports.evidence import Episode, Evidence, planned_at, stretches
from steadyhelm.reports.pages import drawing, words

STYLE: Final = """
.cell text{text-anchor:middle;font-size:11px;font-weight:600;fill:#111}
.cell.plain text{fill:var(--ink);font-weight:400}
.cell .shape{stroke:none}
.cell.plain .shape{fill:var(--panel);stroke:var(--quiet)}
.cell.spared{opacity:.45}
.c0{fill:#e69f00}.c1{fill:#56b4e9}.c2{fill:#2bb58c}.c3{fill:#f0e442}.c4{fill:#e8743b}.c5{fill:#d68fb8}
.c6{fill:#a8b4d6}.c7{fill:#bdbdbd}
svg text.sign{text-anchor:middle;font-size:13px;font-weight:700}
svg text.sign.failed{fill:var(--bad)}
svg text.step,svg text.gap{text-anchor:middle;font-size:10px;fill:var(--quiet)}
svg text.gap{font-size:11px}
svg text.answer{text-anchor:middle;font-size:11px;fill:var(--ours)}
.bracket{fill:none;stroke:var(--bad);stroke-width:1.5}
svg text.count{text-anchor:middle;font-weight:600;fill:var(--bad);paint-order:stroke;stroke:var(--page);
stroke-width:5px}
.swatch{display:inline-block;width:18px;height:18px;line-height:18px;border-radius:3px;text-align:center;
font-size:11px;font-style:normal;font-weight:600;color:#111;margin-right:.35rem}
.swatch.c0{background:#e69f00}.swatch.c1{background:#56b4e9}.swatch.c2{background:#2bb58c}
.swatch.c3{background:#f0e442}.swatch.c4{background:#e8743b}.swatch.c5{background:#d68fb8}
.swatch.c6{background:#a8b4d6}.swatch.c7{background:#bdbdbd}
"""
SIGNS: Final = (
    '<p class="quiet legend"><span>■ tool call</span><span>● reply</span><span>▼ user</span>'
    "<span>◆ change of state</span><span>✕ failed</span><span>= same result as before</span>"
    "<span>≠ the result has changed</span><span>▲ Steadyhelm would have acted</span>"
    "<span>faint: would have been spared</span></p>"
)

_COLOURS: Final = 8
_COLUMNS: Final = 40
_PITCH: Final = 23
_CELL: Final = 20
_LEVEL: Final = 22
_BELOW: Final = 46
_LEFT: Final = 8
_GAP: Final = 3
_ROOM: Final = 160
_NEAR: Final = 24
_NAMED: Final = 12
_TIP: Final = 48


class _Spot(NamedTuple):
    """Where a step is drawn, or, when `left_out` is not 0, where so many are left out."""

    place: int
    row: int
    column: int
    left_out: int = 0

    @property
    def x(self) -> int:
        return _LEFT + self.column * _PITCH

    @property
    def right(self) -> int:
        return self.x + (_GAP * _PITCH if self.left_out else _PITCH) - (_PITCH - _CELL)


class Timeline:
    """The drawing of one run, and what its letters mean.

    Args:
        judged: The run.
        evidence: Puts steps into words.
    """

    def __init__(self, judged: Judged, evidence: Evidence) -> None:
        self._judged = judged
        self._evidence = evidence
        self._events = judged.run.events
        self._episodes = [episode for episode in evidence.episodes(judged) if episode.is_span]
        self._calls = Counter(it.action_name for it in self._events if it.action_type == TOOL_CALL)
        self._ranks = {name: rank for rank, (name, _) in enumerate(self._calls.most_common())}
        self._levels = _levels(self._episodes)
        self._spots = list(_spots(len(self._events), [(it.first, it.last) for it in self._episodes]))
        self._top = 6 + (max(self._levels, default=-1) + 1) * _LEVEL

    def svg(self) -> str:
        """The drawing."""
        rows = self._spots[-1].row + 1
        columns = max(spot.column + (_GAP if spot.left_out else 1) for spot in self._spots)
        signs = signs_of(self._events)
        parts = [self._cell(spot, signs) for spot in self._spots]
        for episode, level in zip(self._episodes, self._levels, strict=True):
            parts += self._bracket(episode, level)
        title = f"Timeline of run {self._judged.report.run_id}: {len(self._events)} steps"
        return drawing(2 * _LEFT + columns * _PITCH, rows * self._row_height, title, parts)

    def legend(self) -> str:
        """The letters of the tools, the most used first."""
        named = [
            f'<span><i class="swatch c{rank % _COLOURS}">{_letter(rank)}</i>{words(name[:_TIP])}, '
            f"{self._calls[name]}x</span>"
            for name, rank in list(self._ranks.items())[:_NAMED]
        ]
        rest = len(self._ranks) - _NAMED
        more = [f"<span>and {rest} other tools</span>"] if rest > 0 else []
        return f'<p class="legend">{"".join([*named, *more])}</p>'

    @property
    def _row_height(self) -> int:
        return self._top + _CELL + _BELOW

    def _y(self, row: int) -> int:
        return row * self._row_height + self._top

    def _cell(self, spot: _Spot, signs: Sequence[str]) -> str:
        x, y = spot.x, self._y(spot.row)
        middle = x + _CELL // 2
        if spot.left_out:
            wide = x + _GAP * _PITCH // 2
            return f'<text class="gap" x="{wide}" y="{y + 14}">… {spot.left_out:,} …</text>'
        event = self._events[spot.place]
        sign = signs[spot.place]
        kind = "sign failed" if sign.startswith("✕") else "sign"
        parts = [self._shape(spot, event, x, y)]
        if sign:
            parts.append(f'<text class="{kind}" x="{middle}" y="{y + _CELL + 13}">{sign}</text>')
        if spot.column == 0 or (spot.place + 1) % 5 == 0:
            parts.append(f'<text class="step" x="{middle}" y="{y + _CELL + 25}">{spot.place + 1}</text>')
        if any(answer.place == spot.place for answer in self._judged.answers):
            parts.append(f'<text class="answer" x="{middle}" y="{y + _CELL + 37}">▲</text>')
        return "".join(parts)

    def _shape(self, spot: _Spot, event: TraceEvent, x: int, y: int) -> str:
        faint = " spared" if spot.place in self._spared else ""
        tip = self._evidence.row([spot.place], event, width=_TIP)
        said = f"{tip.call} → {tip.result}" if tip.call else f"{event.action_name}: {tip.result}"
        title = f"<title>{words(f'step {spot.place + 1} (events[{event.event_id}]): {said}')}</title>"
        letter, shape = "", _PLAIN.get(event.action_type, _PLAIN[STATE_TRANSITION]).format(x=x, y=y)
        kind = "cell plain"
        if event.action_type == TOOL_CALL:
            rank = self._ranks[event.action_name]
            kind, letter = "cell", _letter(rank)
            colour = f"shape c{rank % _COLOURS}"
            shape = f'<rect class="{colour}" x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="3"/>'
        text = f'<text x="{x + _CELL // 2}" y="{y + 14}">{letter}</text>' if letter else ""
        return f'<g class="{kind}{faint}">{title}{shape}{text}</g>'

    @property
    def _spared(self) -> range:
        if self._judged.report.tokens_saved is None:
            return range(0)
        place = planned_at(self._judged.answers)
        return range(place + 1, place + 1 + len(spared(self._events, place)))

    def _bracket(self, episode: Episode, level: int) -> Iterator[str]:
        """A bracket from the first step to the last, with a tick at each that proves it; broken by rows."""
        inside = [spot for spot in self._spots if episode.first <= spot.place <= episode.last]
        proof = set(episode.proof)
        for row in sorted({spot.row for spot in inside}):
            here = [spot for spot in inside if spot.row == row]
            y = self._y(row) - 6 - level * _LEVEL
            left, right = here[0].x, here[-1].right
            path = f"M{left} {y - 5}H{right}"
            path += f"M{left} {y - 5}v7" * (here[0].place == episode.first)
            path += f"M{right} {y - 5}v7" * (here[-1].place == episode.last)
            path += "".join(
                f"M{spot.x + _CELL // 2} {y - 5}v4"
                for spot in here
                if spot.place in proof and not spot.left_out
            )
            yield f'<path class="bracket" d="{path}"/>'
            if row == inside[0].row:
                middle = max((left + right) // 2, _LEFT + 24)
                yield f'<text class="count" x="{middle}" y="{y - 1}">{self._count(episode)}</text>'

    def _count(self, episode: Episode) -> str:
        """How often the same step came; where no two are the same, how many there were."""
        rows = self._evidence.rows(self._judged.run, episode.proof, most=len(episode.proof))
        most = max((len(row.places) for row in rows if not isinstance(row, str)), default=0)
        if most > 1:
            return f"{most}x"
        return f"{len(episode.proof) or 1} steps"


def signs_of(events: Sequence[TraceEvent]) -> list[str]:
    """A sign for each call's result: failed, the same as the last time, or another than the last time."""
    last: dict[int, int] = {}
    signs = []
    for event in events:
        sign = "✕" if event.error else ""
        if event.action_type == TOOL_CALL:
            call, result = fingerprint(event)
            if call in last:
                sign += "=" if last[call] == result else "≠"
            last[call] = result
        signs.append(sign)
    return signs


def _spots(count: int, spans: Sequence[tuple[int, int]]) -> Iterator[_Spot]:
    """A place in the drawing for every step, row by row; one for each stretch that is left out."""
    row = column = after = 0
    for stretch in stretches(count, spans, room=_ROOM, near=_NEAR):
        if stretch.start > after:
            if column + _GAP > _COLUMNS:
                row, column = row + 1, 0
            yield _Spot(after, row, column, stretch.start - after)
            column += _GAP
        after = stretch.stop
        for place in stretch:
            if column >= _COLUMNS:
                row, column = row + 1, 0
            yield _Spot(place, row, column)
            column += 1


def _levels(episodes: Sequence[Episode]) -> list[int]:
    """A level for each bracket, so that none lies over another."""
    ends: list[int] = []
    levels = []
    for episode in episodes:
        free = (level for level, end in enumerate(ends) if end < episode.first)
        level = next(free, len(ends))
        ends[level : level + 1] = [episode.last]
        levels.append(level)
    return levels


def _letter(rank: int) -> str:
    return ascii_uppercase[rank] if rank < len(ascii_uppercase) else "·"


_PLAIN: Final = {
    LLM_REQUEST: '<circle class="shape" cx="{x}" cy="{y}" r="7" transform="translate(10 10)"/>',
    USER_MESSAGE: '<path class="shape" d="M{x} {y}m2 3h16l-8 14z"/>',
    STATE_TRANSITION: '<path class="shape" d="M{x} {y}m10 2l8 8l-8 8l-8 -8z"/>',
}
