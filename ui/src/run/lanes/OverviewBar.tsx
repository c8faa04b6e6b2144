/** The whole run in one bar: the score as a silhouette, responses, and the window with two handles. */
import { memo, useContext, useMemo, useRef } from "react";
import type { PointerEvent, ReactNode } from "react";

import type { Marker, ScoreSeries } from "../../api/types";
import { clamp } from "../../charts/axis";
import type { Axis, Span } from "../../charts/axis";
import { px, stackPaths, verticalScale } from "../../charts/series";
import { formatClock, formatCount } from "../../format";
import { CursorContext, useCursorStep } from "../cursor";

const FLAG_HEIGHT = 26;
const LONG_RUN = 500;
const LEAST_STEPS = 8;

export interface OverviewBarProps {
  axis: Axis;
  width: number;
  steps: number;
  score: ScoreSeries;
  markers: readonly Marker[];
  window: Span;
  onWindow: (span: Span) => void;
}

/** Return the height of the bar: taller for long runs. */
export function overviewHeight(steps: number): number {
  return steps >= LONG_RUN ? 44 : 28;
}

export const OverviewBar = memo(function OverviewBar(props: OverviewBarProps): ReactNode {
  const { axis, width, steps, score, markers, window } = props;
  const height = overviewHeight(steps);
  const silhouette = useMemo(() => {
    const stacks = score.step.map((step, index) => {
      const value = score.score[index];
      return { step, parts: value === null || value === undefined ? null : [value] };
    });
    const y = verticalScale(1, height, 0);
    return stackPaths(stacks, 1, axis.x, (value) => FLAG_HEIGHT + y(value), steps + 0.5)[0];
  }, [score, axis, height, steps]);
  const drag = useWindowDrag(props);
  const left = axis.x(window.from - 0.5);
  const right = axis.x(window.to + 0.5);
  const ticks = steps >= LONG_RUN;
  return (
    <div className="overview" {...drag}>
      <svg className="chart" width={width} height={FLAG_HEIGHT + height + (ticks ? 18 : 6)} aria-hidden="true" data-testid="overview">
        <rect className="overview-ground" x={axis.left} y={FLAG_HEIGHT} width={axis.end - axis.left} height={height} rx={4} />
        {silhouette && <path className="silhouette" d={silhouette} />}
        <rect className="overview-window" x={left} y={FLAG_HEIGHT} width={Math.max(2, right - left)} height={height} rx={3} />
        {markers.map((marker) => (
          <path
            key={`${marker.step}/${marker.response}`}
            className="overview-response"
            d={`M${px(axis.x(marker.step))} ${FLAG_HEIGHT + 3}l4 7h-8z`}
          />
        ))}
        {[left, right].map((x, index) => (
          <rect key={index} className="overview-handle" x={x - 3} y={FLAG_HEIGHT + height / 2 - 7} width={6} height={14} rx={3} />
        ))}
        {ticks && axis.ticks().map((tick) => (
          <text key={tick.label} className="middle-anchor" x={tick.x} y={FLAG_HEIGHT + height + 14}>
            {tick.label}
          </text>
        ))}
      </svg>
      <OverviewCursor axis={axis} width={width} height={height} />
    </div>
  );
});

/** Drag a handle to resize the window, its middle to move it; press elsewhere to bring it there. */
function useWindowDrag({ axis, steps, window, onWindow }: OverviewBarProps) {
  const drag = useRef<{ part: "from" | "to" | "move"; step: number; window: Span } | null>(null);
  const last = Math.max(steps, axis.last);
  const move = (event: PointerEvent<HTMLDivElement>): void => {
    const held = drag.current;
    if (!held) return;
    const step = axis.stepAt(event.clientX - event.currentTarget.getBoundingClientRect().left);
    const { from, to } = held.window;
    const least = Math.min(LEAST_STEPS, last) - 1;
    if (held.part === "from") onWindow({ from: clamp(step, 1, to - least), to });
    else if (held.part === "to") onWindow({ from, to: clamp(step, from + least, last) });
    else {
      const start = clamp(from + step - held.step, 1, last - (to - from));
      onWindow({ from: start, to: start + (to - from) });
    }
  };
  return {
    onPointerDown: (event: PointerEvent<HTMLDivElement>) => {
      const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
      const left = axis.x(window.from - 0.5);
      const right = axis.x(window.to + 0.5);
      const step = axis.stepAt(x);
      event.currentTarget.setPointerCapture(event.pointerId);
      if (Math.abs(x - left) <= 10) drag.current = { part: "from", step, window };
      else if (Math.abs(x - right) <= 10) drag.current = { part: "to", step, window };
      else {
        const wide = window.to - window.from;
        const start = clamp(Math.round(step - wide / 2), 1, Math.max(1, last - wide));
        const inside = x > left && x < right;
        drag.current = { part: "move", step, window: inside ? window : { from: start, to: start + wide } };
        if (!inside) onWindow(drag.current.window);
      }
    },
    onPointerMove: move,
    onPointerUp: () => (drag.current = null),
    onPointerCancel: () => (drag.current = null),
  };
}

function OverviewCursor({ axis, width, height }: { axis: Axis; width: number; height: number }): ReactNode {
  const step = useCursorStep();
  const { timeOf } = useContext(CursorContext);
  if (step === null) return null;
  const x = axis.x(step);
  const time = timeOf(step);
  const words = `step ${formatCount(step)}${time === null ? "" : ` · ${formatClock(time)}`}`;
  const half = words.length * 3.4 + 8;
  return (
    <>
      <span className="cursor-line" data-testid="cursor-overview" style={{ transform: `translateX(${x}px)`, top: FLAG_HEIGHT, height: height + 6 }} />
      <span className="cursor-flag" style={{ transform: `translateX(calc(${clamp(x, half, width - half)}px - 50%))` }}>
        {words}
      </span>
    </>
  );
}
