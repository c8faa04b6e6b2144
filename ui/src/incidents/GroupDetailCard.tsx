import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { GroupDetail, RunOfGroup } from "../api/types";
import { href, runPath } from "../app/router";
import { Badge } from "../components/Badge";
import { Card } from "../components/Card";
import { Glyph, Severity } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { Block, Failure, LastGood, Loading } from "../components/States";
import { useNow } from "../components/useNow";
import { formatAgo, formatCapped, formatCount, formatPlural, formatSteps, formatTime } from "../format";
import { Comments } from "./Comments";
import { IncidentButtons } from "./IncidentButtons";

interface GroupDetailCardProps {
  /** The id of any incident of the group. */
  readonly id: string;
  /** "3 of 7 groups". */
  readonly place: string;
  readonly onBack: () => void;
  /** A change was made: go to the next group. */
  readonly onDone: () => void;
}

/** The chosen group: sentence, buttons, the runs with their step ranges, comments. */
export function GroupDetailCard({ id, place, onBack, onDone }: GroupDetailCardProps) {
  const query = useQuery({
    queryKey: [...keys.incident(id), "group"],
    queryFn: ({ signal }) => get<GroupDetail>(`/incidents/${encodeURIComponent(id)}/group`, {}, signal),
  });
  return (
    <section className="inbox-detail" aria-label="The chosen group">
      <button type="button" className="link-button back" onClick={onBack}>
        <Icon name="left" size={10} /> All incidents
      </button>
      {query.data ? (
        <LastGood query={query}>
          <Detail detail={query.data} place={place} onDone={onDone} />
        </LastGood>
      ) : query.error ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Card padded>
          <Loading>
            <div className="stack">
              <Block width={160} />
              <Block width={380} height={20} />
              <Block width={420} height={72} />
            </div>
          </Loading>
        </Card>
      )}
    </section>
  );
}

const TAB_WORDS = { open: "Open", acknowledged: "Acknowledged", muted: "Muted", closed: "Closed" } as const;

interface DetailProps {
  readonly detail: GroupDetail;
  readonly place: string;
  readonly onDone: () => void;
}

function Detail({ detail, place, onDone }: DetailProps) {
  const { group, newest, runs, comments } = detail;
  return (
    <Card>
      <header className="card-head">
        <Severity severity={group.severity} />
        <Badge>{group.kind}</Badge>
        <Badge>{TAB_WORDS[newest.row.tab]}</Badge>
        <Glyph state={newest.row.ongoing ? "drifting" : "ended"} />
        <span className="end muted small">{place}</span>
      </header>
      <div className="card-body stack">
        <div>
          <h2 className="why-sentence">
            <HostileText text={newest.sentence} whole />
          </h2>
          <p className="muted small">
            <HostileText text={group.agent.name} oneLine /> · {formatPlural(group.count, "incident")} ·{" "}
            {formatSteps(newest.row.first_step, newest.row.last_step)} of the newest · by {newest.detectors.join(", ")}
          </p>
        </div>
        <IncidentButtons detail={newest} wholeGroup onDone={onDone} />
        {newest.advice && (
          <p className="small">
            <HostileText text={newest.advice} />
          </p>
        )}
      </div>
      <Runs runs={runs} count={group.count} />
      <div className="detail-part">
        <Comments id={newest.row.incident_id} comments={comments} />
      </div>
    </Card>
  );
}

function Runs({ runs, count }: { readonly runs: readonly RunOfGroup[]; readonly count: number }) {
  const now = useNow();
  const [all, setAll] = useState(false);
  const shown = all ? runs : runs.slice(0, 6);
  return (
    <div className="detail-part">
      <h3>
        Runs <span className="muted">{formatCount(shown.length)} of {formatCapped(count)}</span>
      </h3>
      <table className="table group-runs">
        <caption className="visually-hidden">Runs with this pattern</caption>
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Steps</th>
            <th scope="col">Findings</th>
            <th scope="col">Last seen</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ incident, goal }) => (
            <tr key={incident.incident_id}>
              <td className="group-run">
                <a
                  className="mono"
                  href={href(runPath(incident.run), { from: incident.first_step, to: incident.last_step })}
                >
                  <HostileText text={incident.run_id} oneLine />
                </a>
                <div className="muted small">
                  <HostileText text={goal} oneLine />
                </div>
              </td>
              <td className="small">{formatSteps(incident.first_step, incident.last_step)}</td>
              <td className="number">
                <strong>{formatCount(incident.findings)}×</strong>
              </td>
              <td className="number muted small" title={formatTime(incident.last_at, now)}>
                {formatAgo(incident.last_at, now)}
                {incident.review === "confirmed" && <div className="ok-text">right</div>}
                {incident.review === "false_alarm" && <div>false alarm</div>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {runs.length > shown.length && (
        <button type="button" className="link-button small" onClick={() => setAll(true)}>
          Show {formatCount(runs.length)}
        </button>
      )}
    </div>
  );
}
