"""Lay out a run as cells, one a step, with brackets over what repeats."""

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Final, Literal, NamedTuple

from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.fingerprints import fingerprint
from steadyhelm.replay import JudgedReplay, find_steps_after
from steadyhelm.reports.evidence import EvidenceFormatter, RunEpisode, find_replan_step, select_stretches

CELL_SIZE: Final = 20
_COLOUR_COUNT: Final = 8
_COLUMN_COUNT: Final = 40
_COLUMN_WIDTH: Final = 23
_LEVEL_HEIGHT: Final = 22
_HEIGHT_BELOW_CELL: Final = 46
_LEFT_MARGIN: Final = 8
_GAP_COLUMNS: Final = 3
_STEPS_DRAWN: Final = 160
_STEPS_AROUND_A_SPAN: Final = 24
_TOOLS_NAMED: Final = 12
_TIP_WIDTH: Final = 48

Shape = Literal["call", "reply", "user", "state"]
_SHAPES: Final[dict[str, Shape]] = {TOOL_CALL: "call", LLM_REQUEST: "reply", USER_MESSAGE: "user"}


class Cell(NamedTuple):
    """One step as it is drawn, or a gap in place of `steps_left_out` steps."""

    x: int
    y: int
    middle: int
    steps_left_out: int = 0
    size: int = CELL_SIZE
    shape: Shape = "state"
    letter: str = ""
    colour: int = 0
    tip: str = ""
    sign: str = ""
    number: str = ""
    is_faded: bool = False
    has_failed: bool = False
    has_response: bool = False


class StepBracket(NamedTuple):
    """A bracket over one row of an episode; the first row has a label."""

    path: str
    label: str
    label_x: int
    label_y: int


class ToolKey(NamedTuple):
    """The letter and colour of a tool."""

    letter: str
    colour: int
    name: str
    calls: int


class Drawing(NamedTuple):
    """Everything the template needs to draw one run."""

    width: int
    height: int
    title: str
    cells: list[Cell]
    brackets: list[StepBracket]
    tools: list[ToolKey]
    other_tools: int


def draw_timeline(judged: JudgedReplay, evidence: EvidenceFormatter) -> Drawing:
    """Return the drawing of one run; `evidence` puts its steps into words."""
    return _Layout(judged, evidence).draw()


class _Spot(NamedTuple):
    """The place of a step in the drawing, or of a gap when `left_out` is not 0."""

    place: int
    row: int
    column: int
    left_out: int = 0

    @property
    def x(self) -> int:
        return _LEFT_MARGIN + self.column * _COLUMN_WIDTH

    @property
    def right(self) -> int:
        return (
            self.x
            + (_GAP_COLUMNS * _COLUMN_WIDTH if self.left_out else _COLUMN_WIDTH)
            - (_COLUMN_WIDTH - CELL_SIZE)
        )


