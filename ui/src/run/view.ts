/** What the address of a run page holds: step, selection, window, axis, incident and table views. */
import { useCallback, useMemo } from "react";

import { href, navigate, useLocation } from "../app/router";
import type { AxisKind, Span } from "../charts/axis";

export const CHARTS = ["drift", "steps", "loops", "budget", "recurrence"] as const;
export type ChartName = (typeof CHARTS)[number];

export interface RunView {
  step: number | null;
  selection: Span | null;
  zoom: Span | null;
  axis: AxisKind;
  meter: string | null;
  incident: string | null;
  tables: ReadonlySet<string>;
}

export type ViewChange = Partial<{
  step: number | null;
  from: number | null;
  to: number | null;
  zoom: string | null;
  axis: string | null;
  meter: string | null;
  incident: string | null;
  view: string | null;
  charts: string | null;
}>;

/** Read a whole number of 1 or more; null for everything else. */
export function readStep(text: string | null): number | null {
  if (text === null || !/^\d{1,9}$/.test(text)) return null;
  const value = Number(text);
  return value >= 1 ? value : null;
}

function readSpan(from: number | null, to: number | null): Span | null {
  return from !== null && to !== null && from <= to ? { from, to } : null;
}

/** Read "31-46". */
export function readZoom(text: string | null): Span | null {
  const parts = text?.split("-") ?? [];
  return parts.length === 2 ? readSpan(readStep(parts[0]!), readStep(parts[1]!)) : null;
}

/** Return which charts are tables: `view=table` alone is all of them. */
export function readTables(params: URLSearchParams, all: readonly string[]): ReadonlySet<string> {
  if (params.get("view") !== "table") return new Set();
  const named = params.get("charts");
  return new Set(named === null ? all : named.split(".").filter((name) => all.includes(name)));
}

/** Return the change of the address that swaps one chart for its table or back. */
export function changeTables(tables: ReadonlySet<string>, name: string, on: boolean, all: readonly string[]): ViewChange {
  const next = all.filter((each) => (each === name ? on : tables.has(each)));
  if (next.length === 0) return { view: null, charts: null };
  return { view: "table", charts: next.length === all.length ? null : next.join(".") };
}

/** Change parameters of the current view in place. */
export function changeView(change: Readonly<Record<string, string | number | null>>): void {
  const text = window.location.hash.replace(/^#/, "") || "/";
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const params = new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1));
  for (const [name, value] of Object.entries(change)) {
    if (value === null) params.delete(name);
    else params.set(name, String(value));
  }
  navigate(href(path, params), { replace: true });
}

/** Return the view and a function that changes it. */
export function useRunView(): [RunView, (change: ViewChange) => void] {
  const { params } = useLocation();
  const text = params.toString();
  const view = useMemo<RunView>(() => {
    const search = new URLSearchParams(text);
    return {
      step: readStep(search.get("step")),
      selection: readSpan(readStep(search.get("from")), readStep(search.get("to"))),
      zoom: readZoom(search.get("zoom")),
      axis: search.get("axis") === "time" ? "time" : "steps",
      meter: search.get("meter"),
      incident: search.get("incident"),
      tables: readTables(search, CHARTS),
    };
  }, [text]);
  const change = useCallback((values: ViewChange) => changeView(values), []);
  return [view, change];
}
