"""Show a run's steps as lines, with the findings and interventions under the step they belong to."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from steadyhelm.reports.formats import (
    format_duration,
    format_response_level,
    format_verdict,
    pluralize,
    step_number,
)
from steadyhelm.reports.terminal import format_severity, safe

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.decisions import Intervention
    from steadyhelm.findings import DriftEvent
    from steadyhelm.incidents import Incident, IncidentTab, Mute
    from steadyhelm.sink import RecordedEvent
    from steadyhelm.store import IncidentStore, RunStore
    from steadyhelm.store_rows import StoredRun

_STEP_MARKS: Final = {"tool_call": "▸", "llm_request": "✎", "state_transition": "◆", "user_message": "»"}
_VALUE_WIDTH: Final = 60
_ERROR_WIDTH: Final = 120
_LINE_WIDTH: Final = 400
_WORDING_WIDTH: Final = 80
_STEP_INDENT: Final = " " * 6
_DETAIL_INDENT: Final = " " * 9
WRAPPED_INDENT: Final = 11
"""Where a line of the timeline goes on when the terminal is too narrow for it."""
_OUTCOME_MARKS: Final = {"worked": "✔", "ignored": "○", "worse": "✖", "unknown": "?"}
_OUTCOME_STYLES: Final = {"worked": "green", "ignored": "yellow", "worse": "red", "unknown": "dim"}
_OUTCOME_LABELS: Final = {"unknown": "outcome unknown"}
_OUTCOMES_NOT_DELIVERED: Final = {
    "worked": "ended by itself",
    "ignored": "continued",
    "worse": "got worse",
    "unknown": "outcome unknown",
}


class Mutes:
    """The mutes that hold now, by agent and detector."""

    def __init__(self, store: "IncidentStore", now: float) -> None:
        self._now = now
        self._mutes = {(mute.agent_id, mute.detector): mute for mute in store.list_mutes(at=now)}

    def find(self, incident: "Incident") -> "Mute | None":
        """Return the mute of an incident's agent and detector, if there is one."""
        return self._mutes.get((incident.agent_id, incident.detector))

    def find_tab(self, incident: "Incident") -> "IncidentTab":
        """Return the tab of the page that an incident is in."""
        from steadyhelm.incidents import is_current, is_muted, name_tab

        mute = self.find(incident)
        return name_tab(
            incident.review,
            is_current=is_current(incident.state, incident.last_at, self._now),
            is_acknowledged=incident.acknowledged_at is not None,
            is_muted=is_muted(() if mute is None else (mute,), incident.detector, incident.severity.rank),
        )

    def describe_state(self, incident: "Incident") -> str:
        """Return what people have done about an incident, and whether the drift goes on."""
        marks = [
            "open" if self.find_tab(incident) == "open" else "",
            "acknowledged" if incident.acknowledged_at is not None else "",
            incident.review.replace("_", " "),
            "muted" if self.find(incident) is not None else "",
            "drifting" if incident.state == "open" else "ended",
        ]
        return ", ".join(filter(None, marks))


class ShownIntervention(NamedTuple):
    """One intervention, and the incident it responds to."""

    incident: "Incident"
    intervention: "Intervention"


class ShownStep(NamedTuple):
    """One step that is shown, with its findings and interventions; `skipped` steps before it are not."""

    recorded: "RecordedEvent"
    findings: Sequence["DriftEvent"]
    interventions: Sequence[ShownIntervention]
    skipped: int


class Selection(NamedTuple):
    """The steps of a run that are shown, how many follow the last of them, and the places of known ids."""

    steps: list[ShownStep]
    skipped_at_end: int
    places: dict[str, int]

    def seqs(self, event_ids: Iterable[str]) -> list[int]:
        """Return the places of these events in the run, as far as they are kept."""
        return sorted(self.places[event_id] for event_id in event_ids if event_id in self.places)


def get_event_id(finding: "DriftEvent") -> str:
    """Return the id of the event at which a finding was made."""
    return finding.event_id.removesuffix(f"/{finding.detector}")


def group_interventions_by_step(incidents: Iterable["Incident"]) -> dict[int, list[ShownIntervention]]:
    """Return the interventions of these incidents, by the step at which they were made."""
    found: dict[int, list[ShownIntervention]] = {}
    for incident in incidents:
        for intervention in incident.interventions:
            found.setdefault(intervention.seq, []).append(ShownIntervention(incident, intervention))
    return dict(sorted(found.items()))


def interventions_to_data(interventions: Mapping[int, list[ShownIntervention]]) -> list[dict[str, Any]]:
    """Return the interventions as data, in the order of their steps."""
    return [
        {
            "incident_id": shown.incident.incident_id,
            "kind": shown.incident.kind,
            "detector": shown.incident.detector,
            **{name: getattr(shown.intervention, name) for name in shown.intervention.__struct_fields__},
        }
        for at_one_step in interventions.values()
        for shown in at_one_step
    ]


