"""Describe what a replay found: which steps are the evidence, what was called, what would have been done.

All text is on one line, with secrets redacted and control characters escaped: fit for a terminal, a test's
failure message, a page or a report in CI.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from steadyhelm.decisions import DriftAction
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.incidents import Incident
from steadyhelm.policy.response_levels import DRIFT_SCORE
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.redaction import Redactor
from steadyhelm.replay import FindingReport, FirstResponse, JudgedReplay, find_steps_after
from steadyhelm.reports.formats import format_response_level, make_printable, pluralize

STRIP_LEGEND: Final = (
    "A run step by step: . call  x failed call  r reply  u user  s state  [ ] where it drifted"
)
UNKNOWN_AGENT: Final = "scan"
"""The agent id of a run whose file names no agent."""

_STEP_MARKS: Final = {TOOL_CALL: ".", LLM_REQUEST: "r", USER_MESSAGE: "u", STATE_TRANSITION: "s"}
_KIND_NAMES: Final = {"goal": "goal drift", "transition": "unusual order"}
"""By kind: its name in reports, where the kind alone says too little."""
_ROWS_SHOWN: Final = 4
_ARGUMENTS_WIDTH: Final = 60
_RESULT_WIDTH: Final = 60
_USER_WIDTH_FACTOR: Final = 2
"""How much wider than a result the words of a user may be: they are the evidence itself."""
_GOAL_WIDTH: Final = 100
_CHARACTERS_READ: Final = 2000
_STEPS_NEAR_A_SPAN: Final = 12
_STEPS_AT_THE_ENDS: Final = 6
_STRIP_LENGTH: Final = 80


class EvidenceRow(NamedTuple):
    """Equal steps among the evidence: their places, the call, and the latest result."""

    places: list[int]
    call: str
    result: str

    @property
    def text(self) -> str:
        """The step on one line."""
        return f"{self.call} → {self.result}" if self.call else f'reply "{self.result}"'

    def __str__(self) -> str:
        return f"{len(self.places):>3}x {self.text}"


class RunEpisode(NamedTuple):
    """An incident with its place among the run's steps, which are counted from 0.

    `noticed` is the step at which it was first noticed, None when only the whole run showed it;
    `proof` holds the steps that are its evidence, `named` those of the finding whose message it carries.
    """

    incident: Incident
    first: int
    last: int
    noticed: int | None
    proof: list[int]
    named: list[int]

    @property
    def is_span(self) -> bool:
        """Whether the incident covers a stretch of steps; one about the cost of a run does not."""
        return self.incident.kind != "resource"


class EvidenceFormatter:
    """Describes what was found in a run.

    Args:
        redactor: Removes secrets from the calls and results that are shown.
        least: The lowest severity rank that is reported.
    """

    def __init__(self, redactor: Redactor, *, least: int = Severity.MED.rank) -> None:
        self._redactor = redactor
        self._least = least

    def _describe_episode(self, run: ReadRun, episode: RunEpisode) -> Iterator[tuple[str, str]]:
        yield name_kind(episode.incident), make_printable(episode.incident.message)
        yield "when", describe_steps(run, episode)
        for row in self.group_episode(run, episode) if episode.is_span else ():
            yield "", str(row)

    def describe(self, judged: JudgedReplay) -> Iterator[tuple[str, str]]:
        """Yield titled lines: what was found, when and how often, the evidence, and the response."""
        run = judged.run
        if run.info.goal:
            yield "goal", self.redact(run.info.goal, _GOAL_WIDTH)
        episodes = self.list_episodes(judged)
        for episode in episodes:
            yield from self._describe_episode(run, episode)
        for finding, times in self.iter_findings_without_incident(judged):
            yield name_kind(finding), f"{make_printable(finding.message)} ({finding.severity}, {times} times)"
        spans = [(episode.first, episode.last) for episode in episodes if episode.is_span]
        if spans:
            yield "run", draw_strip(run.events, spans)
        if judged.answers:
            yield "response", describe_response(judged)
        if judged.doubts:
            yield "trust", describe_trust(judged)

    def describe_as_text(self, judged: JudgedReplay, where: str = "") -> str:
        """Return the description as plain text, under a line that names the run."""
        worst = max(self.list_findings(judged), key=lambda finding: finding.severity.rank)
        name = f"{worst.severity} {make_printable(judged.run.info.run_id)}"
        head = "  ".join(part for part in (name, get_agent_name(judged.run), where) if part)
        return "\n".join([head, *(f"  {title:<9} {text}" for title, text in self.describe(judged))])

    def list_findings(self, judged: JudgedReplay) -> list[FindingReport]:
        """Return the findings that are severe enough to be reported."""
        return [finding for finding in judged.report.findings if finding.severity.rank >= self._least]

    def list_episodes(self, judged: JudgedReplay) -> list[RunEpisode]:
        """Return the run's incidents, each with its place among the steps."""
        return [_locate_incident(judged, incident) for incident in judged.incidents]

    def iter_findings_without_incident(self, judged: JudgedReplay) -> Iterator[tuple[FindingReport, int]]:
        """Yield one finding of each detector that opened no incident, and how often it came."""
        kinds = {incident.kind for incident in judged.incidents}
        rest = [finding for finding in self.list_findings(judged) if finding.kind not in kinds]
        times = Counter(finding.detector for finding in rest)
        for finding in {finding.detector: finding for finding in rest}.values():
            yield finding, times[finding.detector]

    def group_episode(
        self, run: ReadRun, episode: RunEpisode, *, most: int = _ROWS_SHOWN, width: int = _RESULT_WIDTH
    ) -> Iterator[EvidenceRow | str]:
        """Yield a row for each group of equal steps, in order, then a line that counts what is left out.

        What the user said is never left out where the finding on show names it; next come other steps that
        it names, then those that were repeated most, then the latest.
        """
        alike: dict[tuple[str, bytes], list[int]] = {}
        for place in episode.proof:
            event = run.events[place]
            asked = event.text if event.action_type == LLM_REQUEST else event.input_data
            alike.setdefault((event.action_name, encode_canonical(asked)), []).append(place)
        named = set(episode.named)
        said = [
            same
            for same in alike.values()
            if run.events[same[0]].action_type == USER_MESSAGE and not named.isdisjoint(same)
        ]
        done = [same for same in alike.values() if same not in said]
        done.sort(key=lambda same: (not named.isdisjoint(same), len(same), same[-1]), reverse=True)
        shown = sorted([*said, *done[: max(0, most - len(said))]])
        for same in shown:
            yield self.describe_step(same, run.events[same[-1]], width=width)
        if len(alike) > len(shown):
            yield f"and {pluralize(len(alike) - len(shown), 'other step')}"

    def describe_step(
        self, places: list[int], event: TraceEvent, *, width: int = _RESULT_WIDTH
    ) -> EvidenceRow:
        """Return the call and result of one step, shown for all equal steps at these places."""
        if event.action_type == USER_MESSAGE:
            return EvidenceRow(places, "user", self.redact(event.text, _USER_WIDTH_FACTOR * width))
        came_back = self.redact(event.error or event.text or self._format_result(event.output_data), width)
        if event.action_type == LLM_REQUEST:
            return EvidenceRow(places, "", came_back)
        arguments = _shorten(make_printable(self._plain(event.input_data)), width)
        mark = "failed: " if event.error else ""
        call = f"{_shorten(make_printable(event.action_name), _ARGUMENTS_WIDTH)} {arguments}".rstrip()
        return EvidenceRow(places, call, f"{mark}{came_back or '(nothing)'}")

    def redact(self, text: str, most: int) -> str:
        """Return text on one line, without secrets, at most so many characters long."""
        return _shorten(
            make_printable(self._redactor.redact_text(" ".join(text[:_CHARACTERS_READ].split()))), most
        )

    def _format_result(self, value: Any) -> str:
        is_empty = isinstance(value, dict) and not any(value.values())
        return "" if is_empty else self._plain(value)

    def _plain(self, value: Any) -> str:
        _, encoded = self._redactor.redact(value, encode_canonical(value))
        return encoded[:_CHARACTERS_READ].decode("utf-8", "replace")


