/** Tools that are expected to repeat, with who said so and when. */
import { useState } from "react";
import type { ReactNode } from "react";

import type { Declaration } from "../api/types";
import { useScope } from "../app/session";
import { HostileText } from "../components/HostileText";
import { formatCount, formatDay } from "../format";
import { DeclarePanel } from "../run/DeclarePanel";
import type { ToolKind } from "../run/DeclarePanel";

const KINDS: readonly { value: ToolKind; label: string }[] = [
  { value: "poll", label: "poll: asks until something changes" },
  { value: "batch", label: "batch: one thing after another" },
  { value: "read", label: "read: looks something up" },
  { value: "write", label: "write: changes something" },
  { value: "schedule", label: "schedule: again and again on purpose" },
  { value: "idempotent", label: "idempotent: again is no progress and no harm" },
  { value: "", label: "nothing special" },
];

export interface DeclarationsCardProps {
  agent: number;
  declarations: readonly Declaration[];
}

export function DeclarationsCard({ agent, declarations }: DeclarationsCardProps): ReactNode {
  const mayOperate = useScope("operate");
  const [tool, setTool] = useState<string | null>(null);
  const declared = declarations.filter((each) => each.kind !== "");
  return (
    <section className="card" aria-label="Tool declarations">
      <header className="card-head">
        <h2>Tool declarations</h2>
        <div className="end">
          <button
            type="button"
            className="link-button"
            disabled={!mayOperate || declarations.length === 0}
            title={mayOperate ? (declarations.length ? undefined : "No tool was called yet") : "Your key may read, but not change"}
            onClick={() => setTool(tool === null ? (declarations.find((each) => each.kind === "") ?? declarations[0])?.tool ?? null : null)}
          >
            Declare a tool
          </button>
        </div>
      </header>
      {tool !== null && <DeclareForm key={tool} agent={agent} declarations={declarations} tool={tool} setTool={setTool} />}
      {declared.length === 0 ? (
        <p className="empty small">No tool is declared: each repeated call counts.</p>
      ) : (
        <ul className="declarations">
          {declared.map((each) => (
            <li key={each.tool}>
              <HostileText text={each.tool} oneLine mono />
              <button type="button" className="link-button" disabled={!mayOperate} onClick={() => setTool(each.tool)}>{each.kind}</button>
              <span className="muted">{describeSource(each)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function describeSource(declaration: Declaration): string {
  if (declaration.source === "settings") return "from settings";
  const when = declaration.at === null ? "" : `, ${formatDay(declaration.at)}`;
  return declaration.by ? `by ${declaration.by}${when}` : "by the agent's code";
}

interface DeclareFormProps extends DeclarationsCardProps {
  tool: string;
  setTool: (tool: string | null) => void;
}

function DeclareForm({ agent, declarations, tool, setTool }: DeclareFormProps): ReactNode {
  const before = (declarations.find((each) => each.tool === tool)?.kind ?? "") as ToolKind;
  const [kind, setKind] = useState<ToolKind>(before || "poll");
  return (
    <div className="card-body declare-form">
      <label>
        <span className="small muted">Tool</span>
        <select className="field" value={tool} onChange={(event) => setTool(event.target.value)}>
          {declarations.map((each) => (
            <option key={each.tool} value={each.tool}>{each.tool} ({formatCount(each.calls)} calls)</option>
          ))}
        </select>
      </label>
      <label>
        <span className="small muted">Kind</span>
        <select className="field" value={kind} onChange={(event) => setKind(event.target.value as ToolKind)}>
          {KINDS.map((each) => <option key={each.value} value={each.value}>{each.label}</option>)}
        </select>
      </label>
      <DeclarePanel key={kind} agent={agent} tool={tool} kind={kind} before={before} onClose={() => setTool(null)} />
    </div>
  );
}
