/** Drift score: a held line over its contributions, the band of clean runs and the levels. */
import { memo, useMemo } from "react";
import type { ReactNode } from "react";

import type { Band, Levels, ScoreSeries } from "../../api/types";
import { ChartTable } from "../../charts/Chart";
import {
  bandPaths,
  bandPoints,
  findGaps,
  heldAt,
  holdFrom,
  interpolateBand,
  knownBand,
  stackPaths,
  stepPath,
  verticalScale,
} from "../../charts/series";
import type { BandPoint } from "../../charts/series";
import { formatCount, formatScore } from "../../format";
import { useCursorStep } from "../cursor";
import { LaneFrame, Plot, useLane } from "./LaneFrame";

const HEIGHT = 156;
const PADDING = 8;
const PARTS = ["loop", "quality", "stuck", "goal", "budget"] as const;
type Part = (typeof PARTS)[number];

interface ScorePoint {
  step: number;
  value: number | null;
  parts: readonly number[] | null;
  known: readonly boolean[];
}

export interface DriftLaneProps {
  score: ScoreSeries;
  band: Band | null;
  levels: Levels;
}

function readScore(score: ScoreSeries): ScorePoint[] {
  return score.step.map((step, index) => {
    const values = PARTS.map((part) => score[part][index] ?? null);
    return {
      step,
      value: score.score[index] ?? null,
      parts: score.score[index] === null ? null : values.map((value) => Math.max(0, value ?? 0)),
      known: values.map((value) => value !== null),
    };
  });
}

function findPeak(points: readonly ScorePoint[]): ScorePoint | null {
  let peak: ScorePoint | null = null;
  for (const point of points) if ((point.value ?? -1) > (peak?.value ?? 0)) peak = point;
  return peak;
}

/** Return the sentence about the score at a step, beside what is normal there. */
function describeAt(points: readonly ScorePoint[], band: readonly BandPoint[], step: number): string {
  const point = heldAt(points, step);
  if (!point || point.value === null) return `Step ${formatCount(step)}: drift score not known.`;
  const normal = interpolateBand(band, step);
  const unknown = knownBand(band).length > 0 ? "no clean run is longer" : "normal not known yet";
  const beside = normal ? `normal ${formatScore(normal.p5)}–${formatScore(normal.p95)}` : unknown;
  return `Step ${formatCount(step)}: drift score ${formatScore(point.value)}, ${beside}.`;
}

export const DriftLane = memo(function DriftLane({ score, band, levels }: DriftLaneProps): ReactNode {
  const { axis, steps, narrow } = useLane();
  const points = useMemo(() => readScore(score), [score]);
  const normal = useMemo(() => bandPoints(band), [band]);
  const peak = useMemo(() => findPeak(points), [points]);
  const lacking = points.every((point) => point.value === null) ? "not known" : "nothing above 0";
  const summary = peak
    ? `Drift score of ${formatCount(steps)} steps, highest ${formatScore(peak.value)} at step ${formatCount(peak.step)}, now ${formatScore(points[points.length - 1]?.value)}.`
    : `Drift score of ${formatCount(steps)} steps: ${lacking}.`;
  const drawing = useMemo(() => {
    const y = verticalScale(1, HEIGHT, PADDING);
    const end = Math.min(steps, axis.last) + 0.5;
    return {
      y,
      line: stepPath(points, axis.x, y, end),
      areas: stackPaths(points, PARTS.length, axis.x, y, end),
      gaps: findGaps(holdFrom(points, axis.first), axis.x, end),
      band: bandPaths(normal, axis, axis.x, y),
    };
  }, [points, normal, axis, steps]);
  const { y } = drawing;
  const known = knownBand(normal);
  const runs = known[0]?.runs ?? 0;
  return (
    <LaneFrame
      name="drift"
      title="Drift score"
      legend={<DriftLegend points={points} score={score} />}
      height={HEIGHT}
      summary={summary}
      describe={(step) => describeAt(points, normal, step)}
      table={<DriftTable points={points} band={normal} />}
    >
      {[0, 0.5, 1].map((value) => (
        <text key={value} className="end-anchor" x={axis.left - 8} y={y(value) + 4}>
          {value}
        </text>
      ))}
      <line className="base-line" x1={axis.left} x2={axis.end} y1={y(0)} y2={y(0)} />
      {(["remind", "replan", "rollback", "stop"] as const).map((level) => (
        <g key={level}>
          <line className="level-line" x1={axis.left} x2={axis.end} y1={y(levels[level])} y2={y(levels[level])} />
          <text x={axis.end + 6} y={y(levels[level]) + 4}>
            {narrow ? level : `${level} ${levels[level]}`}
          </text>
        </g>
      ))}
      <Plot height={HEIGHT}>
        {drawing.band && <path className="band-area" d={drawing.band.area} />}
        {drawing.areas.map((area, index) => area && <path key={PARTS[index]} className={`part part-${PARTS[index]}`} d={area} />)}
        {drawing.band && <path className="band-upper" d={drawing.band.upper} />}
        {drawing.band && <path className="band-median" d={drawing.band.median} />}
        {drawing.gaps.map(([from, to]) => (
          <line key={from} className="band-median" x1={from} x2={to} y1={y(0)} y2={y(0)} />
        ))}
        <path className="score-line" data-testid="score-line" d={drawing.line} />
      </Plot>
      {drawing.band && !narrow && (
        <text className="halo" x={axis.left + 6} y={y(known[known.length - 1]?.p95 ?? 0) - 6}>
          normal, p5–p95 of {formatCount(runs)} clean runs
        </text>
      )}
      {peak && peak.step >= axis.first && peak.step <= axis.last && <PeakMark peak={peak} y={y} />}
    </LaneFrame>
  );
});

