/** Single keys. They are off while a field has focus, and can be switched off. */
import { useLayoutEffect, useRef, useSyncExternalStore } from "react";

const KEY = "steadyhelm.keys";
const listeners = new Set<() => void>();

function read(): boolean {
  try {
    return localStorage.getItem(KEY) !== "off";
  } catch {
    return true;
  }
}

let enabled = read();

export function setKeysEnabled(on: boolean): void {
  enabled = on;
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
  } catch {
    // Holds until the page is left.
  }
  for (const listener of listeners) listener();
}

export function useKeysEnabled(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => enabled,
  );
}

export type KeyTable = Readonly<Record<string, (event: KeyboardEvent) => void>>;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) {
    return true;
  }
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type);
}

/**
 * Listen for single keys, such as `{ j: next, "g o": goHome, "Shift+ArrowRight": jump }`.
 *
 * The innermost table that knows a key gets it: a key that was handled is not handled again.
 */
export function useKeys(table: KeyTable, on = true): void {
  const latest = useRef(table);
  latest.current = table;
  // With the drawing itself: what is on screen hears its keys at once.
  useLayoutEffect(() => {
    if (!on) return;
    let prefix = "";
    let timer: number | undefined;
    const onKey = (event: KeyboardEvent) => {
      if (!enabled || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
      const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
      const pair = prefix ? `${prefix} ${name}` : name;
      prefix = "";
      const action = latest.current[pair];
      if (action) {
        if (event.key === "Enter" && isControl(event.target)) return;
        event.preventDefault();
        action(event);
      } else if (Object.keys(latest.current).some((key) => key.startsWith(`${name} `))) {
        prefix = name;
        window.clearTimeout(timer);
        timer = window.setTimeout(() => (prefix = ""), 1_500);
      }
    };
    document.addEventListener("keydown", onKey);
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener("keydown", onKey);
    };
  }, [on]);
}

/** Enter on a button or link is that control's own. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("button, a, summary, label") !== null;
}
