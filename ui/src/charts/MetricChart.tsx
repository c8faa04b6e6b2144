/** One metric against normal: a mark per run, oldest left, over the band of clean runs. */
import { useState } from "react";
import type { ReactNode } from "react";

import type { Metric, RunPoint } from "../api/types";
import { navigate, runPath } from "../app/router";
import { escapeHidden } from "../components/HostileText";
import { formatRange, formatTime } from "../format";
import { useNow } from "../components/useNow";
import { clamp } from "./axis";
import { ChartStop, useWidth } from "./Chart";
import { px } from "./series";

const HEIGHT = 92;
const TOP = 14;
const INSET = 4;

export interface MetricChartProps {
  metric: Metric;
  points: readonly RunPoint[];
  format: (value: number | null) => string;
  summary: string;
}

/** Return whether a value lies outside the normal range. */
export function isOutside(metric: Metric, value: number | null): boolean {
  return value !== null && metric.normal !== null && (value > metric.normal.p95 || value < metric.normal.p5);
}

/** Return the words that stand behind a value: whether it is inside its normal range, and the range. */
function compare(metric: Metric, value: number | null, format: (value: number) => string): string {
  if (metric.normal === null) return "";
  return `, ${isOutside(metric, value) ? "outside " : ""}normal ${formatRange(metric.normal.p5, metric.normal.p95, format)}`;
}

export function MetricChart({ metric, points, format, summary }: MetricChartProps): ReactNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [current, setCurrent] = useState<number | null>(null);
  const now = useNow();
  const place = Math.min(current ?? points.length - 1, points.length - 1);
  const point = points[place];
  const pitch = (width - 2 * INSET) / Math.max(1, points.length);
  const openRun = () => point && navigate(runPath(point.run));
  const text = point
    ? `Run ${escapeHidden(point.run_id)}, ${formatTime(point.at, now)}: ${format(point.value)}${compare(metric, point.value, format)}.`
    : "No runs.";
  return (
    <div ref={ref}>
      {width > 0 && (
        <ChartStop
          label={metric.title}
          summary={summary}
          min={1}
          max={Math.max(1, points.length)}
          value={Math.max(1, place + 1)}
          text={text}
          at={{ x: INSET + (place + 0.5) * pitch, y: HEIGHT }}
          width={width}
          onMove={(to) => setCurrent(to - 1)}
          onPoint={(to) => setCurrent(to && clamp(Math.floor((to.x - INSET) / pitch), 0, points.length - 1))}
          onPress={openRun}
          onKey={(event) => {
            if (event.key !== "Enter" || !point) return false;
            openRun();
            return true;
          }}
        >
          <MetricDrawing metric={metric} points={points} width={width} pitch={pitch} current={current} format={format} />
        </ChartStop>
      )}
    </div>
  );
}

interface DrawingProps {
  metric: Metric;
  points: readonly RunPoint[];
  width: number;
  /** The distance of two marks. */
  pitch: number;
  current: number | null;
  format: (value: number | null) => string;
}

function MetricDrawing({ metric, points, width, pitch, current, format }: DrawingProps): ReactNode {
  const { normal } = metric;
  const highest = Math.max(normal?.p95 ?? 0, ...points.map((each) => each.value ?? 0)) * 1.05 || 1;
  const y = (value: number): number => TOP + (1 - value / highest) * (HEIGHT - TOP - 4);
  const x = (index: number): number => INSET + (index + 0.5) * pitch;
  return (
    <svg className="chart metric" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      {normal && (
        <>
          <rect className="band-area" y={y(normal.p95)} width={width} height={Math.max(1, y(normal.p5) - y(normal.p95))} />
          <line className="band-median" x1={0} x2={width} y1={y(normal.p50)} y2={y(normal.p50)} />
        </>
      )}
      {points.map((each, index) => {
        const before = points[index - 1];
        if (!before || before.version === each.version) return null;
        const at = x(index) - pitch / 2;
        return (
          <g key={`${index}/${each.version}`}>
            <line className="version-line" x1={at} x2={at} y1={0} y2={HEIGHT} />
            <text x={at + 4} y={9}>{escapeHidden(each.version).slice(0, 16)}</text>
          </g>
        );
      })}
      {points.map((each, index) =>
        each.value === null ? null : isOutside(metric, each.value) ? (
          <path key={each.run} className="run-outside" d={`M${px(x(index))} ${px(y(each.value) - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z`} />
        ) : (
          <circle key={each.run} className="run-inside" cx={x(index)} cy={y(each.value)} r={2} />
        ),
      )}
      {current !== null && points[current] && points[current].value !== null && (
        <g>
          <circle className="run-current" cx={x(current)} cy={y(points[current].value)} r={6} />
          <text className="value halo middle-anchor" x={Math.min(Math.max(x(current), 24), width - 24)} y={Math.max(10, y(points[current].value) - 10)}>
            {format(points[current].value)}
          </text>
        </g>
      )}
    </svg>
  );
}
