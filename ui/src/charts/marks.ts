/** Brackets over loops, arcs between identical calls, tool letters and columns of many steps. */

import { px } from "./series";

export interface Bracket {
  id: string;
  from: number;
  to: number;
  /** What it says, the longest words first. */
  labels: readonly string[];
  proof: readonly number[];
}

export interface PlacedBracket extends Bracket {
  row: number;
  openLeft: boolean;
  openRight: boolean;
}

export const BRACKET_ROWS = 3;

/** Place brackets in rows without overlap, short ones lowest; return how many found no row. */
export function placeBrackets(
  brackets: readonly Bracket[],
  window: { first: number; last: number },
): { placed: PlacedBracket[]; hidden: number } {
  const visible = brackets
    .filter((each) => each.to >= window.first && each.from <= window.last)
    .toSorted((a, b) => a.to - a.from - (b.to - b.from) || a.from - b.from);
  const rows: PlacedBracket[][] = [];
  let hidden = 0;
  for (const bracket of visible) {
    let row = 0;
    while (rows[row]?.some((other) => bracket.from <= other.to && bracket.to >= other.from)) row += 1;
    if (row >= BRACKET_ROWS) {
      hidden += 1;
      continue;
    }
    (rows[row] ??= []).push({
      ...bracket,
      row,
      openLeft: bracket.from < window.first,
      openRight: bracket.to > window.last,
    });
  }
  return { placed: rows.flat(), hidden };
}

/** Return what a loop can be called, the longest first: its tools by name, by letter, and how often alone. */
export function nameLoop(names: readonly string[], tools: readonly { name: string }[], words: string): string[] {
  const letters = names.map((name) => {
    const place = tools.findIndex((tool) => tool.name === name);
    return place < 0 ? name : toolLetter(place);
  });
  const [times = ""] = words.split(" ");
  return [`${names.join(" → ")} ${words}`, `${letters.join(" → ")} ${words}`, `${letters.join(" → ")} ${times}`];
}

/** Return the bracket's line with end ticks, proof ticks and a gap for its label. */
export function bracketPath(
  ends: { left: number; right: number; openLeft: boolean; openRight: boolean },
  proof: readonly number[],
  y: number,
  gap: number,
): string {
  const { left, right } = ends;
  const middle = (left + right) / 2;
  const wide = right - left > gap + 16;
  let path = ends.openLeft ? `M${px(left)} ${y}` : `M${px(left)} ${y + 7}V${y}`;
  path += wide ? `H${px(middle - gap / 2)}M${px(middle + gap / 2)} ${y}H${px(right)}` : `H${px(right)}`;
  if (!ends.openRight) path += `V${y + 7}`;
  for (const at of proof) {
    if (at > left + 1 && at < right - 1) path += `M${px(at)} ${y + (wide && Math.abs(at - middle) < gap / 2 ? 4 : 0)}V${y + 4}`;
  }
  return path;
}

/** Return an arc between two places on a base line, at most `tallest` high. */
export function arcPath(left: number, right: number, base: number, tallest: number): string {
  const radius = (right - left) / 2;
  const height = Math.min(0.8 * radius + 6, tallest);
  return `M${px(left)} ${px(base)}A${px(radius)} ${px(height)} 0 0 1 ${px(right)} ${px(base)}`;
}

/** Fill classes of tools: t0 to t7, repeating. */
export function toolFill(tool: number): string {
  return `t${tool % 8}`;
}

/** Return the letter of a tool by its place in the run: A is the most used, then B2 after Z. */
export function toolLetter(tool: number): string {
  const letter = String.fromCharCode(65 + (tool % 26));
  const round = Math.floor(tool / 26);
  return round === 0 ? letter : `${letter}${round + 1}`;
}

/** A column of several steps; `tools` are calls by place, the last one all others. */
export interface Column {
  first: number;
  last: number;
  tools: number[];
  others: number;
  failed: number;
  repeated: number;
  repeatedInside: number;
}

/** Merge neighbours so that each column is at least `least` pixels wide. */
export function mergeColumns(columns: readonly Column[], pitch: number, least: number): Column[] {
  const merged: Column[] = [];
  let open: Column | null = null;
  for (const column of columns) {
    if (open && (open.last - open.first + 1) * pitch < least) {
      addColumn(open, column);
      continue;
    }
    open = { ...column, tools: [...column.tools] };
    merged.push(open);
  }
  return merged;
}

function addColumn(into: Column, column: Column): void {
  into.last = column.last;
  into.others += column.others;
  into.failed += column.failed;
  into.repeated += column.repeated;
  into.repeatedInside += column.repeatedInside;
  column.tools.forEach((calls, tool) => {
    into.tools[tool] = (into.tools[tool] ?? 0) + calls;
  });
}

/** Return the parts of a column from the bottom, as shares of its steps. */
export function stackColumn(column: Column): { tool: number; from: number; to: number }[] {
  const total = Math.max(1, column.last - column.first + 1);
  const parts: { tool: number; from: number; to: number }[] = [];
  let sum = 0;
  column.tools.forEach((calls, tool) => {
    if (calls > 0) parts.push({ tool, from: sum / total, to: (sum + calls) / total });
    sum += calls;
  });
  return parts;
}
