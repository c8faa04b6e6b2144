import type { SettingList, SettingValue } from "../api/types";
import { useParam } from "../app/router";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { HostileText } from "../components/HostileText";
import { Empty } from "../components/States";
import { Table } from "../components/Table";
import { formatCount } from "../format";
import { SettingsCard } from "./SettingsCard";

/** Changed settings come first; the rest is shown on request. */
const ROWS_SHOWN = 12;

/** Every setting with its value, where it comes from, and what it was. */
export function ValuesCard() {
  const [only, setOnly] = useParam("values");
  return (
    <SettingsCard<SettingList> id="values" title="Values" note="and where they come from" path="/settings">
      {({ settings, file }) => {
        const changed = settings.filter((each) => each.source !== "default");
        const ordered = [...changed, ...settings.filter((each) => each.source === "default")];
        const shown = only === "changed" ? changed : only === "all" ? ordered : ordered.slice(0, ROWS_SHOWN);
        return (
          <>
            <div className="values-bar">
              <button
                type="button"
                className={`chip ${only === "changed" ? "chip-on" : ""}`}
                aria-pressed={only === "changed"}
                onClick={() => setOnly(only === "changed" ? null : "changed")}
              >
                Changed {formatCount(changed.length)}
              </button>
              <span className="muted small">
                {file ? (
                  <>
                    read from <code>{file}</code>
                  </>
                ) : (
                  "no settings file"
                )}
                ; an agent's own process may read others
              </span>
            </div>
            {shown.length === 0 ? (
              <Empty>Every setting has its default.</Empty>
            ) : (
              <Table
                caption="Settings"
                rows={shown}
                rowKey={(row) => row.name}
                columns={[
                  { key: "name", head: "Setting", cell: (row) => <code>{row.name}</code> },
                  { key: "value", head: "Value", cell: (row) => <HostileText text={withSeparators(row.value)} whole mono /> },
                  { key: "source", head: "From", cell: (row) => <Source row={row} /> },
                  { key: "about", head: "About", cell: (row) => <About row={row} /> },
                ]}
              />
            )}
            {only === null && settings.length > shown.length && (
              <div className="card-body">
                <Button small onClick={() => setOnly("all")}>
                  Show all {formatCount(settings.length)}
                </Button>
              </div>
            )}
          </>
        );
      }}
    </SettingsCard>
  );
}

/** Whole numbers of four digits and more get separators, as everywhere on the page. */
function withSeparators(value: string): string {
  return /^\d{4,15}$/.test(value) ? formatCount(Number(value)) : value;
}

function Source({ row }: { readonly row: SettingValue }) {
  if (row.source === "default") return <Badge>default</Badge>;
  return <Badge tone="accent">{row.source === "file" ? row.origin || "file" : row.source}</Badge>;
}

function About({ row }: { readonly row: SettingValue }) {
  const changed = row.source !== "default";
  return (
    <span className="muted">
      {row.source === "environment" && row.origin && <code>{row.origin} </code>}
      {changed && row.default !== row.value ? `was ${row.default === "-" ? "not set" : withSeparators(row.default)}; ` : ""}
      {row.about}
    </span>
  );
}
