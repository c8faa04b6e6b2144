import { useQuery } from "@tanstack/react-query";

import { overviewQuery } from "../api/queries";
import { Card } from "../components/Card";
import { Failure, LoadingRows, StaleBadge } from "../components/States";
import { AgentsTable } from "./AgentsTable";
import { FirstSteps } from "./FirstSteps";
import "./overview.css";

/** All agents; each row leads to the agent's own page. */
export default function AgentsPage() {
  const { data, error, refetch, dataUpdatedAt } = useQuery(overviewQuery);
  return (
    <>
      <div className="page-head">
        <h1>Agents</h1>
        {data && error && <StaleBadge since={dataUpdatedAt} />}
      </div>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data?.empty && <FirstSteps database={data.database} />}
      {data && !data.empty && <AgentsTable agents={data.agents} total={data.agents_total} />}
      {!data && !error && (
        <Card title="Agents">
          <LoadingRows rows={6} widths={[72, 140, 40, 148, 60, 60, 120]} />
        </Card>
      )}
    </>
  );
}
