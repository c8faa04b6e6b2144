import { useState } from "react";

import { useKeys } from "../app/keyboard";

interface RowCursor {
  /** The chosen row, or -1. */
  readonly at: number;
}

interface RowCursorOptions {
  /** The chosen row where the page keeps it itself, for example in the address. */
  readonly at?: number;
  readonly onOpen?: (index: number) => void;
  /** Called when keys move the cursor, for example to scroll the row into view. */
  readonly onMove?: (index: number) => void;
}

/** A cursor over the rows of a list: `j` and `k` move it, Enter opens the row. */
export function useRowCursor(count: number, { at: given, onOpen, onMove }: RowCursorOptions = {}): RowCursor {
  const [own, setOwn] = useState(-1);
  const at = Math.min(given ?? own, count - 1);
  const move = (by: number) => {
    if (count === 0) return;
    const next = Math.min(Math.max(at + by, 0), count - 1);
    setOwn(next);
    onMove?.(next);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ...(onOpen && at >= 0 ? { Enter: () => onOpen(at) } : {}),
  });
  return { at };
}
