/** The theme: the system's, light or dark. `public/theme.js` sets it before the first paint. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "steadyhelm.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function read(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

let theme = read();

function apply(): void {
  const dark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);

export function setTheme(next: Theme): void {
  theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Not kept, but shown.
  }
  apply();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** The theme on screen. A canvas depends on it to redraw with the colours of the new one. */
export function useShownTheme(): string {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset["theme"] ?? "light");
}

/** Return a token's colour as it is now, for a canvas: `readToken("drift")`. */
export function readToken(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
