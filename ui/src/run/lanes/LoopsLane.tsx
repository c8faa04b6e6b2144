/** Loops: an arc from each call to its last identical call, and the selection the matrix is drawn from. */
import { memo, useMemo } from "react";
import type { ReactNode } from "react";

import type { RunSeries, ToolUse } from "../../api/types";
import type { Axis, Span } from "../../charts/axis";
import { ChartTable } from "../../charts/Chart";
import { arcPath, mergeColumns, toolFill } from "../../charts/marks";
import { px } from "../../charts/series";
import { escapeHidden } from "../../components/HostileText";
import { formatCount, formatPercent, formatPlural, formatSteps } from "../../format";
import { readColumns } from "../data";
import { LaneFrame, Plot, useLane } from "./LaneFrame";
import { COLUMN_PITCH, describeStep } from "./StepsLane";

const HEIGHT = 72;
const BASE = 62;
const TALLEST = 52;

export interface LoopsLaneProps {
  series: RunSeries;
  tools: readonly ToolUse[];
  selection: Span | null;
}

export const LoopsLane = memo(function LoopsLane({ series, tools, selection }: LoopsLaneProps): ReactNode {
  const { axis, steps, narrow } = useLane();
  const single = series.points !== null && axis.pitch >= COLUMN_PITCH;
  const repeated = useMemo(() => readColumns(series).reduce((sum, each) => sum + each.repeated, 0), [series]);
  return (
    <LaneFrame
      name="loops"
      title="Loops"
      gesture="select"
      height={HEIGHT}
      legend={narrow ? null : single ? <ArcLegend /> : <ShareLegend />}
      end={selection && <span className="selected">selected: {formatSteps(selection.from, selection.to)}</span>}
      summary={`${formatPlural(repeated, "call")} of ${formatCount(steps)} steps repeat an earlier one.`}
      describe={(step) => describeStep(series, tools, step)}
      table={<LoopsTable series={series} tools={tools} />}
    >
      {selection && <Selection selection={selection} axis={axis} />}
      <line className="base-line" x1={axis.left} x2={axis.end} y1={BASE} y2={BASE} />
      <Plot height={HEIGHT}>
        {single ? <Arcs series={series} axis={axis} /> : <RepeatedShare series={series} axis={axis} />}
      </Plot>
    </LaneFrame>
  );
});

function Selection({ selection, axis }: { selection: Span; axis: Axis }): ReactNode {
  const from = Math.max(axis.left, axis.x(selection.from - 0.5));
  const to = Math.min(axis.end, axis.x(selection.to + 0.5));
  if (to <= from) return null;
  const handle = (x: number, edge: "from" | "to"): ReactNode => (
    <g className="selection-handle" data-edge={edge}>
      <line x1={x} x2={x} y1={0} y2={HEIGHT} />
      <rect x={x - 2.5} y={HEIGHT / 2 - 8} width={5} height={16} rx={2.5} />
      <rect className="handle-reach" x={x - 8} y={0} width={16} height={HEIGHT} />
    </g>
  );
  return (
    <g data-testid="selection">
      <rect className="selection" x={from} y={0} width={to - from} height={HEIGHT} />
      {selection.from >= axis.first && handle(from, "from")}
      {selection.to <= axis.last && handle(to, "to")}
    </g>
  );
}

/** Arcs by how they look: one path per combination of result and incident. */
function Arcs({ series, axis }: { series: RunSeries; axis: Axis }): ReactNode {
  const drawing = useMemo(() => {
    const points = series.points!;
    const arcs = new Map<string, string>();
    const dots: string[] = Array.from({ length: 8 }, () => "");
    points.step.forEach((step, index) => {
      const tool = points.tool[index]!;
      if (tool < 0) return;
      const x = axis.x(step);
      if (step >= axis.first && step <= axis.last) {
        dots[tool % 8] += `M${px(x - 2.5)} ${BASE}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`;
      }
      const before = points.last_same[index]!;
      if (before <= 0 || before > axis.last || step < axis.first) return;
      const look = `arc ${points.same_result[index] === 0 ? "arc-changed" : ""} ${points.incident[index] ? "arc-inside" : ""}`;
      arcs.set(look, (arcs.get(look) ?? "") + arcPath(axis.x(before), x, BASE, TALLEST));
    });
    return { arcs: [...arcs].toSorted(([a], [b]) => a.length - b.length), dots };
  }, [series, axis]);
  return (
    <>
      {drawing.arcs.map(([look, path]) => (
        <path key={look} className={look} d={path} />
      ))}
      {drawing.dots.map((path, fill) => path && <path key={fill} className={toolFill(fill)} d={path} />)}
    </>
  );
}

