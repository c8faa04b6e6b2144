/** One agent: how it works, what is normal for it, what it spends. */
import { useMemo, useSyncExternalStore } from "react";
import type { ReactNode } from "react";

import type { AgentDetail, Baseline } from "../api/types";
import { useKeys } from "../app/keyboard";
import type { PageProps } from "../app/router";
import { href, useLocation } from "../app/router";
import { Card } from "../components/Card";
import { Glyph } from "../components/Glyph";
import { escapeHidden, HostileText } from "../components/HostileText";
import { Block, Failure, LastGood, Loading } from "../components/States";
import { Trail } from "../run/Trail";
import { changeTables, readTables } from "../run/address";
import { changeView } from "../run/view";
import "./agent.css";
import { BaselineCard, nameBaseline } from "./BaselineCard";
import { BudgetCard } from "./BudgetCard";
import { useAgent, useAgentActions, useMetrics } from "./data";
import { DeclarationsCard } from "./DeclarationsCard";
import { MetricsCard } from "./MetricsCard";
import { TransitionsCard } from "./TransitionsCard";

const CHARTS = ["transitions", "days", "metrics"] as const;
const NARROW = matchMedia("(max-width: 640px)");

function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      NARROW.addEventListener("change", listener);
      return () => NARROW.removeEventListener("change", listener);
    },
    () => NARROW.matches,
  );
}

export default function AgentPage({ id }: PageProps): ReactNode {
  const agent = useAgent(id);
  if (!agent.data) {
    if (agent.error) return <Failure error={agent.error} onRetry={() => void agent.refetch()} />;
    return <AgentShape />;
  }
  return <LastGood query={agent}><AgentBody id={id} detail={agent.data} /></LastGood>;
}

function AgentShape(): ReactNode {
  return (
    <Loading>
      <div className="page-stack">
        <Block width={240} height={24} />
        <div className="agent-columns">
          <Card title="Transitions" padded><Block width={700} height={400} /></Card>
          <div className="agent-side">
            {["Baseline", "Tool declarations", "Budget by day"].map((title) => (
              <Card key={title} title={title} padded><Block width={320} height={64} /></Card>
            ))}
          </div>
        </div>
        <MetricsShape />
      </div>
    </Loading>
  );
}

function MetricsShape(): ReactNode {
  return <Card title="Against normal" padded><Loading><Block width={900} height={240} /></Loading></Card>;
}

function AgentBody({ id, detail }: { id: string; detail: AgentDetail }): ReactNode {
  const { params } = useLocation();
  const narrow = useNarrow();
  const metrics = useMetrics(id);
  const actions = useAgentActions(id);
  const tables = useMemo(() => readTables(params.get("view"), params.get("charts"), CHARTS), [params]);
  const setTable = (name: string) => (on: boolean) => changeView(changeTables(tables, name, on, CHARTS));
  const baseline = chooseBaseline(detail.baselines, params.get("version"), params.get("task"));
  useKeys({
    t: () => {
      const name = document.activeElement?.closest("[data-lane]")?.getAttribute("data-lane");
      if (name) setTable(name)(!tables.has(name));
    },
  });
  const { agent } = detail;
  return (
    <>
      <header className="agent-header">
        <Trail>
          <a href={href("/agents")}>Agents</a>
          <span className="ellipsis">{escapeHidden(agent.name)}</span>
        </Trail>
        <div className="page-head">
          <h1><HostileText text={agent.name} oneLine /></h1>
          {agent.version && <span className="muted">{escapeHidden(agent.version)}</span>}
          <Glyph state={agent.state} {...(agent.state === "learning" ? { word: `Learning ${agent.learnt_runs}/${agent.required_runs}` } : {})} />
          {agent.state !== "learning" && <span className="muted">{escapeHidden(agent.reason)}</span>}
          {detail.baselines.length > 1 && <div className="end"><BaselineChoice baselines={detail.baselines} chosen={baseline} /></div>}
        </div>
      </header>
      <div className="agent-columns">
        <TransitionsCard id={id} version={baseline?.version ?? null} task={baseline?.task_type ?? null} narrow={narrow} asTable={tables.has("transitions")} setTable={setTable("transitions")} />
        <div className="agent-side">
          <BaselineCard agent={agent.name} baseline={baseline} runs={metrics.data?.metrics[0]?.points ?? []} actions={actions} />
          <DeclarationsCard agent={agent.key} declarations={detail.declarations} />
          <BudgetCard days={detail.days} asTable={tables.has("days")} setTable={setTable("days")} />
        </div>
      </div>
      {metrics.data ? (
        <MetricsCard metrics={metrics.data.metrics} asTable={tables.has("metrics")} setTable={setTable("metrics")} />
      ) : metrics.error ? (
        <Failure error={metrics.error} onRetry={() => void metrics.refetch()} />
      ) : (
        <MetricsShape />
      )}
    </>
  );
}

/** Return the baseline asked for, else the newest. */
function chooseBaseline(baselines: readonly Baseline[], version: string | null, task: string | null): Baseline | null {
  const asked = baselines.find((each) => each.version === version && each.task_type === (task ?? ""));
  return asked ?? baselines[0] ?? null;
}

function BaselineChoice({ baselines, chosen }: { baselines: readonly Baseline[]; chosen: Baseline | null }): ReactNode {
  return (
    <label className="baseline-choice">
      <span className="muted small">Compare with</span>
      <select
        className="field"
        value={chosen ? baselines.indexOf(chosen) : 0}
        onChange={(event) => {
          const next = baselines[Number(event.target.value)];
          if (next) changeView({ version: next.version || null, task: next.task_type || null });
        }}
      >
        {baselines.map((each, index) => <option key={index} value={index}>{nameBaseline(each)}</option>)}
      </select>
    </label>
  );
}
