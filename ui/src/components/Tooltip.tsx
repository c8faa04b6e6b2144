import { useEffect, useId, useRef, useState } from "react";
import type { ReactNode } from "react";

const DELAY_MS = 120;

interface TooltipProps {
  /** One sentence; never the only place of a fact. */
  readonly text: ReactNode;
  readonly children: ReactNode;
}

/** A sentence 120 ms after hover, at once on focus; Escape closes it. */
export function Tooltip({ text, children }: TooltipProps) {
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const timer = useRef<number | undefined>(undefined);
  const id = useId();
  const show = (target: Element) => {
    const box = target.getBoundingClientRect();
    setAt({ x: Math.min(box.left, window.innerWidth - 332), y: box.bottom + 6 });
  };
  const hide = () => {
    window.clearTimeout(timer.current);
    setAt(null);
  };
  useEffect(() => {
    if (!at) return;
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && hide();
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [at]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return (
    <span
      aria-describedby={at ? id : undefined}
      onPointerEnter={(event) => {
        const target = event.currentTarget;
        timer.current = window.setTimeout(() => show(target), DELAY_MS);
      }}
      onPointerLeave={hide}
      onFocus={(event) => show(event.currentTarget)}
      onBlur={hide}
    >
      {children}
      {at && (
        <span className="tooltip" role="tooltip" id={id} style={{ left: Math.max(at.x, 8), top: at.y }}>
          {text}
        </span>
      )}
    </span>
  );
}
