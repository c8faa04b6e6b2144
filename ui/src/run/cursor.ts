/** The one cursor of a run: it moves without rendering the lanes again. */
import { createContext, useContext, useSyncExternalStore } from "react";

type Listener = () => void;

/** The step under the pointer, or else the selected one. */
export class Cursor {
  #hover: number | null = null;
  #pinned: number | null = null;
  readonly #listeners = new Set<Listener>();

  #times: (step: number) => number | null = () => null;

  /** Return when a step took place, in seconds since 1970; null when that is not known. */
  readonly timeOf = (step: number): number | null => this.#times(step);

  setTimes(times: (step: number) => number | null): void {
    this.#times = times;
    this.#tell();
  }

  get step(): number | null {
    return this.#hover ?? this.#pinned;
  }

  readonly hover = (step: number | null): void => {
    if (step === this.#hover) return;
    this.#hover = step;
    this.#tell();
  };

  pin(step: number | null): void {
    if (step === this.#pinned) return;
    this.#pinned = step;
    this.#tell();
  }

  readonly subscribe = (listener: Listener): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

export const CursorContext = createContext(new Cursor());

/** Return the step of the cursor; null without one. Renders again when it moves. */
export function useCursorStep(): number | null {
  const cursor = useContext(CursorContext);
  return useSyncExternalStore(cursor.subscribe, () => cursor.step);
}
