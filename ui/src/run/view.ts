/** What the address of a run page holds: step, selection, window, axis, incident and table views. */
import { useCallback, useMemo } from "react";

import { href, navigate, useLocation } from "../app/router";
import type { AxisKind, Span } from "../charts/axis";
import { readSpan, readStep, readTables, readZoom } from "./address";
import type { ViewChange } from "./address";

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
  const shownAs = params.get("view");
  const named = params.get("charts");
  const tables = useMemo(() => readTables(shownAs, named, CHARTS), [shownAs, named]);
  const view = useMemo<RunView>(() => {
    const search = new URLSearchParams(text);
    return {
      step: readStep(search.get("step")),
      selection: readSpan(readStep(search.get("from")), readStep(search.get("to"))),
      zoom: readZoom(search.get("zoom")),
      axis: search.get("axis") === "time" ? "time" : "steps",
      meter: search.get("meter"),
      incident: search.get("incident"),
      tables,
    };
  }, [text, tables]);
  const change = useCallback((values: ViewChange) => changeView(values), []);
  return [view, change];
}
