/** Why something was noticed: sentence, buttons, figures against normal, evidence, what was said and what came of it. */
import { memo, useState } from "react";
import type { ReactNode } from "react";

import type { Against, IncidentDetail, RunDetail, Said } from "../api/types";
import { useKeys } from "../app/keyboard";
import { href } from "../app/router";
import { Badge, OutcomeBadge } from "../components/Badge";
import { Button } from "../components/Button";
import { Severity } from "../components/Glyph";
import { escapeHidden, HostileText } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { Block, Failure, Loading } from "../components/States";
import { formatCount, formatDuration, formatMoney, formatPercent, formatPlural, formatRange, formatScore, formatSteps } from "../format";
import { Comments } from "../incidents/Comments";
import { IncidentButtons } from "../incidents/IncidentButtons";
import { useIncident } from "./data";
import { DeclarePanel } from "./DeclarePanel";
import type { ToolKind } from "./DeclarePanel";
import { Evidence } from "./Evidence";
import { JudgedLine, JudgedPart } from "./JudgedPart";

export interface WhyCardProps {
  detail: RunDetail;
  /** The incident that is shown; null when nothing was noticed. */
  incident: string | null;
  show: (incident: string) => void;
  select: (step: number) => void;
}

export const WhyCard = memo(function WhyCard({ detail, incident, show, select }: WhyCardProps): ReactNode {
  const query = useIncident(incident);
  const place = incident === null ? -1 : detail.incidents.indexOf(incident);
  const go = (by: number): void => {
    const next = detail.incidents[place + by];
    if (next !== undefined) show(next);
  };
  useKeys({ "[": () => go(-1), "]": () => go(1) }, detail.incidents.length > 1);
  if (incident === null) return <NothingNoticed detail={detail} select={select} />;
  if (!query.data) {
    return (
      <section className="card" aria-label="Why">
        {query.error ? (
          <Failure error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <div className="card-body why-part"><Loading><Block width={260} height={20} /><Block width={320} /><Block width={280} height={64} /></Loading></div>
        )}
      </section>
    );
  }
  const shown = query.data;
  return (
    <section className={`card why-card ${query.isPlaceholderData ? "stale" : ""}`} aria-label="Why">
      <header className="card-head">
        <Severity severity={shown.row.severity} />
        <Badge tone="drift">{shown.row.kind}</Badge>
        <Badge>{shown.row.tab.charAt(0).toUpperCase() + shown.row.tab.slice(1)}</Badge>
        {detail.incidents.length > 1 && (
          <div className="end small muted">
            {formatCount(place + 1)} of {formatCount(detail.incidents.length)}
            <Button kind="quiet" small icon aria-label="Previous incident" title={place <= 0 ? "This is the first incident" : "Previous incident ([)"} disabled={place <= 0} onClick={() => go(-1)}>
              <Icon name="left" />
            </Button>
            <Button kind="quiet" small icon aria-label="Next incident" title={place >= detail.incidents.length - 1 ? "This is the last incident" : "Next incident (])"} disabled={place >= detail.incidents.length - 1} onClick={() => go(1)}>
              <Icon name="right" />
            </Button>
          </div>
        )}
      </header>
      <div className="why-part">
        <h2 className="why-sentence"><HostileText text={shown.sentence} whole /></h2>
        <p className="muted small">
          {formatSteps(shown.row.first_step, shown.row.last_step)} · noticed at{" "}
          <button type="button" className="link-button" onClick={() => select(shown.noticed_at)}>step {formatCount(shown.noticed_at)}</button>
          {" "}· by {escapeHidden(shown.detectors.join(", "))}
        </p>
        {shown.judged && <JudgedLine judged={shown.judged} select={select} />}
        <IncidentButtons detail={shown} />
        <DeclareLine key={shown.row.incident_id} detail={shown} />
      </div>
      {shown.against.length > 0 && (
        <div className="why-part">
          <h3>Against normal</h3>
          <dl className="rows">
            {shown.against.map((row) => <AgainstRow key={row.label} row={row} />)}
          </dl>
        </div>
      )}
      <div className="why-part">
        <Evidence key={shown.row.incident_id} detail={shown} />
      </div>
      <div className="why-part">
        <h3>What was said, what came of it</h3>
        {shown.said.length === 0 ? <p className="muted small">Nothing was said.</p> : <SaidList key={shown.row.incident_id} said={shown.said} select={select} />}
      </div>
      <JudgedPart judged={detail.judged} select={select} />
      <div className="why-part">
        <Comments key={shown.row.incident_id} id={shown.row.incident_id} comments={shown.comments} />
      </div>
      <p className="why-part why-elsewhere small muted">
        {shown.elsewhere > 0 ? (
          <>
            Same pattern in <a href={href("/incidents", { group: shown.row.incident_id })}>{formatPlural(shown.elsewhere, "other incident")}</a> of {escapeHidden(shown.row.agent.name)}.
          </>
        ) : (
          "This pattern has no other incident."
        )}
      </p>
    </section>
  );
});

