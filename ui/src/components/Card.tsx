import type { ReactNode } from "react";

interface CardProps {
  readonly title?: ReactNode;
  /** A grey remark beside the title. */
  readonly note?: ReactNode;
  /** Controls at the right end of the head. */
  readonly end?: ReactNode;
  readonly className?: string;
  /** Wrap the content in the card's padding; tables and lists reach the edge without it. */
  readonly padded?: boolean;
  readonly id?: string;
  readonly children?: ReactNode;
}

/** A surface with a hairline, a head of 44 px and no shadow. */
export function Card({ title, note, end, className = "", padded = false, id, children }: CardProps) {
  return (
    <section className={`card ${className}`} id={id}>
      {title !== undefined && (
        <header className="card-head">
          <h2>{title}</h2>
          {note !== undefined && <span className="muted">{note}</span>}
          {end !== undefined && <div className="end">{end}</div>}
        </header>
      )}
      {padded ? <div className="card-body">{children}</div> : children}
    </section>
  );
}

interface FigureProps {
  readonly label: string;
  readonly value: ReactNode;
  readonly unit?: ReactNode;
  /** What is normal, or why that is not known. */
  readonly note?: ReactNode;
  /** A range bar. */
  readonly bar?: ReactNode;
}

/** One number of a row of figures; it always stands beside its normal range or a remark. */
export function Figure({ label, value, unit, note, bar }: FigureProps) {
  return (
    <div className="figure">
      <div className="figure-label">{label}</div>
      <div className="figure-value">
        {value}
        {unit !== undefined && <span className="figure-unit"> {unit}</span>}
      </div>
      <div className="figure-note">{note}</div>
      {bar}
    </div>
  );
}

export function Figures({ children }: { readonly children: ReactNode }) {
  return <div className="card figures">{children}</div>;
}
