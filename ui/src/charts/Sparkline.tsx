/** Drift of some days over what is normal, small enough for a row of a table. */
import type { ReactNode } from "react";

import { formatScore } from "../format";
import { sparklinePath, sparkY } from "./series";
import "./charts.css";

const WIDTH = 148;
const HEIGHT = 32;

export interface SparklineProps {
  /** Oldest first; null is a day without runs. */
  values: readonly (number | null)[];
  /** Normal p95; null while it is not known. */
  normal: number | null;
}

export function Sparkline({ values, normal }: SparklineProps): ReactNode {
  let last = values.length - 1;
  while (last >= 0 && values[last] === null) last -= 1;
  const now = values[last] ?? null;
  if (now === null) return <span className="muted small">no runs</span>;
  const outside = normal !== null && now > normal;
  const stride = (WIDTH - 8) / Math.max(1, values.length - 1);
  const words = `Drift ${formatScore(now)} on the last day with runs, normal up to ${formatScore(normal)}`;
  return (
    <svg
      className={`chart sparkline ${outside ? "sparkline-outside" : ""}`}
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={words}
    >
      {normal !== null && (
        <rect className="band-area" y={sparkY(normal, HEIGHT)} width={WIDTH} height={HEIGHT - sparkY(normal, HEIGHT)} />
      )}
      <path className="sparkline-line" d={sparklinePath(values, WIDTH, HEIGHT)} />
      <circle className="sparkline-dot" cx={4 + last * stride} cy={sparkY(now, HEIGHT)} r="2.5" />
    </svg>
  );
}
