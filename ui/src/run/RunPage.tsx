/** One run: what it did, what deviates, why, and what came of it. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { ReactNode } from "react";

import type { RunDetail, RunSeries } from "../api/types";
import { useKeys } from "../app/keyboard";
import type { PageProps } from "../app/router";
import { clamp, secondsAt, showStep } from "../charts/axis";
import type { Span } from "../charts/axis";
import { Card, Figure, Figures } from "../components/Card";
import { Block, Failure, LastGood, Loading } from "../components/States";
import { changeTables } from "./address";
import type { ViewChange } from "./address";
import { ChildRuns } from "./ChildRuns";
import { Cursor, CursorContext } from "./cursor";
import { readTimes, useIncident, useRun, useSeries } from "./data";
import { chooseBudget } from "./lanes/BudgetLane";
import { LanesCard } from "./lanes/LanesCard";
import { RecurrenceCard } from "./RecurrenceCard";
import "./run.css";
import { RunFigures } from "./RunFigures";
import { RunHeader } from "./RunHeader";
import { StepCard } from "./StepCard";
import { StepsTable } from "./StepsTable";
import { CHARTS, useRunView } from "./view";
import type { RunView } from "./view";
import { WhyCard } from "./WhyCard";

const NARROW = "(max-width: 640px)";
const STACKED = "(max-width: 1099px)";
const NARROW_STEPS = 18;
const MOST_SELECTED = 200;
/** The axis goes on to the forecast's end, but never by more than this share of the run. */
const FORECAST_SHARE = 0.25;

export default function RunPage({ id }: PageProps): ReactNode {
  const run = useRun(id);
  useSeries(id, null); // The lanes are asked for together with the head, not after it.
  const [view, change] = useRunView();
  if (!run.data) {
    return run.error ? <Failure error={run.error} onRetry={() => void run.refetch()} /> : <RunShape />;
  }
  return (
    <LastGood query={run}>
      <RunBody id={id} detail={run.data} view={view} change={change} />
    </LastGood>
  );
}

interface RunBodyProps {
  id: string;
  detail: RunDetail;
  view: RunView;
  change: (change: ViewChange) => void;
}

function RunBody({ id, detail, view, change }: RunBodyProps): ReactNode {
  const narrow = useMedia(NARROW);
  const stacked = useMedia(STACKED);
  const incidentId = chooseIncident(detail, view.incident);
  const incident = useIncident(incidentId);
  const steps = detail.run.steps;
  const askedWindow = view.zoom ?? (narrow ? narrowWindow(view.step, steps) : null);
  const series = useSeries(id, askedWindow);
  const end = useMemo(() => findEnd(series.whole.data, view.meter, steps), [series.whole.data, view.meter, steps]);
  const window = useSpan(fitWindow(askedWindow, end))!;
  const row = incidentId !== null && incident.data?.row.incident_id === incidentId ? incident.data.row : null;
  const noticed = row && { from: row.first_step, to: row.last_step };
  const selection = useSpan(chooseSelection(view.selection, noticed, steps));
  // Until the incident is known, so is not what is selected.
  const awaited = incidentId !== null && row === null && incident.error === null && view.selection === null;
  const cursor = useRunCursor(series.whole.data, view.step, steps);
  const select = useCallback(
    (step: number) => {
      const to = clamp(step, 1, steps);
      const span = showStep(window, to, end);
      change({ step: to, ...(span.from === window.from ? {} : { zoom: `${span.from}-${span.to}` }) });
    },
    [change, steps, window, end],
  );
  const show = useCallback((each: string) => change({ incident: each, from: null, to: null }), [change]);
  useRunKeys(view, change, select, view.step ?? steps);
  const setTable = useCallback(
    (on: boolean) => change(changeTables(view.tables, "recurrence", on, CHARTS)),
    [change, view.tables],
  );

  const why = <WhyCard key="why" detail={detail} incident={incidentId} show={show} select={select} />;
  const lanes = series.whole.data && series.shown ? (
    <LanesCard key="lanes" detail={detail} whole={series.whole.data} shown={series.shown} view={view} change={change} end={end} window={window} selection={awaited ? null : selection} narrow={narrow} />
  ) : series.whole.error ? (
    <Failure key="lanes" error={series.whole.error} onRetry={() => void series.whole.refetch()} />
  ) : (
    <LanesShape key="lanes" />
  );
  const recurrence = selection && (
    <RecurrenceCard key="recurrence" id={id} selection={selection} awaited={awaited} steps={steps} tools={detail.tools} repeatedShare={detail.figures.repeated_share} asTable={view.tables.has("recurrence")} setTable={setTable} select={select} />
  );
  const table = <StepsTable key="steps" id={id} steps={steps} selected={view.step} select={select} />;
  const step = view.step !== null && view.step <= steps && <StepCard key="step" id={id} step={view.step} />;
  const children = <ChildRuns key="children" runs={detail.children} />;
  return (
    <CursorContext value={cursor}>
      <RunHeader detail={detail} />
      <RunFigures detail={detail} series={series.whole.data} />
      {stacked ? (
        <div className="run-stack">{[why, lanes, recurrence, step, table, children]}</div>
      ) : (
        <div className="run-columns">
          <div className="run-stack">{[lanes, recurrence, table]}</div>
          <StickyColumn>{[why, step, children]}</StickyColumn>
        </div>
      )}
    </CursorContext>
  );
}

