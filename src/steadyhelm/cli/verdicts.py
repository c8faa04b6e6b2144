"""What people say about an incident: a false alarm, a true one, or neither after all."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from steadyhelm.cli.output import confirm
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.incidents import Incident, ThresholdEffect
    from steadyhelm.store import Store

_LOOKED_AT: Final = 10_000

Id = Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or the beginning of it.")]


def false_alarm(
    context: typer.Context,
    incident_id: Id,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Say that an incident was none: its detector becomes more careful with this agent."""
    from steadyhelm.policy.thresholds import threshold_for

    with closing(context.obj.store(read_only=dry_run)) as store:
        incident = store.find_incident(incident_id)
        if incident.review == "false_alarm":
            say(f"Incident {incident.incident_id} is marked a false alarm already.")
            return
        threshold = threshold_for(incident, at=time.time())
        _print_effect(incident, _effect(store, incident))
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        confirm(f"Mark incident {incident.incident_id} a false alarm and move the threshold?", yes=yes)
        with store.transaction():
            store.save_threshold(threshold)
            store.review(incident.incident_id, "false_alarm")
    agent = safe(incident.agent_id)
    say(
        f"Saved; it counts from the next run of {agent} on. "
        f"Undo: steadyhelm alerts undo {incident.incident_id}"
    )


def confirm_incident(context: typer.Context, incident_id: Id) -> None:
    """Say that an incident was right; a threshold it moved goes back."""
    with closing(context.obj.store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        with store.transaction():
            moved_back = store.drop_threshold(incident.incident_id)
            store.review(incident.incident_id, "confirmed")
    back = " The threshold it had moved is back where it was." if moved_back else ""
    say(f"Confirmed incident {incident.incident_id}.{back}")


def undo(context: typer.Context, incident_id: Id) -> None:
    """Take back what was said about an incident, and the threshold it moved."""
    with closing(context.obj.store(read_only=False)) as store:
        incident = store.find_incident(incident_id)
        with store.transaction():
            moved_back = store.drop_threshold(incident.incident_id)
            store.review(incident.incident_id, "")
    if not incident.review and not moved_back:
        say(f"Nobody had said anything about incident {incident.incident_id}; nothing was changed.")
        return
    back = " and the threshold it had moved" if moved_back else ""
    verdict = (incident.review or "false_alarm").replace("_", " ")
    say(f"Took back {verdict!r} on incident {incident.incident_id}{back}.")


def _effect(store: "Store", incident: "Incident") -> "ThresholdEffect":
    from steadyhelm.policy.thresholds import effect_of, threshold_for

    past = store.incidents(incident.agent_id, detector=incident.detector, limit=_LOOKED_AT)
    return effect_of(threshold_for(incident, at=0.0), past)


def _print_effect(incident: "Incident", effect: "ThresholdEffect") -> None:
    detector, agent = safe(incident.detector), safe(incident.agent_id)
    least = effect.threshold.min_score
    typer.echo(
        f"Findings of {detector} in runs of {agent} that score below {least:.2f} are noticed, not reported."
    )
    confirmed = f", {effect.confirmed_silenced} of them confirmed" if effect.confirmed_silenced else ""
    past = counted(effect.incidents, "incident")
    typer.echo(f"It would have silenced {effect.silenced} of {past} so far{confirmed}.")
    if incident.incident_id not in effect.silenced_ids:
        typer.echo(
            f"Not this one: its score is {incident.peak:.2f}, and a detector's surest findings always count. "
            f"To keep such incidents quiet, change the settings of {detector}, or mute its alerts "
            f"for a while: steadyhelm alerts mute {incident.incident_id}"
        )
