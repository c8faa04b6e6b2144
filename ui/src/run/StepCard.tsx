/** One step with its payloads, loaded when it is opened. */
import { useState } from "react";
import type { ReactNode } from "react";

import type { Payload, StepDetail } from "../api/types";
import { StepCell } from "../charts/StepCell";
import { Tabs } from "../components/Choice";
import { HostileText } from "../components/HostileText";
import { Block, Failure, Loading } from "../components/States";
import { useMessages } from "../components/UndoMessage";
import { formatBytes, formatClock, formatCount, formatDuration, formatMoney, formatScore } from "../format";
import { useStep } from "./data";

type Part = "arguments" | "result" | "score" | "raw";
const PARTS: readonly { value: Part; label: string }[] = [
  { value: "arguments", label: "Arguments" },
  { value: "result", label: "Result" },
  { value: "score", label: "Score" },
  { value: "raw", label: "Raw" },
];

export function StepCard({ id, step }: { id: string; step: number }): ReactNode {
  const query = useStep(id, step);
  const [chosen, setPart] = useState<Part | null>(null);
  const detail = query.data;
  const part = chosen ?? (detail && !detail.arguments && !detail.pruned ? "result" : "arguments");
  return (
    <section className="card step-card" aria-label={`Step ${formatCount(step)}`}>
      <header className="card-head">
        <h2>Step {formatCount(step)}</h2>
        {detail && <StepCell kind={detail.step.kind} tool={detail.step.tool} />}
        {detail && <HostileText text={detail.step.name} oneLine mono />}
        <div className="end muted">{detail && formatClock(detail.step.at)}</div>
      </header>
      <div className="step-tabs">
        <Tabs label="Parts of the step" options={PARTS} value={part} onChange={setPart} panel="step-part" />
      </div>
      <div className={`card-body ${query.isPlaceholderData ? "stale" : ""}`} id="step-part" role="tabpanel" aria-label={part}>
        {detail ? (
          <StepPart detail={detail} part={part} />
        ) : query.error ? (
          <Failure error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Loading><Block width={280} /><Block width={200} /><Block width={240} /></Loading>
        )}
      </div>
    </section>
  );
}

function StepPart({ detail, part }: { detail: StepDetail; part: Part }): ReactNode {
  if (part === "score") return <Score detail={detail} />;
  if (detail.pruned) return <p className="muted">The payloads of this step were deleted, as retention asks.</p>;
  if (part === "arguments") return <PayloadText payload={detail.arguments} missing="This step has no arguments." />;
  if (part === "raw") return <PayloadText payload={detail.metadata} missing="Nothing else was recorded." />;
  return (
    <>
      {detail.error !== null && (
        <p className="step-error"><b className="bad-text">× failed</b> <HostileText text={detail.error} mono /></p>
      )}
      <PayloadText payload={detail.result} missing="This step has no result." />
    </>
  );
}

function Score({ detail }: { detail: StepDetail }): ReactNode {
  const { step } = detail;
  return (
    <dl className="rows">
      <div><dt>Drift score</dt><dd className="strong">{step.score === null ? "not known" : formatScore(step.score)}</dd></div>
      {detail.contributions.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value === null ? "not checked" : formatScore(value)}</dd></div>
      ))}
      <div><dt>Tokens</dt><dd>{formatCount(step.tokens)}</dd></div>
      <div><dt>Cost</dt><dd>{formatMoney(step.cost_usd)}</dd></div>
      <div><dt>Duration</dt><dd>{formatDuration(step.duration_ms / 1_000)}</dd></div>
    </dl>
  );
}

/** Agent text as stored, indented when it is JSON; its size and what was redacted. */
function PayloadText({ payload, missing }: { payload: Payload | null; missing: string }): ReactNode {
  const { tell } = useMessages();
  if (!payload) return <p className="muted">{missing}</p>;
  const copy = (): void => {
    navigator.clipboard.writeText(payload.text).then(
      () => tell("Copied."),
      () => tell("Not copied: the browser does not allow it."),
    );
  };
  const redacted = payload.redacted.length ? `redacted: ${payload.redacted.join(", ")}` : "nothing redacted";
  return (
    <>
      <pre className="payload"><HostileText text={indent(payload.text)} whole mono /></pre>
      <div className="payload-foot muted small">
        <span>
          {formatBytes(payload.size)}{payload.clipped && ", clipped"} · {redacted}
        </span>
        <button type="button" className="link-button" onClick={copy}>Copy</button>
      </div>
    </>
  );
}

function indent(text: string): string {
  if (!/^\s*[[{"]/.test(text)) return text;
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "string" ? value : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