def name_kind(finding: FindingReport | Incident) -> str:
    """Return what reports call a finding or incident.

    The drift score weighs five signals and can rise where goal drift itself was not checked: it has a name
    of its own.
    """
    return "drift score" if finding.detector == DRIFT_SCORE else _KIND_NAMES.get(finding.kind, finding.kind)


def get_agent_name(run: ReadRun) -> str:
    """Return the agent whose run it is; empty when that is not known."""
    return "" if run.info.agent_id == UNKNOWN_AGENT else make_printable(run.info.agent_id)


def describe_steps(run: ReadRun, episode: RunEpisode) -> str:
    """Return which steps an episode takes, counted from 1, and when it was noticed."""
    first, last = episode.first + 1, episode.last + 1
    steps = f"step {first}" if first == last else f"steps {first}-{last}"
    at = "noticed at the run's end"
    if episode.noticed is not None:
        at = f"noticed at step {episode.noticed + 1} (events[{run.events[episode.noticed].event_id}])"
    times = episode.incident.findings
    return f"{steps} of {len(run.events)}, {at}" + (f", {times} times in all" if times > 1 else "")


def describe_response(judged: JudgedReplay) -> str:
    """Return the response levels and their steps, and what was spent after a new plan was due."""
    events, answers = judged.run.events, judged.answers
    text = ", ".join(
        f"{format_response_level(it.action, it.verdict)} at step {it.place + 1}" for it in answers
    )
    saved = judged.report.tokens_saved
    if saved is None:
        return text
    steps = len(find_steps_after(events, find_replan_step(answers)))
    total = sum(event.token_count for event in events)
    cost = f" and {saved:,} of {total:,} tokens" if total else ""
    return f"{text}; {pluralize(steps, 'step')}{cost} came after a new plan was due"


