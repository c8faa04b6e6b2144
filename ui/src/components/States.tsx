/** Loading, empty, stale and failed: each has its look, and the layout does not move when data comes. */
import { useEffect, useState } from "react";
import type { ReactNode } from "react";

import { ApiError } from "../api/client";
import { MOST_TRIES } from "../api/queries";
import { formatAgo, formatClock } from "../format";
import { Badge } from "./Badge";
import { Button } from "./Button";
import { Icon } from "./Icon";
import { useNow } from "./useNow";

const QUIET_MS = 150;

/** Show nothing for 150 ms, then the page's shape. */
export function Loading({ children }: { readonly children: ReactNode }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), QUIET_MS);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div aria-busy="true" style={late ? undefined : { visibility: "hidden" }}>
      <span className="visually-hidden">Loading</span>
      {children}
    </div>
  );
}

/** A grey block in the place of a word. */
export function Block({ width = 96, height = 12 }: { readonly width?: number; readonly height?: number }) {
  return <span className="block" style={{ width, height, maxWidth: "100%" }} aria-hidden="true" />;
}

interface LoadingRowsProps {
  readonly rows?: number;
  readonly widths: readonly number[];
  /** The words of the table's head, which are there before its rows. */
  readonly heads?: readonly string[];
  /** Rows with two lines are taller. */
  readonly rowHeight?: number;
}

export function LoadingRows({ rows = 6, widths, heads, rowHeight = 33 }: LoadingRowsProps) {
  return (
    <Loading>
      <table className="table" aria-hidden="true">
        {heads && (
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head}>{head}</th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row} style={{ height: rowHeight }}>
              {widths.map((width, cell) => (
                <td key={cell}>
                  <Block width={width} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Loading>
  );
}

interface FailureProps {
  readonly error: unknown;
  readonly onRetry: () => void;
}

/** What happened, that agents are not affected, which request, and "Try now". */
export function Failure({ error, onRetry }: FailureProps) {
  const known = error instanceof ApiError ? error : null;
  return (
    <div className="banner" role="alert">
      <Icon name="cross" />
      <div>
        <div>
          <strong>{known?.message ?? "Something went wrong in the page."}</strong>{" "}
          {(!known || known.isUnreachable) && "Agents are not affected: they keep recording to their own file."}
        </div>
        {known && (
          <div className="muted small">
            {known.request}
            {known.status ? ` · answer ${known.status}` : " · no answer"}
            {known.isUnreachable && ` · tried ${MOST_TRIES} times, next when the server is back`}
          </div>
        )}
      </div>
      <div className="end">
        <Button onClick={onRetry}>Try now</Button>
      </div>
    </div>
  );
}

interface LastGoodProps {
  readonly query: { readonly error: unknown; readonly dataUpdatedAt: number; readonly refetch: () => Promise<unknown> };
  readonly children: ReactNode;
}

/** What was loaded. When it cannot be loaded again it stays, dimmed and with its age, under what went wrong. */
export function LastGood({ query, children }: LastGoodProps) {
  const failed = query.error !== null;
  return (
    <>
      {failed && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {failed && (
        <div>
          <StaleBadge since={query.dataUpdatedAt} />
        </div>
      )}
      <div className={failed ? "page-stack stale" : "page-stack"}>{children}</div>
    </>
  );
}

/** "as of 14:04:18, 2 min old": data that could not be refreshed. `since` is in milliseconds, as queries keep it. */
export function StaleBadge({ since }: { readonly since: number }) {
  const age = formatAgo(since / 1_000, useNow());
  return (
    <Badge tone="warn">
      as of {formatClock(since / 1_000)}
      {age !== "now" && `, ${age.replace(" ago", " old")}`}
    </Badge>
  );
}

export function Empty({ children }: { readonly children: ReactNode }) {
  return <div className="empty">{children}</div>;
}