/** Per column the share of calls that repeat; the orange part is inside an incident. */
function RepeatedShare({ series, axis }: { series: RunSeries; axis: Axis }): ReactNode {
  const columns = useMemo(() => {
    const inside = readColumns(series).filter((each) => each.last >= axis.first && each.first <= axis.last);
    return mergeColumns(inside, axis.pitch, 5);
  }, [series, axis]);
  let outside = "";
  let incident = "";
  for (const column of columns) {
    const calls = column.tools.reduce((sum, count) => sum + count, 0);
    if (calls === 0 || column.repeated === 0) continue;
    const left = axis.x(column.first - 0.5) + 0.5;
    const right = Math.max(left + 1, axis.x(column.last + 0.5) - 0.5);
    const inner = TALLEST * Math.min(1, column.repeatedInside / calls);
    const outer = TALLEST * Math.min(1, (column.repeated - column.repeatedInside) / calls);
    incident += `M${px(left)} ${BASE}V${px(BASE - inner)}H${px(right)}V${BASE}z`;
    outside += `M${px(left)} ${px(BASE - inner)}v${px(-outer)}H${px(right)}v${px(outer)}z`;
  }
  return (
    <>
      <path className="repeat-outside" d={outside} />
      <path className="repeat-inside" d={incident} />
    </>
  );
}

function ArcLegend(): ReactNode {
  return (
    <>
      <span className="key">
        <svg className="chart swatch-arc" width="18" height="10" aria-hidden="true"><path className="arc arc-inside" d="M1 9A8 7 0 0 1 17 9" /></svg>
        same call, same result
      </span>
      <span className="key">
        <svg className="chart swatch-arc" width="18" height="10" aria-hidden="true"><path className="arc arc-changed" d="M1 9A8 7 0 0 1 17 9" /></svg>
        same call, result changed
      </span>
    </>
  );
}

function ShareLegend(): ReactNode {
  return (
    <>
      <span className="key"><svg className="swatch" width="12" height="12" aria-hidden="true"><rect className="repeat-outside" width="12" height="12" rx="2" /></svg>share of calls that repeat</span>
      <span className="key"><svg className="swatch" width="12" height="12" aria-hidden="true"><rect className="repeat-inside" width="12" height="12" rx="2" /></svg>inside an incident</span>
    </>
  );
}

function LoopsTable({ series, tools }: { series: RunSeries; tools: readonly ToolUse[] }): ReactNode {
  const { points } = series;
  if (!points) {
    return (
      <ChartTable
        caption="Share of calls that repeat an earlier one"
        head={["Steps", "Calls", "Repeated", "Share", "Inside an incident"]}
        rows={readColumns(series).map((each) => {
          const calls = each.tools.reduce((sum, count) => sum + count, 0);
          return [
            `${formatCount(each.first)}–${formatCount(each.last)}`,
            formatCount(calls),
            formatCount(each.repeated),
            formatPercent(calls ? each.repeated / calls : null),
            formatCount(each.repeatedInside),
          ];
        })}
      />
    );
  }
  const rows: ReactNode[][] = [];
  points.step.forEach((step, index) => {
    if (!points.last_same[index]) return;
    rows.push([
      formatCount(step),
      escapeHidden(tools[points.tool[index]!]?.name ?? ""),
      formatCount(points.last_same[index]),
      points.same_result[index] === 1 ? "= same" : "≠ changed",
      points.incident[index] ? "yes" : "no",
    ]);
  });
  return (
    <ChartTable
      caption="Calls that repeat an earlier one"
      head={["Step", "Tool", "Same call as step", "Result", "Inside an incident"]}
      words={[1, 3, 4]}
      rows={rows}
    />
  );
}
