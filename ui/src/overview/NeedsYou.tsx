import type { IncidentRow, Overview, RunRow } from "../api/types";
import { href, runPath } from "../app/router";
import { Badge } from "../components/Badge";
import { Card } from "../components/Card";
import { Glyph, Severity } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { formatAgo, formatCapped, formatSteps, formatTime } from "../format";

/** Runs that wait, then open incidents from high; hidden when there is nothing. */
export function NeedsYou({ overview }: { readonly overview: Overview }) {
  const count = overview.waiting.length + overview.needs_you.length;
  if (count === 0) return null;
  return (
    <Card
      title={
        <>
          Needs you <Badge tone="drift">{count}</Badge>
        </>
      }
      end={<a href={href("/incidents")}>{overview.open_incidents === 1 ? "The open incident" : `All ${formatCapped(overview.open_incidents)} open incidents`}</a>}
    >
      <ul className="needs">
        {overview.waiting.map((run) => (
          <Waiting key={run.key} run={run} />
        ))}
        {overview.needs_you.map((incident) => (
          <Incident key={incident.incident_id} incident={incident} />
        ))}
      </ul>
    </Card>
  );
}

function Waiting({ run }: { readonly run: RunRow }) {
  const now = useNow();
  return (
    <li className="need">
      <Glyph state="waiting" word="Waiting for an answer" />
      <strong className="ellipsis">
        <HostileText text={run.agent.name} oneLine />
      </strong>
      <HostileText text={run.goal || run.run_id} oneLine />
      <span>{run.top_severity && <Severity severity={run.top_severity} bare />}</span>
      <span className="muted need-time" title={formatTime(run.last_at, now)}>
        {formatAgo(run.last_at, now)}
      </span>
      <a className="button button-small" href={href(runPath(run.key))} aria-label={`Open the run of ${run.agent.name}`}>
        Open
      </a>
    </li>
  );
}

function Incident({ incident }: { readonly incident: IncidentRow }) {
  const now = useNow();
  const address = href(runPath(incident.run), { from: incident.first_step, to: incident.last_step });
  return (
    <li className="need">
      <Glyph state={incident.ongoing ? "drifting" : "ended"} />
      <strong className="ellipsis">
        <HostileText text={incident.agent.name} oneLine />
      </strong>
      <HostileText text={`${incident.message}, ${formatSteps(incident.first_step, incident.last_step)}`} oneLine />
      <Severity severity={incident.severity} bare />
      <span className="muted need-time" title={formatTime(incident.last_at, now)}>
        {formatAgo(incident.last_at, now)}
      </span>
      <a className="button button-small" href={address} aria-label={`Open the run of ${incident.agent.name}, ${formatSteps(incident.first_step, incident.last_step)}`}>
        Open
      </a>
    </li>
  );
}
