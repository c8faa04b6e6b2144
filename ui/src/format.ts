/** Numbers, durations and times as the page writes them. */

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const utcDayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const fullFormat = new Intl.DateTimeFormat("en-GB", {
  weekday: "long",
  day: "numeric",
  month: "long",
  hour: "2-digit",
  minute: "2-digit",
});

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A value that is not known is a dash, never 0. */
export const UNKNOWN = "–";

export function formatCount(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

/** Counts stop at 10,000: the server does not count further. */
export function formatCapped(value: number, cap = 10_000): string {
  return value >= cap ? `${whole.format(cap)}+` : whole.format(value);
}

export function formatScore(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : value.toFixed(2);
}

export function formatMoney(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const [units = "0", cents = "00"] = Math.abs(value).toFixed(2).split(".");
  return `${value < 0 ? "-" : ""}$${whole.format(Number(units))}.${cents}`;
}

export function formatPercent(share: number | null | undefined): string {
  return share === null || share === undefined ? UNKNOWN : `${whole.format(share * 100)} %`;
}

/** 6 s, 2 m 19 s, 3 h 05 m, 3 d 4 h. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 1) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < MINUTE) return `${s} s`;
  if (s < HOUR) return `${Math.floor(s / MINUTE)} m ${pad(s % MINUTE)} s`;
  if (s < DAY) return `${Math.floor(s / HOUR)} h ${pad(Math.floor((s % HOUR) / MINUTE))} m`;
  return `${Math.floor(s / DAY)} d ${Math.floor((s % DAY) / HOUR)} h`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  if (bytes < 1_000) return `${whole.format(bytes)} bytes`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  if (bytes < 1_000_000_000) return `${whole.format(bytes / 1_000_000)} MB`;
  return `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

/** Times are seconds since 1970, as in the records. */
export function formatClock(time: number | null | undefined): string {
  return time === null || time === undefined ? UNKNOWN : clockFormat.format(new Date(time * 1_000));
}

export function formatDay(time: number): string {
  return dayFormat.format(new Date(time * 1_000));
}

/** "16 Nov" of the day of UTC that a time lies in, as days are counted in. */
export function formatUtcDay(time: number): string {
  return utcDayFormat.format(new Date(time * 1_000));
}

export function formatFull(time: number): string {
  return fullFormat.format(new Date(time * 1_000));
}

/** now, 2 min ago, 3 h ago, yesterday, 4 d ago. */
export function formatAgo(time: number | null | undefined, now: number): string {
  if (time === null || time === undefined) return UNKNOWN;
  const age = now - time;
  if (age < 10) return "now";
  if (age < MINUTE) return `${Math.floor(age)} s ago`;
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min ago`;
  if (age < DAY) return `${Math.floor(age / HOUR)} h ago`;
  if (age < 2 * DAY) return "yesterday";
  return `${Math.floor(age / DAY)} d ago`;
}

/** "2 min ago · 14:02:00": relative and absolute. */
export function formatTime(time: number | null | undefined, now: number): string {
  if (time === null || time === undefined) return UNKNOWN;
  const absolute = now - time < DAY ? formatClock(time) : `${formatDay(time)} ${formatClock(time)}`;
  return `${formatAgo(time, now)} · ${absolute}`;
}

/** "normal 9–21", with the format of the value it stands beside. */
export function formatRange(low: number, high: number, format: (value: number) => string = formatCount): string {
  const [from, to] = [format(low), format(high)];
  return from === to ? from : `${from}–${to}`;
}

/** "steps 10–38", or "step 10". */
export function formatSteps(first: number, last: number): string {
  return first === last ? `step ${formatCount(first)}` : `steps ${formatRange(first, last)}`;
}

/** "1 run", "3 runs". */
export function formatPlural(count: number, word: string, plural = `${word}s`): string {
  return `${formatCount(count)} ${count === 1 ? word : plural}`;
}
