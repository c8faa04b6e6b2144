/** The recurrence matrix of the selection, with a sentence that reads it. */
import { memo, useContext, useMemo } from "react";
import type { ReactNode } from "react";

import type { Figure, Recurrence, ToolUse } from "../api/types";
import { ChartStop, ChartTable, TableSwitch } from "../charts/Chart";
import { chooseInterval, clamp } from "../charts/axis";
import type { Span } from "../charts/axis";
import { toolLetter } from "../charts/marks";
import { buildCells, CELL_CALL, CELL_RESULT, CELL_TOOL, cellPaths, countPairs } from "../charts/recurrence";
import { Card } from "../components/Card";
import { escapeHidden, HostileText } from "../components/HostileText";
import { Block, Failure, Loading } from "../components/States";
import { formatCount, formatPercent, formatPlural, formatRange, formatSteps } from "../format";
import { CursorContext, useCursorStep } from "./cursor";
import { useRecurrence } from "./data";

const SIDE = 232;
const GUTTER = 34;

export interface RecurrenceCardProps {
  id: string;
  selection: Span;
  /** The selection is not known yet. */
  awaited: boolean;
  steps: number;
  tools: readonly ToolUse[];
  repeatedShare: Figure;
  asTable: boolean;
  setTable: (on: boolean) => void;
  select: (step: number) => void;
}

export const RecurrenceCard = memo(function RecurrenceCard(props: RecurrenceCardProps): ReactNode {
  const query = useRecurrence(props.id, props.awaited ? null : props.selection);
  return (
    <Card
      title="Recurrence"
      note={props.awaited ? "" : formatSteps(props.selection.from, props.selection.to)}
      end={<TableSwitch name="recurrence" on={props.asTable} onChange={props.setTable} />}
      className="recurrence-card"
    >
      <div data-lane="recurrence">
        {query.data ? (
          <Matrix {...props} recurrence={query.data} />
        ) : query.error ? (
          <Failure error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <div className="card-body"><Loading><Block width={SIDE} height={SIDE} /></Loading></div>
        )}
      </div>
    </Card>
  );
});

interface MatrixProps extends RecurrenceCardProps {
  recurrence: Recurrence;
}

function Matrix(props: MatrixProps): ReactNode {
  const { recurrence, tools, asTable } = props;
  const count = recurrence.step.length;
  const cells = useMemo(() => buildCells(recurrence), [recurrence]);
  const paths = useMemo(() => cellPaths(cells, count, SIDE), [cells, count]);
  if (asTable) return <MatrixTable recurrence={recurrence} tools={tools} />;
  return (
    <div className="card-body recurrence">
      <MatrixDrawing {...props} paths={paths} />
      <Reading {...props} toolPairs={recurrence.per_entry === 1 ? countPairs(cells, count, CELL_TOOL) : null} />
    </div>
  );
}

function MatrixDrawing({ recurrence, paths, select, steps }: MatrixProps & { paths: readonly string[] }): ReactNode {
  const { first, last, per_entry: per } = recurrence;
  const count = Math.max(1, recurrence.step.length);
  const cursor = useCursorStep();
  const { hover } = useContext(CursorContext);
  const pitch = SIDE / count;
  const place = (step: number): number => (Math.floor((step - first) / per) + 0.5) * pitch;
  const interval = chooseInterval(pitch / per, 26);
  const labels: number[] = [];
  for (let step = Math.ceil(first / interval) * interval; step <= last; step += interval) labels.push(step);
  const inside = cursor !== null && cursor >= first && cursor <= last;
  const at = inside ? place(cursor) : 0;
  const value = inside ? cursor : first;
  const stepUnder = (x: number): number => clamp(first + Math.floor((x - GUTTER) / pitch) * per, first, last);
  return (
    <ChartStop
      className="matrix"
      label="Recurrence"
      summary={recurrence.sentence}
      min={1}
      max={steps}
      value={cursor ?? value}
      text={describeEntry(recurrence, value)}
      at={inside ? { x: GUTTER + at, y: SIDE } : null}
      width={SIDE + GUTTER}
      onMove={select}
      onPoint={(point) => hover(point && stepUnder(point.x))}
      onPress={() => inside && select(cursor)}
    >
      <svg className="chart" width={SIDE + GUTTER} height={SIDE + 22} viewBox={`0 0 ${SIDE + GUTTER} ${SIDE + 22}`} aria-hidden="true">
        <g transform={`translate(${GUTTER} 0)`}>
          <path className="matrix-tool" d={paths[CELL_TOOL]} />
          <path className="matrix-call" d={paths[CELL_CALL]} />
          <path className="matrix-result" d={paths[CELL_RESULT]} />
          {inside && <path className="matrix-cross" d={`M${at} 0V${SIDE}M0 ${at}H${SIDE}`} />}
          {labels.map((step) => (
            <g key={step}>
              <text className="end-anchor" x={-6} y={place(step) + 4}>{formatCount(step)}</text>
              <text className="middle-anchor" x={place(step)} y={SIDE + 15}>{formatCount(step)}</text>
            </g>
          ))}
        </g>
      </svg>
    </ChartStop>
  );
}

