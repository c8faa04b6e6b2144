/** Paths of values that hold until the next one: score, contributions, budgets, bands. */

import { clamp } from "./axis";

type Scale = (value: number) => number;

/** A value known from a step on; null is not known and leaves a gap. */
export interface Held {
  step: number;
  value: number | null;
}

/** Quantiles of the clean runs at a step. */
export interface BandPoint {
  step: number;
  p5: number;
  p50: number;
  p95: number;
  runs: number;
}

export const BAND_MIN_RUNS = 5;

/** Round to a tenth of a pixel, so that paths stay short. */
export function px(value: number): string {
  return (Math.round(value * 10) / 10).toString();
}

/** Return the path of held values up to the step `end`, with gaps where a value is not known. */
export function stepPath(points: readonly Held[], x: Scale, y: Scale, end: number): string {
  let path = "";
  let drawing = false;
  points.forEach((point, index) => {
    if (point.step > end) return;
    const next = Math.min(end, points[index + 1]?.step ?? end);
    if (point.value === null) {
      drawing = false;
      return;
    }
    const at = px(x(point.step));
    const level = px(y(point.value));
    path += drawing ? `V${level}` : `M${at} ${level}`;
    path += `H${px(x(next))}`;
    drawing = true;
  });
  return path;
}

/** Return held values from the first step on: what comes before the first of them is not known. */
export function holdFrom(points: readonly Held[], first: number): readonly Held[] {
  return points[0] && points[0].step <= first ? points : [{ step: first, value: null }, ...points];
}

/** Return the stretches of steps in which a value is not known, as pixel pairs. */
export function findGaps(points: readonly Held[], x: Scale, end: number): [number, number][] {
  const gaps: [number, number][] = [];
  points.forEach((point, index) => {
    if (point.value !== null || point.step > end) return;
    const until = x(Math.min(end, points[index + 1]?.step ?? end));
    const last = gaps[gaps.length - 1];
    const from = x(point.step);
    if (last && Math.abs(last[1] - from) < 0.05) last[1] = until;
    else gaps.push([from, until]);
  });
  return gaps;
}

/** Contributions that add up to a score from a step on. */
export interface Stack {
  step: number;
  parts: readonly number[] | null;
}

/** Return one closed step area per part, each on top of those before it. */
export function stackPaths(
  stacks: readonly Stack[],
  count: number,
  x: Scale,
  y: Scale,
  end: number,
): string[] {
  const paths: string[] = [];
  for (let part = 0; part < count; part += 1) {
    let path = "";
    let run: [number, number, number, number][] = [];
    const close = (): void => {
      path += closeArea(run);
      run = [];
    };
    stacks.forEach((stack, index) => {
      if (stack.step > end || stack.parts === null) {
        close();
        return;
      }
      const bottom = sumBefore(stack.parts, part);
      const top = bottom + (stack.parts[part] ?? 0);
      const next = Math.min(end, stacks[index + 1]?.step ?? end);
      if (top - bottom <= 0) close();
      else run.push([x(stack.step), x(next), y(bottom), y(top)]);
    });
    close();
    paths.push(path);
  }
  return paths;
}

function sumBefore(parts: readonly number[], end: number): number {
  let total = 0;
  for (let index = 0; index < end; index += 1) total += parts[index] ?? 0;
  return total;
}

function closeArea(run: readonly [number, number, number, number][]): string {
  if (run.length === 0) return "";
  let path = `M${px(run[0]![0])} ${px(run[0]![3])}`;
  for (const [, right, , top] of run) path += `V${px(top)}H${px(right)}`;
  for (let index = run.length - 1; index >= 0; index -= 1) {
    const [left, , bottom] = run[index]!;
    path += `V${px(bottom)}H${px(left)}`;
  }
  return `${path}Z`;
}

/** Return the band at a step, interpolated on log2(step); null past its end. */
export function interpolateBand(
  points: readonly BandPoint[],
  step: number,
): Pick<BandPoint, "p5" | "p50" | "p95"> | null {
  const known = knownBand(points);
  if (known.length === 0 || step > known[known.length - 1]!.step) return null;
  const after = known.findIndex((point) => point.step >= step);
  const high = known[after]!;
  const low = known[Math.max(0, after - 1)]!;
  if (high.step === low.step || step <= low.step) return low.step > step ? low : high;
  const share = (Math.log2(step) - Math.log2(low.step)) / (Math.log2(high.step) - Math.log2(low.step));
  const mix = (key: "p5" | "p50" | "p95"): number => low[key] + share * (high[key] - low[key]);
  return { p5: mix("p5"), p50: mix("p50"), p95: mix("p95") };
}

/** Return the points of a band that enough clean runs stand behind. */
export function knownBand(points: readonly BandPoint[]): BandPoint[] {
  const end = points.findIndex((point) => point.runs < BAND_MIN_RUNS);
  return end < 0 ? [...points] : points.slice(0, end);
}

