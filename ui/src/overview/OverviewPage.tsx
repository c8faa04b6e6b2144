import { useQuery } from "@tanstack/react-query";

import { overviewQuery } from "../api/queries";
import type { Overview } from "../api/types";
import { Card, Figure, Figures } from "../components/Card";
import { SEVERITY_ORDER, severityWord } from "../components/Glyph";
import { Block, Failure, Loading, LoadingRows, StaleBadge } from "../components/States";
import { formatCapped, formatCount, formatFull, formatMoney, formatPlural } from "../format";
import { AgentsTable } from "./AgentsTable";
import { FirstSteps } from "./FirstSteps";
import { NeedsYou } from "./NeedsYou";
import "./overview.css";

export default function OverviewPage() {
  const { data, error, refetch, dataUpdatedAt } = useQuery(overviewQuery);
  const stale = data !== undefined && error !== null;
  return (
    <>
      <div className="page-head">
        <h1>Overview</h1>
        {data && <span className="muted">{formatFull(data.now)}</span>}
        {stale && <StaleBadge since={dataUpdatedAt} />}
      </div>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data ? <Content overview={data} stale={stale} /> : !error && <Shape />}
    </>
  );
}

function Content({ overview, stale }: { readonly overview: Overview; readonly stale: boolean }) {
  if (overview.empty) return <FirstSteps database={overview.database} />;
  return (
    <div className={`page-stack ${stale ? "stale" : ""}`}>
      <OverviewFigures overview={overview} />
      <NeedsYou overview={overview} />
      <AgentsTable agents={overview.agents} total={overview.agents_total} />
    </div>
  );
}

function OverviewFigures({ overview }: { readonly overview: Overview }) {
  const count = (state: string) => overview.agents.filter((agent) => agent.state === state).length;
  const severities = SEVERITY_ORDER.map((severity) => ({
    severity,
    count: overview.agents
      .flatMap((agent) => agent.open_incidents)
      .filter((each) => each.name === severity)
      .reduce((sum, each) => sum + each.count, 0),
  })).filter((each) => each.count > 0);
  const limits = overview.agents.map((agent) => agent.spend.limit).filter((limit) => limit !== null);
  const limit = limits.reduce((sum, each) => sum + each, 0);
  return (
    <Figures>
      <Figure label="Runs today" value={formatCount(overview.runs_today)} note={`yesterday ${formatCount(overview.runs_yesterday)}`} />
      <Figure
        label="Agents drifting"
        value={formatCount(overview.agents_drifting)}
        unit={`of ${formatCount(overview.agents_total)}`}
        note={`${count("learning")} learning, ${count("silent")} silent`}
      />
      <Figure
        label="Open incidents"
        value={formatCapped(overview.open_incidents)}
        note={
          severities.length
            ? severities.map((each) => `${formatCount(each.count)} ${severityWord(each.severity).toLowerCase()}`).join(", ")
            : "nothing open"
        }
      />
      <Figure
        label="Responses today"
        value={formatCount(overview.responses_today)}
        note={
          overview.response_outcomes.map((each) => `${formatCount(each.count)} ${each.name.replaceAll("_", " ")}`).join(", ") ||
          "nothing was said"
        }
      />
      <Figure
        label="Spend today"
        value={formatMoney(overview.spend_today_usd)}
        unit={limit ? `of ${formatMoney(limit)}` : undefined}
        note={
          overview.spend_today_usd === null && overview.tokens_today > 0
            ? `${formatCount(overview.tokens_today)} tokens, prices not known`
            : formatPlural(overview.tokens_today, "token")
        }
      />
      <Figure label="Lost events" value={formatCount(overview.lost)} note={overview.lost ? <a href="#/settings">by reason</a> : "nothing lost"} />
    </Figures>
  );
}

function Shape() {
  return (
    <Loading>
      <div className="page-stack">
        <Figures>
          {["Runs today", "Agents drifting", "Open incidents", "Responses today", "Spend today", "Lost events"].map((label) => (
            <Figure key={label} label={label} value={<Block width={72} height={20} />} note={<Block width={96} />} />
          ))}
        </Figures>
        <Card title="Agents">
          <LoadingRows rows={5} widths={[72, 140, 40, 148, 60, 60, 120]} />
        </Card>
      </div>
    </Loading>
  );
}