def select_steps(
    store: "RunStore",
    run: "StoredRun",
    findings: Sequence["DriftEvent"],
    interventions: Mapping[int, Sequence[ShownIntervention]],
    evidence: Iterable[str],
    most: int | None,
) -> Selection:
    """Return at most this many steps, those around interventions first, then those around findings.

    With `most` None, all steps are returned.
    """
    by_event: dict[str, list[DriftEvent]] = {}
    for finding in findings:
        by_event.setdefault(get_event_id(finding), []).append(finding)
    survey = _survey_run(store, run, by_event, interventions, {*by_event, *evidence})
    shown = pick_places(survey.total, [*survey.interventions, *survey.findings], most)
    steps: list[ShownStep] = []
    skipped = 0
    for place, recorded in enumerate(store.iter_run_events(run.agent_id, run.run_id)):
        if place not in shown:
            skipped += 1
            continue
        event = recorded.event
        found, made = by_event.get(event.event_id, ()), interventions.get(event.seq, ())
        steps.append(ShownStep(recorded, found, made, skipped))
        skipped = 0
    return Selection(steps, skipped, survey.places)


class _StepOverview(NamedTuple):
    """The number of steps in a run, which of them have interventions or only findings, the places of ids."""

    total: int
    interventions: list[int]
    findings: list[int]
    places: dict[str, int]


def _survey_run(
    store: "RunStore",
    run: "StoredRun",
    by_event: Container[str],
    interventions: Container[int],
    wanted: Container[str],
) -> _StepOverview:
    interventions_at: list[int] = []
    findings_at: list[int] = []
    places: dict[str, int] = {}
    total = 0
    for total, recorded in enumerate(store.iter_run_events(run.agent_id, run.run_id), start=1):
        event = recorded.event
        if event.event_id in wanted:
            places[event.event_id] = event.seq
        if event.seq in interventions:
            interventions_at.append(total - 1)
        elif event.event_id in by_event:
            findings_at.append(total - 1)
    return _StepOverview(total, interventions_at, findings_at, places)


