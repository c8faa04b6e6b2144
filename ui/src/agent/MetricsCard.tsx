/** Eight metrics of the latest runs against what is normal. */
import type { ReactNode } from "react";

import type { Metric, RunPoint } from "../api/types";
import { href, runPath, useParam } from "../app/router";
import { ChartTable, TableSwitch } from "../charts/Chart";
import { isOutside, MetricChart } from "../charts/MetricChart";
import { Segments } from "../components/Choice";
import { escapeHidden } from "../components/HostileText";
import { Empty } from "../components/States";
import { useNow } from "../components/useNow";
import { formatCount, formatDuration, formatMoney, formatPercent, formatPlural, formatRange, formatScore, formatTime } from "../format";

const MONTH_S = 30 * 86_400;

export interface MetricsCardProps {
  metrics: readonly Metric[];
  asTable: boolean;
  setTable: (on: boolean) => void;
}

/** Return how the numbers of a metric are written. */
export function metricFormat(name: string): (value: number | null) => string {
  if (name === "cost_usd") return formatMoney;
  if (name === "drift") return formatScore;
  if (name === "duration_s") return formatDuration;
  return name === "repeated_share" ? formatPercent : formatCount;
}

function formatNormal(name: string, low: number, high: number): string {
  if (name === "repeated_share") return `${formatRange(low * 100, high * 100)} %`;
  return formatRange(low, high, metricFormat(name));
}

export function MetricsCard({ metrics, asTable, setTable }: MetricsCardProps): ReactNode {
  const [span, setSpan] = useParam("runs");
  const now = useNow();
  const month = span === "month";
  const count = Math.max(0, ...metrics.map((metric) => metric.points.length));
  const pick = (metric: Metric): readonly RunPoint[] => (month ? metric.points.filter((point) => point.at >= now - MONTH_S) : metric.points);
  return (
    <section className="card" aria-label="Against normal" data-lane="metrics">
      <header className="card-head">
        <h2>Against normal</h2>
        <span className="muted graph-note">one mark per run; band p5–p95 of clean runs; dotted lines are versions</span>
        <div className="end">
          <Segments
            label="Runs"
            options={[{ value: "latest", label: `Last ${formatPlural(count, "run")}` }, { value: "month", label: "30 days" }]}
            value={month ? "month" : "latest"}
            onChange={(value) => setSpan(value === "month" ? value : null)}
          />
          <TableSwitch name="metrics" on={asTable} onChange={setTable} />
        </div>
      </header>
      {count === 0 ? (
        <Empty>No run has ended yet.</Empty>
      ) : asTable ? (
        <MetricsTable metrics={metrics} pick={pick} />
      ) : (
        <div className="metrics">
          {metrics.map((metric) => <MetricCell key={metric.name} metric={metric} points={pick(metric)} />)}
        </div>
      )}
    </section>
  );
}

function MetricCell({ metric, points }: { metric: Metric; points: readonly RunPoint[] }): ReactNode {
  const format = metricFormat(metric.name);
  const latest = points.findLast((point) => point.value !== null);
  const { words, outside } = compare(metric, points);
  const normal = metric.normal ? `normal ${formatNormal(metric.name, metric.normal.p5, metric.normal.p95)}` : "normal not known yet";
  return (
    <div className="metric-cell">
      <div className="metric-head">
        <h3>{metric.title}</h3>
        <span className={outside ? "drift-text small" : "muted small"}>{words}</span>
      </div>
      <p><b className="metric-value">{latest ? format(latest.value) : "not known"}</b>{latest && metric.unit === "characters" && " characters"} <span className="muted small">{normal}</span></p>
      <MetricChart metric={metric} points={points} format={format} summary={`${metric.title} of ${formatPlural(points.length, "run")}: ${words}, ${normal}.`} />
    </div>
  );
}

/** Compare the runs of the newest version with normal: "5 of 11 runs above", "within normal". */
export function compare(metric: Metric, points: readonly RunPoint[]): { words: string; outside: boolean } {
  const { normal } = metric;
  if (!normal) return { words: "learning", outside: false };
  const version = points.at(-1)?.version;
  const runs = points.filter((point) => point.version === version && point.value !== null);
  const above = runs.filter((point) => point.value! > normal.p95).length;
  const below = runs.filter((point) => point.value! < normal.p5).length;
  const of = `of ${formatPlural(runs.length, "run")}`;
  if (above >= below && above > 0) return { words: `${formatCount(above)} ${of} above`, outside: true };
  if (below > 0) return { words: `${formatCount(below)} ${of} below`, outside: true };
  return { words: "within normal", outside: false };
}

function MetricsTable({ metrics, pick }: { metrics: readonly Metric[]; pick: (metric: Metric) => readonly RunPoint[] }): ReactNode {
  const now = useNow();
  const first = metrics[0];
  const points = first ? pick(first).toReversed() : [];
  return (
    <ChartTable
      caption="Metrics of the latest runs, newest first"
      head={["Run", "Started", "Version", ...metrics.map((metric) => metric.title)]}
      words={[0, 1, 2]}
      rows={points.map((point) => [
        <a key="run" href={href(runPath(point.run))}>{escapeHidden(point.run_id)}</a>,
        formatTime(point.at, now),
        escapeHidden(point.version),
        ...metrics.map((metric) => {
          const value = metric.points.find((each) => each.run === point.run)?.value ?? null;
          const text = metricFormat(metric.name)(value);
          return isOutside(metric, value) ? <b key={metric.name} className="drift-text" title="outside normal">◆ {text}</b> : text;
        }),
      ])}
    />
  );
}
