/** The x axis that all lanes of a run share: steps or seconds since the start. */

export const GUTTER_LEFT = 40;
export const GUTTER_RIGHT = 70;

export type AxisKind = "steps" | "time";

/** A step and the seconds between the run's start and it. */
export interface StepTime {
  step: number;
  seconds: number;
}

export interface AxisOptions {
  kind: AxisKind;
  first: number;
  last: number;
  width: number;
  left?: number;
  right?: number;
  times?: readonly StepTime[];
}

export interface Tick {
  x: number;
  label: string;
}

export interface Axis {
  readonly kind: AxisKind;
  readonly first: number;
  readonly last: number;
  readonly left: number;
  /** Right edge of the plot in pixels. */
  readonly end: number;
  /** Mean distance of two steps in pixels. */
  readonly pitch: number;
  x(step: number): number;
  /** The step whose place is nearest to a pixel, inside the window. */
  stepAt(px: number): number;
  ticks(): Tick[];
}

const LETTER_WIDTH = 6.2;
const TIME_INTERVALS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400,
];

/** Return the smallest of 1, 2, 5, 10, 20 ... whose labels are `apart` pixels apart. */
export function chooseInterval(pitch: number, apart: number): number {
  if (!(pitch > 0)) return 1;
  for (let decade = 1; decade < 1e12; decade *= 10) {
    for (const factor of [1, 2, 5]) {
      if (decade * factor * pitch >= apart) return decade * factor;
    }
  }
  return 1e12;
}

/** Return seconds since the start at a step, interpolated and continued at the mean rate. */
export function secondsAt(times: readonly StepTime[], step: number): number {
  if (times.length === 0) return step - 1;
  const head = times[0]!;
  const tail = times[times.length - 1]!;
  if (times.length === 1 || step <= head.step) return Math.max(0, head.seconds);
  if (step >= tail.step) {
    const rate = (tail.seconds - head.seconds) / Math.max(1, tail.step - head.step);
    return tail.seconds + (step - tail.step) * rate;
  }
  let low = 0;
  let high = times.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle]!.step <= step) low = middle;
    else high = middle;
  }
  const before = times[low]!;
  const after = times[high]!;
  const share = (step - before.step) / Math.max(1, after.step - before.step);
  return before.seconds + share * (after.seconds - before.seconds);
}

/** Build the axis of a window of steps, both ends included. */
export function buildAxis(options: AxisOptions): Axis {
  const { kind, first, last } = options;
  const left = options.left ?? GUTTER_LEFT;
  const end = Math.max(left + 1, options.width - (options.right ?? GUTTER_RIGHT));
  const count = Math.max(1, last - first + 1);
  const pitch = (end - left) / count;
  const times = options.times ?? [];
  const base = { kind, first, last, left, end, pitch };
  if (kind === "time" && times.length > 1) return buildTimeAxis(base, times);
  const x = (step: number): number => left + (step - first + 0.5) * pitch;
  const stepAt = (px: number): number =>
    clamp(Math.round((px - left) / pitch - 0.5 + first), first, last);
  const ticks = (): Tick[] => {
    const interval = chooseInterval(pitch, 40);
    const marks: Tick[] = [];
    const start = Math.ceil(first / interval) * interval;
    if (first < start && x(start) - x(first) >= 12 + LETTER_WIDTH * start.toLocaleString("en").length) {
      marks.push({ x: x(first), label: first.toLocaleString("en") });
    }
    for (let step = start; step <= last; step += interval) {
      marks.push({ x: x(step), label: step.toLocaleString("en") });
    }
    return marks;
  };
  return { ...base, kind: "steps", x, stepAt, ticks };
}

type AxisBase = Omit<Axis, "x" | "stepAt" | "ticks">;

function buildTimeAxis(base: AxisBase, times: readonly StepTime[]): Axis {
  const { first, last, left, end } = base;
  const begin = secondsAt(times, first);
  const span = Math.max(secondsAt(times, last) - begin, 0.001);
  const inset = Math.min(8, (end - left) / 4);
  const scale = (end - left - 2 * inset) / span;
  const place = (seconds: number): number => left + inset + (seconds - begin) * scale;
  const x = (step: number): number => place(secondsAt(times, step));
  const stepAt = (px: number): number => {
    let low = first;
    let high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x(middle) <= px) low = middle;
      else high = middle;
    }
    return Math.abs(x(low) - px) <= Math.abs(x(high) - px) ? low : high;
  };
  const ticks = (): Tick[] => {
    const interval = TIME_INTERVALS_S.find((each) => each * scale >= 56) ?? span;
    const marks: Tick[] = [];
    for (let at = Math.ceil(begin / interval) * interval; at <= begin + span; at += interval) {
      marks.push({ x: place(at), label: formatSeconds(at) });
    }
    return marks;
  };
  return { ...base, x, stepAt, ticks };
}

/** Return seconds as "45 s", "2 m", "2 m 19 s" or "1 h 5 m". */
export function formatSeconds(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} m ${whole % 60} s` : `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 ? `${hours} h ${minutes % 60} m` : `${hours} h`;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

/** A window of steps, both ends included. */
export interface Span {
  from: number;
  to: number;
}

/** Return a window zoomed by a factor around a step, kept inside 1..last and at least `least` wide. */
export function zoomSpan(span: Span, factor: number, around: number, last: number, least = 8): Span {
  const width = clamp(Math.round((span.to - span.from + 1) * factor), Math.min(least, last), last);
  const share = (clamp(around, span.from, span.to) - span.from) / Math.max(1, span.to - span.from);
  return moveInside(Math.round(around - share * (width - 1)), width, last);
}

/** Return a window of the same width that contains a step. */
export function showStep(span: Span, step: number, last: number): Span {
  if (step >= span.from && step <= span.to) return span;
  const width = span.to - span.from + 1;
  return moveInside(step < span.from ? step : step - width + 1, width, last);
}

function moveInside(from: number, width: number, last: number): Span {
  const start = clamp(from, 1, Math.max(1, last - width + 1));
  return { from: start, to: Math.min(last, start + width - 1) };
}
