import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { overviewOf } from "../api/queries";
import type { Overview } from "../api/types";
import { useParam } from "../app/router";
import { RangeBar } from "../components/Bars";
import { Figure, Figures } from "../components/Card";
import { Segments } from "../components/Choice";
import { SEVERITY_ORDER, severityWord } from "../components/Glyph";
import { Block, Failure, Loading, StaleBadge } from "../components/States";
import { formatCapped, formatCount, formatFull, formatMoney, formatPlural, formatRange } from "../format";
import { AgentsTable, LoadingAgents } from "./AgentsTable";
import { FirstSteps } from "./FirstSteps";
import { NeedsYou } from "./NeedsYou";
import "./overview.css";

const DAYS = [
  { value: "1", label: "Today" },
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
] as const;

export default function OverviewPage() {
  const [asked, setAsked] = useParam("days");
  const days = DAYS.find((each) => each.value === asked)?.value ?? "1";
  const { data, error, refetch, dataUpdatedAt } = useQuery({ ...overviewOf(days), placeholderData: keepPreviousData });
  const stale = data !== undefined && error !== null;
  return (
    <>
      <div className="page-head">
        <h1>Overview</h1>
        {data && <span className="muted">{formatFull(data.now)}</span>}
        {stale && <StaleBadge since={dataUpdatedAt} />}
        {data && !data.empty && (
          <div className="end">
            <Segments label="Days" options={DAYS} value={days} onChange={(next) => setAsked(next === "1" ? null : next)} />
          </div>
        )}
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
      <AgentsTable agents={overview.agents} total={overview.agents_total} days={overview.days} />
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
  const { runs, spend, days } = overview;
  const when = days === 1 ? "today" : `in ${days} days`;
  return (
    <Figures>
      <Figure
        label={`Runs ${when}`}
        value={formatCount(runs.value)}
        note={
          runs.normal
            ? `normal ${formatRange(runs.normal.p5, runs.normal.p95)} a day`
            : `${days === 1 ? "yesterday" : `the ${days} days before`} ${formatCount(overview.runs_before)}`
        }
        bar={runs.normal && <RangeBar value={runs.value ?? 0} low={runs.normal.p5} high={runs.normal.p95} />}
      />
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
        label={`Responses ${when}`}
        value={formatCount(overview.responses) + (overview.responses_capped ? "+" : "")}
        note={
          overview.response_outcomes.map((each) => `${formatCount(each.count)} ${each.name.replaceAll("_", " ")}`).join(", ") ||
          "nothing was said"
        }
      />
      <Figure
        label={`Spend ${when}`}
        value={formatMoney(spend.value)}
        unit={spend.limit !== null ? `of ${formatMoney(spend.limit)}` : undefined}
        note={describeSpend(overview)}
        bar={
          spend.normal && (
            <RangeBar value={spend.value ?? 0} low={spend.normal.p5} high={spend.normal.p95} limit={spend.limit} />
          )
        }
      />
      <Figure label="Lost events" value={formatCount(overview.lost)} note={overview.lost ? <a href="#/settings">by reason</a> : "nothing lost"} />
    </Figures>
  );
}

/** What today will have cost, what is normal for a day, or how much of what was spent has a price. */
function describeSpend({ days, spend, spend_forecast_usd: forecast, tokens }: Overview): string {
  if (spend.value === null && tokens > 0) return `${formatCount(tokens)} tokens, prices not known`;
  const parts = [];
  if (days === 1 && forecast !== null) parts.push(`about ${formatMoney(forecast)} at midnight UTC`);
  if (spend.normal) parts.push(`normal ${formatRange(spend.normal.p5, spend.normal.p95, formatMoney)}`);
  return parts.join(", ") || formatPlural(tokens, "token");
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
        <LoadingAgents />
      </div>
    </Loading>
  );
}
