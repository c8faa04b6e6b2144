import { useState } from "react";

import { Button } from "../components/Button";
import { Icon } from "../components/Icon";
import { Tooltip } from "../components/Tooltip";
import { useMessages } from "../components/UndoMessage";
import { formatCapped, formatCount } from "../format";
import { HelpDialog } from "./HelpDialog";
import { useKeys } from "./keyboard";
import { useLive } from "./live";
import { href, navigate } from "./router";
import type { Section } from "./router";
import { Search } from "./Search";
import { setTheme, useTheme } from "./theme";
import type { Theme } from "./theme";

const PAGES: readonly { readonly section: Section; readonly path: string; readonly label: string }[] = [
  { section: "overview", path: "/", label: "Overview" },
  { section: "runs", path: "/runs", label: "Runs" },
  { section: "incidents", path: "/incidents", label: "Incidents" },
  { section: "agents", path: "/agents", label: "Agents" },
  { section: "settings", path: "/settings", label: "Settings" },
];

const NEXT: Readonly<Record<Theme, Theme>> = { system: "light", light: "dark", dark: "system" };
const THEME_ICON = { system: "screen", light: "sun", dark: "moon" } as const;

export function TopBar({ section }: { readonly section: Section | null }) {
  const theme = useTheme();
  const live = useLive();
  const { undoLast } = useMessages();
  const [help, setHelp] = useState(false);
  const togglePause = () => (live.state === "paused" ? live.resume() : live.pause());
  useKeys({
    "?": () => setHelp(true),
    p: togglePause,
    z: undoLast,
    "g o": () => navigate("/"),
    "g r": () => navigate("/runs"),
    "g i": () => navigate("/incidents"),
    "g a": () => navigate("/agents"),
    "g s": () => navigate("/settings"),
  });
  return (
    <header className="top">
      <a className="skip" href="#main" onClick={focusMain}>
        Skip to the page
      </a>
      <Brand />
      <nav className="pages" aria-label="Pages">
        {PAGES.map((page) => (
          <a
            key={page.section}
            className="page-link"
            href={href(page.path)}
            aria-current={page.section === section ? "page" : undefined}
          >
            {page.label}
            {page.section === "incidents" && live.openIncidents ? (
              <span className="badge badge-drift" aria-label={`${live.openIncidents} open`}>
                {formatCapped(live.openIncidents)}
              </span>
            ) : null}
          </a>
        ))}
      </nav>
      <div className="top-end">
        <Search />
        <LiveState />
        <Button
          kind="quiet"
          icon
          aria-label={live.state === "paused" ? "Go on with live updates" : "Pause live updates"}
          aria-keyshortcuts="p"
          onClick={togglePause}
        >
          <Icon name={live.state === "paused" ? "play" : "pause"} />
        </Button>
        <Button
          kind="quiet"
          icon
          aria-label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
          title={`Theme: ${theme}`}
          onClick={() => setTheme(NEXT[theme])}
        >
          <Icon name={THEME_ICON[theme]} />
        </Button>
        <Button kind="quiet" icon className="wide-only" aria-label="Keys" aria-keyshortcuts="?" onClick={() => setHelp(true)}>
          <kbd>?</kbd>
        </Button>
      </div>
      <HelpDialog open={help} onClose={() => setHelp(false)} />
    </header>
  );
}

/** The address is a route, so that the link moves the focus itself. */
function focusMain(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

export function Brand() {
  return (
    <a className="brand" href={href("/")}>
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="2">
        <circle cx="10" cy="10" r="6" />
        <path d="M10 1v18M1 10h18" />
      </svg>
      <span>Steadyhelm</span>
    </a>
  );
}

/** Live, Paused (n waiting), Reconnecting or Reset: one at a time. */
function LiveState() {
  const { state, waiting, reload } = useLive();
  if (state === "reset") {
    return (
      <Tooltip text="The server no longer knows what changed in between.">
        <Button small className="live-reset" onClick={reload}>
          Reset: load again
        </Button>
      </Tooltip>
    );
  }
  const word =
    state === "paused"
      ? `Paused${waiting ? ` (${formatCount(waiting)} waiting)` : ""}`
      : state === "live"
        ? "Live"
        : state === "connecting"
          ? "Connecting"
          : "Reconnecting";
  return (
    <span className={`live live-${state}`} role="status">
      <svg viewBox="0 0 14 14" width="12" height="12" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.5">
        {state === "paused" ? (
          <path d="M4.5 3v8M9.5 3v8" />
        ) : (
          <>
            <circle cx="7" cy="7" r="5.5" strokeDasharray={state === "live" ? undefined : "3 2"} />
            {state === "live" && <circle cx="7" cy="7" r="2" fill="currentColor" stroke="none" />}
          </>
        )}
      </svg>
      {word}
    </span>
  );
}
