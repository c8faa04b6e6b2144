import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { post } from "../api/client";
import { keys } from "../api/queries";
import type { Pruned, Retention } from "../api/types";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { describeError, useMessages } from "../components/UndoMessage";
import { formatBytes, formatCount, formatDay, formatPlural } from "../format";
import { SettingsCard } from "./SettingsCard";

const SHOWN_TABLES: ReadonlySet<string> = new Set(["runs", "events", "payloads"]);

/** How long what is kept, and how much there is. */
export function RetentionCard() {
  return (
    <SettingsCard<Retention> id="retention" title="Retention" path="/retention">
      {(data) => (
        <>
          <dl className="retention">
            <div>
              <dt>Payloads</dt>
              <dd className="strong">{data.payload_days > 0 ? formatPlural(data.payload_days, "day") : "for ever"}</dd>
              <dd className="muted">{formatCount(data.payloads_due)} due</dd>
            </div>
            <div>
              <dt>Runs, findings, incidents</dt>
              <dd className="strong">{data.run_days > 0 ? formatPlural(data.run_days, "day") : "for ever"}</dd>
              <dd className="muted">
                {formatCount(data.runs_due)} due
                {data.oldest_run_at !== null && `, oldest ${formatDay(data.oldest_run_at)}`}
              </dd>
            </div>
            <div>
              <dt>On disk</dt>
              <dd className="strong">{formatBytes(data.bytes)}</dd>
              <dd className="muted">
                {data.tables
                  .filter((table) => SHOWN_TABLES.has(table.name))
                  .map((table) => `${formatCount(table.count)} ${table.name}`)
                  .join(", ")}
              </dd>
            </div>
          </dl>
          <PruneButton due={data.payloads_due + data.runs_due} />
        </>
      )}
    </SettingsCard>
  );
}

function PruneButton({ due }: { readonly due: number }) {
  const client = useQueryClient();
  const { tell } = useMessages();
  const mayPrune = useScope("admin");
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const prune = async () => {
    setBusy(true);
    try {
      const done = await post<Pruned>("/retention/prune");
      tell(`Deleted ${formatPlural(done.payloads, "payload")} and ${formatPlural(done.runs, "run")}.`);
      void client.invalidateQueries({ queryKey: keys.all });
    } catch (error) {
      tell(`Nothing was deleted: ${describeError(error)}`);
    } finally {
      setBusy(false);
      setAsking(false);
    }
  };
  const why = !mayPrune ? "Deleting needs the scope admin" : due === 0 ? "Nothing is due" : undefined;
  return (
    <div className="card-body prune">
      {asking ? (
        <>
          <Button small kind="destructive" onClick={() => void prune()} busyWord={busy ? "Deleting…" : null}>
            Delete what is due for good
          </Button>
          <Button small kind="quiet" onClick={() => setAsking(false)}>
            Cancel
          </Button>
        </>
      ) : (
        <Button small disabled={why !== undefined} title={why} onClick={() => setAsking(true)}>
          Delete what is due…
        </Button>
      )}
    </div>
  );
}
