/** The filters of the list of runs, kept in the address. */
import { useLocation } from "../app/router";
import type { Option } from "../components/Choice";
import type { RunFilters } from "./matching";

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
