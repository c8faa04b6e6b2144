/** Query keys and the cache. A live change names keys to refresh, so keys are made here and nowhere else. */
import { QueryClient, queryOptions } from "@tanstack/react-query";

import { ApiError, get } from "./client";
import type { Overview, RunDetail, RunSeries } from "./types";

type Filters = Readonly<Record<string, unknown>>;

export const keys = {
  all: ["api"] as const,
  overview: () => ["api", "overview"] as const,
  runs: (filters: Filters) => ["api", "runs", filters] as const,
  run: (id: string) => ["api", "run", id] as const,
  /** Parts of a run: "series", "steps", "incidents", "payload" ... */
  runPart: (id: string, part: string, filters: Filters = {}) => ["api", "run", id, part, filters] as const,
  incidents: (filters: Filters) => ["api", "incidents", filters] as const,
  incident: (id: string) => ["api", "incident", id] as const,
  precision: () => ["api", "precision"] as const,
  agent: (name: string) => ["api", "agent", name] as const,
  agentPart: (name: string, part: string, filters: Filters = {}) =>
    ["api", "agent", name, part, filters] as const,
  settings: (part: string) => ["api", "settings", part] as const,
  search: (text: string) => ["api", "search", text] as const,
};

/** The overview with the figures of so many days, and with it every agent's name and key (at most 200). */
export const overviewOf = (days: "1" | "7" | "30") =>
  queryOptions({
    queryKey: [...keys.overview(), days],
    queryFn: ({ signal }) => get<Overview>("/overview", days === "1" ? {} : { days }, signal),
  });

export const overviewQuery = overviewOf("1");

const OVERVIEW_COLUMNS = 800;

/** The head of a run. */
export const runOf = (id: string) =>
  queryOptions({
    queryKey: keys.run(id),
    queryFn: ({ signal }) => get<RunDetail>(`/runs/${encodeURIComponent(id)}`, {}, signal),
  });

/** The lanes of a run, or of a window of it. */
export const seriesOf = (id: string, first?: number, last?: number) =>
  queryOptions({
    queryKey: keys.runPart(id, "series", { first, last }),
    queryFn: ({ signal }) =>
      get<RunSeries>(`/runs/${encodeURIComponent(id)}/series`, { first, last, columns: OVERVIEW_COLUMNS }, signal),
  });

const MAX_WAIT_MS = 30_000;
/** Then the error is shown; the live stream asks again when the server is back. */
export const MOST_TRIES = 3;

/** Keep the last good data, ask again with growing pauses when no answer comes, and never on a refusal. */
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        retry: (count, error) => error instanceof ApiError && error.isPassing && count < MOST_TRIES - 1,
        retryDelay: (count) => Math.min(1_000 * 2 ** count, MAX_WAIT_MS),
        networkMode: "always",
      },
      mutations: { retry: false, networkMode: "always" },
    },
  });
}
