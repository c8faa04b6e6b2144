/** Parameters of an address, read without trust. */
import type { Span } from "../charts/axis";

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

export function readSpan(from: number | null, to: number | null): Span | null {
  return from !== null && to !== null && from <= to ? { from, to } : null;
}

/** Read "31-46". */
export function readZoom(text: string | null): Span | null {
  const parts = text?.split("-") ?? [];
  return parts.length === 2 ? readSpan(readStep(parts[0]!), readStep(parts[1]!)) : null;
}

/** Return which charts are tables: `view=table` alone is all of them. */
export function readTables(view: string | null, named: string | null, all: readonly string[]): ReadonlySet<string> {
  if (view !== "table") return new Set();
  return new Set(named === null ? all : named.split(".").filter((name) => all.includes(name)));
}

/** Return the change of the address that swaps one chart for its table or back. */
export function changeTables(tables: ReadonlySet<string>, name: string, on: boolean, all: readonly string[]): ViewChange {
  const next = all.filter((each) => (each === name ? on : tables.has(each)));
  if (next.length === 0) return { view: null, charts: null };
  return { view: "table", charts: next.length === all.length ? null : next.join(".") };
}
