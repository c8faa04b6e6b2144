import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import type { InfiniteData } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Change, RunList } from "../api/types";
import { useChanges } from "../app/live";
import { matchesFilters, mend, sinceTime } from "./matching";
import type { RunFilters } from "./matching";

/** The list of runs. Rows change in place; runs that are new wait until they are asked for. */
export function useRuns(filters: RunFilters) {
  const client = useQueryClient();
  const queryKey = keys.runs({ ...filters });
  const [fresh, setFresh] = useState<ReadonlySet<number>>(new Set());
  const [freshFor, setFreshFor] = useState("");
  const list = JSON.stringify(filters);
  if (freshFor !== list) {
    setFreshFor(list);
    setFresh(new Set());
  }
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      get<RunList>(
        "/runs",
        {
          after: pageParam,
          since: sinceTime(filters.since),
          agent: filters.agent,
          state: filters.state,
          severity: filters.severity,
          kind: filters.kind,
          response: filters.response,
          q: filters.q,
        },
        signal,
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const apply = (change: Change) => {
    const known = client.getQueryData<InfiniteData<RunList, string>>(queryKey);
    if (!known) return;
    const { next, unknown } = mend(known, change);
    if (next !== known) client.setQueryData(queryKey, next);
    const added = unknown.filter((run) => matchesFilters(run, filters));
    if (added.length) setFresh((before) => new Set([...before, ...added.map((run) => run.key)]));
  };
  // What is on its way may be from before a change and replaces the list: the change is put into it again.
  const early = useRef<Change[]>([]);
  const isOnItsWay = () => client.isFetching({ queryKey, exact: true }) > 0;
  useChanges((change) => {
    if (isOnItsWay()) early.current.push(change);
    apply(change);
  });
  useEffect(() => {
    if (!isOnItsWay()) early.current.splice(0).forEach(apply);
  });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.runs) ?? [], [query.data]);
  const waiting = [...fresh].filter((key) => !rows.some((run) => run.key === key)).length;
  const showFresh = () => {
    setFresh(new Set());
    void client.resetQueries({ queryKey, exact: true });
  };
  return { query, rows, levels: query.data?.pages[0]?.levels, total: query.data?.pages[0]?.total ?? 0, fresh: waiting, showFresh };
}