/** Return an equal span as the same object, so that lanes are drawn again only when it changes. */
function useSpan(span: Span | null): Span | null {
  const from = span?.from ?? 0;
  const to = span?.to ?? 0;
  return useMemo(() => (from > 0 ? { from, to } : null), [from, to]);
}

/** Return the incident to show: the one asked for, else the first. */
function chooseIncident(detail: RunDetail, asked: string | null): string | null {
  if (asked !== null && detail.incidents.includes(asked)) return asked;
  return detail.incidents[0] ?? null;
}

/** Return the last step of the axis: the run's, or the forecast's end while it is near. */
export function findEnd(series: RunSeries | undefined, meter: string | null, steps: number): number {
  const forecast = series && chooseBudget(series.budgets, meter)?.forecast;
  if (!forecast) return Math.max(1, steps);
  const furthest = steps + Math.max(10, Math.round(steps * FORECAST_SHARE));
  return clamp(Math.ceil(forecast.p90), Math.max(1, steps), furthest);
}

function narrowWindow(step: number | null, steps: number): Span | null {
  if (steps <= NARROW_STEPS) return null;
  return showStep({ from: steps - NARROW_STEPS + 1, to: steps }, step ?? steps, steps);
}

function fitWindow(asked: Span | null, end: number): Span {
  if (!asked || asked.from >= end) return { from: 1, to: end };
  return { from: asked.from, to: Math.min(asked.to, end) };
}

/** Return the selected steps: those asked for, else the incident's, else the last ones. */
function chooseSelection(asked: Span | null, incident: Span | null, steps: number): Span | null {
  if (steps < 1) return null;
  const span = asked ?? incident ?? { from: Math.max(1, steps - MOST_SELECTED + 1), to: steps };
  const from = clamp(span.from, 1, steps);
  return { from, to: clamp(span.to, from, steps) };
}

function useRunCursor(series: RunSeries | undefined, step: number | null, steps: number): Cursor {
  const [cursor] = useState(() => new Cursor());
  useEffect(() => {
    if (!series) return;
    const times = readTimes(series);
    cursor.setTimes((at) => (times.length ? series.started_at + secondsAt(times, at) : null));
  }, [cursor, series]);
  useLayoutEffect(() => cursor.pin(step === null ? null : Math.min(step, steps)), [cursor, step, steps]);
  return cursor;
}

/** Keys of the whole page: arrows, j and k move the step, t swaps the focused chart for its table. */
function useRunKeys(view: RunView, change: (change: ViewChange) => void, select: (step: number) => void, at: number): void {
  const swap = (): void => {
    const lane = document.activeElement?.closest("[data-lane]")?.getAttribute("data-lane");
    if (!lane) return;
    change(changeTables(view.tables, lane, !view.tables.has(lane), CHARTS));
    requestAnimationFrame(() => {
      document.querySelector<HTMLElement>(`[data-lane="${lane}"] [tabindex="0"]`)?.focus();
    });
  };
  useKeys({
    ArrowLeft: () => select(at - 1),
    ArrowRight: () => select(at + 1),
    "Shift+ArrowLeft": () => select(at - 10),
    "Shift+ArrowRight": () => select(at + 10),
    j: () => select(at - 1),
    k: () => select(at + 1),
    t: swap,
  });
}

function useMedia(query: string): boolean {
  const list = useMemo(() => matchMedia(query), [query]);
  return useSyncExternalStore(
    (listener) => {
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => list.matches,
  );
}

/** A column that stays on screen: when it is taller than the window, its end does. */
function StickyColumn({ children }: { children: ReactNode }): ReactNode {
  const ref = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(64);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = (): void => setTop(Math.min(64, globalThis.innerHeight - element.offsetHeight - 24));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    globalThis.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      globalThis.removeEventListener("resize", measure);
    };
  }, []);
  return <div ref={ref} className="run-stack run-side" style={{ top }}>{children}</div>;
}

function RunShape(): ReactNode {
  return (
    <Loading>
      <div className="run-stack">
        <Block width={180} />
        <Block width={480} height={24} />
        <Figures>
          {["Peak drift", "Steps", "Tokens", "Cost", "Duration", "Failed calls"].map((label) => (
            <Figure key={label} label={label} value={<Block width={72} height={20} />} note={<Block width={96} />} />
          ))}
        </Figures>
        <LanesShape />
      </div>
    </Loading>
  );
}

function LanesShape(): ReactNode {
  return (
    <Card padded className="lanes-shape">
      <Loading>
        {["Drift score", "Steps", "Loops", "Budget"].map((title) => (
          <div key={title}>
            <h3>{title}</h3>
            <Block width={900} height={92} />
          </div>
        ))}
      </Loading>
    </Card>
  );
}
