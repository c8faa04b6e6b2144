import { useEffect } from "react";

import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Health } from "../api/types";
import { href, useLocation } from "../app/router";
import { signOut, useSession } from "../app/session";
import { Button } from "../components/Button";
import { useNow } from "../components/useNow";
import { formatBytes, formatDuration } from "../format";
import { AuditCard } from "./AuditCard";
import { ChannelsCard } from "./ChannelsCard";
import { HealthSection } from "./HealthSection";
import { KeysCard } from "./KeysCard";
import { RedactionCard } from "./RedactionCard";
import { RetentionCard } from "./RetentionCard";
import "./settings.css";
import { ValuesCard } from "./ValuesCard";

const SECTIONS = [
  ["health", "Health"],
  ["values", "Values"],
  ["channels", "Channels"],
  ["keys", "Keys"],
  ["retention", "Retention"],
  ["redaction", "Redaction"],
  ["audit", "Audit log"],
] as const;

export const healthQuery = {
  queryKey: keys.settings("health"),
  queryFn: ({ signal }: { signal: AbortSignal }) => get<Health>("/health", {}, signal),
};

/** One scrolling page; the list at the left leads to its sections, and each has an address. */
export default function SettingsPage() {
  const { params } = useLocation();
  const section = params.get("section") ?? "health";
  useEffect(() => {
    if (section !== "health") document.getElementById(section)?.scrollIntoView();
  }, [section]);
  return (
    <>
      <div className="page-head">
        <h1>Settings and health</h1>
        <Server />
      </div>
      <div className="settings">
        <nav className="sections" aria-label="Sections">
          {SECTIONS.map(([name, label]) => (
            <a
              key={name}
              className="page-link"
              href={href("/settings", { section: name === "health" ? null : name })}
              aria-current={name === section ? "true" : undefined}
            >
              {label}
            </a>
          ))}
        </nav>
        <div className="settings-body">
          <HealthSection />
          <ValuesCard />
          <div className="pair">
            <ChannelsCard />
            <KeysCard />
          </div>
          <div className="pair">
            <RedactionCard />
            <RetentionCard />
          </div>
          <AuditCard />
        </div>
      </div>
    </>
  );
}

function Server() {
  const { data } = useQuery(healthQuery);
  const session = useSession();
  const now = useNow();
  return (
    <div className="end muted small">
      {data && (
        <span>
          Steadyhelm {data.version} · {data.database.startsWith("postgresql:") ? "PostgreSQL" : "SQLite"}, {formatBytes(data.database_bytes)} · up {formatDuration(now - data.started_at)}
        </span>
      )}
      {session.kind === "signed-in" && <span>signed in as {session.session.by}</span>}
      <Button small onClick={() => void signOut()}>
        Sign out
      </Button>
    </div>
  );
}
