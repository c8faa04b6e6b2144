/** Steps of the run, newest first, as virtual rows; pages are loaded where the list is looked at. */
import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { StepPage, StepRow } from "../api/types";
import { StepCell } from "../charts/StepCell";
import { HostileText } from "../components/HostileText";
import { Failure } from "../components/States";
import { formatCapped, formatClock, formatCount, formatScore } from "../format";
import { readResult } from "./diff";

const ROW_HEIGHT = 33;
const PAGE = 100;
const FILTERS = ["failed", "repeated", "responses"] as const;
type Only = (typeof FILTERS)[number];

export interface StepsTableProps {
  id: string;
  steps: number;
  selected: number | null;
  select: (step: number) => void;
}

export const StepsTable = memo(function StepsTable({ id, steps, selected, select }: StepsTableProps): ReactNode {
  const [only, setOnly] = useState<Only | null>(null);
  const newest = usePages(id, [Math.floor(Math.max(0, steps - 1) / PAGE)], steps);
  const counts = new Map(newest.first?.counts.map((each) => [each.name, each.count]));
  return (
    <section className="card" aria-label="Steps">
      <header className="card-head">
        <h2>Steps</h2>
        <span className="muted">{formatCount(steps)}</span>
        <div className="end chip-row">
          {FILTERS.map((name) => (
            <button
              key={name}
              type="button"
              className={`chip ${only === name ? "chip-on" : ""}`}
              aria-pressed={only === name}
              onClick={() => setOnly(only === name ? null : name)}
            >
              {name.charAt(0).toUpperCase() + name.slice(1)}
              {counts.has(name) && ` ${formatCapped(counts.get(name) ?? 0)}`}
            </button>
          ))}
        </div>
      </header>
      {only ? (
        <FilteredRows key={only} id={id} only={only} selected={selected} select={select} />
      ) : (
        <AllRows id={id} steps={steps} selected={selected} select={select} />
      )}
    </section>
  );
});

/** Load pages of 100 steps; page n holds the steps from 100 n + 1. */
function usePages(id: string, pages: readonly number[], steps: number): { rows: Map<number, StepRow>; first: StepPage | undefined; error: unknown; retry: () => void } {
  const results = useQueries({
    queries: pages.map((page) => ({
      queryKey: keys.runPart(id, "steps", { page, ...((page + 1) * PAGE >= steps ? { steps } : {}) }),
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get<StepPage>(`/runs/${encodeURIComponent(id)}/steps`, { before: (page + 1) * PAGE + 1, limit: PAGE }, signal),
      enabled: steps > 0,
    })),
  });
  const rows = new Map<number, StepRow>();
  for (const result of results) for (const row of result.data?.steps ?? []) rows.set(row.step, row);
  const failed = results.find((result) => result.error !== null);
  return { rows, first: results[0]?.data, error: failed?.error, retry: () => void failed?.refetch() };
}

function AllRows({ id, steps, selected, select }: StepsTableProps): ReactNode {
  const list = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: steps, getScrollElement: () => list.current, estimateSize: () => ROW_HEIGHT, overscan: 8, scrollPaddingEnd: ROW_HEIGHT });
  const items = virtual.getVirtualItems();
  const top = Math.max(0, steps - (items[0]?.index ?? 0) - 1);
  const bottom = Math.max(0, steps - (items.at(-1)?.index ?? 0) - 1);
  const pages: number[] = [];
  for (let page = Math.floor(bottom / PAGE); page <= Math.floor(top / PAGE); page += 1) pages.push(page);
  const { rows, error, retry } = usePages(id, pages, steps);
  const followed = useRef<number | null>(null);
  useEffect(() => {
    // Follow the selection once: a new step at the end must not move the list.
    if (selected === followed.current) return;
    followed.current = selected;
    if (selected !== null && selected <= steps) virtual.scrollToIndex(steps - selected, { align: "auto" });
  }, [selected, steps, virtual]);
  if (error && rows.size === 0) return <Failure error={error} onRetry={retry} />;
  return (
    <Rows list={list} height={virtual.getTotalSize()} count={steps}>
      {items.map((item) => {
        const step = steps - item.index;
        return <Row key={step} step={step} row={rows.get(step)} index={item.index} top={item.start} selected={step === selected} select={select} />;
      })}
    </Rows>
  );
}

