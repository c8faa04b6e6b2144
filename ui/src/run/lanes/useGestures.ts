/** What the pointer does in the lanes. */
import { useContext, useRef, useState } from "react";
import type { PointerEvent } from "react";

import { clamp } from "../../charts/axis";
import type { Axis, Span } from "../../charts/axis";
import { CursorContext } from "../cursor";
import type { ViewChange } from "../address";

const CLICK_PX = 4;

export interface GestureOptions {
  axis: Axis;
  select: (step: number) => void;
  setWindow: (span: Span | null) => void;
  selection: Span | null;
  change: (change: ViewChange) => void;
  window: Span;
  end: number;
}

/** Return the drawing under the pointer, and the pointer's place on the axis. */
function place(event: PointerEvent<HTMLDivElement>): { plot: Element | null; x: number } {
  const plot = (event.target as Element).closest("svg[data-gesture]");
  const area = event.currentTarget.querySelector(".lane-ticks")!.getBoundingClientRect();
  return { plot, x: event.clientX - area.left };
}

function span(from: number, to: number): Span {
  return { from: Math.min(from, to), to: Math.max(from, to) };
}

interface Held {
  x: number;
  step: number;
  /** zoom: a new window; select: a new selection; from, to: one end of it; pan: the window, by touch. */
  kind: "zoom" | "select" | "from" | "to" | "pan";
}

/** Follow the pointer: move the cursor, click to select a step, drag to zoom or to select steps. */
export function useGestures({ axis, select, setWindow, selection, change, window, end }: GestureOptions) {
  const cursor = useContext(CursorContext);
  const held = useRef<Held | null>(null);
  const [box, setBox] = useState<{ left: number; width: number } | null>(null);
  const [selecting, setSelecting] = useState<Span | null>(null);
  const selected = (start: Held, step: number): Span => {
    if (start.kind === "from" && selection) return span(step, selection.to);
    if (start.kind === "to" && selection) return span(selection.from, step);
    return span(start.step, step);
  };
  const onPointerDown = (event: PointerEvent<HTMLDivElement>): void => {
    const { plot, x } = place(event);
    if (!plot || event.button !== 0) return;
    const edge = (event.target as Element).closest("[data-edge]")?.getAttribute("data-edge");
    const gesture = plot.getAttribute("data-gesture") === "select" ? "select" : "zoom";
    const kind = edge === "from" || edge === "to" ? edge : event.pointerType === "touch" ? "pan" : gesture;
    held.current = { x, step: axis.stepAt(x), kind };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>): void => {
    const { plot, x } = place(event);
    const start = held.current;
    const step = axis.stepAt(x);
    if (!start) {
      const inside = plot !== null && x >= axis.left - 4 && x <= axis.end + 4;
      cursor.hover(inside ? step : null);
      return;
    }
    if (Math.abs(x - start.x) < CLICK_PX) return;
    if (start.kind === "zoom") setBox({ left: Math.min(x, start.x), width: Math.abs(x - start.x) });
    else if (start.kind === "pan") {
      const by = Math.round((start.x - x) / axis.pitch);
      if (by === 0) return;
      const from = clamp(window.from + by, 1, Math.max(1, end - (window.to - window.from)));
      setWindow({ from, to: from + (window.to - window.from) });
      held.current = { ...start, x };
    } else setSelecting(selected(start, step));
  };
  const onPointerUp = (event: PointerEvent<HTMLDivElement>): void => {
    const start = held.current;
    held.current = null;
    setBox(null);
    setSelecting(null);
    if (!start) return;
    const { x } = place(event);
    const step = axis.stepAt(x);
    if (Math.abs(x - start.x) < CLICK_PX) {
      if (start.kind !== "from" && start.kind !== "to") select(step);
      return;
    }
    if (start.kind === "zoom") setWindow(span(start.step, step));
    else if (start.kind !== "pan") {
      const { from, to } = selected(start, step);
      change({ from, to });
    }
  };
  const onPointerLeave = (): void => cursor.hover(null);
  const onPointerCancel = (): void => {
    held.current = null;
    setBox(null);
    setSelecting(null);
  };
  return { box, selecting, handlers: { onPointerDown, onPointerMove, onPointerUp, onPointerLeave, onPointerCancel } };
}