class _Layout:
    """Computes where everything in the drawing of one run goes."""

    def __init__(self, judged: JudgedReplay, evidence: EvidenceFormatter) -> None:
        self._judged = judged
        self._evidence = evidence
        self._events = judged.run.events
        self._episodes = [episode for episode in evidence.list_episodes(judged) if episode.is_span]
        self._calls = Counter(it.action_name for it in self._events if it.action_type == TOOL_CALL)
        self._ranks = {name: rank for rank, (name, _) in enumerate(self._calls.most_common())}
        self._levels = _assign_bracket_levels(self._episodes)
        self._spots = list(_place_steps(len(self._events), [(it.first, it.last) for it in self._episodes]))
        self._top = 6 + (max(self._levels, default=-1) + 1) * _LEVEL_HEIGHT

    def draw(self) -> Drawing:
        rows = self._spots[-1].row + 1
        columns = max(spot.column + (_GAP_COLUMNS if spot.left_out else 1) for spot in self._spots)
        signs = find_result_signs(self._events)
        levels = zip(self._episodes, self._levels, strict=True)
        return Drawing(
            width=2 * _LEFT_MARGIN + columns * _COLUMN_WIDTH,
            height=rows * self._row_height,
            title=f"Timeline of run {self._judged.report.run_id}: {len(self._events)} steps",
            cells=[self._draw_cell(spot, signs) for spot in self._spots],
            brackets=[it for episode, level in levels for it in self._draw_brackets(episode, level)],
            tools=self._list_tool_keys(),
            other_tools=max(0, len(self._ranks) - _TOOLS_NAMED),
        )

    def _list_tool_keys(self) -> list[ToolKey]:
        """Return the letters of the tools, the most used first."""
        return [
            ToolKey(_get_letter(rank), rank % _COLOUR_COUNT, name[:_TIP_WIDTH], self._calls[name])
            for name, rank in list(self._ranks.items())[:_TOOLS_NAMED]
        ]

    @property
    def _row_height(self) -> int:
        return self._top + CELL_SIZE + _HEIGHT_BELOW_CELL

    def _y(self, row: int) -> int:
        return row * self._row_height + self._top

    def _draw_cell(self, spot: _Spot, signs: Sequence[str]) -> Cell:
        x, y = spot.x, self._y(spot.row)
        if spot.left_out:
            return Cell(x, y, middle=x + _GAP_COLUMNS * _COLUMN_WIDTH // 2, steps_left_out=spot.left_out)
        event, sign = self._events[spot.place], signs[spot.place]
        is_numbered = spot.column == 0 or (spot.place + 1) % 5 == 0
        rank = self._ranks[event.action_name] if event.action_type == TOOL_CALL else None
        return Cell(
            x,
            y,
            middle=x + CELL_SIZE // 2,
            shape=_SHAPES.get(event.action_type, "state"),
            letter="" if rank is None else _get_letter(rank),
            colour=0 if rank is None else rank % _COLOUR_COUNT,
            tip=self._format_tip(spot.place, event),
            sign=sign,
            number=str(spot.place + 1) if is_numbered else "",
            is_faded=spot.place in self._steps_not_run,
            has_failed=sign.startswith("✕"),
            has_response=any(answer.place == spot.place for answer in self._judged.answers),
        )

    def _format_tip(self, place: int, event: TraceEvent) -> str:
        row = self._evidence.describe_step([place], event, width=_TIP_WIDTH)
        said = f"{row.call} → {row.result}" if row.call else f"{event.action_name}: {row.result}"
        return f"step {place + 1} (events[{event.event_id}]): {said}"

    @property
    def _steps_not_run(self) -> range:
        """The steps that would not have run, had the agent made a new plan when it was due."""
        if self._judged.report.tokens_saved is None:
            return range(0)
        place = find_replan_step(self._judged.answers)
        return range(place + 1, place + 1 + len(find_steps_after(self._events, place)))

    def _draw_brackets(self, episode: RunEpisode, level: int) -> Iterator[StepBracket]:
        """Yield brackets from the first step to the last, one a row, with a tick at each step of evidence."""
        inside = [spot for spot in self._spots if episode.first <= spot.place <= episode.last]
        proof = set(episode.proof)
        for row in sorted({spot.row for spot in inside}):
            here = [spot for spot in inside if spot.row == row]
            y = self._y(row) - 6 - level * _LEVEL_HEIGHT
            left, right = here[0].x, here[-1].right
            path = f"M{left} {y - 5}H{right}"
            path += f"M{left} {y - 5}v7" * (here[0].place == episode.first)
            path += f"M{right} {y - 5}v7" * (here[-1].place == episode.last)
            marked = (spot for spot in here if spot.place in proof and not spot.left_out)
            path += "".join(f"M{spot.x + CELL_SIZE // 2} {y - 5}v4" for spot in marked)
            label = self._count(episode) if row == inside[0].row else ""
            yield StepBracket(path, label, max((left + right) // 2, _LEFT_MARGIN + 24), y - 1)

    def _count(self, episode: RunEpisode) -> str:
        """Return how often the same step came; where no two are the same, how many there were."""
        rows = self._evidence.group_episode(self._judged.run, episode, most=len(episode.proof))
        most = max((len(row.places) for row in rows if not isinstance(row, str)), default=0)
        if most > 1:
            return f"{most}x"
        return f"{len(episode.proof) or 1} steps"


def find_result_signs(events: Sequence[TraceEvent]) -> list[str]:
    """Return a sign for each call's result: failed, same as the last time, or changed since."""
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


def _place_steps(count: int, spans: Sequence[tuple[int, int]]) -> Iterator[_Spot]:
    """Yield a place in the drawing for every step, row by row, and one for each stretch that is left out."""
    row = column = after = 0
    for stretch in select_stretches(count, spans, room=_STEPS_DRAWN, near=_STEPS_AROUND_A_SPAN):
        if stretch.start > after:
            if column + _GAP_COLUMNS > _COLUMN_COUNT:
                row, column = row + 1, 0
            yield _Spot(after, row, column, stretch.start - after)
            column += _GAP_COLUMNS
        after = stretch.stop
        for place in stretch:
            if column >= _COLUMN_COUNT:
                row, column = row + 1, 0
            yield _Spot(place, row, column)
            column += 1


def _assign_bracket_levels(episodes: Sequence[RunEpisode]) -> list[int]:
    """Return a level for each bracket, so that none lies over another."""
    ends: list[int] = []
    levels = []
    for episode in episodes:
        free = (level for level, end in enumerate(ends) if end < episode.first)
        level = next(free, len(ends))
        ends[level : level + 1] = [episode.last]
        levels.append(level)
    return levels


def _get_letter(rank: int) -> str:
    return ascii_uppercase[rank] if rank < len(ascii_uppercase) else "·"
