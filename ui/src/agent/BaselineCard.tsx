/** What is normal for this agent: state, clean runs, and what can be done about it. */
import { useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";

import type { Baseline, RunPoint } from "../api/types";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { useDismiss } from "../components/Choice";
import { Glyph } from "../components/Glyph";
import { escapeHidden, HostileText } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { formatCount, formatPlural, formatTime } from "../format";
import type { AgentActions } from "./data";

export interface BaselineCardProps {
  agent: string;
  baseline: Baseline | null;
  runs: readonly RunPoint[];
  actions: AgentActions;
}

const REFUSAL = "Your key may read, but not change";

export function BaselineCard({ agent, baseline, runs, actions }: BaselineCardProps): ReactNode {
  const now = useNow();
  return (
    <section className="card" aria-label="Baseline">
      <header className="card-head">
        <h2>Baseline</h2>
        {baseline && <BaselineState baseline={baseline} />}
        {baseline && <div className="end muted">{nameBaseline(baseline)}</div>}
      </header>
      <div className="card-body baseline">
        {baseline ? (
          <>
            <p>
              <b>{formatPlural(baseline.clean_runs, "clean run")}</b>{" "}
              <span className="muted">{baseline.updated_at === null ? "" : `updated ${formatTime(baseline.updated_at, now)}`}</span>
            </p>
            <Progress baseline={baseline} />
            <p className="muted small">{describeBaseline(baseline)}</p>
            <BaselineButtons agent={agent} baseline={baseline} runs={runs} actions={actions} />
          </>
        ) : (
          <p className="muted">No run has ended clean yet: there is nothing to compare with.</p>
        )}
      </div>
    </section>
  );
}

/** Return the words for one baseline: its version and type of task. */
export function nameBaseline(baseline: Baseline): string {
  const words = [baseline.version || "no version", baseline.task_type].filter(Boolean);
  return escapeHidden(words.join(" · "));
}

function BaselineState({ baseline }: { baseline: Baseline }): ReactNode {
  if (baseline.state === "learning") return <Glyph state="learning" word={`Learning ${baseline.clean_runs}/${baseline.required_runs}`} />;
  return <Glyph state="ended" word={baseline.state === "frozen" ? "Frozen" : "Calibrated"} />;
}

function Progress({ baseline }: { baseline: Baseline }): ReactNode {
  const total = Math.max(baseline.required_runs, baseline.clean_runs + baseline.excluded_runs, 1);
  return (
    <svg className="baseline-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect className="all" width="100" height="6" />
      <rect className="learnt" width={(100 * baseline.clean_runs) / total} height="6" />
    </svg>
  );
}

function describeBaseline(baseline: Baseline): string {
  const left = baseline.excluded_runs > 0 ? `${formatPlural(baseline.excluded_runs, "run")} left out. ` : "";
  if (baseline.state === "frozen") return `${left}Frozen: no run joins until it learns again.`;
  if (baseline.state === "learning") {
    return `${left}${formatCount(baseline.required_runs - baseline.clean_runs)} more clean runs until it is calibrated.`;
  }
  return `${left}The next run joins when it ends clean.`;
}

function BaselineButtons({ agent, baseline, runs, actions }: BaselineCardProps & { baseline: Baseline }): ReactNode {
  const mayOperate = useScope("operate");
  const [question, setQuestion] = useState<"exclude" | "reset" | null>(null);
  const frame = useDismiss<HTMLDivElement>(question === "exclude", () => setQuestion(null));
  const target = { version: baseline.version, task_type: baseline.task_type };
  const frozen = baseline.state === "frozen";
  const blocked = { disabled: !mayOperate || actions.busy, title: mayOperate ? undefined : REFUSAL };
  return (
    <div className="anchor baseline-buttons" ref={frame}>
      <Button onClick={() => void actions.changeBaseline({ action: frozen ? "unfreeze" : "freeze", ...target })} {...blocked}>
        {frozen ? "Learn again" : "Freeze"}
      </Button>
      <Button aria-expanded={question === "exclude"} onClick={() => setQuestion(question === "exclude" ? null : "exclude")} {...blocked}>
        Exclude a run…
      </Button>
      <Button onClick={() => setQuestion("reset")} {...blocked}>Reset…</Button>
      {question === "exclude" && (
        <ExcludeMenu
          runs={runs}
          onChoose={(run) => {
            setQuestion(null);
            void actions.excludeRun(run);
          }}
        />
      )}
      {question === "reset" && (
        <ResetDialog
          name={`${agent} ${nameBaseline(baseline)}`}
          required={baseline.required_runs}
          onClose={() => setQuestion(null)}
          onReset={() => {
            setQuestion(null);
            void actions.changeBaseline({ action: "reset", ...target });
          }}
        />
      )}
    </div>
  );
}

const SHOWN_RUNS = 12;

function ExcludeMenu({ runs, onChoose }: { runs: readonly RunPoint[]; onChoose: (run: number) => void }): ReactNode {
  const now = useNow();
  const latest = runs.toReversed().slice(0, SHOWN_RUNS);
  return (
    <div className="popover" role="group" aria-label="Exclude a run">
      {latest.length === 0 && <div className="option muted">No runs yet</div>}
      {latest.map((run) => (
        <button key={run.run} type="button" className="option" onClick={() => onChoose(run.run)}>
          <HostileText text={run.run_id} oneLine mono />
          <span className="end muted small">{formatTime(run.at, now)}</span>
        </button>
      ))}
    </div>
  );
}

interface ResetDialogProps {
  name: string;
  required: number;
  onReset: () => void;
  onClose: () => void;
}

/** Ask once, and name what would be lost. */
function ResetDialog({ name, required, onReset, onClose }: ResetDialogProps): ReactNode {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog ref={ref} className="dialog" aria-label="Reset the baseline" onClose={onClose}>
      <div className="card-body reset-dialog">
        <h2>Reset the baseline of {escapeHidden(name)}?</h2>
        <p>It forgets its clean runs and learns again from 0 of {formatCount(required)}. Until then nothing is compared with normal. This cannot be undone.</p>
        <div className="reset-buttons">
          <Button kind="quiet" onClick={() => ref.current?.close()}>Cancel</Button>
          <Button kind="destructive" onClick={onReset}>Reset baseline</Button>
        </div>
      </div>
    </dialog>
  );
}
