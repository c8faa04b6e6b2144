/** Which action follows which: the baseline against the latest runs, as graph, matrix or table. */
import type { ReactNode } from "react";

import { useParam } from "../app/router";
import { ChartTable, TableSwitch } from "../charts/Chart";
import { describeEdge, nameNode, TransitionGraph } from "../charts/TransitionGraph";
import { codeEdge, labelEdge } from "../charts/transitions";
import type { Side } from "../charts/transitions";
import { Segments } from "../components/Choice";
import { Block, Empty, Failure, Loading } from "../components/States";
import { formatCount, formatPlural, formatScore } from "../format";
import { useTransitions } from "./data";
import type { Graph, GraphEdge } from "./data";

const SIDES = [
  { value: "baseline", label: "Baseline" },
  { value: "now", label: "Now" },
  { value: "difference", label: "Difference" },
] as const;

export interface TransitionsCardProps {
  id: string;
  version: string | null;
  task: string | null;
  narrow: boolean;
  asTable: boolean;
  setTable: (on: boolean) => void;
}

export function TransitionsCard({ id, version, task, narrow, asTable, setTable }: TransitionsCardProps): ReactNode {
  const [sideParam, setSide] = useParam("side");
  const [form, setForm] = useParam("form");
  const query = useTransitions(id, version, task);
  const side: Side = sideParam === "baseline" || sideParam === "now" ? sideParam : "difference";
  const data = query.data;
  return (
    <section className="card graph-card" aria-label="Transitions" data-lane="transitions">
      <header className="card-head">
        <h2>Transitions</h2>
        {data && <span className="muted graph-note">last {formatPlural(data.now_runs, "run")} against {formatPlural(data.baseline_runs, "clean run")}</span>}
        <div className="end">
          <Segments label="Compare" options={SIDES} value={side} onChange={(value) => setSide(value === "difference" ? null : value)} />
          {!narrow && (
            <Segments
              label="Form"
              options={[{ value: "graph", label: "Graph" }, { value: "matrix", label: "Matrix" }]}
              value={form === "matrix" ? "matrix" : "graph"}
              onChange={(value) => setForm(value === "graph" ? null : value)}
            />
          )}
          <TableSwitch name="transitions" on={asTable} onChange={setTable} />
        </div>
      </header>
      {!data ? (
        query.error ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : <div className="card-body"><Loading><Block width={700} height={360} /></Loading></div>
      ) : data.edges.length === 0 ? (
        <Empty>No transition is known yet: a baseline is made from clean runs.</Empty>
      ) : asTable ? (
        <EdgeTable data={data} />
      ) : narrow ? (
        <ChangedList data={data} side={side} />
      ) : form === "matrix" ? (
        <Matrix data={data} side={side} />
      ) : (
        <>
          <TransitionGraph nodes={data.nodes} edges={data.edges} side={side} summary={summarize(data)} />
          <Legend side={side} />
        </>
      )}
    </section>
  );
}

/** Return the sentence about all transitions. */
function summarize(data: Graph): string {
  const more = data.edges.filter((edge) => edge.more).length;
  const rarer = data.edges.filter((edge) => edge.rarer).length;
  return `${formatPlural(data.nodes.length, "action")} and ${formatPlural(data.edges.length, "transition")}: ${formatCount(more)} more frequent than the baseline, ${formatCount(rarer)} expected and now rare.`;
}

function Legend({ side }: { side: Side }): ReactNode {
  return (
    <footer className="graph-legend">
      {side === "difference" && (
        <>
          <span className="key"><LineKey code="more" /> more frequent than baseline</span>
          <span className="key"><LineKey code="rarer" /> expected, now rare</span>
        </>
      )}
      <span className="key"><LineKey code="same" /> {side === "difference" ? "as before" : "transition"}</span>
      <span className="muted graph-legend-end">width = probability · size = share of steps</span>
    </footer>
  );
}

function LineKey({ code }: { code: "more" | "rarer" | "same" }): ReactNode {
  return (
    <svg className={`edge edge-${code}`} width="20" height="6" aria-hidden="true">
      <path d="M0 3h20" strokeWidth={code === "rarer" ? 2 : 3} />
    </svg>
  );
}

function isChanged(edge: GraphEdge): boolean {
  return codeEdge(edge) !== "same";
}

/** The graph at 390 px: the transitions that changed, or all of one side. */
function ChangedList({ data, side }: { data: Graph; side: Side }): ReactNode {
  const edges = side === "difference" ? data.edges.filter(isChanged) : data.edges;
  if (edges.length === 0) return <Empty>No transition differs from the baseline.</Empty>;
  return (
    <ul className="changed-list">
      {edges.slice(0, 40).map((edge) => (
        <li key={`${edge.from}\n${edge.to}`} title={describeEdge(edge, side)}>
          <LineKey code={side === "difference" ? codeEdge(edge) : "same"} />
          <span className="ellipsis">{nameNode(edge.from)} → {nameNode(edge.to)}</span>
          <b>{labelEdge(edge, side)}</b>
        </li>
      ))}
    </ul>
  );
}

/** Rows from, columns to, with the codes of the graph and the number. */
function Matrix({ data, side }: { data: Graph; side: Side }): ReactNode {
  const edges = new Map(data.edges.map((edge) => [JSON.stringify([edge.from, edge.to]), edge]));
  const froms = data.nodes.filter((node) => data.edges.some((edge) => edge.from === node.name));
  const tos = data.nodes.filter((node) => data.edges.some((edge) => edge.to === node.name));
  return (
    // A region that scrolls must be reachable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="transition-matrix" tabIndex={0} role="region" aria-label={`Transitions: ${summarize(data)}`}>
      <table>
        <caption className="visually-hidden">Rows are actions, columns what follows them</caption>
        <thead>
          <tr>
            <th scope="col" className="muted">from, to</th>
            {tos.map((to) => <th key={to.name} scope="col"><span className="ellipsis" title={nameNode(to.name)}>{nameNode(to.name)}</span></th>)}
          </tr>
        </thead>
        <tbody>
          {froms.map((from) => (
            <tr key={from.name}>
              <th scope="row"><span className="ellipsis" title={nameNode(from.name)}>{nameNode(from.name)}</span></th>
              {tos.map((to) => {
                const edge = edges.get(JSON.stringify([from.name, to.name]));
                const code = edge && side === "difference" ? codeEdge(edge) : "same";
                return <td key={to.name} className={edge ? `cell-${code}` : ""} title={edge && describeEdge(edge, side)}>{edge ? labelEdge(edge, side) : ""}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function EdgeTable({ data }: { data: Graph }): ReactNode {
  return (
    <ChartTable
      caption={summarize(data)}
      head={["From", "To", "Baseline", "Now", "Times before", "Times now", "Difference"]}
      words={[0, 1, 6]}
      rows={data.edges.map((edge) => [
        nameNode(edge.from),
        nameNode(edge.to),
        edge.baseline === null ? "not seen" : formatScore(edge.baseline),
        edge.now === null ? "not seen" : formatScore(edge.now),
        formatCount(edge.baseline_count),
        formatCount(edge.now_count),
        edge.more ? "more frequent" : edge.rarer ? "now rare" : "as before",
      ])}
    />
  );
}