function PeakMark({ peak, y }: { peak: ScorePoint; y: (value: number) => number }): ReactNode {
  const { axis } = useLane();
  const at = axis.x(peak.step);
  const left = at > axis.left + 70;
  return (
    <g>
      <circle className="peak" cx={at} cy={y(peak.value ?? 0)} r={3} />
      <text className={`value halo ${left ? "end-anchor" : ""}`} x={left ? at - 2 : at + 2} y={Math.max(10, y(peak.value ?? 0) - 8)}>
        peak {formatScore(peak.value)}
      </text>
    </g>
  );
}

function DriftLegend({ points, score }: { points: readonly ScorePoint[]; score: ScoreSeries }): ReactNode {
  const { steps, narrow } = useLane();
  const step = useCursorStep() ?? steps;
  const point = heldAt(points, step);
  const reasons = new Map(score.not_checked.map((each) => [each.name, each.reason]));
  return (
    <>
      <span className="key">
        <i className="swatch swatch-line" />
        <b>{point?.value === null || !point ? "not known" : formatScore(point.value)}</b> at {formatCount(step)}
      </span>
      {PARTS.map((part, index) => (
        <PartKey
          key={part}
          part={part}
          value={point?.parts && point.known[index] ? point.parts[index]! : null}
          reason={reasons.get(part)}
          narrow={narrow}
        />
      ))}
    </>
  );
}

function PartKey(props: { part: Part; value: number | null; reason: string | undefined; narrow: boolean }): ReactNode {
  const { part, value, reason, narrow } = props;
  if (value === null) {
    if (narrow) return null;
    return (
      <span className="key muted" title={reason ?? "This signal was not known at this step."}>
        <i className="swatch swatch-unknown" />
        {part} not checked
      </span>
    );
  }
  if (narrow && value < 0.005) return null;
  return (
    <span className="key">
      <svg className="swatch" width="12" height="12" aria-hidden="true">
        <rect className={`part part-${part}`} width="12" height="12" rx="2" />
      </svg>
      {part} {value < 0.005 ? "0" : <b>{formatScore(value)}</b>}
    </span>
  );
}

function DriftTable({ points, band }: { points: readonly ScorePoint[]; band: readonly BandPoint[] }): ReactNode {
  return (
    <ChartTable
      caption="Drift score where it changes"
      head={["Step", "Drift", "Loop", "Quality", "Stuck", "Goal", "Budget", "Normal p95"]}
      rows={points.map((point) => {
        const normal = interpolateBand(band, point.step);
        return [
          formatCount(point.step),
          <b key="score">{point.value === null ? "not known" : formatScore(point.value)}</b>,
          ...PARTS.map((_, index) =>
            point.parts && point.known[index] ? formatScore(point.parts[index]) : "not checked",
          ),
          normal ? formatScore(normal.p95) : "no clean run",
        ];
      })}
    />
  );
}