function describeEntry(recurrence: Recurrence, step: number): string {
  const index = Math.floor((step - recurrence.first) / recurrence.per_entry);
  const call = recurrence.call[index] ?? -1;
  if (call < 0) return `Step ${formatCount(step)}: no tool call.`;
  const same = recurrence.step.filter((_, other) => other !== index && recurrence.call[other] === call);
  if (same.length === 0) return `Step ${formatCount(step)}: this call occurs once in the selection.`;
  const named = same.slice(0, 5).map(formatCount).join(", ");
  return `Step ${formatCount(step)}: same call as ${formatPlural(same.length, "step")}: ${named}${same.length > 5 ? " and more" : ""}.`;
}

function Reading({ recurrence, tools, repeatedShare, toolPairs }: MatrixProps & { toolPairs: number | null }): ReactNode {
  const { same_result_pairs: same, same_call_pairs: all } = recurrence;
  const { normal } = repeatedShare;
  return (
    <div className="reading">
      <p className="strong"><HostileText text={recurrence.sentence} whole /></p>
      <p className="muted">
        An orange square off the diagonal is the same call again. Parallel diagonals are a cycle; a grid is a single call
        repeated.{recurrence.per_entry > 1 && ` One square stands for ${formatCount(recurrence.per_entry)} steps.`}
      </p>
      <ul className="matrix-keys">
        <PairKey look="matrix-result" words="same call, same result" pairs={same} />
        <PairKey look="matrix-call" words="same call, result changed" pairs={Math.max(0, all - same)} />
        <PairKey look="matrix-tool" words="same tool, other arguments" pairs={toolPairs} />
      </ul>
      <dl className="rows">
        <div>
          <dt>Repeated share</dt>
          <dd className="strong">{formatPercent(recurrence.repeated_share)}</dd>
          <dd className="muted">{normal ? `normal ${formatRange(normal.p5 * 100, normal.p95 * 100)} %` : "normal not known"}</dd>
        </div>
        <div>
          <dt>Period</dt>
          <dd className="strong">{recurrence.period === null ? "none" : formatPlural(recurrence.period, "call")}</dd>
          <dd className="muted">{describeCycle(recurrence, tools)}</dd>
        </div>
      </dl>
    </div>
  );
}

/** Return the calls of one period in letters: "A, B". */
function describeCycle(recurrence: Recurrence, tools: readonly ToolUse[]): string {
  const { period, per_entry: per } = recurrence;
  const calls = recurrence.tool.filter((place) => tools[place] !== undefined);
  if (period === null || per !== 1 || period > 8 || calls.length < period) return "";
  return calls.slice(-period).map(toolLetter).join(", ");
}

function PairKey({ look, words, pairs }: { look: string; words: string; pairs: number | null }): ReactNode {
  return (
    <li>
      <svg className="swatch" width="12" height="12" aria-hidden="true"><rect className={look} width="12" height="12" rx="1" /></svg>
      {words} <span className="muted">{pairs === null ? "" : formatPlural(pairs, "pair")}</span>
    </li>
  );
}

function MatrixTable({ recurrence, tools }: { recurrence: Recurrence; tools: readonly ToolUse[] }): ReactNode {
  const groups = new Map<number, number[]>();
  recurrence.call.forEach((call, index) => {
    if (call >= 0) groups.set(call, [...(groups.get(call) ?? []), index]);
  });
  const rows = [...groups.values()]
    .filter((places) => places.length > 1)
    .toSorted((a, b) => b.length - a.length)
    .map((places) => [
      escapeHidden(tools[recurrence.tool[places[0]!]!]?.name ?? ""),
      formatCount(places.length),
      formatCount(new Set(places.map((place) => recurrence.result[place])).size),
      places.slice(0, 20).map((place) => formatCount(recurrence.step[place])).join(", ") + (places.length > 20 ? " …" : ""),
    ]);
  if (rows.length === 0) return <p className="empty">No call repeats in the selection.</p>;
  return <ChartTable caption="Calls that repeat in the selection" head={["Tool", "Times", "Different results", "Steps"]} words={[0, 3]} rows={rows} />;
}
