import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { FormEvent } from "react";

import { del, post } from "../api/client";
import { keys } from "../api/queries";
import type { ApiKey, ApiKeys, Done, MadeKey, NewKey } from "../api/types";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { Segments } from "../components/Choice";
import { Icon } from "../components/Icon";
import { Empty } from "../components/States";
import { describeError, useMessages } from "../components/UndoMessage";
import { useNow } from "../components/useNow";
import { formatAgo, formatDay } from "../format";
import { SettingsCard } from "./SettingsCard";

/** Personal keys. Only their hashes are kept, so a new key is shown once. */
export function KeysCard() {
  const client = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<MadeKey | null>(null);
  const refresh = () => client.invalidateQueries({ queryKey: keys.settings("/keys") });
  return (
    <SettingsCard<ApiKeys>
      id="keys"
      title="Keys"
      note="only hashes are kept"
      path="/keys"
      end={
        <Button small aria-expanded={adding} onClick={() => setAdding(!adding)}>
          <Icon name="plus" size={10} /> New key
        </Button>
      }
    >
      {(data) => (
        <>
          {adding && (
            <NewKeyForm
              onMade={(key) => {
                setMade(key);
                setAdding(false);
                void refresh();
              }}
              onCancel={() => setAdding(false)}
            />
          )}
          {made && (
            <div className="made-key" role="status">
              <p>
                The key <strong>{made.key.name}</strong>, shown now and never again:
              </p>
              <code className="secret">{made.secret}</code>
              <Button small onClick={() => setMade(null)}>
                I have kept it
              </Button>
            </div>
          )}
          {data.keys.length === 0 && !adding && <Empty>No key yet. The server's own token signs you in.</Empty>}
          <ul>
            {data.keys.map((key) => (
              <KeyRow key={key.id} entry={key} onRevoked={() => void refresh()} />
            ))}
          </ul>
        </>
      )}
    </SettingsCard>
  );
}

function KeyRow({ entry, onRevoked }: { readonly entry: ApiKey; readonly onRevoked: () => void }) {
  const now = useNow();
  const { tell } = useMessages();
  const [asking, setAsking] = useState(false);
  const revoke = async () => {
    try {
      tell((await del<Done>(`/keys/${entry.id}`)).message);
      onRevoked();
    } catch (error) {
      tell(`Not revoked: ${describeError(error)}`);
    }
  };
  return (
    <li className="key-row">
      <strong className="ellipsis">{entry.name}</strong>
      <code className="muted">{entry.prefix}…</code>
      <Badge>{entry.scopes.at(-1)}</Badge>
      <span className="muted small">
        {entry.last_used_at === null ? "never used" : `used ${formatAgo(entry.last_used_at, now)}`}
        {entry.expires_at !== null && `, ends ${formatDay(entry.expires_at)}`}
      </span>
      {asking ? (
        <span className="asking">
          <Button small kind="destructive" onClick={() => void revoke()}>
            Revoke {entry.name}
          </Button>
          <Button small kind="quiet" onClick={() => setAsking(false)}>
            Cancel
          </Button>
        </span>
      ) : (
        <Button small onClick={() => setAsking(true)} aria-label={`Revoke ${entry.name}…`}>
          Revoke…
        </Button>
      )}
    </li>
  );
}

type Scope = "read" | "operate" | "admin";

// Each scope includes the ones before it.
const SCOPES: Readonly<Record<Scope, NewKey["scopes"]>> = {
  read: ["read"],
  operate: ["read", "operate"],
  admin: ["read", "operate", "admin"],
};

interface NewKeyFormProps {
  readonly onMade: (key: MadeKey) => void;
  readonly onCancel: () => void;
}

function NewKeyForm({ onMade, onCancel }: NewKeyFormProps) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Scope>("read");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const onSubmit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      onMade(await post<MadeKey>("/keys", { name: name.trim(), scopes: SCOPES[scope] } satisfies NewKey));
    } catch (error) {
      setProblem(describeError(error));
      setBusy(false);
    }
  };
  return (
    <form className="new-key" onSubmit={(event) => void onSubmit(event)}>
      <label className="stack-tight">
        <span className="small strong">Name</span>
        <input className="field" required maxLength={100} value={name} onChange={(event) => setName(event.target.value)} />
      </label>
      <div className="new-key-row">
        <Segments
          label="Scope"
          value={scope}
          onChange={setScope}
          options={[
            { value: "read", label: "read" },
            { value: "operate", label: "operate" },
            { value: "admin", label: "admin" },
          ]}
        />
        <span className="muted small">ends after 90 days</span>
      </div>
      {problem && <p className="bad-text">{problem}</p>}
      <div className="new-key-row">
        <Button kind="primary" submit small busyWord={busy ? "Making…" : null}>
          Make key
        </Button>
        <Button kind="quiet" small onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </form>
  );
}
