/** What all charts share: one tab stop with a summary, a table view, and the width of the place. */
import { useCallback, useId, useLayoutEffect, useRef, useState } from "react";
import type { CSSProperties, KeyboardEvent, PointerEvent, ReactNode, RefObject } from "react";

import { Icon } from "../components/Icon";
import { useTip } from "../components/Tooltip";
import "./charts.css";

/** Return a ref and the width of its element, followed as it changes. */
export function useWidth<Element extends HTMLElement>(): [RefObject<Element | null>, number] {
  const ref = useRef<Element>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

export interface Point {
  x: number;
  y: number;
}

export interface ChartStopProps {
  label: string;
  /** One sentence: what the chart shows. */
  summary: string;
  min: number;
  max: number;
  value: number;
  /** One sentence about the place of the cursor: the tooltip, which screen readers say on each move. */
  text: string;
  /** The place of the cursor, below which the tooltip stands; null where it is out of sight. */
  at: Point | null;
  /** The width of the chart. */
  width: number;
  onMove: (to: number) => void;
  /** The pointer moved to this place, or left. */
  onPoint?: (at: Point | null) => void;
  /** What the pointer is over was pressed. */
  onPress?: () => void;
  /** Keys beside arrows; return true for a key that was used. */
  onKey?: (event: KeyboardEvent) => boolean;
  className?: string;
  children: ReactNode;
}

/** A chart as one tab stop: arrows move a cursor inside it, as in a slider. */
export function ChartStop(props: ChartStopProps): ReactNode {
  const summaryId = useId();
  const { min, max, value, onMove, onKey, onPoint } = props;
  const tip = useTip();
  const onKeyDown = useCallback(
    (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const to = moveTo(event, value, min, max);
      if (to !== null) onMove(to);
      else if (!onKey?.(event)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    [min, max, value, onMove, onKey],
  );
  return (
    <div
      className={`chart-stop ${props.className ?? ""}`}
      role="slider"
      tabIndex={0}
      aria-label={props.label}
      aria-describedby={summaryId}
      aria-valuemin={min}
      aria-valuemax={max}
      aria-valuenow={value}
      aria-valuetext={props.text}
      onKeyDown={onKeyDown}
      {...tip.handlers}
      {...(onPoint && {
        onPointerMove: (event: PointerEvent<HTMLDivElement>) => onPoint(findPlace(event)),
        onPointerLeave: () => {
          tip.handlers.onPointerLeave();
          onPoint(null);
        },
      })}
      {...(props.onPress && { onClick: props.onPress })}
    >
      <span id={summaryId} className="visually-hidden">
        {props.summary}
      </span>
      {props.children}
      {tip.shown && props.at && (
        <span className="tooltip" aria-hidden="true" style={placeTip(props.at, props.width)}>
          {props.text}
        </span>
      )}
    </div>
  );
}

function findPlace(event: PointerEvent<HTMLDivElement>): Point {
  const box = event.currentTarget.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/** Return the place of a tooltip below a point, moved to the side where there is room. */
function placeTip({ x, y }: Point, width: number): CSSProperties {
  return { left: x, top: y + 6, transform: `translateX(${(-100 * x) / Math.max(1, width)}%)` };
}

function moveTo(event: KeyboardEvent, value: number, min: number, max: number): number | null {
  const stride = event.shiftKey ? 10 : 1;
  const moves: Record<string, number> = {
    ArrowRight: value + stride,
    ArrowUp: value + stride,
    ArrowLeft: value - stride,
    ArrowDown: value - stride,
    Home: min,
    End: max,
  };
  const to = moves[event.key];
  return to === undefined ? null : Math.min(max, Math.max(min, to));
}

/** The icon at the right of a chart's head that swaps the chart for its table. */
export function TableSwitch(props: { name: string; on: boolean; onChange: (on: boolean) => void }): ReactNode {
  const words = props.on ? `Show ${props.name} as a chart` : `Show ${props.name} as a table`;
  return (
    <button
      type="button"
      className="button button-quiet button-small button-icon table-switch"
      aria-pressed={props.on}
      aria-label={words}
      title={words}
      onClick={() => props.onChange(!props.on)}
    >
      <Icon name="table" />
    </button>
  );
}

export interface ChartTableProps {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly ReactNode[])[];
  /** Columns that are words; all others are numbers at the right. */
  words?: readonly number[];
}

const FIRST_ROWS = 200;

/** The table of a chart: the same numbers, in rows. */
export function ChartTable(props: ChartTableProps): ReactNode {
  const [all, setAll] = useState(false);
  const rows = all ? props.rows : props.rows.slice(0, FIRST_ROWS);
  const kind = (column: number): string => (props.words?.includes(column) ? "" : "number");
  return (
    // A region that scrolls must be reachable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="chart-table" tabIndex={0} role="region" aria-label={`${props.caption}, as a table`}>
      <table className="table">
        <caption className="visually-hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.head.map((name, column) => (
              <th key={name} scope="col" className={kind(column)}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} className={kind(column)}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length < props.rows.length && (
        <button type="button" className="link-button chart-table-more" onClick={() => setAll(true)}>
          Show all {props.rows.length.toLocaleString("en")} rows
        </button>
      )}
    </div>
  );
}
