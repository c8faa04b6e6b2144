/** Runs that this run started. */
import { memo } from "react";
import type { ReactNode } from "react";

import type { ChildRun } from "../api/types";
import { href, runPath } from "../app/router";
import { Card } from "../components/Card";
import { Glyph } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { formatCount, formatScore, formatTime } from "../format";

export const ChildRuns = memo(function ChildRuns({ runs }: { runs: readonly ChildRun[] }): ReactNode {
  const now = useNow();
  if (runs.length === 0) return null;
  return (
    <Card title="Child runs" note={formatCount(runs.length)} className="child-runs">
      <ul>
        {runs.map(({ run, step }) => (
          <li key={run.key}>
            <a className="child-run" href={href(runPath(run.key))}>
              <Glyph state={run.state} bare />
              <HostileText text={run.goal || run.run_id} oneLine />
              <span className="muted" title={formatTime(run.started_at, now)}>from step {formatCount(step)}</span>
              <span title="peak drift">{formatScore(run.peak)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
});
