/** Hash routes: every view is an address that works under any mount point and can be sent to somebody. */
import { useCallback, useSyncExternalStore } from "react";
import type { QueryClient } from "@tanstack/react-query";
import type { ComponentType } from "react";

import { readSecret } from "../api/client";
import { overviewQuery, runOf, seriesOf } from "../api/queries";

export interface Location {
  /** The path after `#`, such as `/runs/12`. */
  readonly path: string;
  /** Parameters after `?`, such as `step=38`. */
  readonly params: URLSearchParams;
}

export interface PageProps {
  /** The part of the path that names one thing, such as a run's id; empty on list pages. */
  readonly id: string;
}

type Page = ComponentType<PageProps>;

export interface Route {
  readonly pattern: RegExp;
  /** Return the page, or null until its part of the program is loaded. */
  readonly getPage: () => Page | null;
  /** Load the page's part of the program. */
  readonly load: () => Promise<unknown>;
  /** The entry of the top bar that is current. */
  readonly section: Section;
  readonly title: string;
  /** Ask for the data that the page asks for first. */
  readonly prefetch?: Prefetch;
}

type Prefetch = (client: QueryClient, id: string) => void;

export type Section = "overview" | "runs" | "incidents" | "agents" | "settings";

// Not `lazy`: what suspends is shown by React 300 ms later at the earliest, also when it was loaded long before.
function makeRoute(
  pattern: RegExp,
  importPage: () => Promise<{ default: Page }>,
  section: Section,
  title: string,
  prefetch?: Prefetch,
): Route {
  let page: Page | null = null;
  const load = async (): Promise<void> => {
    page = (await importPage()).default;
  };
  return { pattern, load, getPage: () => page, section, title, ...(prefetch && { prefetch }) };
}

const prefetchRun: Prefetch = (client, id) => {
  void client.prefetchQuery(runOf(id));
  void client.prefetchQuery(seriesOf(id));
};
const prefetchOverview: Prefetch = (client) => void client.prefetchQuery(overviewQuery);

const routes: readonly Route[] = [
  makeRoute(/^\/$/, () => import("../overview/OverviewPage"), "overview", "Overview", prefetchOverview),
  makeRoute(/^\/runs$/, () => import("../runs/RunsPage"), "runs", "Runs"),
  makeRoute(/^\/runs\/([^/]+)$/, () => import("../run/RunPage"), "runs", "Run", prefetchRun),
  makeRoute(/^\/incidents$/, () => import("../incidents/IncidentsPage"), "incidents", "Incidents"),
  makeRoute(/^\/incidents\/([^/]+)$/, () => import("../run/IncidentPage"), "runs", "Incident"),
  makeRoute(/^\/agents$/, () => import("../overview/AgentsPage"), "agents", "Agents"),
  makeRoute(/^\/agents\/([^/]+)$/, () => import("../agent/AgentPage"), "agents", "Agent"),
  makeRoute(/^\/settings$/, () => import("../settings/SettingsPage"), "settings", "Settings"),
];

/** Begin to load the page of the present address and its data, before it is known who is signed in. */
export function preloadPage(client: QueryClient): void {
  const match = matchRoute(current.path);
  match?.route.load().catch(() => undefined); // The page itself says what is wrong.
  if (readSecret() !== null) match?.route.prefetch?.(client, match.id);
}

export interface Match {
  readonly route: Route;
  readonly id: string;
}

export function matchRoute(path: string): Match | null {
  for (const route of routes) {
    const found = route.pattern.exec(path);
    if (found) return { route, id: decode(found[1] ?? "") };
  }
  return null;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parse(hash: string): Location {
  const text = hash.replace(/^#/, "") || "/";
  const cut = text.indexOf("?");
  return cut < 0
    ? { path: text, params: new URLSearchParams() }
    : { path: text.slice(0, cut) || "/", params: new URLSearchParams(text.slice(cut + 1)) };
}

let current = parse(window.location.hash);
const listeners = new Set<() => void>();

function update(): void {
  current = parse(window.location.hash);
  for (const listener of listeners) listener();
}

window.addEventListener("hashchange", update);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLocation(): Location {
  return useSyncExternalStore(subscribe, () => current);
}

type Params = Readonly<Record<string, string | number | null | undefined>>;

/** Return the address of a view: `href("/runs/12", { step: 38 })`. */
export function href(path: string, params: Params | URLSearchParams = {}): string {
  const search = params instanceof URLSearchParams ? params : new URLSearchParams();
  if (!(params instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(params)) {
      if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
    }
  }
  const text = search.toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

/** Runs and agents are known by their keys, as in the API. */
export const runPath = (key: string | number): string => `/runs/${encodeURIComponent(String(key))}`;
export const agentPath = (key: string | number): string => `/agents/${encodeURIComponent(String(key))}`;

/** Go to a view. `replace` keeps the step out of the history, as for a moving cursor. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const address = to.startsWith("#") ? to : `#${to}`;
  if (replace) {
    history.replaceState(null, "", address);
    update();
  } else {
    window.location.hash = address;
  }
}

/** One parameter of the current view, and a function that changes it in place. */
export function useParam(name: string): [string | null, (value: string | number | null, push?: boolean) => void] {
  const { params } = useLocation();
  const set = useCallback(
    (value: string | number | null, push = false) => {
      const next = new URLSearchParams(current.params);
      if (value === null || value === "") next.delete(name);
      else next.set(name, String(value));
      navigate(href(current.path, next), { replace: !push });
    },
    [name],
  );
  return [params.get(name), set];
}
