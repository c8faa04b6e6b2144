import type { ReactNode } from "react";

export type Tone = "plain" | "drift" | "accent" | "ok" | "warn" | "bad";

interface BadgeProps {
  readonly tone?: Tone;
  readonly title?: string;
  readonly children: ReactNode;
}

/** A word about something. Never a button. */
export function Badge({ tone = "plain", title, children }: BadgeProps) {
  return (
    <span className={`badge ${tone === "plain" ? "" : `badge-${tone}`}`} title={title}>
      {children}
    </span>
  );
}

/** A response of ours: a blue triangle and its word (remind, replan, rollback, ask, stop). */
export function ResponseBadge({ word }: { readonly word: string }) {
  return (
    <Badge tone="accent">
      <svg viewBox="0 0 10 10" width="8" height="8" aria-hidden="true" fill="currentColor">
        <path d="M5 1 9.5 9h-9Z" />
      </svg>
      {word}
    </Badge>
  );
}

const OUTCOMES: Readonly<Record<string, Tone>> = {
  worked: "ok",
  ignored: "plain",
  worse: "bad",
  unknown: "plain",
  waiting: "warn",
  "not carried out": "warn",
};

/** What came of a response. `reason` says why it was not carried out. */
export function OutcomeBadge({ outcome, reason }: { readonly outcome: string; readonly reason?: string | undefined }) {
  const word = outcome.replaceAll("_", " ");
  return (
    <Badge tone={OUTCOMES[word] ?? "plain"} {...(reason ? { title: reason } : {})}>
      {word}
    </Badge>
  );
}
