/** Budget: what is left of a limit, beside clean runs, with a forecast while the run goes on. */
import { memo, useMemo } from "react";
import type { ReactNode } from "react";

import type { BudgetLane as BudgetRecord } from "../../api/types";
import { ChartTable } from "../../charts/Chart";
import { bandPaths, bandPoints, forecastPaths, heldAt, interpolateBand, knownBand, leftBand, px, stepPath, verticalScale } from "../../charts/series";
import type { HeldLimit } from "../../charts/series";
import { Segments } from "../../components/Choice";
import { formatCount, formatDuration, formatMoney, formatPercent, formatRange } from "../../format";
import { useCursorStep } from "../cursor";
import { LaneFrame, Plot, useLane } from "./LaneFrame";

const HEIGHT = 116;
const PADDING = 8;

export interface BudgetLaneProps {
  budgets: readonly BudgetRecord[];
  meter: string | null;
  onMeter: (meter: string) => void;
}

const TITLES: Readonly<Record<BudgetRecord["meter"], string>> = {
  tokens: "Tokens",
  cost: "Cost",
  steps: "Tool calls",
  time: "Time",
};

/** Return an amount in the words of its meter. */
export function formatAmount(meter: BudgetRecord["meter"], value: number): string {
  if (meter === "steps") return `${formatCount(value)} tool ${value === 1 ? "call" : "calls"}`;
  return meter === "tokens" ? `${formatCount(value)} tokens` : formatBare(meter, value);
}

function formatBare(meter: BudgetRecord["meter"], value: number): string {
  if (meter === "cost") return formatMoney(value);
  return meter === "time" ? formatDuration(value) : formatCount(value);
}

function formatTick(meter: BudgetRecord["meter"], value: number): string {
  if (meter === "cost") return formatMoney(value);
  if (meter === "time") return value === 0 ? "0" : formatDuration(value);
  if (value >= 10_000_000) return `${formatCount(value / 1_000_000)}M`;
  return value >= 10_000 ? `${formatCount(value / 1_000)}k` : formatCount(value);
}

/** Return the budget to show: the one asked for, else the first. */
export function chooseBudget(budgets: readonly BudgetRecord[], meter: string | null): BudgetRecord | null {
  return budgets.find((each) => each.meter === meter) ?? budgets[0] ?? null;
}

/** Return the words of a forecast: "empty at about step 54 (52–56)". */
export function describeForecast(budget: BudgetRecord): string | null {
  const { forecast } = budget;
  if (!forecast) return null;
  const range = `${formatCount(forecast.p10)}–${formatCount(forecast.p90)}`;
  return `empty at about step ${formatCount(forecast.p50)} (${range})`;
}

export const BudgetLane = memo(function BudgetLane({ budgets, meter, onMeter }: BudgetLaneProps): ReactNode {
  const budget = chooseBudget(budgets, meter);
  if (!budget) {
    return (
      <section className="lane" data-lane="budget">
        <header className="lane-head">
          <h3 className="lane-title">Budget</h3>
          <div className="lane-legend muted">No limit is set for this run.</div>
        </header>
      </section>
    );
  }
  return <BudgetChart budget={budget} budgets={budgets} onMeter={onMeter} />;
});

interface ChartProps {
  budget: BudgetRecord;
  budgets: readonly BudgetRecord[];
  onMeter: (meter: string) => void;
}

function BudgetChart({ budget, budgets, onMeter }: ChartProps): ReactNode {
  const { axis, steps, narrow } = useLane();
  const points = useMemo(() => budget.step.map((step, index) => ({ step, value: budget.left[index]! })), [budget]);
  const limits = useMemo(() => listLimits(budget), [budget]);
  const band = useMemo(() => leftBand(bandPoints(budget.band), limits), [budget, limits]);
  const last = points[points.length - 1];
  const forecast = describeForecast(budget);
  const highest = Math.max(...limits.map((each) => each.limit), ...points.map((each) => each.value));
  const drawing = useMemo(() => {
    const y = verticalScale(highest, HEIGHT, PADDING);
    return {
      y,
      line: stepPath(points, axis.x, y, Math.min(steps, axis.last) + 0.5),
      band: bandPaths(band, axis, axis.x, y),
      cone:
        budget.forecast && last
          ? forecastPaths({ step: steps + 0.5, left: last.value }, budget.forecast, axis.x, y)
          : null,
    };
  }, [points, band, axis, steps, highest, budget, last]);
  const { y } = drawing;
  const describe = (step: number): string => {
    const left = heldAt(points, step);
    const normal = interpolateBand(band, step);
    const beside = normal ? `, normal ${formatAmount(budget.meter, normal.p5)} to ${formatAmount(budget.meter, normal.p95)}` : "";
    const changed = budget.extensions.find((each) => each.step === step);
    const limit = changed ? `, the limit is ${formatAmount(budget.meter, changed.limit)} from here on` : "";
    return left ? `Step ${formatCount(step)}: ${formatAmount(budget.meter, left.value)} left${beside}${limit}.` : `Step ${formatCount(step)}: not known.`;
  };
  return (
    <LaneFrame
      name="budget"
      title="Budget"
      height={HEIGHT}
      legend={<BudgetLegend budget={budget} points={points} band={band} />}
      end={
        budgets.length > 1 && (
          <Segments
            label="Budget"
            value={budget.meter}
            options={budgets.map((each) => ({ value: each.meter, label: TITLES[each.meter] }))}
            onChange={onMeter}
          />
        )
      }
      summary={`${last ? formatAmount(budget.meter, last.value) : "Not known what is"} left of ${formatAmount(budget.meter, budget.limit)}${forecast ? `, ${forecast}` : ""}.`}
      describe={describe}
      table={<BudgetTable budget={budget} points={points} band={band} />}
    >
      {[0, 0.5, 1].map((share) => (
        <text key={share} className="end-anchor" x={axis.left - 6} y={y(share * highest) + 4}>
          {formatTick(budget.meter, share * highest)}
        </text>
      ))}
      <line className="base-line" x1={axis.left} x2={axis.end} y1={y(0)} y2={y(0)} />
      <Levels budget={budget} limits={limits} y={y} />
      <Plot height={HEIGHT}>
        {drawing.band && <path className="band-area" d={drawing.band.area} />}
        {drawing.band && <path className="band-median" d={drawing.band.median} />}
        {drawing.cone && <path className="forecast-cone" d={drawing.cone.cone} />}
        {drawing.cone && <path className="forecast-line" d={drawing.cone.median} />}
        <path className="left-line" data-testid="left-line" d={drawing.line} />
        {budget.extensions.map((each) => (
          <path key={each.step} className="extension" d={`M${px(axis.x(each.step))} ${px(y(heldAt(points, each.step)?.value ?? each.limit) - 4)}${each.reason === "more" ? "l4.5 8h-9z" : "m0 8l4.5 -8h-9z"}`} />
        ))}
      </Plot>
      {forecast && !narrow && (
        <text className="value halo end-anchor" x={axis.end} y={Math.max(12, y(last?.value ?? 0) - 22)}>
          {forecast}
        </text>
      )}
    </LaneFrame>
  );
}