export interface BandPaths {
  area: string;
  median: string;
  upper: string;
  /** Pixel at which the band ends. */
  end: number;
}

/** Return area, median and upper line of a band inside a window of steps. */
export function bandPaths(
  points: readonly BandPoint[],
  window: { first: number; last: number },
  x: Scale,
  y: Scale,
): BandPaths | null {
  const known = knownBand(points);
  const tail = known[known.length - 1];
  if (!tail) return null;
  const last = Math.min(window.last, tail.step);
  if (last <= window.first) return null;
  const stride = Math.max(1, Math.floor((last - window.first) / 160));
  const upper: string[] = [];
  const lower: string[] = [];
  const median: string[] = [];
  const add = (step: number): void => {
    const band = interpolateBand(known, step);
    if (!band) return;
    const at = px(x(step));
    upper.push(`${at} ${px(y(band.p95))}`);
    lower.unshift(`${at} ${px(y(band.p5))}`);
    median.push(`${at} ${px(y(band.p50))}`);
  };
  for (let step = window.first; step < last; step += stride) add(step);
  add(last);
  return {
    area: `M${upper.join("L")}L${lower.join("L")}Z`,
    median: `M${median.join("L")}`,
    upper: `M${upper.join("L")}`,
    end: x(last),
  };
}

/** Steps at which a budget is empty: likely, early and late. */
export interface Forecast {
  p10: number;
  p50: number;
  p90: number;
}

/** Return the cone and the median line from now to empty. */
export function forecastPaths(
  now: { step: number; left: number },
  forecast: Forecast,
  x: Scale,
  y: Scale,
): { cone: string; median: string } {
  const start = `${px(x(now.step))} ${px(y(now.left))}`;
  const zero = px(y(0));
  const at = (step: number): string => `${px(x(Math.max(now.step, step)))} ${zero}`;
  return {
    cone: `M${start}L${at(forecast.p10)}L${at(forecast.p90)}Z`,
    median: `M${start}L${at(forecast.p50)}`,
  };
}

/** Return the value that holds at a step, or null. */
export function heldAt<Point extends { step: number }>(
  points: readonly Point[],
  step: number,
): Point | null {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]!.step <= step) low = middle + 1;
    else high = middle;
  }
  return low > 0 ? points[low - 1]! : null;
}

/** Return a scale from 0..top to pixels, clamped to the lane. */
export function verticalScale(top: number, height: number, padding: number): Scale {
  const span = top > 0 ? top : 1;
  return (value) => padding + (1 - clamp(value / span, 0, 1)) * (height - 2 * padding);
}

/** A band as the server sends it: lists of equal length. */
export interface BandLists {
  steps: readonly number[];
  p5: readonly number[];
  p50: readonly number[];
  p95: readonly number[];
  runs: readonly number[];
}

/** Return a band's lists as points. */
export function bandPoints(band: BandLists | null): BandPoint[] {
  if (!band) return [];
  return band.steps.map((step, index) => ({
    step,
    p5: band.p5[index]!,
    p50: band.p50[index]!,
    p95: band.p95[index]!,
    runs: band.runs[index]!,
  }));
}

/** A limit that holds from a step on. */
export interface HeldLimit {
  step: number;
  limit: number;
}

const JUST_BEFORE = 0.001;

/** Return what clean runs would have left of limits that change: the band of what they used, upside down. */
export function leftBand(used: readonly BandPoint[], limits: readonly HeldLimit[]): BandPoint[] {
  const known = knownBand(used);
  const runs = known[0]?.runs ?? 0;
  const changes = limits.slice(1).flatMap(({ step }) => [step - JUST_BEFORE, step]);
  const steps = [...known.map((point) => point.step), ...changes].toSorted((a, b) => a - b);
  return steps.flatMap((step) => {
    const band = interpolateBand(known, step);
    const limit = (heldAt(limits, step) ?? limits[0])?.limit;
    if (!band || limit === undefined) return [];
    return [{ step, p5: limit - band.p95, p50: limit - band.p50, p95: limit - band.p5, runs }];
  });
}

/** The top of every sparkline, so that rows compare. */
const SPARKLINE_TOP = 0.8;

/** Return the line's stretches between days without runs. */
export function sparklinePath(values: readonly (number | null)[], width: number, height: number): string {
  const stride = (width - 8) / Math.max(1, values.length - 1);
  let path = "";
  let drawing = false;
  values.forEach((value, index) => {
    if (value !== null) path += `${drawing ? "L" : "M"}${px(4 + index * stride)} ${px(sparkY(value, height))}`;
    drawing = value !== null;
  });
  return path;
}

export function sparkY(value: number, height: number): number {
  return 3 + (1 - Math.min(1, Math.max(0, value / SPARKLINE_TOP))) * (height - 6);
}
