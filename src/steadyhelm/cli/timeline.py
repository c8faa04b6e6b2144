"""A run's steps as lines: which of them are shown, and what each says."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from steadyhelm.reports.formats import counted, lasting, number
from steadyhelm.reports.terminal import safe, severity

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.decisions import Intervention
    from steadyhelm.findings import DriftEvent
    from steadyhelm.incidents import Incident
    from steadyhelm.sink import RecordedEvent
    from steadyhelm.store import RunRow, RunStore

_DETAIL_INDENT: Final = " " * 9

_WORDING_WIDTH: Final = 80
_OUTCOME_MARKS: Final = {"worked": "✔", "ignored": "○", "worse": "✖", "unknown": "?"}
_OUTCOME_WORDS: Final = {"unknown": "outcome unknown"}
_UNSAID_OUTCOME_WORDS: Final = {
    "worked": "stopped by itself",
    "ignored": "went on",
    "worse": "grew worse",
    "unknown": "outcome unknown",
}
_OUTCOME_COLOURS: Final = {"worked": "green", "ignored": "yellow", "worse": "red", "unknown": "dim"}


class ShownIntervention(NamedTuple):
    """One answer, and the incident it is an answer to."""

    incident: "Incident"
    given: "Intervention"


def interventions_by_step(incidents: Iterable["Incident"]) -> dict[int, list[ShownIntervention]]:
    """The answers to these incidents, by the step at which they were given."""
    found: dict[int, list[ShownIntervention]] = {}
    for incident in incidents:
        for given in incident.interventions:
            found.setdefault(given.seq, []).append(ShownIntervention(incident, given))
    return dict(sorted(found.items()))


def interventions_as_data(answers: Mapping[int, list[ShownIntervention]]) -> list[dict[str, Any]]:
    """The answers as data, in the order of their steps."""
    return [
        {
            "incident_id": answer.incident.incident_id,
            "kind": answer.incident.kind,
            "detector": answer.incident.detector,
            **{name: getattr(answer.given, name) for name in answer.given.__struct_fields__},
        }
        for together in answers.values()
        for answer in together
    ]


def intervention_lines(answer: ShownIntervention, *, in_full: bool) -> Iterator["Text"]:
    """One answer: what was to be done, why, what was expected of it, and what came of it."""
    from rich.text import Text

    given = answer.given
    yield Text(f"{_DETAIL_INDENT}→ ").append(_answer_words(given), style="bold")
    wording = f"{safe(given.wording, most=_WORDING_WIDTH)}, " if given.wording else ""
    yield Text(
        f"{_DETAIL_INDENT}  {wording}incident {safe(answer.incident.incident_id)}{_answer_cost(given)}"
    )
    if given.because:
        yield Text(f"{_DETAIL_INDENT}  because {safe(' and '.join(given.because), most=_LINE_WIDTH)}")
    if in_full and given.guidance:
        yield Text(f"{_DETAIL_INDENT}  words: {safe(given.guidance)}", style="dim")
    if given.not_carried_out:
        yield Text(f"{_DETAIL_INDENT}  not carried out: {safe(given.not_carried_out, most=_LINE_WIDTH)}")
    if given.expected:
        within = f" within {counted(given.window, 'step')}" if given.window else ""
        yield Text(f"{_DETAIL_INDENT}  expected{within}: {safe(given.expected, most=_LINE_WIDTH)}")
    yield Text(f"{_DETAIL_INDENT}  ").append(
        _answer_outcome(given), style=_OUTCOME_COLOURS.get(given.outcome, "")
    )


def _answer_words(given: "Intervention") -> str:
    words = f"{given.action}, verdict {given.verdict}"
    if given.wanted is not None and given.wanted != given.verdict:
        words += f" ({given.wanted} was wanted)"
    if not given.said:
        words += ", nothing was said"
    return f"{words}, chronic" if given.hard else words


def _answer_cost(given: "Intervention") -> str:
    """What the incident had cost by then."""
    parts = [counted(given.tokens_before, "token")] if given.tokens_before else []
    parts += [f"${given.cost_before_usd:,.4f}"] if given.cost_before_usd else []
    return f", after {' and '.join(parts)}" if parts else ""


def _answer_outcome(given: "Intervention") -> str:
    words = (_OUTCOME_WORDS if given.said else _UNSAID_OUTCOME_WORDS).get(given.outcome, given.outcome)
    at = f" at step {number(given.settled_seq)}" if given.settled_seq is not None else ""
    saved = f", saved {counted(given.tokens_saved, 'token')}" if given.tokens_saved and given.said else ""
    return f"{_OUTCOME_MARKS.get(given.outcome, '?')} {words}{at}{saved}"


_GLYPHS: Final = {"tool_call": "▸", "llm_request": "✎", "state_transition": "◆", "user_message": "»"}
_SHORT: Final = 60
_ERROR: Final = 120
_LINE_WIDTH: Final = 400
_STEP_INDENT: Final = " " * 6


class Step(NamedTuple):
    """One step that is shown, with what was noticed and answered there; `skipped` steps before it are not."""

    recorded: "RecordedEvent"
    findings: Sequence["DriftEvent"]
    answers: Sequence[ShownIntervention]
    skipped: int


class Selection(NamedTuple):
    """The steps of a run that are shown, how many follow the last of them, and where known ids stand."""

    steps: list[Step]
    skipped_at_end: int
    places: dict[str, int]

    def seqs(self, event_ids: Iterable[str]) -> list[int]:
        """The places of these events in the run, as far as they are kept."""
        return sorted(self.places[event_id] for event_id in event_ids if event_id in self.places)


def event_of(finding: "DriftEvent") -> str:
    """The id of the event at which something was noticed."""
    return finding.event_id.removesuffix(f"/{finding.detector}")


def select(
    store: "RunStore",
    run: "RunRow",
    findings: Sequence["DriftEvent"],
    answered: Mapping[int, Sequence[ShownIntervention]],
    evidence: Iterable[str],
    most: int | None,
) -> Selection:
    """At most this many steps, those around answers first, then those around findings; None for all."""
    by_event: dict[str, list[DriftEvent]] = {}
    for finding in findings:
        by_event.setdefault(event_of(finding), []).append(finding)
    survey = _survey(store, run, by_event, answered, {*by_event, *evidence})
    shown = picked(survey.total, [*survey.answered, *survey.noticed], most)
    steps: list[Step] = []
    skipped = 0
    for place, recorded in enumerate(store.iter_run_events(run.agent_id, run.run_id)):
        if place not in shown:
            skipped += 1
            continue
        event = recorded.event
        steps.append(Step(recorded, by_event.get(event.event_id, ()), answered.get(event.seq, ()), skipped))
        skipped = 0
    return Selection(steps, skipped, survey.places)


class _Survey(NamedTuple):
    """How many steps a run has, at which of them something was answered or only noticed, where ids stand."""

    total: int
    answered: list[int]
    noticed: list[int]
    places: dict[str, int]


def _survey(
    store: "RunStore",
    run: "RunRow",
    by_event: Container[str],
    answered: Container[int],
    wanted: Container[str],
) -> _Survey:
    answers_at: list[int] = []
    findings_at: list[int] = []
    places: dict[str, int] = {}
    total = 0
    for total, recorded in enumerate(store.iter_run_events(run.agent_id, run.run_id), start=1):
        event = recorded.event
        if event.event_id in wanted:
            places[event.event_id] = event.seq
        if event.seq in answered:
            answers_at.append(total - 1)
        elif event.event_id in by_event:
            findings_at.append(total - 1)
    return _Survey(total, answers_at, findings_at, places)


def picked(total: int, marked: Sequence[int], most: int | None) -> set[int] | range:
    """The places to show: head and tail, and between them what was noticed, with the step before it.

    >>> sorted(picked(100, [50], 8))
    [0, 1, 49, 50, 51, 98, 99]
    >>> picked(5, [], 8)
    range(0, 5)
    """
    if most is None or total <= most:
        return range(total)
    edge = max(1, most // 4)
    shown = {*range(min(edge, most)), *range(total - min(edge, max(0, most - edge)), total)}
    for place in marked:
        around = {near for near in (place - 1, place, place + 1) if 0 <= near < total}
        if len(shown | around) > most:
            break
        shown |= around
    return shown


def lines(selection: Selection, run: "RunRow", *, payloads: bool) -> Iterator["Text"]:
    """The timeline, line by line."""
    for step in selection.steps:
        if step.skipped:
            yield _gap(step.skipped)
        yield step_line(step.recorded, run.started_at)
        if payloads:
            yield from _payload(step.recorded)
        for finding in step.findings:
            yield _finding(finding)
        for answer in step.answers:
            yield from intervention_lines(answer, in_full=payloads)
    if selection.skipped_at_end:
        yield _gap(selection.skipped_at_end)


def describe_intervention(answer: "Intervention") -> str:
    """One answer to an incident: at which step, what was advised, what was done, and whether it helped."""
    done = f"verdict {answer.verdict}, outcome {answer.outcome}"
    return f"step {number(answer.seq)}: {answer.action}, {done}"


def _gap(skipped: int) -> "Text":
    from rich.text import Text

    return Text(f"{_STEP_INDENT}... {counted(skipped, 'step')} ...", style="dim")


def step_line(recorded: "RecordedEvent", started_at: float) -> "Text":
    """One step on one line: number, time, kind, what was asked, what came back."""
    from rich.text import Text

    event = recorded.event
    line = Text(f"{number(event.seq):>5} {_offset(event.timestamp - started_at):>9}  ", style="dim")
    line.append(f"{_GLYPHS.get(event.action_type, '?')} ", style="not dim")
    line.append(safe(event.action_name, most=_SHORT), style="not dim bold")
    line.append(_said(recorded), style="not dim")
    if event.error is not None:
        line.append(f"  ✖ {safe(event.error, most=_ERROR)}", style="not dim red")
    return line


def _said(recorded: "RecordedEvent") -> str:
    event = recorded.event
    result = short(event.output_data) if event.error is None and event.output_data is not None else ""
    arrow = f" => {result}" if result else ""
    if event.action_type == "tool_call":
        return f"({_arguments(event.input_data)}){arrow}"
    if event.action_type == "user_message":
        return f" {safe(event.text, most=2 * _SHORT)}"
    if event.action_type == "state_transition" and event.metadata:
        return f" {_arguments({name: it for name, it in event.metadata.items() if it})}"
    given = f" {short(event.input_data)}" if event.input_data is not None else ""
    return given + arrow


def _arguments(data: Any) -> str:
    if isinstance(data, dict):
        return safe(", ".join(f"{name}={short(value)}" for name, value in data.items()), most=2 * _SHORT)
    return "" if data is None else short(data, most=2 * _SHORT)


def short(value: Any, most: int = _SHORT) -> str:
    """Any stored value on one line, cut.

    >>> short({"text": "no flights"}), short([1, 2])
    ('"no flights"', '[1,2]')
    """
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        return f'"{safe(value[:_LINE_WIDTH], most=most)}"'
    return safe(msgspec.json.encode(value).decode(), most=most)


def _payload(recorded: "RecordedEvent") -> Iterator["Text"]:
    from rich.text import Text

    for name, encoded in (
        ("input", recorded.input_json),
        ("output", recorded.output_json),
        ("metadata", recorded.metadata_json),
    ):
        if encoded:
            yield Text(f"{_STEP_INDENT}   {name}: {safe(encoded.decode('utf-8', 'replace'))}", style="dim")


def _finding(finding: "DriftEvent") -> "Text":
    from rich.text import Text

    line = Text(f"{_STEP_INDENT}   ")
    line.append_text(severity(finding.severity))
    line.append(f" {safe(finding.detector)}: {safe(finding.message, most=_LINE_WIDTH)}")
    lowered = finding.context.get("lowered_because")
    if lowered:
        line.append(f" (not reported: {safe(lowered, most=_ERROR)})", style="dim")
    return line


def _offset(seconds: float) -> str:
    return f"+{lasting(seconds)}" if seconds >= 0 else f"-{lasting(-seconds)}"