def _pick_edges(total: int, most: int) -> set[int]:
    """Return a quarter of the places from the beginning, and as many from the end."""
    edge = max(1, most // 4)
    return {*range(min(edge, most)), *range(total - min(edge, max(0, most - edge)), total)}


def pick_places(total: int, marked: Sequence[int], most: int | None) -> set[int] | range:
    """Return the places to show: head and tail, and between them the marked ones with their neighbours.

    >>> sorted(pick_places(100, [50], 8))
    [0, 1, 49, 50, 51, 98, 99]
    >>> pick_places(5, [], 8)
    range(0, 5)
    """
    if most is None or total <= most:
        return range(total)
    shown = _pick_edges(total, most)
    for place in marked:
        around = {near for near in (place - 1, place, place + 1) if 0 <= near < total}
        if len(shown | around) > most:
            break
        shown |= around
    return shown


def iter_timeline_lines(selection: Selection, run: "StoredRun", *, payloads: bool) -> Iterator["Text"]:
    """Yield the timeline, line by line."""
    for step in selection.steps:
        if step.skipped:
            yield _format_gap(step.skipped)
        yield step_line(step.recorded, run.started_at)
        if payloads:
            yield from _iter_payload_lines(step.recorded)
        for finding in step.findings:
            yield _format_finding(finding)
        for shown in step.interventions:
            yield from iter_intervention_lines(shown, in_full=payloads)
    if selection.skipped_at_end:
        yield _format_gap(selection.skipped_at_end)


def iter_intervention_lines(shown: ShownIntervention, *, in_full: bool) -> Iterator["Text"]:
    """Yield one intervention: the response, its reasons, what was expected of it, and its outcome."""
    from rich.text import Text

    made = shown.intervention
    yield Text(f"{_DETAIL_INDENT}→ ").append(_format_response(made), style="bold")
    wording = f"{safe(made.wording, most=_WORDING_WIDTH)}, " if made.wording else ""
    incident_id = safe(shown.incident.incident_id)
    yield Text(f"{_DETAIL_INDENT}  {wording}incident {incident_id}{_format_cost_before(made)}")
    if made.because:
        yield Text(f"{_DETAIL_INDENT}  because {safe(' and '.join(made.because), most=_LINE_WIDTH)}")
    if in_full and made.guidance:
        yield Text(f"{_DETAIL_INDENT}  guidance: {safe(made.guidance)}", style="dim")
    if made.not_carried_out:
        yield Text(f"{_DETAIL_INDENT}  not carried out: {safe(made.not_carried_out, most=_LINE_WIDTH)}")
    if made.expected:
        within = f" within {pluralize(made.window, 'step')}" if made.window else ""
        yield Text(f"{_DETAIL_INDENT}  expected{within}: {safe(made.expected, most=_LINE_WIDTH)}")
    yield Text(f"{_DETAIL_INDENT}  ").append(
        _format_outcome(made), style=_OUTCOME_STYLES.get(made.outcome, "")
    )


def describe_intervention(made: "Intervention") -> str:
    """Return one intervention on one line: its step, response level, verdict and outcome."""
    level, verdict = format_response_level(made.action, made.verdict), format_verdict(made.verdict)
    return f"step {step_number(made.seq)}: {level}, verdict {verdict}, outcome {made.outcome}"


def _format_response(made: "Intervention") -> str:
    text = f"{format_response_level(made.action, made.verdict)}, verdict {format_verdict(made.verdict)}"
    if made.wanted is not None and made.wanted != made.verdict:
        text += f" ({format_verdict(made.wanted)} was wanted)"
    if not made.said:
        text += ", not delivered"
    return f"{text}, chronic" if made.hard else text


def _format_cost_before(made: "Intervention") -> str:
    """Return what the incident had cost before the intervention."""
    parts = [pluralize(made.tokens_before, "token")] if made.tokens_before else []
    parts += [f"${made.cost_before_usd:,.4f}"] if made.cost_before_usd else []
    return f", after {' and '.join(parts)}" if parts else ""


def _format_outcome(made: "Intervention") -> str:
    words = (_OUTCOME_LABELS if made.said else _OUTCOMES_NOT_DELIVERED).get(made.outcome, made.outcome)
    at = f" at step {step_number(made.settled_seq)}" if made.settled_seq is not None else ""
    saved = (
        f", saved at most {pluralize(made.tokens_saved, 'token')}" if made.tokens_saved and made.said else ""
    )
    return f"{_OUTCOME_MARKS.get(made.outcome, '?')} {words}{at}{saved}"


def _format_gap(skipped: int) -> "Text":
    from rich.text import Text

    return Text(f"{_STEP_INDENT}... {pluralize(skipped, 'step')} ...", style="dim")


def step_line(recorded: "RecordedEvent", started_at: float) -> "Text":
    """Return one step on one line: number, time, kind, call, result."""
    from rich.text import Text

    event = recorded.event
    line = Text(
        f"{step_number(event.seq):>5} {_format_offset(event.timestamp - started_at):>9}  ", style="dim"
    )
    line.append(f"{_STEP_MARKS.get(event.action_type, '?')} ", style="not dim")
    line.append(safe(event.action_name, most=_VALUE_WIDTH), style="not dim bold")
    line.append(_format_content(recorded), style="not dim")
    if event.not_run:
        line.append(f"  not run: {safe(event.not_run, most=_VALUE_WIDTH)}", style="not dim")
    if event.error is not None:
        line.append(f"  ✖ {safe(event.error, most=_ERROR_WIDTH)}", style="not dim red")
    return line


def _format_content(recorded: "RecordedEvent") -> str:
    event = recorded.event
    result = format_value(event.output_data) if event.error is None and event.output_data is not None else ""
    arrow = f" => {result}" if result else ""
    if event.action_type == "tool_call":
        return f"({_format_arguments(event.input_data)}){arrow}"
    if event.action_type == "user_message":
        return f" {safe(event.text, most=2 * _VALUE_WIDTH)}"
    if event.action_type == "state_transition" and event.metadata:
        return f" {_format_arguments({name: it for name, it in event.metadata.items() if it})}"
    given = f" {format_value(event.input_data)}" if event.input_data is not None else ""
    return given + arrow


def _format_arguments(data: Any) -> str:
    if isinstance(data, dict):
        pairs = ", ".join(f"{name}={format_value(value)}" for name, value in data.items())
        return safe(pairs, most=2 * _VALUE_WIDTH)
    return "" if data is None else format_value(data, most=2 * _VALUE_WIDTH)


def format_value(value: Any, most: int = _VALUE_WIDTH) -> str:
    """Return any stored value on one line, shortened.

    >>> format_value({"text": "no flights"}), format_value([1, 2])
    ('"no flights"', '[1,2]')
    """
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        return f'"{safe(value[:_LINE_WIDTH], most=most)}"'
    return safe(msgspec.json.encode(value).decode(), most=most)


def _iter_payload_lines(recorded: "RecordedEvent") -> Iterator["Text"]:
    from rich.text import Text

    for name, encoded in (
        ("input", recorded.input_json),
        ("output", recorded.output_json),
        ("metadata", recorded.metadata_json),
    ):
        if encoded:
            yield Text(f"{_STEP_INDENT}   {name}: {safe(encoded.decode('utf-8', 'replace'))}", style="dim")


def _format_finding(finding: "DriftEvent") -> "Text":
    from rich.text import Text

    line = Text(f"{_STEP_INDENT}   ")
    line.append_text(format_severity(finding.severity))
    line.append(f" {safe(finding.detector)}: {safe(finding.message, most=_LINE_WIDTH)}")
    lowered = finding.context.get("lowered_because")
    if lowered:
        line.append(f" (not reported: {safe(lowered, most=_ERROR_WIDTH)})", style="dim")
    return line


def _format_offset(seconds: float) -> str:
    return f"+{format_duration(seconds)}" if seconds >= 0 else f"-{format_duration(-seconds)}"
