import { useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Precision, PrecisionList } from "../api/types";
import { NotchedBar } from "../components/Bars";
import { Card } from "../components/Card";
import { Empty, Failure, LoadingRows } from "../components/States";
import { Table } from "../components/Table";
import { formatCount, formatPercent } from "../format";

/** Below this share of right marks the bar turns amber. */
const GOOD_SHARE = 0.9;

/** How often each detector was right, by the marks that people made. */
export function PrecisionCard() {
  const query = useQuery({
    queryKey: keys.precision(),
    queryFn: ({ signal }) => get<PrecisionList>("/precision", {}, signal),
  });
  return (
    <Card title="Precision per detector" note="marks of the last 90 days">
      {query.data ? (
        query.data.detectors.length === 0 ? (
          <Empty>No detector raised an incident in 90 days.</Empty>
        ) : (
          <Table
            caption="Precision per detector"
            rows={query.data.detectors}
            rowKey={(row) => row.detector}
            columns={[
              { key: "detector", head: "Detector", cell: (row) => <code>{row.detector}</code> },
              { key: "bar", head: "Share right", cell: (row) => <Share row={row} /> },
              { key: "marks", head: "Marks", number: true, cell: (row) => <Marks row={row} /> },
            ]}
          />
        )
      ) : query.error ? (
        <div className="card-body">
          <Failure error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : (
        <LoadingRows rows={4} widths={[120, 112, 120]} />
      )}
    </Card>
  );
}

function Share({ row }: { readonly row: Precision }) {
  if (row.precision === null) return <span className="muted">too few marks</span>;
  return (
    <span className="share">
      <NotchedBar share={row.precision} tone={row.precision < GOOD_SHARE ? "spent-warn" : "spent"} notches={[]} />
      <strong>{formatPercent(row.precision)}</strong>
    </span>
  );
}

function Marks({ row }: { readonly row: Precision }) {
  return (
    <span className="muted">
      {formatCount(row.right)} right, {formatCount(row.false)} false
    </span>
  );
}
