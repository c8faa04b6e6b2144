/** Filters and views: chips from bounded sets, segments for exclusive views, tabs for lists with counts. */
import { useEffect, useId, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";

import { formatCapped } from "../format";
import { Icon } from "./Icon";

export interface Option {
  readonly value: string;
  readonly label: string;
  /** A grey remark at the right, such as a count. */
  readonly note?: string;
}

interface ChipProps {
  readonly label: string;
  readonly options: readonly Option[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
  /** Only one value at a time, as for "since". */
  readonly single?: boolean;
}

/** A filter: closed it shows its name, or the values it lets through and a ×. */
export function Chip({ label, options, chosen, onChange, single = false }: ChipProps) {
  const [open, setOpen] = useState(false);
  const frame = useDismiss<HTMLSpanElement>(open, () => setOpen(false));
  const id = useId();
  const words = options.filter((option) => chosen.includes(option.value)).map((option) => option.label);
  const toggle = (value: string) => {
    if (single) {
      onChange(chosen.includes(value) ? [] : [value]);
      setOpen(false);
    } else {
      onChange(chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value]);
    }
  };
  return (
    <span className="anchor" ref={frame}>
      <button
        type="button"
        className={`chip ${chosen.length ? "chip-on" : ""}`}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={words.length ? `${label}: ${words.join(", ")}` : label}
        onClick={() => setOpen(!open)}
      >
        <span className="ellipsis">{words.length ? words.join(", ") : label}</span>
        {!chosen.length && <Icon name="down" size={10} />}
      </button>
      {chosen.length > 0 && (
        <button type="button" className="chip-clear" aria-label={`Clear ${label}`} onClick={() => onChange([])}>
          <Icon name="cross" size={10} />
        </button>
      )}
      {open && (
        <div className="popover" id={id} role="group" aria-label={label}>
          {options.length === 0 && <div className="option muted">Nothing to choose yet</div>}
          {options.map((option) => (
            <label key={option.value} className="option">
              <input
                type={single ? "radio" : "checkbox"}
                name={id}
                checked={chosen.includes(option.value)}
                onChange={() => toggle(option.value)}
              />
              <span className="ellipsis">{option.label}</span>
              {option.note !== undefined && <span className="end muted small">{option.note}</span>}
            </label>
          ))}
        </div>
      )}
    </span>
  );
}

/** Close a popover on Escape or on a press outside; focus returns to its first button. */
export function useDismiss<T extends HTMLElement>(open: boolean, close: () => void) {
  const frame = useRef<T>(null);
  const latest = useRef(close);
  latest.current = close;
  useEffect(() => {
    if (!open) return;
    const onPress = (event: PointerEvent) => {
      if (!frame.current?.contains(event.target as Node)) latest.current();
    };
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      latest.current();
      frame.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", onPress);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", onPress);
      document.removeEventListener("keydown", onKey, true);
    };
  }, [open]);
  return frame;
}

interface SegmentsProps<T extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: T; readonly label: ReactNode }[];
  readonly value: T;
  readonly onChange: (value: T) => void;
}

/** Two to four exclusive views. Arrow keys move the choice. */
export function Segments<T extends string>({ label, options, value, onChange }: SegmentsProps<T>) {
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => moveChoice(event, options, value, onChange);
  return (
    <div className="segments" role="radiogroup" aria-label={label} onKeyDown={onKeyDown}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="radio"
          className="segment"
          aria-checked={option.value === value}
          tabIndex={option.value === value ? 0 : -1}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

interface TabsProps<T extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: T; readonly label: string; readonly count?: number }[];
  readonly value: T;
  readonly onChange: (value: T) => void;
  /** The id of the panel that shows the chosen list. */
  readonly panel: string;
}

/** Lists with counts. Arrow keys move the choice. */
export function Tabs<T extends string>({ label, options, value, onChange, panel }: TabsProps<T>) {
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => moveChoice(event, options, value, onChange);
  return (
    <div className="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="tab"
          className="tab"
          aria-selected={option.value === value}
          aria-controls={panel}
          tabIndex={option.value === value ? 0 : -1}
          onClick={() => onChange(option.value)}
        >
          {option.label}
          {option.count !== undefined && ` ${formatCapped(option.count)}`}
        </button>
      ))}
    </div>
  );
}

function moveChoice<T extends string>(
  event: KeyboardEvent<HTMLDivElement>,
  options: readonly { readonly value: T }[],
  value: T,
  onChange: (value: T) => void,
): void {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const at = options.findIndex((option) => option.value === value);
  const next = (at + by + options.length) % options.length;
  const chosen = options[next];
  if (!chosen) return;
  onChange(chosen.value);
  event.currentTarget.querySelectorAll("button")[next]?.focus();
}
