/** Which runs belong into a filtered list, and how a change is put into it. */
import type { InfiniteData } from "@tanstack/react-query";

import type { Change, RunList, RunRow, Severity } from "../api/types";

export interface RunFilters {
  readonly since: string;
  readonly agent: readonly string[];
  readonly state: readonly string[];
  readonly severity: string;
  readonly kind: readonly string[];
  readonly response: readonly string[];
  readonly q: string;
}

const DAY = 86_400;

/** Return the time a word of SINCE stands for, in seconds; null for all time. */
export function sinceTime(word: string): number | null {
  const now = Date.now() / 1_000;
  switch (word) {
    case "1h":
      return now - 3_600;
    case "today":
      return new Date().setHours(0, 0, 0, 0) / 1_000;
    case "7d":
      return now - 7 * DAY;
    case "30d":
      return now - 30 * DAY;
    default:
      return null;
  }
}

export const isFiltered = (filters: RunFilters): boolean =>
  Object.values(filters).some((value: string | readonly string[]) => value.length > 0);

const RANK: Readonly<Record<Severity, number>> = { LOW: 0, MED: 1, HIGH: 2, CRITICAL: 3 };

/** Return whether a run that the stream brought belongs into the list; a search is left to the server. */
export function matchesFilters(run: RunRow, filters: RunFilters): boolean {
  const since = sinceTime(filters.since);
  if (since !== null && run.started_at < since) return false;
  if (filters.agent.length && !filters.agent.includes(String(run.agent.key))) return false;
  if (filters.state.length && !filters.state.includes(run.state)) return false;
  if (filters.kind.length && !run.kinds.some((kind) => filters.kind.includes(kind))) return false;
  if (filters.response.length && !(run.response && filters.response.includes(run.response.response))) return false;
  if (filters.severity in RANK) {
    const least = RANK[filters.severity as Severity];
    if (run.top_severity === null || RANK[run.top_severity] < least) return false;
  }
  return filters.q === "";
}

/** Put changed rows in their places; return the runs that began after the newest row of the list. */
export function mend(
  known: InfiniteData<RunList, string>,
  change: Pick<Change, "runs">,
): { next: InfiniteData<RunList, string>; unknown: RunRow[] } {
  const changed = new Map(change.runs.map((run) => [run.key, run]));
  const newest = known.pages[0]?.runs[0]?.started_at ?? 0;
  let touched = false;
  const pages = known.pages.map((page) => {
    if (!page.runs.some((run) => changed.has(run.key))) return page;
    touched = true;
    const runs = page.runs.map((run) => {
      const found = changed.get(run.key);
      changed.delete(run.key);
      return found && found.last_at >= run.last_at ? found : run;
    });
    return { ...page, runs };
  });
  const unknown = [...changed.values()].filter((run) => run.started_at >= newest);
  return { next: touched ? { ...known, pages } : known, unknown };
}
