import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";

import type { Levels, RunRow } from "../api/types";
import { href, navigate, runPath } from "../app/router";
import { Badge, ResponseBadge } from "../components/Badge";
import { NotchedBar } from "../components/Bars";
import { Glyph, Severity } from "../components/Glyph";
import { HostileText, escapeHidden } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { useRowCursor } from "../components/useRowCursor";
import { UNKNOWN, formatAgo, formatCapped, formatCount, formatDuration, formatMoney, formatScore, formatTime } from "../format";

const ROW_PX = 33;
const NARROW_ROW_PX = 86;
/** So many rows before the end the next page is asked for. */
const AHEAD = 15;

interface RunRowsProps {
  readonly rows: readonly RunRow[];
  /** Scores from which responses are advised. */
  readonly levels: Levels;
  readonly total: number;
  readonly stale: boolean;
  readonly hasMore: boolean;
  readonly loading: boolean;
  readonly onEnd: () => void;
}

/** The rows that are in sight, however long the list is. */
export function RunRows({ rows, levels, total, stale, hasMore, loading, onEnd }: RunRowsProps) {
  const narrow = useNarrow();
  const list = useRef<HTMLDivElement>(null);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => setOffset(list.current?.offsetTop ?? 0), [narrow]);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => (narrow ? NARROW_ROW_PX : ROW_PX),
    overscan: 12,
    scrollMargin: offset,
    getItemKey: (index) => rows[index]?.key ?? index,
  });
  useEffect(() => virtual.measure(), [narrow, virtual]);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= rows.length - AHEAD) onEnd();
  }, [hasMore, last, rows.length, onEnd]);
  const cursor = useRowCursor(rows.length, {
    onOpen: (index) => open(rows[index]),
    onMove: (index) => virtual.scrollToIndex(index, { align: "auto" }),
  });
  return (
    <div className={`card runs ${stale ? "stale" : ""}`} role="table" aria-label="Runs, newest first" aria-rowcount={hasMore ? -1 : rows.length + 1}>
      <div role="rowgroup">
        <div className="run-row run-head" role="row" aria-rowindex={1}>
          {HEADS.map((head) => (
            <span key={head} role="columnheader" className={NUMBERS.has(head) ? "number" : undefined}>
              {head}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" ref={list} className="run-list" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const run = rows[item.index];
          return run ? (
            <Row
              key={item.key}
              run={run}
              levels={levels}
              index={item.index}
              top={item.start - offset}
              selected={item.index === cursor.at}
            />
          ) : null;
        })}
      </div>
      <div className="list-foot muted small">
        <span>
          {formatCount(rows.length)} of {formatCapped(Math.max(total, rows.length))}
        </span>
        <span>{loading ? "loading older runs" : hasMore ? "older runs load as you scroll" : "no older runs"}</span>
      </div>
    </div>
  );
}

export const HEADS = ["State", "Goal", "Agent", "Peak drift", "Loop", "Response", "Steps", "Tokens", "Cost", "Duration", "Started"];
const NUMBERS = new Set(["Steps", "Tokens", "Cost", "Duration", "Started"]);

function open(run: RunRow | undefined): void {
  if (run) navigate(runPath(run.key));
}

interface RowProps {
  readonly run: RunRow;
  readonly levels: Levels;
  readonly index: number;
  readonly top: number;
  readonly selected: boolean;
}

function Row({ run, levels, index, top, selected }: RowProps) {
  const now = useNow();
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the link in the row has the keys
    <div
      className={`run-row openable ${selected ? "row-selected" : ""}`}
      role="row"
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${top}px)` }}
      tabIndex={-1}
      onClick={() => open(run)}
    >
      <span role="cell" className="r-state">
        <Glyph state={run.state} />
      </span>
      <span role="cell" className="r-goal">
        <a className="row-goal" href={href(runPath(run.key))} onClick={(event) => event.stopPropagation()}>
          <HostileText text={run.goal || run.run_id} oneLine />
        </a>
      </span>
      <span role="cell" className="r-agent ellipsis">
        <HostileText text={run.agent.name} oneLine />{" "}
        <span className="muted">
          <HostileText text={run.version} oneLine />
        </span>
      </span>
      <span role="cell" className="r-peak">
        <Peak run={run} levels={levels} />
      </span>
      <span role="cell" className="r-loop">
        <Loop run={run} />
      </span>
      <span role="cell" className="r-response">
        {run.response ? (
          <>
            <ResponseBadge word={run.response.response} /> <Outcome outcome={run.response.outcome} />
          </>
        ) : (
          <span className="muted wide-only">{UNKNOWN}</span>
        )}
      </span>
      <span role="cell" className={`number r-steps ${run.cost_usd === null ? "r-steps-alone" : ""}`}>
        {formatCount(run.steps)}
        <span className="narrow-only"> steps{run.cost_usd === null ? "" : " ·"}</span>
      </span>
      <span role="cell" className="number r-tokens">{formatCount(run.tokens)}</span>
      <span role="cell" className={`number r-cost ${run.cost_usd === null ? "wide-only" : ""}`}>{formatMoney(run.cost_usd)}</span>
      <span role="cell" className="number r-duration">{formatDuration(run.duration_s)}</span>
      <span role="cell" className="number muted r-started" title={formatTime(run.started_at, now)}>
        {formatAgo(run.started_at, now)}
      </span>
    </div>
  );
}

/** The highest drift score, with a notch at each level, and the worst incident. */
function Peak({ run, levels }: { readonly run: RunRow; readonly levels: Levels }) {
  if (run.peak === null) return <span className="muted">not known</span>;
  const high = run.peak >= levels.remind;
  return (
    <>
      <NotchedBar share={run.peak} tone={high ? "spent-drift" : "spent"} notches={[levels.remind, levels.replan, levels.rollback, levels.stop]} width={72} />
      <strong className={high ? "drift-text" : undefined}>{formatScore(run.peak)}</strong>
      {run.top_severity && <Severity severity={run.top_severity} bare />}
    </>
  );
}

function Loop({ run }: { readonly run: RunRow }) {
  if (!run.loop) return <span className="muted wide-only">{UNKNOWN}</span>;
  const { tools, count, declared } = run.loop;
  const words = `${escapeHidden(tools.join(" → "))} ×${formatCount(count)}`;
  return (
    <Badge tone={declared ? "plain" : "drift"} title={declared ? `${words}, declared` : words}>
      <span className="ellipsis">{declared ? "poll" : escapeHidden(tools.join(" → "))}</span> ×{formatCount(count)}
    </Badge>
  );
}

const TONES: Readonly<Record<string, string>> = { worked: "ok-text", worse: "bad-text", not_carried_out: "warn-text" };

function Outcome({ outcome }: { readonly outcome: string }) {
  return <span className={`small ${TONES[outcome] ?? "muted"}`}>{outcome.replaceAll("_", " ")}</span>;
}

const narrowQuery = window.matchMedia("(max-width: 640px)");

function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      narrowQuery.addEventListener("change", listener);
      return () => narrowQuery.removeEventListener("change", listener);
    },
    () => narrowQuery.matches,
  );
}