function DeclareLine({ detail }: { detail: IncidentDetail }): ReactNode {
  const [kind, setKind] = useState<ToolKind | null>(null);
  const { declare, declared } = detail;
  if (!declare) return null;
  const before = declared as ToolKind;
  return (
    <>
      <p className="muted small declare-line">
        {declared ? `${escapeHidden(declare)} is declared a ${declared} tool. Declare it ` : `Expected? Declare ${escapeHidden(declare)} `}
        a <button type="button" className="link-button" disabled={declared === "batch"} onClick={() => setKind("batch")}>batch</button> or a{" "}
        <button type="button" className="link-button" disabled={declared === "poll"} onClick={() => setKind("poll")}>poll</button> tool.
      </p>
      {kind && <DeclarePanel key={kind} agent={detail.row.agent.key} tool={declare} kind={kind} before={before} onClose={() => setKind(null)} />}
    </>
  );
}

/** Return a number of an "against normal" row in its unit. */
function formatUnit(value: number | null, unit: string): string {
  if (value === null) return "not known";
  if (unit === "usd" || unit === "$") return formatMoney(value);
  if (unit === "share" || unit === "%") return formatPercent(value);
  if (unit === "s") return formatDuration(value);
  if (unit === "score") return formatScore(value);
  const digits = Number.isInteger(value) || Math.abs(value) >= 100 ? formatCount(value) : value.toFixed(2);
  return unit ? `${digits} ${unit}` : digits;
}

function AgainstRow({ row }: { row: Against }): ReactNode {
  const { value, normal, limit } = row.figure;
  const unit = unitless(row.unit);
  // The normal range of a count is shown in whole numbers, as the count is.
  const bare = (each: number): string => formatUnit(unit === "" && Number.isInteger(value) ? Math.round(each) : each, unit);
  return (
    <div>
      <dt>{escapeHidden(row.label)}</dt>
      <dd className="strong">{formatUnit(value, row.unit)}</dd>
      <dd className="muted">
        {normal ? `normal ${formatRange(normal.p5, normal.p95, bare)}` : limit !== null ? describeLimit(value, limit, bare) : "normal not known"}
      </dd>
    </div>
  );
}

/** Return a limit as "54 % of budget", or as the limit where the number is not known. */
function describeLimit(value: number | null, limit: number, format: (each: number) => string): string {
  return value === null || limit <= 0 ? `limit ${format(limit)}` : `${formatPercent(value / limit)} of ${format(limit)}`;
}

/** Words such as "times" are said once; the range beside them has numbers only. */
function unitless(unit: string): string {
  return ["usd", "$", "share", "%", "s", "score"].includes(unit) ? unit : "";
}

const SHOWN_SAID = 4;

/** The latest responses; earlier ones on request. */
function SaidList({ said, select }: { said: readonly Said[]; select: (step: number) => void }): ReactNode {
  const [all, setAll] = useState(false);
  const earlier = all ? 0 : Math.max(0, said.length - SHOWN_SAID);
  return (
    <>
      {earlier > 0 && (
        <button type="button" className="link-button small said-earlier" onClick={() => setAll(true)}>
          Show {formatPlural(earlier, "earlier response")}
        </button>
      )}
      <ol className="said">
        {said.slice(earlier).map((each) => (
          <li key={`${each.step}/${each.response}`} className={each.delivered ? "" : "said-undelivered"}>
            <div className="said-head">
              <b>{each.response.charAt(0).toUpperCase() + each.response.slice(1)}</b>
              <button type="button" className="link-button" onClick={() => select(each.step)}>step {formatCount(each.step)}</button>
              <span className="end"><OutcomeBadge outcome={each.delivered || each.not_carried_out ? each.outcome : "not delivered"} reason={each.not_carried_out || undefined} /></span>
            </div>
            {each.not_carried_out && <p className="muted small"><HostileText text={each.not_carried_out} /></p>}
            {each.guidance && <blockquote><HostileText text={each.guidance} /></blockquote>}
            {each.measure && <p className="muted small"><HostileText text={each.measure} /></p>}
          </li>
        ))}
      </ol>
    </>
  );
}

function NothingNoticed({ detail, select }: Pick<WhyCardProps, "detail" | "select">): ReactNode {
  const { not_checked: unchecked, checked_by: checked } = detail;
  const running = detail.run.state === "running" || detail.run.state === "waiting";
  return (
    <section className="card why-card" aria-label="Why">
      <div className="why-part">
        <h2 className="why-sentence">Nothing noticed in {formatPlural(detail.run.steps, "step")}.</h2>
        <p className="muted">
          {checked.length > 0
            ? `Checked by ${formatPlural(checked.length, "detector")}${unchecked.length > 0 ? `; ${formatCount(unchecked.length)} not checked` : ""}.`
            : running
              ? "Which detectors checked it is said when it ends."
              : "Which detectors checked it was not stored."}{" "}
          {`Baseline: ${escapeHidden(detail.baseline)}.`}
        </p>
        {unchecked.length > 0 && (
          <ul className="unchecked muted small">
            {unchecked.map((each) => <li key={each.name}>{escapeHidden(each.name)} not checked: {escapeHidden(each.reason)}</li>)}
          </ul>
        )}
      </div>
      <JudgedPart judged={detail.judged} select={select} />
    </section>
  );
}
