/** The filters of the list of runs, kept in the address. */
import type { RunRow, Severity } from "../api/types";
import { useLocation } from "../app/router";
import type { Option } from "../components/Choice";

export interface RunFilters {
  readonly since: string;
  readonly agent: readonly string[];
  readonly state: readonly string[];
  readonly severity: string;
  readonly kind: readonly string[];
  readonly response: readonly string[];
  readonly q: string;
}

const options = (...values: readonly string[]): Option[] =>
  values.map((value) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) }));

export const SINCE: readonly Option[] = [
  { value: "1h", label: "Last hour" },
  { value: "today", label: "Since today" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
];
export const RUN_STATES = options("running", "waiting", "ended", "stopped", "crashed");
export const KINDS = options("loop", "goal", "resource", "style", "correction", "transition");
export const RESPONSES = options("remind", "replan", "rollback", "ask", "stop", "block");
export const SEVERITIES: readonly Option[] = [
  { value: "CRITICAL", label: "Critical" },
  { value: "HIGH", label: "High and above" },
  { value: "MED", label: "Medium and above" },
  { value: "LOW", label: "Low and above" },
];

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

export function useRunFilters(): RunFilters {
  const { params } = useLocation();
  const list = (name: string) => (params.get(name) ?? "").split(",").filter(Boolean);
  return {
    since: params.get("since") ?? "",
    agent: list("agent"),
    state: list("state"),
    severity: params.get("severity") ?? "",
    kind: list("kind"),
    response: list("response"),
    q: params.get("q") ?? "",
  };
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
