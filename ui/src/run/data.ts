/** The queries of a run page, and the series as the lanes draw them. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { UseQueryResult } from "@tanstack/react-query";

import { get } from "../api/client";
import { keys, runOf, seriesOf } from "../api/queries";
import type { IncidentDetail, Recurrence, RunDetail, RunSeries, StepDetail } from "../api/types";
import type { Span, StepTime } from "../charts/axis";
import type { Column } from "../charts/marks";

/** From this many steps on the server sends columns. */
export const MAX_POINTS = 2_000;

export function useRun(id: string): UseQueryResult<RunDetail> {
  return useQuery(runOf(id));
}

/** Load the whole run, and the window as well where the whole comes in columns. */
export function useSeries(
  id: string,
  window: Span | null,
): { whole: UseQueryResult<RunSeries>; shown: RunSeries | undefined } {
  const whole = useQuery(seriesOf(id));
  const closer = window !== null && whole.data !== undefined && whole.data.columns !== null;
  const part = useQuery({
    ...seriesOf(id, window?.from, window?.to),
    enabled: closer,
    placeholderData: keepPreviousData,
  });
  const covers =
    part.data !== undefined && window !== null && part.data.first <= window.from && part.data.last >= window.to;
  return { whole, shown: closer && covers ? part.data : whole.data };
}

export function useIncident(id: string | null): UseQueryResult<IncidentDetail> {
  return useQuery({
    queryKey: keys.incident(id ?? ""),
    queryFn: ({ signal }) => get<IncidentDetail>(`/incidents/${encodeURIComponent(id ?? "")}`, {}, signal),
    enabled: id !== null,
    placeholderData: keepPreviousData,
  });
}

export function useRecurrence(id: string, span: Span | null): UseQueryResult<Recurrence> {
  return useQuery({
    queryKey: keys.runPart(id, "recurrence", { first: span?.from, last: span?.to }),
    queryFn: ({ signal }) =>
      get<Recurrence>(`/runs/${encodeURIComponent(id)}/recurrence`, { first: span?.from, last: span?.to }, signal),
    enabled: span !== null,
    placeholderData: keepPreviousData,
  });
}

export function useStep(id: string, step: number | null): UseQueryResult<StepDetail> {
  return useQuery({
    queryKey: keys.runPart(id, "payload", { step }),
    queryFn: ({ signal }) => get<StepDetail>(`/runs/${encodeURIComponent(id)}/steps/${step}`, {}, signal),
    enabled: step !== null,
    placeholderData: keepPreviousData,
  });
}

/** Return when each step or column took place. Steps that overlapped in time keep their order. */
export function readTimes(series: RunSeries): StepTime[] {
  const steps = series.points?.step ?? series.columns?.first ?? [];
  const at = series.points?.at ?? series.columns?.at ?? [];
  let latest = 0;
  return steps.map((step, index) => {
    latest = Math.max(latest, at[index]!);
    return { step, seconds: latest };
  });
}

/** Return the columns of a series; single steps become columns of one. */
export function readColumns(series: RunSeries): Column[] {
  const { points, columns } = series;
  if (columns) {
    return columns.first.map((first, index) => ({
      first,
      last: columns.last[index]!,
      tools: [...columns.calls[index]!],
      others: columns.replies[index]! + columns.users[index]! + columns.states[index]!,
      failed: columns.failed[index]!,
      repeated: columns.repeated[index]!,
      repeatedInside: columns.repeated_inside[index]!,
    }));
  }
  if (!points) return [];
  return points.step.map((step, index) => {
    const tool = points.tool[index]!;
    const repeated = points.last_same[index]! > 0 ? 1 : 0;
    const tools: number[] = [];
    if (tool >= 0) tools[Math.min(tool, 7)] = 1;
    return {
      first: step,
      last: step,
      tools: Array.from({ length: 8 }, (_, place) => tools[place] ?? 0),
      others: tool < 0 ? 1 : 0,
      failed: points.failed[index]!,
      repeated,
      repeatedInside: repeated * points.incident[index]!,
    };
  });
}

/** Return the place of a step in single steps; -1 where the series has columns or lacks it. */
export function findStep(series: RunSeries, step: number): number {
  const list = series.points?.step;
  if (!list || list.length === 0) return -1;
  const guess = step - list[0]!;
  return list[guess] === step ? guess : list.indexOf(step);
}
