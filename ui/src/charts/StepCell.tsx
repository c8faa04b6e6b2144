/** The mark of one step: a lettered square for a tool, a shape for everything else. */
import type { ReactNode } from "react";

import { toolFill, toolLetter } from "./marks";

export type StepKind = "tool" | "reply" | "user" | "state";

export interface StepCellProps {
  kind: StepKind;
  tool: number;
  x: number;
  y: number;
  size: number;
  letter: boolean;
}

/** Draw a step centred on a place of an SVG. */
export function StepMark({ kind, tool, x, y, size, letter }: StepCellProps): ReactNode {
  const half = size / 2;
  if (kind === "tool" && tool >= 0) {
    return (
      <g>
        <rect className={toolFill(tool)} x={x - half} y={y - half} width={size} height={size} rx={size / 6} />
        {letter && (
          <text className="cell-letter" x={x} y={y + 3.6}>
            {toolLetter(tool)}
          </text>
        )}
      </g>
    );
  }
  if (kind === "user") {
    const r = half * 0.86;
    return <path className="cell-plain" d={`M${x - r} ${y - r * 0.8}h${2 * r}L${x} ${y + r * 0.9}z`} />;
  }
  if (kind === "state") {
    const r = half * 0.92;
    return <path className="cell-plain" d={`M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`} />;
  }
  return <circle className="cell-plain" cx={x} cy={y} r={Math.max(1, half * 0.84)} />;
}

/** The same mark in a line of text or a table. */
export function StepCell(props: { kind: StepKind; tool: number; size?: number }): ReactNode {
  const size = props.size ?? 16;
  return (
    <svg className="chart step-cell" width={size} height={size} viewBox={`0 0 ${size} ${size}`} aria-hidden="true">
      <StepMark kind={props.kind} tool={props.tool} x={size / 2} y={size / 2} size={size - 1} letter />
    </svg>
  );
}
