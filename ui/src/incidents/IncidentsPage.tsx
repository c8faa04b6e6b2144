import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Group, GroupList } from "../api/types";
import { useKeys } from "../app/keyboard";
import { href, navigate, runPath, useLocation } from "../app/router";
import { ChartTable, TableSwitch } from "../charts/Chart";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Chip, Tabs } from "../components/Choice";
import { HostileText } from "../components/HostileText";
import { Empty, Failure, LoadingRows, StaleBadge } from "../components/States";
import { useNow } from "../components/useNow";
import { useRowCursor } from "../components/useRowCursor";
import { formatCapped, formatCount, formatPlural, formatUtcDay } from "../format";
import { KINDS, SEVERITIES } from "../runs/filters";
import { useAgentOptions } from "../runs/RunsPage";
import { GroupDetailCard } from "./GroupDetailCard";
import { GroupRow } from "./GroupRow";
import "./incidents.css";
import { PrecisionCard } from "./PrecisionCard";

const TABS = ["open", "acknowledged", "muted", "closed"] as const;
type Tab = (typeof TABS)[number];

const WORDS: Readonly<Record<Tab, string>> = {
  open: "Open",
  acknowledged: "Acknowledged",
  muted: "Muted",
  closed: "Closed",
};

function useView() {
  const { params } = useLocation();
  const state = params.get("state") as Tab | null;
  const change = (values: Readonly<Record<string, string | null>>, push = false) => {
    const next = new URLSearchParams(params);
    for (const [name, value] of Object.entries(values)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    navigate(href("/incidents", next), { replace: !push });
  };
  return {
    tab: state !== null && TABS.includes(state) ? state : ("open" as Tab),
    group: params.get("group"),
    agent: params.get("agent") ?? "",
    kind: params.get("kind") ?? "",
    severity: params.get("severity") ?? "",
    table: params.get("view") === "table",
    change,
  };
}

const asList = (value: string): readonly string[] => value.split(",").filter(Boolean);

/** The inbox: incidents grouped by agent, kind and pattern, with the chosen group beside them. */
export default function IncidentsPage() {
  const view = useView();
  const { tab, agent, kind, severity } = view;
  const query = useInfiniteQuery({
    queryKey: keys.incidents({ tab, agent, kind, severity }),
    queryFn: ({ pageParam, signal }) =>
      get<GroupList>("/incidents", { tab, agent, kind, severity, after: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const groups = useMemo(() => query.data?.pages.flatMap((page) => page.groups) ?? [], [query.data]);
  const totals = query.data?.pages[0]?.totals;
  const stale = query.data !== undefined && query.error !== null;
  const at = groups.findIndex((group) => group.newest === view.group);
  const choose = (group: Group | undefined, push = false) => view.change({ group: group?.newest ?? null }, push);
  useRowKeys(groups, at, choose);
  const asTable = view.table;
  const swapView = () => view.change({ view: asTable ? null : "table" });
  useKeys({ t: swapView });
  const filtered = agent !== "" || kind !== "" || severity !== "";
  return (
    <>
      <div className="page-head">
        <h1>Incidents</h1>
        <span className="muted wide-only">grouped by agent, kind and pattern</span>
        {stale && <StaleBadge since={query.dataUpdatedAt} />}
        <span className="end muted small key-hint" aria-hidden="true">
          <kbd>j</kbd> <kbd>k</kbd> move <kbd>a</kbd> acknowledge <kbd>m</kbd> mute <kbd>f</kbd> false alarm <kbd>z</kbd> undo
        </span>
      </div>
      <Filters view={view} />
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      <div className={`inbox ${view.group ? "inbox-open" : ""}`}>
        <div className="inbox-list">
          <Card className={stale ? "stale" : ""}>
            <div className="inbox-tabs">
              <Tabs
                label="State"
                panel="groups"
                options={TABS.map((value) => ({
                  value,
                  label: WORDS[value],
                  ...(totals && value !== "closed" ? { count: totals[value] ?? 0 } : {}),
                }))}
                value={tab}
                onChange={(value) => view.change({ state: value === "open" ? null : value, group: null })}
              />
              <TableSwitch name="incidents a day" on={asTable} onChange={swapView} />
            </div>
            <div id="groups" role="tabpanel" aria-label={WORDS[tab]}>
              {query.data === undefined ? (
                query.error ? (
                  <Empty>Not loaded.</Empty>
                ) : (
                  <LoadingRows rows={7} widths={[14, 320, 56, 32, 72]} heads={["", "Pattern", "14 days", "Count", "Last seen"]} rowHeight={53} />
                )
              ) : groups.length === 0 ? (
                <NoGroups tab={tab} filtered={filtered} onClear={() => view.change({ agent: null, kind: null, severity: null })} />
              ) : asTable ? (
                <DaysTable groups={groups} />
              ) : (
                <ol className="groups" aria-label={`${WORDS[tab]} incidents`}>
                  <li className="group-head" aria-hidden="true">
                    <span>Pattern</span>
                    <span>14 days</span>
                    <span className="number">Count</span>
                    <span className="number">Last seen</span>
                  </li>
                  {groups.map((group, index) => (
                    <GroupRow key={group.newest} group={group} selected={index === at} onChoose={() => choose(group, true)} />
                  ))}
                </ol>
              )}
              {query.hasNextPage && (
                <div className="inbox-more">
                  <Button small onClick={() => void query.fetchNextPage()} busyWord={query.isFetchingNextPage ? "Loading…" : null}>
                    Show more
                  </Button>
                </div>
              )}
            </div>
          </Card>
          <PrecisionCard />
        </div>
        {view.group && (
          <GroupDetailCard
            key={view.group}
            id={view.group}
            place={at >= 0 ? `${at + 1} of ${formatPlural(groups.length, "group")}` : ""}
            onBack={() => choose(undefined, true)}
            onDone={() => {
              choose(groups[at + 1] ?? groups[at - 1]);
              requestAnimationFrame(() => document.querySelector<HTMLElement>(".group[aria-current]")?.focus());
            }}
          />
        )}
      </div>
    </>
  );
}

const DAY_S = 86_400;

/** The bars of all groups in numbers: incidents of each day of UTC, oldest first. */
function DaysTable({ groups }: { readonly groups: readonly Group[] }) {
  const today = Math.floor(useNow() / DAY_S);
  const days = groups[0]?.days.map((_, index, all) => formatUtcDay((today - all.length + 1 + index) * DAY_S)) ?? [];
  return (
    <ChartTable
      caption="Incidents of each group a day"
      head={["Pattern", "Agent", ...days, "Count"]}
      words={[0, 1]}
      rows={groups.map((group) => [
        <span key="message" className="day-words"><HostileText text={group.message} oneLine /></span>,
        <span key="agent" className="day-words"><HostileText text={group.agent.name} oneLine /></span>,
        ...group.days.map((day) => formatCount(day)),
        <b key="count">{formatCapped(group.count)}</b>,
      ])}
    />
  );
}

/** `j` and `k` open the next and previous group, Enter its newest run; the detail follows. */
function useRowKeys(groups: readonly Group[], at: number, choose: (group: Group | undefined) => void): void {
  useRowCursor(groups.length, {
    at,
    onOpen: (index) => {
      const group = groups[index];
      if (group) navigate(href(runPath(group.run), { incident: group.newest }));
    },
    onMove: (index) => {
      choose(groups[index]);
      document.querySelectorAll(".group")[index]?.scrollIntoView({ block: "nearest" });
    },
  });
}

function Filters({ view }: { readonly view: ReturnType<typeof useView> }) {
  const agents = useAgentOptions();
  const set = (name: string) => (values: readonly string[]) => view.change({ [name]: values.join(","), group: null });
  return (
    <div className="filter-row">
      <div className="chips" role="group" aria-label="Filters">
        <Chip label="Agent" options={agents} chosen={asList(view.agent)} onChange={set("agent")} />
        <Chip single label="Severity" options={SEVERITIES} chosen={asList(view.severity)} onChange={set("severity")} />
        <Chip label="Kind" options={KINDS} chosen={asList(view.kind)} onChange={set("kind")} />
      </div>
    </div>
  );
}

interface NoGroupsProps {
  readonly tab: Tab;
  readonly filtered: boolean;
  readonly onClear: () => void;
}

const NOTHING: Readonly<Record<Tab, string>> = {
  open: "Nothing is open. Incidents that nobody has dealt with are here while the drift goes on, and for 14 days after it was last seen.",
  acknowledged: "Nothing is acknowledged. Incidents that somebody has seen are here until they are marked, for 14 days.",
  muted: "Nothing is muted.",
  closed: "No incident is marked as right or as a false alarm, or was last seen more than 14 days ago.",
};

function NoGroups({ tab, filtered, onClear }: NoGroupsProps) {
  return (
    <Empty>
      {filtered ? "No incident matches. " : NOTHING[tab]}
      {filtered && (
        <button type="button" className="link-button" onClick={onClear}>
          Clear filters
        </button>
      )}
    </Empty>
  );
}
