import { Button } from "../components/Button";
import { Icon } from "../components/Icon";
import { href } from "./router";
import type { Section } from "./router";
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
  return (
    <header className="top">
      <a className="brand" href={href("/")}>
        <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="2">
          <circle cx="10" cy="10" r="6" />
          <path d="M10 1v18M1 10h18" />
        </svg>
        <span>Steadyhelm</span>
      </a>
      <nav className="pages" aria-label="Pages">
        {PAGES.map((page) => (
          <a
            key={page.section}
            className="page-link"
            href={href(page.path)}
            aria-current={page.section === section ? "page" : undefined}
          >
            {page.label}
          </a>
        ))}
      </nav>
      <div className="top-end">
        <Button
          kind="quiet"
          icon
          aria-label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
          title={`Theme: ${theme}`}
          onClick={() => setTheme(NEXT[theme])}
        >
          <Icon name={THEME_ICON[theme]} />
        </Button>
      </div>
    </header>
  );
}