/** Return the limits of a budget, each with the step from which it holds. */
function listLimits(budget: BudgetRecord): HeldLimit[] {
  return [{ step: 1, limit: budget.start }, ...budget.extensions];
}

interface LevelsProps {
  budget: BudgetRecord;
  limits: readonly HeldLimit[];
  y: (value: number) => number;
}

/** 50 and 80 % spent and the reserve, of the limit that holds at each step; their words are at least a line apart. */
function Levels({ budget, limits, y }: LevelsProps): ReactNode {
  const { axis, narrow } = useLane();
  const reserve = budget.limit > 0 ? budget.reserve / budget.limit : 0;
  const low = y(0) + 4;
  const most = Math.min(y(0.2 * budget.limit) + 4, reserve > 0 ? low - 11 : low);
  const half = Math.min(y(0.5 * budget.limit) + 4, most - 11);
  return (
    <>
      <Plot height={HEIGHT}>
        {limits.map(({ step, limit }, index) => {
          const from = index === 0 ? axis.left : axis.x(step);
          const next = limits[index + 1];
          const to = next ? axis.x(next.step) : axis.end;
          if (to <= axis.left || from >= axis.end) return null;
          return (
            <g key={step}>
              {[0.5, 0.2].map((left) => (
                <line key={left} className="level-line" x1={from} x2={to} y1={y(left * limit)} y2={y(left * limit)} />
              ))}
              {reserve > 0 && <rect className="reserve" x={from} y={y(reserve * limit)} width={to - from} height={Math.max(0, y(0) - y(reserve * limit))} />}
            </g>
          );
        })}
      </Plot>
      <text x={axis.end + 6} y={half}>{narrow ? "50 %" : "50 % spent"}</text>
      <text x={axis.end + 6} y={most}>80 %</text>
      {reserve > 0 && <text className="reserve-word" x={axis.end + 6} y={low}>reserve</text>}
    </>
  );
}

type Points = readonly { step: number; value: number }[];
type BandList = ReturnType<typeof bandPoints>;

function BudgetLegend({ budget, points, band }: { budget: BudgetRecord; points: Points; band: BandList }): ReactNode {
  const { steps, narrow } = useLane();
  const step = useCursorStep() ?? steps;
  const left = heldAt(points, step);
  const end = knownBand(band).at(-1);
  return (
    <span>
      {left ? <b>{formatAmount(budget.meter, left.value)}</b> : "not known"} left at {formatCount(step)}
      {end && !narrow && (
        <span className="muted">
          {" "}
          · normal at the end {formatRange(end.p5, end.p95, (value) => formatBare(budget.meter, value))}
        </span>
      )}
    </span>
  );
}

function BudgetTable({ budget, points, band }: { budget: BudgetRecord; points: Points; band: BandList }): ReactNode {
  const limits = listLimits(budget);
  return (
    <ChartTable
      caption={`What is left of ${formatAmount(budget.meter, budget.limit)}`}
      head={["Step", "Limit", "Left", "Spent", "Normal p5", "Normal p95"]}
      rows={points.map((point) => {
        const normal = interpolateBand(band, point.step);
        const limit = heldAt(limits, point.step)?.limit ?? budget.start;
        return [
          formatCount(point.step),
          formatAmount(budget.meter, limit),
          formatAmount(budget.meter, point.value),
          formatPercent(limit > 0 ? 1 - point.value / limit : null),
          normal ? formatAmount(budget.meter, normal.p5) : "no clean run",
          normal ? formatAmount(budget.meter, normal.p95) : "no clean run",
        ];
      })}
    />
  );
}
