/** Which steps of a selection repeat each other: the cells of the matrix and its counts. */

/** Entries of a selection: equal numbers are equal calls and results; -1 is no call. */
export interface Entries {
  tool: readonly number[];
  call: readonly number[];
  result: readonly number[];
}

export const CELL_NONE = 0;
export const CELL_TOOL = 1;
export const CELL_CALL = 2;
export const CELL_RESULT = 3;

/** Return one code per pair of entries, row by row; the diagonal of calls is "same tool". */
export function buildCells(entries: Entries): Uint8Array {
  const count = entries.tool.length;
  const cells = new Uint8Array(count * count);
  for (let row = 0; row < count; row += 1) {
    for (let column = 0; column <= row; column += 1) {
      const code = row === column ? codeDiagonal(entries, row) : codePair(entries, row, column);
      cells[row * count + column] = code;
      cells[column * count + row] = code;
    }
  }
  return cells;
}

function codeDiagonal(entries: Entries, at: number): number {
  return entries.tool[at]! >= 0 ? CELL_TOOL : CELL_NONE;
}

function codePair(entries: Entries, a: number, b: number): number {
  if (entries.tool[a]! < 0 || entries.tool[a] !== entries.tool[b]) return CELL_NONE;
  if (entries.call[a] !== entries.call[b] || entries.call[a]! < 0) return CELL_TOOL;
  return entries.result[a] === entries.result[b] && entries.result[a]! >= 0 ? CELL_RESULT : CELL_CALL;
}

/** Return how many pairs of entries have a code, the diagonal left out. */
export function countPairs(cells: Uint8Array, count: number, code: number): number {
  let pairs = 0;
  for (let row = 1; row < count; row += 1) {
    for (let column = 0; column < row; column += 1) {
      if (cells[row * count + column] === code) pairs += 1;
    }
  }
  return pairs;
}

/** Return one path of squares per code, so that a matrix of 200 steps is three elements. */
export function cellPaths(cells: Uint8Array, count: number, side: number): string[] {
  const size = Math.max(1, side / count - (side / count > 4 ? 1.5 : 0));
  const paths = ["", "", "", ""];
  for (let row = 0; row < count; row += 1) {
    for (let column = 0; column < count; column += 1) {
      const code = cells[row * count + column]!;
      if (code === CELL_NONE) continue;
      const x = Math.round((column * side * 10) / count) / 10;
      const y = Math.round((row * side * 10) / count) / 10;
      const edge = Math.round(size * 10) / 10;
      paths[code] += `M${x} ${y}h${edge}v${edge}h${-edge}z`;
    }
  }
  return paths;
}
