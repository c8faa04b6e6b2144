/** Four lanes on one axis with one cursor, under an overview of the whole run. */
import { useCallback, useContext, useMemo } from "react";
import type { ReactNode } from "react";

import type { RunDetail, RunSeries } from "../../api/types";
import { useKeys } from "../../app/keyboard";
import { buildAxis, clamp, showStep, zoomSpan } from "../../charts/axis";
import type { Axis, Span } from "../../charts/axis";
import { useWidth } from "../../charts/Chart";
import { Segments } from "../../components/Choice";
import { formatCount, formatRange } from "../../format";
import { changeTables } from "../address";
import type { ViewChange } from "../address";
import { CursorContext, useCursorStep } from "../cursor";
import { readTimes } from "../data";
import { CHARTS } from "../view";
import type { ChartName, RunView } from "../view";
import { BudgetLane } from "./BudgetLane";
import { DriftLane } from "./DriftLane";
import { LanePatterns, LaneProvider } from "./LaneFrame";
import type { LaneContext } from "./LaneFrame";
import "./lanes.css";
import { LoopsLane } from "./LoopsLane";
import { OverviewBar } from "./OverviewBar";
import { StepsLane } from "./StepsLane";
import { useGestures } from "./useGestures";

const WIDE_GUTTERS = {};
const NARROW_GUTTERS = { left: 36, right: 50 };

export interface LanesCardProps {
  detail: RunDetail;
  /** The whole run. */
  whole: RunSeries;
  /** What the window shows. */
  shown: RunSeries;
  view: RunView;
  change: (change: ViewChange) => void;
  /** Last step of the axis: the run's, or the forecast's end. */
  end: number;
  window: Span;
  selection: Span | null;
  narrow: boolean;
}

export function LanesCard(props: LanesCardProps): ReactNode {
  const { detail, whole, shown, view, change, end, window, selection, narrow } = props;
  const [ruler, width] = useWidth<HTMLDivElement>();
  const gutters = narrow ? NARROW_GUTTERS : WIDE_GUTTERS;
  const times = useMemo(() => readTimes(whole), [whole]);
  const closeTimes = useMemo(() => readTimes(shown), [shown]);
  const kind = view.axis;
  const wholeAxis = useMemo(
    () => buildAxis({ kind, first: 1, last: end, width, times, ...gutters }),
    [kind, end, width, times, gutters],
  );
  const axis = useMemo(
    () => buildAxis({ kind, first: window.from, last: window.to, width, times: closeTimes, ...gutters }),
    [kind, window.from, window.to, width, closeTimes, gutters],
  );
  const setWindow = useCallback(
    (span: Span | null) =>
      change({ zoom: span && (span.from > 1 || span.to < end) ? `${span.from}-${span.to}` : null }),
    [change, end],
  );
  const lane = useLaneContext(props, axis, width, setWindow);
  const onMeter = useCallback((meter: string) => change({ meter }), [change]);
  const gestures = useGestures({ axis, select: lane.select, setWindow, selection, change, window, end });
  const zoomed = window.from > 1 || window.to < end;
  return (
    <section className="card lanes-card" aria-label="Lanes">
      <header className="card-head">
        <h2 className="visually-hidden">Lanes</h2>
        <Segments
          label="Axis"
          value={view.axis}
          options={[
            { value: "steps", label: "Steps" },
            { value: "time", label: "Time" },
          ]}
          onChange={(value) => change({ axis: value === "steps" ? null : value })}
        />
        <div className="end muted small">
          {!narrow && (
            <span className="lanes-hint">
              drag to zoom · click to select · <kbd>←</kbd> <kbd>→</kbd> move
            </span>
          )}
          {zoomed && !narrow && (
            <button type="button" className="link-button" onClick={() => setWindow(null)}>
              show all
            </button>
          )}
          <span className="lanes-range">
            {formatRange(window.from, Math.min(window.to, whole.steps))} of {formatCount(whole.steps)} steps
          </span>
        </div>
      </header>
      <div ref={ruler} className="lanes-ruler" />
      {width > 0 && (
        <LaneProvider value={lane}>
          <LanePatterns />
          <div className="lane-plot">
            <OverviewBar
              axis={wholeAxis}
              width={width}
              steps={whole.steps}
              score={whole.score}
              markers={whole.markers}
              window={window}
              onWindow={setWindow}
            />
          </div>
          <div className="lanes" {...gestures.handlers}>
            <DriftLane score={shown.score} band={whole.band} levels={detail.levels} />
            <StepsLane series={shown} tools={detail.tools} />
            <LoopsLane series={shown} tools={detail.tools} selection={gestures.selecting ?? selection} />
            <BudgetLane budgets={shown.budgets} meter={view.meter} onMeter={onMeter} />
            <TickRow axis={axis} width={width} />
            <LaneCursor axis={axis} zoomed={zoomed} />
            {gestures.box && <div className="zoom-box" style={{ left: gestures.box.left, width: gestures.box.width }} />}
          </div>
        </LaneProvider>
      )}
    </section>
  );
}

function useLaneContext(props: LanesCardProps, axis: Axis, width: number, setWindow: (span: Span | null) => void): LaneContext {
  const { whole, view, change, end, window, narrow } = props;
  const cursor = useContext(CursorContext);
  const { steps } = whole;
  const { tables } = view;
  const select = useCallback(
    (step: number) => {
      const to = clamp(step, 1, steps);
      const span = showStep(window, to, end);
      const moved = span.from !== window.from;
      change({ step: to, ...(moved ? { zoom: `${span.from}-${span.to}` } : {}) });
    },
    [change, end, steps, window],
  );
  const setTable = useCallback(
    (name: ChartName, on: boolean) => change(changeTables(tables, name, on, CHARTS)),
    [change, tables],
  );
  const zoomBy = (factor: number) => (): void =>
    setWindow(zoomSpan(window, factor, cursor.step ?? Math.round((window.from + window.to) / 2), end));
  useKeys({ "+": zoomBy(0.5), "=": zoomBy(0.5), "-": zoomBy(2), "0": () => setWindow(null) });
  return useMemo(
    () => ({ axis, width, steps, narrow, tables, setTable, select, zoom: setWindow }),
    [axis, width, steps, narrow, tables, setTable, select, setWindow],
  );
}

function TickRow({ axis, width }: { axis: Axis; width: number }): ReactNode {
  return (
    <svg className="chart lane-ticks" width={width} height={22} aria-hidden="true">
      <text className="end-anchor" x={axis.left - 8} y={13}>
        {axis.kind === "time" ? "time" : "step"}
      </text>
      {axis.ticks().map((tick) => (
        <text key={tick.label} className={tick.x - axis.left < tick.label.length * 3 ? "" : "middle-anchor"} x={Math.max(tick.x, axis.left)} y={13}>
          {tick.label}
        </text>
      ))}
    </svg>
  );
}

/** The line through all lanes, and its flag on the ticks when the lanes show a part of the run. */
function LaneCursor({ axis, zoomed }: { axis: Axis; zoomed: boolean }): ReactNode {
  const step = useCursorStep();
  if (step === null || step < axis.first || step > axis.last) return null;
  const x = axis.x(step);
  return (
    <>
      <span className="cursor-line" data-testid="cursor" style={{ transform: `translateX(${x}px)` }} />
      {zoomed && (
        <span className="cursor-flag cursor-flag-low" style={{ transform: `translateX(calc(${x}px - 50%))` }}>
          {formatCount(step)}
        </span>
      )}
    </>
  );
}
