/** Steps: one mark per step with signs and responses below and brackets above, or columns of many steps. */
import { memo, useMemo } from "react";
import type { ReactNode } from "react";

import type { Bracket as BracketRecord, Marker, RunSeries, StepSpan, ToolUse } from "../../api/types";
import type { Axis } from "../../charts/axis";
import { ChartTable } from "../../charts/Chart";
import { bracketPath, mergeColumns, nameLoop, placeBrackets, stackColumn, toolFill } from "../../charts/marks";
import { px } from "../../charts/series";
import { StepCell, StepMark } from "../../charts/StepCell";
import { escapeHidden, HostileText } from "../../components/HostileText";
import { formatClock, formatCount, formatPlural, formatRange, formatSteps } from "../../format";
import { findStep, readColumns } from "../data";
import { LaneFrame, Plot, useLane } from "./LaneFrame";

const LETTER_PITCH = 9;
export const COLUMN_PITCH = 4;
const COLUMN_WIDTH = 5;
const BRACKET_HEIGHT = 13;
const COLUMN_HEIGHT = 30;
/** Crosses under columns are at least this many pixels apart. */
const CROSS_APART = 10;
const LETTER_WIDTH = 6.2;
/** Cells or columns and the signs below them, but not the responses. */
const FADED_HEIGHT = 58;

export interface StepsLaneProps {
  series: RunSeries;
  tools: readonly ToolUse[];
}

/** Return the sentence about a step: what it was, and whether it failed or repeated. */
export function describeStep(series: RunSeries, tools: readonly ToolUse[], step: number): string {
  const place = findStep(series, step);
  const { points } = series;
  if (place < 0 || !points) return describeColumn(series, step);
  const tool = tools[points.tool[place]!];
  const words = [`Step ${formatCount(step)}: ${tool ? escapeHidden(tool.name) : points.kind[place]}`];
  if (points.failed[place]) words.push("failed");
  const before = points.last_same[place]!;
  if (before > 0) {
    const result = points.same_result[place] === 1 ? "with the same result" : "with another result";
    words.push(`same call as step ${formatCount(before)} ${result}`);
  }
  const marker = series.markers.find((each) => each.step === step);
  if (marker) words.push(`response ${marker.response}`);
  if (isInside(series.not_run, step)) words.push(`would not have run after a new plan at step ${formatCount(series.not_run.first - 1)}`);
  return `${words.join(", ")}.`;
}

/** Return the sentence about the column that a step is in. */
function describeColumn({ columns }: RunSeries, step: number): string {
  const at = columns?.last.findIndex((last) => step <= last) ?? -1;
  if (!columns || at < 0) return `Step ${formatCount(step)}.`;
  const calls = columns.calls[at]!.reduce((sum, each) => sum + each, 0);
  const steps = formatSteps(columns.first[at]!, columns.last[at]!);
  return `S${steps.slice(1)}: ${formatPlural(calls, "call")}, ${formatCount(columns.failed[at]!)} failed, ${formatCount(columns.repeated[at]!)} repeated.`;
}

/** Return the words about steps of a recording that would not have run. */
function describeNotRun({ first, last }: StepSpan): string {
  const steps = formatSteps(first, last);
  return `${steps.charAt(0).toUpperCase()}${steps.slice(1)} would not have run after a new plan at step ${formatCount(first - 1)}`;
}

function isInside(span: StepSpan | null, step: number): span is StepSpan {
  return span !== null && step >= span.first && step <= span.last;
}

export const StepsLane = memo(function StepsLane({ series, tools }: StepsLaneProps): ReactNode {
  const { axis, steps } = useLane();
  const { placed, hidden } = useMemo(
    () => placeBrackets(series.brackets.map((each) => readBracket(each, tools)), axis),
    [series.brackets, tools, axis],
  );
  const rows = Math.max(1, ...placed.map((each) => each.row + 1));
  const top = rows * BRACKET_HEIGHT + 6;
  const single = series.points !== null && axis.pitch >= COLUMN_PITCH;
  const failed = tools.reduce((sum, tool) => sum + tool.errors, 0);
  return (
    <LaneFrame
      name="steps"
      title="Steps"
      legend={<StepsLegend tools={tools} faded={series.not_run !== null} />}
      height={top + 79}
      summary={`${formatCount(steps)} steps with ${formatPlural(tools.length, "tool")}, ${formatCount(failed)} failed, ${formatPlural(series.brackets.length, "loop")}, ${formatPlural(series.markers.length, "response")}.${series.not_run ? ` ${describeNotRun(series.not_run)}.` : ""}`}
      describe={(step) => describeStep(series, tools, step)}
      table={<StepsTableView series={series} tools={tools} />}
    >
      <Plot height={top + 79}>
        {single ? <Cells series={series} axis={axis} y={top + 10} /> : <Columns series={series} axis={axis} y={top} />}
        {series.not_run && <Faded span={series.not_run} axis={axis} y={top - 2} />}
      </Plot>
      {placed.map((each) => (
        <BracketMark key={each.id} bracket={each} axis={axis} y={(rows - each.row) * BRACKET_HEIGHT - 4} />
      ))}
      {hidden > 0 && (
        <text className="bracket-more end-anchor" x={axis.end} y={8}>
          +{hidden}
        </text>
      )}
      <Responses markers={series.markers} axis={axis} y={top + 66} />
    </LaneFrame>
  );
});

