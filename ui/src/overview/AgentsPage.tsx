import { useQuery } from "@tanstack/react-query";

import { overviewQuery } from "../api/queries";
import { Failure, LastGood } from "../components/States";
import { AgentsTable, LoadingAgents } from "./AgentsTable";
import { FirstSteps } from "./FirstSteps";
import "./overview.css";

/** All agents; each row leads to the agent's own page. */
export default function AgentsPage() {
  const query = useQuery(overviewQuery);
  const { data, error } = query;
  return (
    <>
      <div className="page-head">
        <h1>Agents</h1>
      </div>
      {data ? (
        <LastGood query={query}>
          {data.empty ? <FirstSteps database={data.database} /> : <AgentsTable agents={data.agents} total={data.agents_total} />}
        </LastGood>
      ) : error ? (
        <Failure error={error} onRetry={() => void query.refetch()} />
      ) : (
        <LoadingAgents />
      )}
    </>
  );
}
