import { useEffect } from "react";

import { href, navigate, runPath } from "../app/router";
import type { PageProps } from "../app/router";
import { Failure } from "../components/States";
import { useIncident } from "./data";

/** The address of an incident, as alerts have it: leads to its run, with the incident chosen. */
export default function IncidentPage({ id }: PageProps) {
  const { data, error, refetch } = useIncident(id);
  useEffect(() => {
    if (data) navigate(href(runPath(data.row.run), { incident: data.row.incident_id }), { replace: true });
  }, [data]);
  return error ? <Failure error={error} onRetry={() => void refetch()} /> : null;
}