function readBracket(bracket: BracketRecord, tools: readonly ToolUse[]) {
  return {
    id: `${bracket.incident_id}/${bracket.first}/${bracket.level}`,
    from: bracket.first,
    to: bracket.last,
    labels: nameLoop(bracket.tools, tools, bracket.words).map(escapeHidden),
    proof: bracket.proof,
  };
}

type Placed = ReturnType<typeof placeBrackets>["placed"][number];

function BracketMark({ bracket, axis, y }: { bracket: Placed; axis: Axis; y: number }): ReactNode {
  const half = Math.min(axis.pitch / 2, 8);
  const left = bracket.openLeft ? axis.left : axis.x(bracket.from) - half;
  const right = bracket.openRight ? axis.end : axis.x(bracket.to) + half;
  const room = Math.floor((right - left - 30) / LETTER_WIDTH);
  const label = bracket.labels.find((each) => each.length <= room);
  const gap = label ? label.length * LETTER_WIDTH + 12 : 0;
  const path = bracketPath({ left, right, openLeft: bracket.openLeft, openRight: bracket.openRight }, bracket.proof.map(axis.x), y, gap);
  return (
    <g className="bracket">
      <path d={path} />
      {label && (
        <text className="middle-anchor halo" x={(left + right) / 2} y={y + 4}>
          {label}
        </text>
      )}
      <title>{bracket.labels[0]}</title>
    </g>
  );
}

interface DrawnProps {
  series: RunSeries;
  axis: Axis;
  y: number;
}

function Cells({ series, axis, y }: DrawnProps): ReactNode {
  const points = series.points!;
  const size = Math.min(20, Math.max(3, axis.pitch - 2));
  const shown: number[] = [];
  points.step.forEach((step, index) => {
    if (step >= axis.first && step <= axis.last) shown.push(index);
  });
  const at = (index: number): number => axis.x(points.step[index]!);
  const signs = (test: (index: number) => boolean, draw: (x: number) => string): string =>
    shown.filter(test).map((index) => draw(at(index))).join("");
  return (
    <>
      {shown.map((index, place) => {
        const x = at(index);
        const apart = place === 0 || x - at(shown[place - 1]!) >= size - 0.5;
        const letter = axis.pitch >= LETTER_PITCH && apart;
        return (
          <g key={points.step[index]} data-step={points.step[index]}>
            <StepMark kind={points.kind[index]!} tool={points.tool[index]!} x={x} y={y} size={size} letter={letter} />
          </g>
        );
      })}
      <path className="sign-failed" d={signs((index) => points.failed[index] === 1, (x) => cross(x, y + 20))} />
      <path className="sign-same" d={signs((index) => points.same_result[index] === 1, (x) => equals(x, y + 35))} />
      <path
        className="sign-changed"
        d={signs((index) => points.same_result[index] === 0 && points.last_same[index]! > 0, (x) => `${equals(x, y + 35)}M${px(x - 2)} ${y + 39}l4 -8`)}
      />
    </>
  );
}

/** A cover that leaves 40 % of what is under it: steps that would not have run. */
function Faded({ span, axis, y }: { span: StepSpan; axis: Axis; y: number }): ReactNode {
  const left = axis.x(span.first - 0.5);
  return (
    <rect className="faded" data-testid="not-run" x={left} y={y} width={Math.max(0, axis.x(span.last + 0.5) - left)} height={FADED_HEIGHT}>
      <title>{describeNotRun(span)}</title>
    </rect>
  );
}

function cross(x: number, y: number): string {
  return `M${px(x - 2.5)} ${y - 2.5}l5 5m0 -5l-5 5`;
}

function equals(x: number, y: number): string {
  return `M${px(x - 2.5)} ${y - 1.5}h5M${px(x - 2.5)} ${y + 1.5}h5`;
}

/** Columns of steps, stacked by tool: one path per tool, so that 10,000 steps are a few elements. */
function Columns({ series, axis, y }: DrawnProps): ReactNode {
  const columns = useMemo(() => {
    const inside = readColumns(series).filter((each) => each.last >= axis.first && each.first <= axis.last);
    return mergeColumns(inside, axis.pitch, COLUMN_WIDTH);
  }, [series, axis]);
  const paths: string[] = Array.from({ length: 8 }, () => "");
  let failed = "";
  let crossed = Number.NEGATIVE_INFINITY;
  for (const column of columns) {
    const left = axis.x(column.first - 0.5) + 0.5;
    const right = Math.max(left + 1, axis.x(column.last + 0.5) - 0.5);
    for (const part of stackColumn(column)) {
      const from = y + COLUMN_HEIGHT * (1 - part.to);
      const height = COLUMN_HEIGHT * (part.to - part.from);
      paths[Math.min(part.tool, 7)] += `M${px(left)} ${px(from)}H${px(right)}v${px(height)}H${px(left)}z`;
    }
    const middle = (left + right) / 2;
    if (column.failed > 0 && middle - crossed >= CROSS_APART) {
      failed += cross(middle, y + COLUMN_HEIGHT + 9);
      crossed = middle;
    }
  }
  return (
    <g data-testid="step-columns">
      <rect className="column-base" x={axis.left} y={y + COLUMN_HEIGHT} width={axis.end - axis.left} height={1} />
      {paths.map((path, tool) => path && <path key={tool} className={toolFill(tool)} d={path} />)}
      <path className="sign-failed" d={failed} />
    </g>
  );
}

