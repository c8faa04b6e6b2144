import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import type { Count, Health } from "../api/types";
import { useLive } from "../app/live";
import { Badge } from "../components/Badge";
import { Card, Figure, Figures } from "../components/Card";
import { Glyph } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { Block, Empty, Failure, LastGood, Loading } from "../components/States";
import { Table } from "../components/Table";
import { useNow } from "../components/useNow";
import { formatCount, formatDuration, formatPlural, formatTime } from "../format";
import { JudgeLine } from "./JudgeLine";
import { healthQuery } from "./SettingsPage";

/** How well Steadyhelm itself does: what was lost, what could not be checked, what failed. */
export function HealthSection() {
  const query = useQuery(healthQuery);
  const { data, error, refetch } = query;
  const { state } = useLive();
  useEffect(() => {
    // This page's own stream counts too.
    if (state === "live") void refetch();
  }, [state, refetch]);
  return (
    <section className="page-stack" id="health" aria-label="Health">
      {data ? (
        <LastGood query={query}>
          <Content health={data} />
        </LastGood>
      ) : error ? (
        <Failure error={error} onRetry={() => void refetch()} />
      ) : (
        <Shape />
      )}
    </section>
  );
}

const sum = (counts: readonly Count[]): number => counts.reduce((total, each) => total + each.count, 0);

function Content({ health }: { readonly health: Health }) {
  const lost = sum(health.lost);
  const failed = health.detector_errors.reduce((total, each) => total + each.count, 0);
  return (
    <>
      <Figures>
        <Figure label="Events stored" value={formatCount(health.events)} note={`of ${formatPlural(health.runs, "run")}`} />
        <Figure label="Lost events" value={formatCount(lost)} note={lost ? "by reason below" : "nothing lost"} />
        <Figure
          label="Newest step"
          value={health.behind_s === null ? "none yet" : `${formatDuration(health.behind_s)}`}
          unit={health.behind_s === null ? undefined : "ago"}
          note="when the last event was stored"
        />
        <Figure label="Detector errors" value={formatCount(failed)} note={failed ? "the agents went on" : "none"} />
        <Figure label="Open streams" value={formatCount(health.streams)} note="pages that follow live" />
      </Figures>
      <JudgeLine />
      <div className="pair">
        <CountCard title="Lost, by reason" counts={health.lost} nothing="Nothing was lost." />
        <Card title="Not checked, by reason" note="in the agents' latest runs">
          {health.not_checked.length === 0 ? (
            <Empty>Every detector could look.</Empty>
          ) : (
            <Table
              caption="Detectors that could not look, and why"
              rows={health.not_checked}
              rowKey={(row) => `${row.name} ${row.reason}`}
              columns={[
                { key: "name", head: "Detector", cell: (row) => <code>{row.name}</code> },
                { key: "reason", head: "Reason", cell: (row) => <HostileText text={row.reason} whole /> },
              ]}
            />
          )}
        </Card>
      </div>
      <DetectorErrors health={health} />
      {health.errors.length > 0 && <CountCard title="Other errors" counts={health.errors} nothing="" />}
    </>
  );
}

interface CountCardProps {
  readonly title: string;
  readonly counts: readonly Count[];
  readonly nothing: string;
}

function CountCard({ title, counts, nothing }: CountCardProps) {
  return (
    <Card title={title}>
      {counts.length === 0 ? (
        <Empty>{nothing}</Empty>
      ) : (
        <Table
          caption={title}
          rows={counts}
          rowKey={(row) => row.name}
          columns={[
            { key: "name", head: "Reason", cell: (row) => <HostileText text={row.name.replaceAll("_", " ")} whole /> },
            { key: "count", head: "Count", number: true, cell: (row) => <strong>{formatCount(row.count)}</strong> },
          ]}
        />
      )}
    </Card>
  );
}

function DetectorErrors({ health }: { readonly health: Health }) {
  const now = useNow();
  if (health.detector_errors.length === 0) return null;
  return (
    <Card
      title={
        <>
          Detector errors <Badge tone="bad">{formatCount(health.detector_errors.length)}</Badge>
        </>
      }
    >
      <Table
        caption="Detectors that raised an error"
        rows={health.detector_errors}
        rowKey={(row) => row.detector}
        columns={[
          { key: "state", head: <span className="visually-hidden">State</span>, cell: () => <Glyph state="crashed" word="Failed" bare /> },
          { key: "detector", head: "Detector", cell: (row) => <code>{row.detector}</code> },
          { key: "count", head: "Errors", number: true, cell: (row) => formatCount(row.count) },
          { key: "last", head: "Last", number: true, cell: (row) => <span className="muted">{formatTime(row.last_at, now)}</span> },
          { key: "effect", head: "Effect", number: true, cell: () => <span className="muted">the agent went on</span> },
        ]}
      />
    </Card>
  );
}

function Shape() {
  return (
    <Loading>
      <Figures>
        {["Events stored", "Lost events", "Newest step", "Detector errors", "Open streams"].map((label) => (
          <Figure key={label} label={label} value={<Block width={72} height={20} />} note={<Block width={96} />} />
        ))}
      </Figures>
    </Loading>
  );
}
