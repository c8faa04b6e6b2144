import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { post } from "../api/client";
import { keys } from "../api/queries";
import type { Channel, Channels, DeliveryRow, TestResult } from "../api/types";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { Glyph } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { Empty } from "../components/States";
import { Table } from "../components/Table";
import { describeError, useMessages } from "../components/UndoMessage";
import { useNow } from "../components/useNow";
import { formatAgo, formatCount, formatTime } from "../format";
import { SettingsCard } from "./SettingsCard";

/** Where alerts go, a test of it, and what was sent. */
export function ChannelsCard() {
  const [log, setLog] = useState(false);
  return (
    <SettingsCard<Channels>
      id="channels"
      title="Channels"
      path="/channels"
      end={
        <button type="button" className="link-button" aria-expanded={log} onClick={() => setLog(!log)}>
          Delivery log
        </button>
      }
    >
      {({ channels, deliveries }) => (
        <>
          {channels.length === 0 ? (
            <Empty>
              No channel is set: alerts go to the log. Set <code>alerts.webhook</code> to an address of Slack, Discord or
              your own.
            </Empty>
          ) : (
            <ChannelList channels={channels} />
          )}
          {log && <DeliveryLog deliveries={deliveries} />}
        </>
      )}
    </SettingsCard>
  );
}

function ChannelList({ channels }: { readonly channels: readonly Channel[] }) {
  const now = useNow();
  const client = useQueryClient();
  const { tell } = useMessages();
  const [busy, setBusy] = useState(false);
  const mayTest = useScope("admin");
  const test = async () => {
    setBusy(true);
    try {
      const result = await post<TestResult>("/channels/test");
      tell(result.message);
    } catch (error) {
      tell(`No test alert was sent: ${describeError(error)}`);
    } finally {
      setBusy(false);
      void client.invalidateQueries({ queryKey: keys.settings("/channels") });
    }
  };
  return (
    <>
      <ul>
        {channels.map((channel) => (
          <li key={channel.name} className="channel">
            <Glyph
              state={channel.failed ? "crashed" : "healthy"}
              word={channel.failed ? "Alerts were not delivered" : "Works"}
              bare
            />
            <span>
              <strong>{channel.name}</strong>
              <span className="muted small channel-host">{channel.host}</span>
            </span>
            <span>from {channel.min_severity}</span>
            <span className={channel.failed ? "bad-text" : "muted"}>
              {channel.failed
                ? `${formatCount(channel.failed)} failed`
                : channel.pending
                  ? `${formatCount(channel.pending)} waiting`
                  : channel.last_sent_at === null
                    ? "nothing sent yet"
                    : `sent ${formatAgo(channel.last_sent_at, now)}`}
            </span>
          </li>
        ))}
      </ul>
      <div className="card-body">
        <Button
          small
          onClick={() => void test()}
          busyWord={busy ? "Sending…" : null}
          disabled={!mayTest}
          title={mayTest ? undefined : "Sending a test alert needs the scope admin"}
        >
          Send a test alert
        </Button>
      </div>
    </>
  );
}

function DeliveryLog({ deliveries }: { readonly deliveries: readonly DeliveryRow[] }) {
  const now = useNow();
  if (deliveries.length === 0) return <Empty>No alert was sent yet.</Empty>;
  return (
    <Table
      caption="The latest deliveries"
      rows={deliveries}
      rowKey={(row) => row.delivery_id}
      columns={[
        { key: "at", head: "Made", cell: (row) => <span className="muted">{formatTime(row.created_at, now)}</span> },
        { key: "channel", head: "Channel", cell: (row) => row.channel },
        { key: "agent", head: "Agent", cell: (row) => <HostileText text={row.agent} oneLine /> },
        {
          key: "state",
          head: "State",
          cell: (row) => (
            <>
              {row.state}
              {row.attempts > 1 && `, ${formatCount(row.attempts)} tries`}
              {row.error && (
                <span className="bad-text">
                  {" "}
                  <HostileText text={row.error} />
                </span>
              )}
            </>
          ),
        },
      ]}
    />
  );
}
