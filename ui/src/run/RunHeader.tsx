/** Trail, goal, state and origin of a run; its file and its trace elsewhere. */
import { memo, useState } from "react";
import type { ReactNode } from "react";

import type { RunDetail } from "../api/types";
import { agentPath, href, runPath } from "../app/router";
import { Button } from "../components/Button";
import { Glyph } from "../components/Glyph";
import { escapeHidden, HostileText } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { describeError, useMessages } from "../components/UndoMessage";
import { useNow } from "../components/useNow";
import { formatPlural, formatTime } from "../format";
import { downloadRun } from "./download";
import { Trail } from "./Trail";

export const RunHeader = memo(function RunHeader({ detail }: { detail: RunDetail }): ReactNode {
  const { run } = detail;
  const now = useNow();
  const { tell } = useMessages();
  const [busy, setBusy] = useState(false);
  const download = async (): Promise<void> => {
    setBusy(true);
    try {
      await downloadRun(run.key, run.run_id);
    } catch (error) {
      tell(`Not downloaded: ${describeError(error)}`);
    } finally {
      setBusy(false);
    }
  };
  const copy = (): void => {
    navigator.clipboard.writeText(run.run_id).then(
      () => tell("The run's id is copied."),
      () => tell("Not copied: the browser does not allow it."),
    );
  };
  return (
    <header className="run-header">
      <Trail>
        <a href={href("/runs")}>Runs</a>
        <a href={href(agentPath(String(run.agent.key)))} className="ellipsis">{escapeHidden(run.agent.name)}</a>
        <span className="trail-id">
          <HostileText text={run.run_id} oneLine mono />
          <Button kind="quiet" small icon aria-label="Copy the run's id" title="Copy the run's id" onClick={copy}>
            <Icon name="copy" size={12} />
          </Button>
        </span>
      </Trail>
      <div className="run-title-row">
        <Goal goal={run.goal} />
        <div className="end">
          <Button onClick={() => void download()} busyWord={busy ? "Loading…" : null}>
            <Icon name="download" /> Run file
          </Button>
          {detail.trace_url && isWebAddress(detail.trace_url) && (
            <a className="button" href={detail.trace_url} target="_blank" rel="noreferrer noopener">
              <Icon name="external" /> Open trace
            </a>
          )}
        </div>
      </div>
      <div className="run-facts">
        <Glyph state={run.state} />
        <span className="ellipsis">{escapeHidden(run.agent.name)} {run.version && escapeHidden(run.version)}</span>
        {detail.model && <HostileText text={detail.model} oneLine mono />}
        <span>started {formatTime(run.started_at, now)}</span>
        {detail.trace_id && <span title={escapeHidden(detail.trace_id)}>trace {escapeHidden(shorten(detail.trace_id))}</span>}
        {detail.children.length > 0 && <span>{formatPlural(detail.children.length, "child run")}</span>}
        {detail.parent && (
          <span>
            child of <a href={href(runPath(detail.parent.key))}>{escapeHidden(detail.parent.goal || detail.parent.run_id)}</a>
          </span>
        )}
        {detail.excluded && <span className="warn-text">left out of the baseline</span>}
      </div>
    </header>
  );
});

function Goal({ goal }: { goal: string }): ReactNode {
  const [open, setOpen] = useState(false);
  const words = goal || "No goal was given";
  return (
    <h1 className="run-goal">
      <button type="button" className="goal-button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <HostileText text={words} {...(open ? { whole: true } : { oneLine: true })} />
      </button>
    </h1>
  );
}

function isWebAddress(text: string): boolean {
  return /^https?:\/\/[^\s]+$/i.test(text);
}

function shorten(id: string): string {
  return id.length > 10 ? `${id.slice(0, 4)}…${id.slice(-2)}` : id;
}
