import { useRef } from "react";

import type { AgentRow } from "../api/types";
import { useKeys } from "../app/keyboard";
import { agentPath, href, navigate, useParam } from "../app/router";
import { Sparkline } from "../charts/Sparkline";
import { BudgetBar } from "../components/Bars";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Chip } from "../components/Choice";
import { Glyph, SeverityCounts } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { Empty, LoadingRows } from "../components/States";
import { useNow } from "../components/useNow";
import { useRowCursor } from "../components/useRowCursor";
import { UNKNOWN, formatAgo, formatCount, formatMoney, formatRange, formatScore, formatTime } from "../format";

const STATES = [
  { value: "drifting", label: "Drifting" },
  { value: "unreviewed", label: "To review" },
  { value: "learning", label: "Learning" },
  { value: "silent", label: "Silent" },
  { value: "healthy", label: "Healthy" },
];

function open(agent: AgentRow | undefined): void {
  if (agent) navigate(agentPath(agent.key));
}

interface AgentsTableProps {
  readonly agents: readonly AgentRow[];
  readonly total: number;
  /** How many days runs and spend are summed over. */
  readonly days?: number;
}

/** One row per agent, worst first as the server sends them. A row opens the agent. */
export function AgentsTable({ agents, total, days = 1 }: AgentsTableProps) {
  const [chosen, setChosen] = useParam("state");
  const [view, setView] = useParam("view");
  const states = chosen?.split(",").filter(Boolean) ?? [];
  const shown = states.length ? agents.filter((agent) => states.includes(agent.state)) : agents;
  const body = useRef<HTMLTableSectionElement>(null);
  const cursor = useRowCursor(shown.length, {
    onOpen: (index) => open(shown[index]),
    onMove: (index) => body.current?.rows[index]?.scrollIntoView({ block: "nearest" }),
  });
  const swapView = () => setView(view === "table" ? null : "table");
  useKeys({ t: swapView });
  return (
    <Card
      title="Agents"
      note={total > agents.length ? `${formatCount(agents.length)} of ${formatCount(total)}` : formatCount(total)}
      end={
        <>
          <Chip label="State" options={STATES} chosen={states} onChange={(next) => setChosen(next.join(",") || null)} />
          <Button
            kind="quiet"
            small
            icon
            aria-pressed={view === "table"}
            aria-label="Drift as numbers"
            title="Drift as numbers"
            aria-keyshortcuts="t"
            onClick={swapView}
          >
            <Icon name="table" />
          </Button>
        </>
      }
    >
      {shown.length === 0 ? (
        <Empty>
          No agent matches.{" "}
          <button type="button" className="link-button" onClick={() => setChosen(null)}>
            Clear filters
          </button>
        </Empty>
      ) : (
        <div className="table-wrap">
          <table className="table agents">
            <caption className="visually-hidden">Agents with their state, drift, incidents and spend</caption>
            <thead>
              <tr>
                {listHeads(days).map((head, column) => (
                  <th key={head} scope="col" className={NUMBERS.has(column) ? "number" : undefined}>
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody ref={body}>
              {shown.map((agent, index) => (
                <Row
                  key={agent.key}
                  agent={agent}
                  days={days}
                  numbers={view === "table"}
                  selected={index === cursor.at}
                  onOpen={() => open(agent)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** The places of the columns of numbers. */
const NUMBERS: ReadonlySet<number> = new Set([2, 4, 6, 7]);

function listHeads(days: number): readonly string[] {
  const [runs, spend] = days === 1 ? ["Runs today", "Spend today of budget"] : [`Runs, ${days} days`, `Spend, ${days} days`];
  return ["State", "Agent", runs!, "Drift, 7 days over its band", "Now", "Open incidents", spend!, "Last run"];
}

/** The shape of the table until the agents are known. */
export function LoadingAgents() {
  return (
    <Card title="Agents">
      <LoadingRows rows={5} widths={[72, 140, 40, 148, 60, 60, 120, 56]} heads={listHeads(1)} rowHeight={53} />
    </Card>
  );
}

interface RowProps {
  readonly agent: AgentRow;
  readonly days: number;
  readonly numbers: boolean;
  readonly selected: boolean;
  readonly onOpen: () => void;
}

function Row({ agent, days, numbers, selected, onOpen }: RowProps) {
  const now = useNow();
  const { spend, runs } = agent;
  const learning = agent.learnt_runs < agent.required_runs;
  return (
    <tr className={`openable ${selected ? "row-selected" : ""}`} onClick={onOpen}>
      <td className="a-state">
        <Glyph state={agent.state} />
        <div className="muted small a-reason" title={agent.reason}>{agent.reason}</div>
      </td>
      <td className="a-name">
        <a className="row-link" href={href(agentPath(agent.key))} onClick={(event) => event.stopPropagation()}>
          <HostileText text={agent.name} oneLine />
        </a>{" "}
        <span className="muted">
          <HostileText text={agent.version} oneLine />
        </span>
      </td>
      <td className="number a-runs">
        <div className="strong">{formatCount(runs.value)}<span className="narrow-only">{runs.value === 1 ? " run" : " runs"}</span></div>
        <div className="muted small">
          {agent.running
            ? `${formatCount(agent.running)} running`
            : runs.normal
              ? `normal ${formatRange(runs.normal.p5, runs.normal.p95)}`
              : " "}
        </div>
      </td>
      <td className="a-drift">
        {numbers ? (
          <span className="small">{agent.drift_days.map((day) => formatScore(day)).join("  ")}</span>
        ) : (
          <Sparkline values={agent.drift_days} normal={agent.drift_p95} />
        )}
      </td>
      <td className="number a-now">
        <div>{formatScore(agent.drift_now)}</div>
        <div className="muted small">
          {agent.drift_p95 !== null ? `normal ≤ ${formatScore(agent.drift_p95)}` : learning ? "learning" : "not known"}
        </div>
      </td>
      <td className="a-incidents">
        <SeverityCounts counts={agent.open_incidents} />
      </td>
      <td className="number a-spend">
        <span className="spend">
          {spend.limit !== null && spend.value !== null && <BudgetBar spent={spend.value} limit={spend.limit} />}
          <span>
            <strong>{formatMoney(spend.value)}</strong>
            {spend.limit !== null && <span className="muted"> of {formatMoney(spend.limit)}</span>}
            {days === 1 && spend.limit === null && spend.value !== null && <span className="muted"> no budget</span>}
          </span>
        </span>
      </td>
      <td className="number muted a-last" title={agent.last_at ? formatTime(agent.last_at, now) : undefined}>
        {agent.last_run === null ? UNKNOWN : formatAgo(agent.last_at, now)}
      </td>
    </tr>
  );
}