def describe_trust(judged: JudgedReplay) -> str:
    """Return the tools and files that lost trust in this run, and how much trust is left in each."""
    parts = [
        f"{kind} {_shorten(make_printable(name), _ARGUMENTS_WIDTH)} {left:.2f} of 1"
        for kind, name, left in judged.doubts[:_ROWS_SHOWN]
    ]
    return ", ".join(parts) + f" and {len(judged.doubts) - _ROWS_SHOWN} more" * (
        len(judged.doubts) > _ROWS_SHOWN
    )


def find_replan_step(answers: Sequence[FirstResponse]) -> int:
    """Return the step at which a new plan was due."""
    return next(it.place for it in answers if it.action.level >= DriftAction.SUMMARIZE_REPLAN.level)


def draw_strip(events: Sequence[TraceEvent], spans: Sequence[tuple[int, int]]) -> str:
    """Return the run as one character a step, with each span in brackets; long stretches are left out."""
    merged = _merge_spans(spans)
    opens, closes = {first for first, _ in merged}, {last for _, last in merged}
    parts, after = [], 0
    for stretch in select_stretches(len(events), merged):
        if stretch.start > after:
            parts.append(f"…{stretch.start - after}…")
        after = stretch.stop
        parts += [f"{'[' * (at in opens)}{_step_mark(events[at])}{']' * (at in closes)}" for at in stretch]
    return "".join(parts)


def select_stretches(
    count: int, spans: Sequence[tuple[int, int]], *, room: int = _STRIP_LENGTH, near: int = _STEPS_NEAR_A_SPAN
) -> list[range]:
    """Return the steps of a run to draw: all when there is room, else the ends of the run and of each span.

    >>> select_stretches(500, [(200, 202)])
    [range(0, 6), range(188, 215), range(494, 500)]
    """
    if count <= room:
        return [range(count)]
    edges = {edge for span in spans for edge in span}
    wanted = [(0, _STEPS_AT_THE_ENDS - 1), (count - _STEPS_AT_THE_ENDS, count - 1)]
    wanted += [(max(0, edge - near), min(count - 1, edge + near)) for edge in edges]
    return [range(first, last + 1) for first, last in _merge_spans(wanted, apart=1)]


def _merge_spans(spans: Sequence[tuple[int, int]], *, apart: int = 0) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + apart:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _step_mark(event: TraceEvent) -> str:
    return "x" if event.error else _STEP_MARKS.get(event.action_type, "?")


def _locate_incident(judged: JudgedReplay, incident: Incident) -> RunEpisode:
    events = judged.run.events
    places = {int(event.event_id): place for place, event in enumerate(events)}
    proof: set[int] = set()
    named: set[int] = set()
    for finding in judged.report.findings:
        is_reported = finding.kind == incident.kind and finding.severity is not Severity.LOW
        if is_reported and incident.opened_seq <= places[finding.at] <= incident.last_seq:
            evidence = {places[entry] for entry in finding.evidence if entry in places}
            proof |= evidence
            if finding.message == incident.message:
                named = evidence
    last = min(incident.last_seq, len(events) - 1)
    noticed = incident.opened_seq if incident.opened_seq < len(events) else None
    first = min([*proof, incident.opened_seq, last])
    return RunEpisode(incident, first, last, noticed, sorted(proof), sorted(named or proof))


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