interface PlacedWord {
  marker: Marker;
  x: number;
  side: "right" | "left" | "none";
}

/** Place the words of responses: right of the triangle, left where the next is too near, else none. */
function placeWords(markers: readonly Marker[], axis: Axis): PlacedWord[] {
  const shown = markers.filter((each) => each.step >= axis.first && each.step <= axis.last);
  const placed: PlacedWord[] = [];
  let taken = Number.NEGATIVE_INFINITY;
  shown.forEach((marker, index) => {
    const x = axis.x(marker.step);
    const word = marker.response.length * LETTER_WIDTH + 8;
    const next = shown[index + 1];
    const fitsRight = (next ? axis.x(next.step) - 5 : axis.end + 60) - x >= word;
    const side = fitsRight ? "right" : x - 5 - word > taken ? "left" : "none";
    taken = fitsRight ? x + word : x + 5;
    placed.push({ marker, x, side });
  });
  return placed;
}

function Responses({ markers, axis, y }: { markers: readonly Marker[]; axis: Axis; y: number }): ReactNode {
  return (
    <g className="responses">
      {placeWords(markers, axis).map(({ marker, x, side }) => (
        <g key={`${marker.step}/${marker.response}`}>
          <path d={`M${px(x)} ${y - 4}l4.5 8h-9z`} />
          {side === "right" && <text x={x + 8} y={y + 4}>{marker.response}</text>}
          {side === "left" && <text className="end-anchor" x={x - 8} y={y + 4}>{marker.response}</text>}
          <title>{`${marker.response} at step ${formatCount(marker.step)}: ${marker.outcome.replaceAll("_", " ")}`}</title>
        </g>
      ))}
    </g>
  );
}

function StepsLegend({ tools, faded }: { tools: readonly ToolUse[]; faded: boolean }): ReactNode {
  const { narrow } = useLane();
  const named = narrow ? tools.slice(0, 4) : tools.slice(0, 3);
  return (
    <>
      {named.map((tool, index) => (
        <span key={index} className="key">
          <StepCell kind="tool" tool={index} />
          {!narrow && <HostileText text={tool.name} oneLine />}
          <span className="muted">{formatCount(tool.calls)}×</span>
        </span>
      ))}
      {tools.length > named.length && <span className="muted">+{formatCount(tools.length - named.length)}</span>}
      {!narrow && (
        <span className="shape-keys">
          {(["reply", "user", "state"] as const).map((kind) => (
            <span key={kind} className="key">
              <StepCell kind={kind} tool={-1} size={11} />
              {kind}
            </span>
          ))}
          <span className="key"><b className="bad-text">×</b> failed</span>
          <span className="key"><b>=</b> same result</span>
          <span className="key"><b>≠</b> changed</span>
          <span className="key"><b className="response-sign">▲</b> response</span>
          {faded && <span className="key"><i className="swatch-faded" />would not have run</span>}
        </span>
      )}
    </>
  );
}

function StepsTableView({ series, tools }: StepsLaneProps): ReactNode {
  const { points } = series;
  if (!points) {
    return (
      <ChartTable
        caption="Columns of steps"
        head={["Steps", "Calls", "Other steps", "Failed", "Repeated"]}
        rows={readColumns(series).map((each) => [
          formatRange(each.first, each.last),
          formatCount(each.tools.reduce((sum, calls) => sum + calls, 0)),
          formatCount(each.others),
          formatCount(each.failed),
          formatCount(each.repeated),
        ])}
      />
    );
  }
  const faded = series.not_run;
  const responses = new Map(series.markers.map((each) => [each.step, each.response]));
  return (
    <ChartTable
      caption="Steps of the run"
      head={["Step", "Time", "What", "Failed", "Same call as", "Result", "Response", "Tokens", ...(faded ? ["Would have run"] : [])]}
      words={[2, 3, 5, 6]}
      rows={points.step.map((step, index) => [
        formatCount(step),
        formatClock(series.started_at + points.at[index]!),
        escapeHidden(tools[points.tool[index]!]?.name ?? points.kind[index]!),
        points.failed[index] ? "× failed" : "",
        points.last_same[index] ? formatCount(points.last_same[index]) : "–",
        points.last_same[index] ? (points.same_result[index] === 1 ? "= same" : "≠ changed") : "",
        responses.get(step) ?? "",
        formatCount(points.tokens[index]),
        ...(faded ? [isInside(faded, step) ? "no" : "yes"] : []),
      ])}
    />
  );
}
