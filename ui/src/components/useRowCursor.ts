import { useState } from "react";

import { useKeys } from "../app/keyboard";

interface RowCursor {
  /** The chosen row, or -1. */
  readonly at: number;
  readonly moveTo: (index: number) => void;
}

interface RowCursorOptions {
  readonly onOpen?: (index: number) => void;
  /** Called when keys move the cursor, for example to scroll the row into view. */
  readonly onMove?: (index: number) => void;
}

/** A cursor over the rows of a list: `j` and `k` move it, Enter opens the row. */
export function useRowCursor(count: number, { onOpen, onMove }: RowCursorOptions = {}): RowCursor {
  const [at, setAt] = useState(-1);
  const move = (by: number) => {
    if (count === 0) return;
    const next = Math.min(Math.max(at + by, 0), count - 1);
    setAt(next);
    onMove?.(next);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ...(onOpen && at >= 0 && at < count ? { Enter: () => onOpen(at) } : {}),
  });
  return { at: Math.min(at, count - 1), moveTo: setAt };
}
