import type { Severity as SeverityName } from "../api/types";
import { formatCount } from "../format";

/** State and severity: the shape says it, the colour repeats it, the word stands beside it or is its name. */

export type State =
  | "healthy" | "learning" | "drifting" | "unreviewed" | "silent"
  | "running" | "waiting" | "ended" | "stopped" | "crashed";

const WORDS: Readonly<Record<State, string>> = {
  healthy: "Healthy",
  learning: "Learning",
  drifting: "Drifting",
  unreviewed: "To review",
  silent: "Silent",
  running: "Running",
  waiting: "Waiting",
  ended: "Ended",
  stopped: "Stopped",
  crashed: "Crashed",
};

export const isState = (text: string): text is State => text in WORDS;

interface GlyphProps {
  readonly state: State;
  /** Another word, such as "Learning 13/20". */
  readonly word?: string;
  /** Show the shape alone; the word becomes its accessible name. */
  readonly bare?: boolean;
}

export function Glyph({ state, word = WORDS[state], bare = false }: GlyphProps) {
  return (
    <span className={`glyph glyph-${state}`} {...(bare ? { role: "img", "aria-label": word, title: word } : {})}>
      <svg viewBox="0 0 14 14" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.5">
        <Shape state={state} />
      </svg>
      {!bare && <span>{word}</span>}
    </span>
  );
}

function Shape({ state }: { readonly state: State }) {
  switch (state) {
    case "healthy":
    case "ended":
      return <><circle cx="7" cy="7" r="5.75" /><path d="M4.5 7.2 6.3 9l3.2-3.8" /></>;
    case "learning":
      return <circle cx="7" cy="7" r="5.75" strokeDasharray="2.6 1.9" />;
    case "drifting":
      return <path d="M7 .8 13.2 7 7 13.2.8 7Z" fill="currentColor" stroke="none" />;
    case "unreviewed":
      return <><circle cx="7" cy="7" r="5.75" /><path d="M7 3.8v3.6M7 9.4v.9" /></>;
    case "silent":
      return <><circle cx="7" cy="7" r="5.75" /><path d="M4.4 7h5.2" /></>;
    case "running":
      return (
        <>
          <circle cx="7" cy="7" r="5.75" strokeOpacity="0.35" />
          <path className="turning" d="M7 1.25A5.75 5.75 0 0 1 12.75 7" />
          <circle cx="7" cy="7" r="2" fill="currentColor" stroke="none" />
        </>
      );
    case "waiting":
      return <><circle cx="7" cy="7" r="5.75" /><path d="M5.5 4.7v4.6M8.5 4.7v4.6" /></>;
    case "stopped":
      return <rect x="1.5" y="1.5" width="11" height="11" rx="1.5" fill="currentColor" stroke="none" />;
    case "crashed":
      return <path d="m2.5 2.5 9 9m0-9-9 9" strokeWidth="2" />;
  }
}

const SEVERITIES: Readonly<Record<SeverityName, { readonly word: string; readonly bars: number }>> = {
  LOW: { word: "Low", bars: 1 },
  MED: { word: "Medium", bars: 2 },
  HIGH: { word: "High", bars: 3 },
  CRITICAL: { word: "Critical", bars: 4 },
};

/** Worst first. */
export const SEVERITY_ORDER: readonly SeverityName[] = ["CRITICAL", "HIGH", "MED", "LOW"];

export const severityWord = (severity: SeverityName): string => SEVERITIES[severity].word;

interface SeverityProps {
  readonly severity: SeverityName;
  readonly bare?: boolean;
}

/** One, two or three of three bars; critical is a filled square with an exclamation mark. */
export function Severity({ severity, bare = false }: SeverityProps) {
  const { word, bars } = SEVERITIES[severity];
  return (
    <span
      className={`severity severity-${word.toLowerCase()}`}
      {...(bare ? { role: "img", "aria-label": `${word} severity`, title: word } : {})}
    >
      <svg viewBox="0 0 14 14" aria-hidden="true" fill="currentColor">
        {bars === 4 ? (
          <path
            fillRule="evenodd"
            d="M3 1h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H3a2 2 0 0 1-2-2V3a2 2 0 0 1 2-2Zm3.1 2.5.3 4.3h1.2l.3-4.3ZM7 8.7a.95.95 0 1 0 0 1.9.95.95 0 0 0 0-1.9Z"
          />
        ) : (
          [0, 1, 2].map((index) => (
            <rect
              key={index}
              className={index < bars ? undefined : "bar-off"}
              x={1 + index * 4.5}
              y={9 - index * 3.5}
              width="3"
              height={4 + index * 3.5}
              rx="0.75"
            />
          ))
        )}
      </svg>
      {!bare && <span>{word}</span>}
    </span>
  );
}

interface SeverityCountsProps {
  readonly counts: readonly { readonly name: string; readonly count: number }[];
}

/** Counts by severity, worst first, with a shape for each. */
export function SeverityCounts({ counts }: SeverityCountsProps) {
  const shown = SEVERITY_ORDER.flatMap((severity) => {
    const count = counts.find((each) => each.name === severity)?.count ?? 0;
    return count ? [{ severity, count }] : [];
  });
  if (shown.length === 0) return <span className="muted">–</span>;
  return (
    <span className="severity-counts">
      {shown.map(({ severity, count }) => (
        <span key={severity}>
          <Severity severity={severity} bare /> {formatCount(count)}
        </span>
      ))}
    </span>
  );
}
