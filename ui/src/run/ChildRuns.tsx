/** Runs that this run started. */
import { memo } from "react";
import type { ReactNode } from "react";

import type { RunRow } from "../api/types";
import { href, runPath } from "../app/router";
import { Card } from "../components/Card";
import { Glyph } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { formatClock, formatCount, formatScore } from "../format";

export const ChildRuns = memo(function ChildRuns({ runs }: { runs: readonly RunRow[] }): ReactNode {
  if (runs.length === 0) return null;
  return (
    <Card title="Child runs" note={formatCount(runs.length)} className="child-runs">
      <ul>
        {runs.map((run) => (
          <li key={run.key}>
            <a className="child-run" href={href(runPath(run.key))}>
              <Glyph state={run.state} bare />
              <HostileText text={run.goal || run.run_id} oneLine />
              <span className="muted">from {formatClock(run.started_at)}</span>
              <span title="peak drift">{formatScore(run.peak)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
});
