import { useInfiniteQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Audit } from "../api/types";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { HostileText } from "../components/HostileText";
import { Empty, Failure, LoadingRows } from "../components/States";
import { Table } from "../components/Table";
import { useNow } from "../components/useNow";
import { formatTime } from "../format";

/** Who changed what, and when. */
export function AuditCard() {
  const now = useNow();
  const query = useInfiniteQuery({
    queryKey: keys.settings("/audit"),
    queryFn: ({ pageParam, signal }) => get<Audit>("/audit", { before: pageParam }, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next,
  });
  const rows = query.data?.pages.flatMap((page) => page.rows) ?? [];
  return (
    <Card id="audit" title="Audit log" note="what people changed on this page">
      {query.data === undefined ? (
        query.error ? (
          <div className="card-body">
            <Failure error={query.error} onRetry={() => void query.refetch()} />
          </div>
        ) : (
          <LoadingRows rows={3} widths={[140, 80, 120, 240]} />
        )
      ) : rows.length === 0 ? (
        <Empty>Nothing was changed yet.</Empty>
      ) : (
        <Table
          caption="Changes, newest first"
          rows={rows}
          rowKey={(row) => row.id}
          columns={[
            { key: "at", head: "When", cell: (row) => <span className="muted">{formatTime(row.at, now)}</span> },
            { key: "by", head: "Who", cell: (row) => <strong>{row.by}</strong> },
            { key: "action", head: "What", cell: (row) => row.action.replaceAll("_", " ") },
            { key: "object", head: "Of", cell: (row) => <HostileText text={row.object} oneLine /> },
            { key: "detail", head: "Detail", cell: (row) => <HostileText text={row.detail} /> },
          ]}
        />
      )}
      {query.hasNextPage && (
        <div className="card-body">
          <Button small onClick={() => void query.fetchNextPage()} busyWord={query.isFetchingNextPage ? "Loading…" : null}>
            Show more
          </Button>
        </div>
      )}
    </Card>
  );
}