function FilteredRows({ id, only, selected, select }: { id: string; only: Only; selected: number | null; select: (step: number) => void }): ReactNode {
  const list = useRef<HTMLDivElement>(null);
  const query = useInfiniteQuery({
    queryKey: keys.runPart(id, "steps", { only }),
    initialPageParam: null as number | null,
    queryFn: ({ pageParam, signal }) =>
      get<StepPage>(`/runs/${encodeURIComponent(id)}/steps`, { before: pageParam, only, limit: PAGE }, signal),
    getNextPageParam: (last) => last.next,
  });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.steps) ?? [], [query.data]);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => list.current, estimateSize: () => ROW_HEIGHT, overscan: 8 });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  useEffect(() => {
    if (last >= rows.length - 10 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, rows.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data && rows.length === 0) return <p className="empty">No step matches.</p>;
  return (
    <Rows list={list} height={virtual.getTotalSize()} count={rows.length}>
      {items.map((item) => {
        const row = rows[item.index];
        return row && <Row key={row.step} step={row.step} row={row} index={item.index} top={item.start} selected={row.step === selected} select={select} />;
      })}
    </Rows>
  );
}

interface RowsProps {
  list: React.RefObject<HTMLDivElement | null>;
  height: number;
  count: number;
  children: ReactNode;
}

function Rows({ list, height, count, children }: RowsProps): ReactNode {
  return (
    // The list scrolls, so it must be reachable by keyboard.
    <div ref={list} className="steps-list" role="grid" aria-label="Steps, newest first" aria-rowcount={count + 1} tabIndex={0}>
      <div className="steps-row steps-head" role="row" aria-rowindex={1}>
        <span role="columnheader" className="number">#</span>
        <span role="columnheader"><span className="visually-hidden">Mark</span></span>
        <span role="columnheader">Step</span>
        <span role="columnheader" className="wide-only">Arguments</span>
        <span role="columnheader">Result</span>
        <span role="columnheader" className="number wide-only">Tokens</span>
        <span role="columnheader" className="number">Drift</span>
        <span role="columnheader" className="number wide-only">Time</span>
      </div>
      <div className="steps-body" role="rowgroup" style={{ height }}>
        {children}
      </div>
    </div>
  );
}

interface RowProps {
  step: number;
  row: StepRow | undefined;
  index: number;
  top: number;
  selected: boolean;
  select: (step: number) => void;
}

const Row = memo(function Row({ step, row, index, top, selected, select }: RowProps): ReactNode {
  return (
    // Keys move the selection for the whole page, so that a row needs no tab stop of its own.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selected}
      className="steps-row openable"
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => select(step)}
    >
      <span role="gridcell" className="number muted">{formatCount(step)}</span>
      <span role="gridcell">{row && <StepCell kind={row.kind} tool={row.tool} />}</span>
      <span role="gridcell" className="step-name">
        {row ? <HostileText text={row.name} oneLine mono={row.kind === "tool"} /> : <i className="block" />}
        {row?.response && <span className="step-response">▲ {row.response}</span>}
      </span>
      <span role="gridcell" className="wide-only muted">{row && <HostileText text={row.arguments} oneLine mono />}</span>
      <span role="gridcell" className="step-result">
        {row && <Signs row={row} />}
        {row && <HostileText text={readResult(row.result)} oneLine mono />}
      </span>
      <span role="gridcell" className="number wide-only">{row?.tokens ? formatCount(row.tokens) : "–"}</span>
      <span role="gridcell" className="number">{formatScore(row?.score)}</span>
      <span role="gridcell" className="number wide-only muted">{row && formatClock(row.at)}</span>
    </div>
  );
});

/** × failed, = same result as the last identical call, ≠ changed. */
function Signs({ row }: { row: StepRow }): ReactNode {
  return (
    <>
      {row.failed && <b className="bad-text" title="failed">×</b>}
      {row.same_result === 1 && <b className="muted" title={`same result as step ${formatCount(row.last_same)}`}>=</b>}
      {row.same_result === 0 && row.last_same > 0 && <b title={`result changed since step ${formatCount(row.last_same)}`}>≠</b>}
    </>
  );
}
