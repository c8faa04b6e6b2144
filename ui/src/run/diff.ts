/** Line by line difference of two calls or results, one JSON key per line. */

export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
}

export interface Diff {
  lines: DiffLine[];
  added: number;
  removed: number;
  unchanged: number;
  /** Unchanged lines that are not shown. */
  hidden: number;
}

const AROUND = 3;
const MAX_LINES = 400;

/** Return a value as lines: sorted JSON with one key per line, or the lines of a text. */
export function linesOf(value: unknown): string[] {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") {
    const parsed = parseObject(value);
    return parsed === undefined ? value.split("\n") : linesOf(parsed);
  }
  if (typeof value !== "object") return [String(value)];
  if (Array.isArray(value)) return JSON.stringify(value, null, 1).split("\n");
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, each]) => `${JSON.stringify(key)}: ${JSON.stringify(each)}`);
}

function parseObject(text: string): unknown {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Compare two values line by line; unchanged lines far from a change are left out. */
export function diffValues(before: unknown, after: unknown): Diff {
  const old = linesOf(before).slice(0, MAX_LINES);
  const fresh = linesOf(after).slice(0, MAX_LINES);
  const all = diffLines(old, fresh);
  const near = all.map((_, index) =>
    all.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((line) => line.sign !== " "),
  );
  const changed = all.some((line) => line.sign !== " ");
  const lines = all.filter((_, index) => (changed ? near[index] : index < 2 * AROUND));
  return {
    lines,
    added: all.filter((line) => line.sign === "+").length,
    removed: all.filter((line) => line.sign === "-").length,
    unchanged: all.filter((line) => line.sign === " ").length,
    hidden: all.length - lines.length,
  };
}

/** Longest common subsequence of lines: removed lines before added ones. */
function diffLines(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  const columns = fresh.length + 1;
  const table = new Uint16Array((old.length + 1) * columns);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      table[i * columns + j] =
        old[i] === fresh[j]
          ? table[(i + 1) * columns + j + 1]! + 1
          : Math.max(table[(i + 1) * columns + j]!, table[i * columns + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      lines.push({ sign: " ", text: old[i]! });
      i += 1;
      j += 1;
    } else if (i < old.length && (j >= fresh.length || table[(i + 1) * columns + j]! >= table[i * columns + j + 1]!)) {
      lines.push({ sign: "-", text: old[i]! });
      i += 1;
    } else {
      lines.push({ sign: "+", text: fresh[j]! });
      j += 1;
    }
  }
  return lines;
}

/** Return what the head of a difference says: "2 added, 2 unchanged" or "identical". */
export function countDiff(diff: Diff): string {
  if (diff.added === 0 && diff.removed === 0) return "identical";
  const words: string[] = [];
  if (diff.added) words.push(`${diff.added} added`);
  if (diff.removed) words.push(`${diff.removed} removed`);
  if (diff.unchanged) words.push(`${diff.unchanged} unchanged`);
  return words.join(", ");
}

/** Return the text of a result that is nothing but a text, as far as it was sent; else the JSON. */
export function readResult(result: string): string {
  const text = /^\{"text":"((?:[^"\\]|\\.)*)(?:"\}|\\?…?)$/s.exec(result)?.[1];
  if (text === undefined) return result;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return result;
  }
}
