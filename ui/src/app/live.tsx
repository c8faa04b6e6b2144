/** Live updates: what the stream says is applied to the cache, unless the page is paused. */
import { useQueryClient } from "@tanstack/react-query";
import type { Query, QueryClient } from "@tanstack/react-query";
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";

import { readChangeNumber } from "../api/client";
import { keys } from "../api/queries";
import type { Change } from "../api/types";
import { noticeSignedOut } from "./session";
import { followStream } from "./stream";
import type { FollowedStream } from "./stream";
import type { StreamState } from "./tabs";

/** At most so often is something asked for again, however many changes come. */
const REFRESH_MS = 700;
/** Paused for long, the page stops counting and loads everything again when it goes on. */
const MOST_WAITING = 1_000;

type Listener = (change: Change) => void;

interface Live {
  readonly state: StreamState | "paused";
  /** Changes that wait while paused. */
  readonly waiting: number;
  readonly openIncidents: number | null;
  readonly pause: () => void;
  readonly resume: () => void;
  /** Load everything again, after "reset". */
  readonly reload: () => void;
  /** Hear every change that is applied; returns a function that ends it. */
  readonly listen: (listener: Listener) => () => void;
}

const Context = createContext<Live | null>(null);

export function useLive(): Live {
  const live = useContext(Context);
  if (!live) throw new Error("useLive is for pages inside LiveProvider.");
  return live;
}

/** Call `listener` with each change that is applied. */
export function useChanges(listener: Listener): void {
  const { listen } = useLive();
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => listen((change) => latest.current(change)), [listen]);
}

export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const client = useQueryClient();
  const [state, setState] = useState<StreamState>("connecting");
  const [paused, setPaused] = useState(false);
  const [waiting, setWaiting] = useState(0);
  const [openIncidents, setOpenIncidents] = useState<number | null>(null);
  const kept = useRef<Change[]>([]);
  const pausedNow = useRef(false);
  const listeners = useRef(new Set<Listener>());
  const stream = useRef<FollowedStream>(null);
  const refresh = useMemo(() => createRefresher(client), [client]);

  const apply = useCallback(
    (change: Change) => {
      setOpenIncidents(change.open_incidents);
      refresh(namesOf(change));
      for (const listener of listeners.current) listener(change);
    },
    [refresh],
  );

  useEffect(() => {
    let told: StreamState = "connecting";
    const followed = followStream({
      onState: (next, reached) => {
        const before = told;
        told = next;
        if (next !== "live" || before === "live") {
          setState(next);
          return;
        }
        // What was loaded before the stream began may have changed in between. "Live" means that it has not, or
        // was asked for again.
        void loadAgain(client, reached).then(() => setState(told));
      },
      onOpenIncidents: setOpenIncidents,
      onChange: (change) => {
        if (!pausedNow.current) {
          apply(change);
        } else if (kept.current.length < MOST_WAITING) {
          kept.current.push(change);
          setWaiting(kept.current.length);
        }
      },
      onSignedOut: noticeSignedOut,
    });
    stream.current = followed;
    return followed.stop;
  }, [apply, client]);

  const live = useMemo<Live>(
    () => ({
      state: paused ? "paused" : state,
      waiting,
      openIncidents,
      pause: () => {
        pausedNow.current = true;
        setPaused(true);
      },
      resume: () => {
        pausedNow.current = false;
        const changes = kept.current;
        kept.current = [];
        setWaiting(0);
        setPaused(false);
        for (const change of changes) apply(change);
        if (changes.length >= MOST_WAITING) refresh([keys.all]);
      },
      reload: () => {
        void client.resetQueries({ queryKey: keys.all });
        stream.current?.goOn();
      },
      listen: (listener) => {
        listeners.current.add(listener);
        return () => listeners.current.delete(listener);
      },
    }),
    [paused, state, waiting, openIncidents, apply, client, refresh],
  );
  return <Context value={live}>{children}</Context>;
}

/** The first parts of the query keys that a change makes old. Lists of runs are mended in place instead. */
function namesOf(change: Change): string[][] {
  const names: string[][] = [["api", "overview"]];
  for (const run of change.runs) names.push(["api", "run", String(run.key)]);
  if (change.incidents.length) names.push(["api", "incidents"], ["api", "incident"], ["api", "precision"]);
  for (const agent of new Set([...change.agents, ...change.incidents])) names.push(["api", "agent", String(agent)]);
  if (change.settings) names.push(["api", "settings"], ["api", "incidents"], ["api", "incident"]);
  return names;
}

/** Ask again for everything that lacks a change up to this number, also for what is on its way. */
async function loadAgain(client: QueryClient, reached: number): Promise<void> {
  const onTheirWay = client.getQueryCache().findAll({ queryKey: keys.all, fetchStatus: "fetching" });
  await Promise.allSettled(onTheirWay.map((query) => query.fetch()));
  await client.invalidateQueries({
    queryKey: keys.all,
    predicate: (query) => readChangeNumber(query.state.data) < reached,
  });
}

/** Return a function that asks for what is old at once, then at most every 0.7 s. */
function createRefresher(client: QueryClient): (names: readonly (readonly string[])[]) => void {
  const old = new Set<Query>();
  let timer: number | undefined;
  const flush = () => {
    timer = undefined;
    if (old.size === 0) return;
    for (const query of old) {
      // What is on its way may be from before the change: it is asked for again when it has come.
      if (query.state.fetchStatus === "fetching") continue;
      old.delete(query);
      void client.invalidateQueries({ queryKey: query.queryKey, exact: true });
    }
    timer = window.setTimeout(flush, REFRESH_MS);
  };
  return (names) => {
    for (const queryKey of names) for (const query of client.getQueryCache().findAll({ queryKey })) old.add(query);
    if (timer === undefined) flush();
  };
}
