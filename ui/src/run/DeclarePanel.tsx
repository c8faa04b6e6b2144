/** Declare a tool as batch or poll: the effect on recent incidents first, then save; undo takes it back. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ReactNode } from "react";

import { post } from "../api/client";
import { keys } from "../api/queries";
import type { Declare, Done, Effect } from "../api/types";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { HostileText } from "../components/HostileText";
import { describeError, useMessages } from "../components/UndoMessage";
import { EffectView } from "../incidents/FalseAlarmPanel";
import "../incidents/incident-buttons.css";

export type ToolKind = Declare["kind"];

export interface DeclarePanelProps {
  agent: number;
  tool: string;
  kind: ToolKind;
  /** What it is declared as now, for the undo; empty is nothing. */
  before: ToolKind;
  onClose: () => void;
}

export function DeclarePanel({ agent, tool, kind, before, onClose }: DeclarePanelProps): ReactNode {
  const client = useQueryClient();
  const { tell } = useMessages();
  const mayOperate = useScope("operate");
  const [busy, setBusy] = useState(false);
  const path = `/agents/${agent}/declarations`;
  const effect = useQuery({
    queryKey: keys.agentPart(String(agent), "declaration", { tool, kind }),
    queryFn: () => post<Effect>(`${path}/preview`, { tool, kind } satisfies Declare),
  });
  const declare = async (as: ToolKind): Promise<Done> => {
    const done = await post<Done>(path, { tool, kind: as } satisfies Declare);
    void client.invalidateQueries({ queryKey: keys.all });
    return done;
  };
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      const done = await declare(kind);
      tell(done.message, () => declare(before));
      onClose();
    } catch (error) {
      tell(`Not saved: ${describeError(error)}`);
      setBusy(false);
    }
  };
  return (
    <form
      className="question"
      aria-label="Declare a tool"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div className="question-part">
        <p>
          Declare <HostileText text={tool} oneLine mono /> {kind ? `a ${kind} tool` : "nothing special"}?
        </p>
        {effect.data && <p className="muted small"><HostileText text={effect.data.change} whole /></p>}
      </div>
      <div className="question-part question-effect" aria-live="polite">
        <EffectView effect={effect.data} error={effect.error} />
      </div>
      <div className="question-foot">
        <span className="muted small">You can undo this later.</span>
        <Button kind="quiet" onClick={onClose}>Cancel</Button>
        <Button
          kind="primary"
          submit
          disabled={!mayOperate}
          title={mayOperate ? undefined : "Your key may read, but not change"}
          busyWord={busy ? "Saving…" : null}
        >
          Save
        </Button>
      </div>
    </form>
  );
}
