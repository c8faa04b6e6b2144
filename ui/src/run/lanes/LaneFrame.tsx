/** The frame of one lane: head with values at the cursor, the drawing, or its table. */
import { createContext, useContext } from "react";
import type { ReactNode } from "react";

import type { Axis, Span } from "../../charts/axis";
import { ChartStop, TableSwitch } from "../../charts/Chart";
import { useCursorStep } from "../cursor";
import type { ChartName } from "../view";

/** What every lane knows about the card it is in. */
export interface LaneContext {
  axis: Axis;
  width: number;
  /** Last step of the run. */
  steps: number;
  narrow: boolean;
  tables: ReadonlySet<string>;
  setTable: (name: ChartName, on: boolean) => void;
  select: (step: number) => void;
  zoom: (span: Span | null) => void;
}

const Context = createContext<LaneContext | null>(null);
export const LaneProvider = Context.Provider;

export function useLane(): LaneContext {
  const lane = useContext(Context);
  if (!lane) throw new Error("A lane is drawn inside a lanes card.");
  return lane;
}

interface LaneFrameProps {
  name: ChartName;
  title: string;
  legend: ReactNode;
  end?: ReactNode;
  height: number;
  summary: string;
  /** The sentence about a step. */
  describe: (step: number) => string;
  /** Table in place of the drawing. */
  table: ReactNode;
  children: ReactNode;
  /** Mark for pointer gestures that differ from zooming. */
  gesture?: "select";
}

export function LaneFrame(props: LaneFrameProps): ReactNode {
  const lane = useLane();
  const asTable = lane.tables.has(props.name);
  return (
    <section className="lane" data-lane={props.name}>
      <header className="lane-head">
        <h3 className="lane-title">{props.title}</h3>
        <div className="lane-legend">{props.legend}</div>
        <div className="end">
          {props.end}
          <TableSwitch
            name={props.title.toLowerCase()}
            on={asTable}
            onChange={(on) => lane.setTable(props.name, on)}
          />
        </div>
      </header>
      {asTable ? props.table : <LaneDrawing {...props} />}
    </section>
  );
}

function LaneDrawing(props: LaneFrameProps): ReactNode {
  const { axis, steps, width, select } = useLane();
  const cursor = useCursorStep() ?? steps;
  const inSight = cursor >= axis.first && cursor <= axis.last;
  return (
    <ChartStop
      className="lane-plot"
      label={props.title}
      summary={props.summary}
      min={1}
      max={Math.max(1, steps)}
      value={Math.min(cursor, Math.max(1, steps))}
      text={props.describe(cursor)}
      at={inSight ? { x: axis.x(cursor), y: props.height } : null}
      width={width}
      onMove={select}
    >
      <svg
        className="chart"
        data-gesture={props.gesture ?? "zoom"}
        width={width}
        height={props.height}
        viewBox={`0 0 ${width} ${props.height}`}
        aria-hidden="true"
      >
        <LaneGrid height={props.height} />
        {props.children}
      </svg>
    </ChartStop>
  );
}

/** Vertical hairlines at each tick, and the hatched part after now. */
function LaneGrid({ height }: { height: number }): ReactNode {
  const { axis, steps } = useLane();
  const now = axis.x(steps + 0.5);
  return (
    <>
      <clipPath id={`plot-${height}`}>
        <rect x={axis.left} y={-4} width={axis.end - axis.left} height={height + 8} />
      </clipPath>
      {axis.ticks().map((tick) => (
        <line key={tick.label} className="grid-line" x1={tick.x} x2={tick.x} y1={0} y2={height} />
      ))}
      {now < axis.end - 1 && (
        <rect className="future" x={Math.max(axis.left, now)} y={0} width={axis.end - Math.max(axis.left, now)} height={height} />
      )}
    </>
  );
}

/** Clip to the plot, so that a window cuts paths at its edges. */
export function Plot({ height, children }: { height: number; children: ReactNode }): ReactNode {
  return <g clipPath={`url(#plot-${height})`}>{children}</g>;
}

/** Patterns of the contributions, the future and the reserve, once per card. */
export function LanePatterns(): ReactNode {
  return (
    <svg className="lane-patterns" width="0" height="0" aria-hidden="true">
      <defs>
        <pattern id="future" className="pattern-future" width="8" height="8" patternUnits="userSpaceOnUse">
          <path d="M-2 10 10 -2M-2 2 2 -2M6 10l4 -4" />
        </pattern>
        <pattern id="part-quality" className="pattern-drift" width="5" height="5" patternUnits="userSpaceOnUse">
          <path d="M-1 6 6 -1M-1 1 1 -1M4 6l2 -2" />
        </pattern>
        <pattern id="part-stuck" className="pattern-drift" width="4" height="4" patternUnits="userSpaceOnUse">
          <circle cx="2" cy="2" r="0.9" />
        </pattern>
        <pattern id="part-goal" className="pattern-drift" width="4" height="4" patternUnits="userSpaceOnUse">
          <path d="M2 0v4" />
        </pattern>
        <pattern id="part-budget" className="pattern-drift" width="6" height="6" patternUnits="userSpaceOnUse">
          <path d="M0 0l6 6M6 0l-6 6" />
        </pattern>
        <pattern id="reserve" className="pattern-reserve" width="6" height="6" patternUnits="userSpaceOnUse">
          <path d="M-1 7 7 -1M-1 1 1 -1M5 7l2 -2" />
        </pattern>
      </defs>
    </svg>
  );
}
