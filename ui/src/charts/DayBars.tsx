/** What each day cost against the daily budget. */
import { useState } from "react";
import type { ReactNode } from "react";

import { clamp } from "./axis";
import { ChartStop, useWidth } from "./Chart";

const HEIGHT = 112;
const BASE = 92;
const TOP = 14;

export interface Day {
  /** Shown below the bar. */
  label: string;
  /** The whole sentence about the day. */
  words: string;
  value: number;
  limit: number | null;
}

export interface DayBarsProps {
  label: string;
  summary: string;
  days: readonly Day[];
  format: (value: number) => string;
}

/** Return the look of a bar: amber from 80 % of the limit, red from 100 %. */
export function dayTone(day: Day): string {
  if (day.limit === null || day.limit <= 0) return "day";
  const share = day.value / day.limit;
  return share >= 1 ? "day day-bad" : share >= 0.8 ? "day day-warn" : "day";
}

export function DayBars({ label, summary, days, format }: DayBarsProps): ReactNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [current, setCurrent] = useState(days.length - 1);
  const limit = days.findLast((day) => day.limit !== null)?.limit ?? null;
  const highest = Math.max(limit ?? 0, ...days.map((day) => day.value)) || 1;
  const y = (value: number): number => TOP + (1 - value / highest) * (BASE - TOP);
  const right = limit === null ? 0 : 44;
  const pitch = (width - right) / Math.max(1, days.length);
  return (
    <div ref={ref}>
      {width > 0 && (
        <ChartStop
          label={label}
          summary={summary}
          min={1}
          max={Math.max(1, days.length)}
          value={Math.min(current + 1, Math.max(1, days.length))}
          text={days[current]?.words ?? "No day."}
          at={{ x: (current + 0.5) * pitch, y: BASE }}
          width={width}
          onMove={(to) => setCurrent(to - 1)}
          onPoint={(to) => setCurrent(to ? clamp(Math.floor(to.x / pitch), 0, days.length - 1) : days.length - 1)}
        >
          <svg className="chart" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
            {limit !== null && [1, 0.8].map((share) => (
              <g key={share}>
                <line className="level-line" x1={0} x2={width} y1={y(limit * share)} y2={y(limit * share)} />
                <text className="end-anchor halo" x={width} y={y(limit * share) - 3}>{share === 1 ? format(limit) : "80 %"}</text>
              </g>
            ))}
            {days.map((day, index) => (
              <g key={day.label}>
                <rect className={dayTone(day)} x={index * pitch + pitch * 0.2} y={y(day.value)} width={pitch * 0.6} height={Math.max(0.5, BASE - y(day.value))} rx={2} />
                <text className="middle-anchor" x={(index + 0.5) * pitch} y={HEIGHT - 6}>{day.label}</text>
              </g>
            ))}
          </svg>
        </ChartStop>
      )}
    </div>
  );
}
