/** Which action follows which, as a graph: circles by share, curves by probability. */
import { useMemo, useState } from "react";
import type { ReactNode } from "react";

import { escapeHidden } from "../components/HostileText";
import { formatPercent } from "../format";
import { ChartStop, useWidth } from "./Chart";
import { edgeShape, edgeWidth, FINISH, labelEdge, placeLabels, placeNodes, selfShape, START, visibleEdges } from "./transitions";
import type { Edge, Node, Place, Side } from "./transitions";

const HEIGHT = 400;
const NAME_LETTERS = 24;
const LETTER_WIDTH = 6.2;

export interface TransitionGraphProps {
  nodes: readonly Node[];
  edges: readonly Edge[];
  side: Side;
  summary: string;
}

/** Return an action's name for the screen: (start) is start, hidden characters are spelt out. */
export function nameNode(name: string): string {
  if (name === START) return "start";
  return name === FINISH ? "end" : escapeHidden(name);
}

/** Return the sentence about an edge: what follows what, how often, and what it was. */
export function describeEdge(edge: Edge, side: Side): string {
  const word = edge.more ? ", more frequent than the baseline" : edge.rarer ? ", expected, now rare" : "";
  return `${nameNode(edge.to)} after ${nameNode(edge.from)}: ${labelEdge(edge, side)}${side === "difference" ? word : ""}.`;
}

export function TransitionGraph({ nodes, edges, side, summary }: TransitionGraphProps): ReactNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [current, setCurrent] = useState(0);
  const drawn = useMemo(() => visibleEdges(edges, side), [edges, side]);
  const places = useMemo(() => placeNodes(nodes, width, HEIGHT), [nodes, width]);
  const looping = new Set(drawn.filter(({ edge }) => edge.from === edge.to).map(({ edge }) => edge.from));
  const shapes = useMemo(() => shapeEdges(drawn, places, side), [drawn, places, side]);
  const chosen = drawn[Math.min(current, drawn.length - 1)];
  return (
    <div ref={ref}>
      {width > 0 && (
        <ChartStop
          label="Transitions"
          summary={summary}
          min={1}
          max={Math.max(1, drawn.length)}
          value={Math.min(current + 1, Math.max(1, drawn.length))}
          text={chosen ? describeEdge(chosen.edge, side) : "No transition."}
          at={shapes[current]?.at ?? null}
          width={width}
          onMove={(to) => setCurrent(to - 1)}
          className="graph"
        >
          <svg className="chart" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
            <Arrows />
            {shapes.map(({ edge, probability, code, path, label, at }, index) => (
              <g key={`${edge.from}\n${edge.to}`} className={`edge edge-${code} ${index === current ? "edge-current" : ""}`}>
                <path d={path} strokeWidth={edgeWidth(probability)} markerEnd={`url(#arrow-${code})`} />
                <text className="middle-anchor halo" x={at.x} y={at.y}>{label}</text>
                <title>{describeEdge(edge, side)}</title>
              </g>
            ))}
            {nodes.map((node) => {
              const place = places.get(node.name);
              return place && <NodeMark key={node.name} node={node} place={place} side={side} beside={Math.abs(place.y - HEIGHT / 2) > 40 && !looping.has(node.name)} middle={width / 2} />;
            })}
          </svg>
        </ChartStop>
      )}
    </div>
  );
}

function Arrows(): ReactNode {
  return (
    <defs>
      {(["more", "rarer", "same"] as const).map((code) => (
        <marker key={code} id={`arrow-${code}`} viewBox="0 0 8 8" refX="2" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
          <path className={`arrow-${code}`} d="M0 0.5 7.5 4 0 7.5z" />
        </marker>
      ))}
    </defs>
  );
}

/** Shape the edges whose ends are drawn, and place their labels. */
function shapeEdges(drawn: ReturnType<typeof visibleEdges>, places: ReadonlyMap<string, Place>, side: Side) {
  const circles = [...places.values()];
  const ways = new Set(drawn.map(({ edge }) => JSON.stringify([edge.to, edge.from])));
  const shaped = drawn.flatMap((each) => {
    const from = places.get(each.edge.from);
    const to = places.get(each.edge.to);
    if (!from || !to) return [];
    const bent = ways.has(JSON.stringify([each.edge.from, each.edge.to]));
    const shape = from === to ? selfShape(from) : edgeShape(from, to, bent, circles);
    return [{ ...each, shape, label: labelEdge(each.edge, side) }];
  });
  const labels = placeLabels(shaped, circles);
  return shaped.map(({ shape, ...rest }, index) => ({ ...rest, path: shape.path, at: labels[index]! }));
}

interface NodeMarkProps {
  node: Node;
  place: Place;
  side: Side;
  /** The name stands beside the circle, away from the middle and its edges; else below it. */
  beside: boolean;
  middle: number;
}

function NodeMark({ node, place, side, beside, middle }: NodeMarkProps): ReactNode {
  const share = side === "baseline" ? node.baseline_share : node.now_share;
  const fixed = node.name === START || node.name === FINISH;
  const gone = !fixed && share < 0.005;
  const name = nameNode(node.name);
  const short = name.length > NAME_LETTERS ? `${name.slice(0, NAME_LETTERS - 1)}…` : name;
  const reach = place.radius + 8;
  const left = place.x < middle && place.x - reach > short.length * LETTER_WIDTH;
  return (
    <g className={gone ? "node node-gone" : "node"}>
      <circle cx={place.x} cy={place.y} r={place.radius} />
      {!fixed && (
        <text className="value middle-anchor" x={place.x} y={place.y + 4}>
          {formatPercent(share)}
        </text>
      )}
      {beside && !fixed ? (
        <text className={`node-name halo ${left ? "end-anchor" : ""}`} x={left ? place.x - reach : place.x + reach} y={place.y + 4}>{short}</text>
      ) : (
        <text className="node-name middle-anchor halo" x={place.x} y={place.y + place.radius + 15}>{short}</text>
      )}
      <title>{name}</title>
    </g>
  );
}
