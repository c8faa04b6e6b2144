"""Answers to drift as lines under the step at which they were given: what was said, and what came of it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steadyhelm.reports.formats import counted, number
from steadyhelm.reports.terminal import safe

if TYPE_CHECKING:
    from rich.text import Text

    from steadyhelm.decisions import Intervention
    from steadyhelm.incidents import Incident

_INDENT: Final = " " * 9
_LINE: Final = 400
_NAME: Final = 80
_MARKS: Final = {"worked": "✔", "ignored": "○", "worse": "✖", "unknown": "?"}
_OUTCOMES: Final = {"unknown": "outcome unknown"}
_UNANSWERED: Final = {
    "worked": "stopped by itself",
    "ignored": "went on",
    "worse": "grew worse",
    "unknown": "outcome unknown",
}
_COLOURS: Final = {"worked": "green", "ignored": "yellow", "worse": "red", "unknown": "dim"}


class Answer(NamedTuple):
    """One answer, and the incident it is an answer to."""

    incident: "Incident"
    given: "Intervention"


def by_step(incidents: Iterable["Incident"]) -> dict[int, list[Answer]]:
    """The answers to these incidents, by the step at which they were given."""
    found: dict[int, list[Answer]] = {}
    for incident in incidents:
        for given in incident.interventions:
            found.setdefault(given.seq, []).append(Answer(incident, given))
    return dict(sorted(found.items()))


def plain(answers: Mapping[int, list[Answer]]) -> list[dict[str, Any]]:
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


def lines(answer: Answer, *, in_full: bool) -> Iterator["Text"]:
    """One answer: what was to be done, why, what was expected of it, and what came of it."""
    from rich.text import Text

    given = answer.given
    yield Text(f"{_INDENT}→ ").append(_asked(given), style="bold")
    wording = f"{safe(given.wording, most=_NAME)}, " if given.wording else ""
    yield Text(f"{_INDENT}  {wording}incident {safe(answer.incident.incident_id)}{_cost(given)}")
    if given.because:
        yield Text(f"{_INDENT}  because {safe(' and '.join(given.because), most=_LINE)}")
    if in_full and given.guidance:
        yield Text(f"{_INDENT}  words: {safe(given.guidance)}", style="dim")
    if given.not_carried_out:
        yield Text(f"{_INDENT}  not carried out: {safe(given.not_carried_out, most=_LINE)}")
    if given.expected:
        within = f" within {counted(given.window, 'step')}" if given.window else ""
        yield Text(f"{_INDENT}  expected{within}: {safe(given.expected, most=_LINE)}")
    yield Text(f"{_INDENT}  ").append(_outcome(given), style=_COLOURS.get(given.outcome, ""))


def _asked(given: "Intervention") -> str:
    words = f"{given.action}, verdict {given.verdict}"
    if given.wanted is not None and given.wanted != given.verdict:
        words += f" ({given.wanted} was wanted)"
    if not given.said:
        words += ", nothing was said"
    return f"{words}, chronic" if given.hard else words


def _cost(given: "Intervention") -> str:
    """What the incident had cost by then."""
    parts = [counted(given.tokens_before, "token")] if given.tokens_before else []
    parts += [f"${given.cost_before_usd:,.4f}"] if given.cost_before_usd else []
    return f", after {' and '.join(parts)}" if parts else ""


def _outcome(given: "Intervention") -> str:
    words = (_OUTCOMES if given.said else _UNANSWERED).get(given.outcome, given.outcome)
    at = f" at step {number(given.settled_seq)}" if given.settled_seq is not None else ""
    saved = f", saved {counted(given.tokens_saved, 'token')}" if given.tokens_saved and given.said else ""
    return f"{_MARKS.get(given.outcome, '?')} {words}{at}{saved}"
