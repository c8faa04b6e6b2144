import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { FocusEvent, PointerEvent, ReactNode } from "react";

const DELAY_MS = 120;

/** Return whether a tooltip is shown: 120 ms after hover, at once on focus by keyboard; Escape hides it. */
export function useTip() {
  const [shown, setShown] = useState(false);
  const timer = useRef<number | undefined>(undefined);
  const hide = useCallback(() => {
    window.clearTimeout(timer.current);
    setShown(false);
  }, []);
  // With the drawing itself: what is on screen hears its key at once.
  useLayoutEffect(() => {
    if (!shown) return;
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && hide();
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [shown, hide]);
  useEffect(() => hide, [hide]);
  const handlers = {
    onPointerEnter: (event: PointerEvent) => {
      if (event.pointerType !== "touch") timer.current = window.setTimeout(() => setShown(true), DELAY_MS);
    },
    onPointerLeave: hide,
    onFocus: (event: FocusEvent) => event.target.matches(":focus-visible") && setShown(true),
    onBlur: hide,
  };
  return { shown, handlers };
}

interface TooltipProps {
  /** One sentence; never the only place of a fact. */
  readonly text: ReactNode;
  readonly children: ReactNode;
}

/** A control with a sentence about it. */
export function Tooltip({ text, children }: TooltipProps) {
  const { shown, handlers } = useTip();
  const id = useId();
  return (
    <span className="anchor" aria-describedby={shown ? id : undefined} {...handlers}>
      {children}
      {shown && (
        <span className="tooltip tooltip-end" role="tooltip" id={id}>
          {text}
        </span>
      )}
    </span>
  );
}
