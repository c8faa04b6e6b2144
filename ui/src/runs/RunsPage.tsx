import { useQuery } from "@tanstack/react-query";

import { overviewQuery } from "../api/queries";
import { useLive } from "../app/live";
import { href, navigate, useLocation } from "../app/router";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Chip } from "../components/Choice";
import type { Option } from "../components/Choice";
import { escapeHidden } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { Empty, Failure, LoadingRows, StaleBadge } from "../components/States";
import { formatCapped, formatPlural } from "../format";
import { FirstSteps } from "../overview/FirstSteps";
import { KINDS, RESPONSES, RUN_STATES, SEVERITIES, SINCE, useRunFilters } from "./filters";
import { isFiltered } from "./matching";
import type { RunFilters } from "./matching";
import { HEADS, RunRows } from "./RunRows";
import "./runs.css";
import { useRuns } from "./useRuns";

export default function RunsPage() {
  const filters = useRunFilters();
  const { query, rows, levels, total, fresh, showFresh } = useRuns(filters);
  const live = useLive();
  const stale = query.data !== undefined && query.error !== null;
  const loadMore = () => {
    if (query.hasNextPage && !query.isFetchingNextPage && !query.isFetchNextPageError) void query.fetchNextPage();
  };
  return (
    <>
      <div className="page-head">
        <h1>Runs</h1>
        {query.data && <span className="muted">{total >= 10_000 ? `${formatCapped(total)} runs` : formatPlural(total, "run")}</span>}
        {stale && <StaleBadge since={query.dataUpdatedAt} />}
        <div className="end">
          {fresh > 0 && (
            <button type="button" className="link-button" onClick={showFresh}>
              Show {formatPlural(fresh, "new run")}
            </button>
          )}
          <Button small onClick={live.state === "paused" ? live.resume : live.pause}>
            <Icon name={live.state === "paused" ? "play" : "pause"} size={10} />
            {live.state === "paused" ? "Go on" : "Pause"}
          </Button>
        </div>
      </div>
      <FilterBar filters={filters} />
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.data === undefined ? (
        !query.error && (
          <Card>
            <LoadingRows rows={12} widths={[72, 280, 120, 110, 90, 90, 40, 60, 40, 60, 48]} heads={HEADS} />
          </Card>
        )
      ) : rows.length === 0 || levels === undefined ? (
        <NoRuns filtered={isFiltered(filters)} />
      ) : (
        <RunRows
          rows={rows}
          levels={levels}
          total={total}
          stale={stale}
          hasMore={query.hasNextPage}
          loading={query.isFetchingNextPage}
          onEnd={loadMore}
        />
      )}
    </>
  );
}

const asList = (value: string): readonly string[] => (value ? [value] : []);

function FilterBar({ filters }: { readonly filters: RunFilters }) {
  const { params } = useLocation();
  const agents = useAgentOptions();
  const set = (name: string, values: readonly string[]) => {
    const next = new URLSearchParams(params);
    if (values.length) next.set(name, values.join(","));
    else next.delete(name);
    navigate(href("/runs", next), { replace: true });
  };
  return (
    <div className="filter-row">
      <div className="chips" role="group" aria-label="Filters">
        <Chip single label="Since" options={SINCE} chosen={asList(filters.since)} onChange={(v) => set("since", v)} />
        <Chip label="Agent" options={agents} chosen={filters.agent} onChange={(v) => set("agent", v)} />
        <Chip label="State" options={RUN_STATES} chosen={filters.state} onChange={(v) => set("state", v)} />
        <Chip single label="Severity" options={SEVERITIES} chosen={asList(filters.severity)} onChange={(v) => set("severity", v)} />
        <Chip label="Kind" options={KINDS} chosen={filters.kind} onChange={(v) => set("kind", v)} />
        <Chip label="Response" options={RESPONSES} chosen={filters.response} onChange={(v) => set("response", v)} />
        {filters.q && (
          <Chip single label="Search" options={[{ value: filters.q, label: `“${escapeHidden(filters.q)}”` }]} chosen={[filters.q]} onChange={(v) => set("q", v)} />
        )}
      </div>
      <span className="muted small key-hint" aria-hidden="true">
        <kbd>j</kbd> <kbd>k</kbd> move <kbd>↵</kbd> open
      </span>
    </div>
  );
}

/** The agents as a bounded set of choices: those of the overview, at most 200. */
export function useAgentOptions(): readonly Option[] {
  const { data } = useQuery({ ...overviewQuery, staleTime: 60_000 });
  return (data?.agents ?? [])
    .map((agent) => ({ value: String(agent.key), label: escapeHidden(agent.name) }))
    .toSorted((one, other) => one.label.localeCompare(other.label));
}

function NoRuns({ filtered }: { readonly filtered: boolean }) {
  const { data } = useQuery(overviewQuery);
  if (!filtered && data?.empty) return <FirstSteps database={data.database} />;
  return (
    <Card>
      <Empty>
        No run matches.{" "}
        {filtered && (
          <button type="button" className="link-button" onClick={() => navigate("/runs")}>
            Clear filters
          </button>
        )}
      </Empty>
    </Card>
  );
}
