/** Text that an agent, a tool or a web page wrote. It is shown, never obeyed: text nodes only, no links. */
import { useState } from "react";
import type { ReactNode } from "react";

// Controls but tab and newline, and characters that turn, hide or join text: bidi marks, zero widths, tags.
const HIDDEN =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

function nameOf(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/** Return the text with hidden characters spelt out, for attributes such as `title`. */
export function escapeHidden(text: string): string {
  return text.replace(HIDDEN, nameOf);
}

function withEscapes(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    parts.push(
      <span key={match.index} className="escape">
        {nameOf(match[0])}
      </span>,
    );
    from = match.index + match[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

const LINES_SHOWN = 4;
const LETTERS_SHOWN = 400;

interface HostileTextProps {
  readonly text: string;
  /** One line with an ellipsis and the whole text in the title. */
  readonly oneLine?: boolean;
  /** Show everything, as in the step card. */
  readonly whole?: boolean;
  readonly mono?: boolean;
}

/** Agent text, clipped at four lines with "show all". `dir` is fixed, so that nothing reorders what is around. */
export function HostileText({ text, oneLine = false, whole = false, mono = false }: HostileTextProps) {
  const [open, setOpen] = useState(false);
  const font = mono ? "mono" : "";
  if (oneLine) {
    const flat = text.replace(/\s+/g, " ").trim();
    return (
      <bdi dir="ltr" className={`ellipsis ${font}`} title={escapeHidden(text)}>
        {withEscapes(flat)}
      </bdi>
    );
  }
  const long = !whole && (text.length > LETTERS_SHOWN || text.split("\n", LINES_SHOWN + 1).length > LINES_SHOWN);
  return (
    <>
      <bdi dir="ltr" className={`hostile ${font} ${long && !open ? "hostile-clipped" : ""}`}>
        {withEscapes(text)}
      </bdi>
      {long && (
        <button type="button" className="link-button small" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "show less" : "show all"}
        </button>
      )}
    </>
  );
}
