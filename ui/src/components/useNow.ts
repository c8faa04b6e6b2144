import { useSyncExternalStore } from "react";

// One clock for the page: relative times change together, and nothing else redraws.
const TICK_MS = 5_000;
let now = Date.now() / 1_000;
const listeners = new Set<() => void>();
let timer: number | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    timer = window.setInterval(() => {
      now = Date.now() / 1_000;
      for (const each of listeners) each();
    }, TICK_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** Seconds since 1970, refreshed every 5 s. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
