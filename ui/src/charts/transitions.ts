/** Layout of the transition graph and the shapes of its edges. */

import { px } from "./series";

export const START = "(start)";
export const FINISH = "(end)";
export const MAX_NODES = 25;
/** Edges under this probability are not drawn. */
export const EDGE_LEAST = 0.03;

export type Side = "baseline" | "now" | "difference";

/** An action and its share of all steps. */
export interface Node {
  name: string;
  baseline_share: number;
  now_share: number;
}

/** How likely an action follows another; null where the first was not seen. */
export interface Edge {
  from: string;
  to: string;
  baseline: number | null;
  now: number | null;
  more: boolean;
  rarer: boolean;
}

export type EdgeCode = "more" | "rarer" | "same";

/** Return the edges to draw on a side, with the probability that gives their width. */
export function visibleEdges(
  edges: readonly Edge[],
  side: Side,
): { edge: Edge; probability: number; code: EdgeCode }[] {
  const drawn: { edge: Edge; probability: number; code: EdgeCode }[] = [];
  for (const edge of edges) {
    const code = side === "difference" ? codeEdge(edge) : "same";
    const here = side === "baseline" ? edge.baseline : edge.now;
    const probability = code === "rarer" ? (edge.baseline ?? 0) : (here ?? 0);
    if (code !== "same" || probability >= EDGE_LEAST) drawn.push({ edge, probability, code });
  }
  return drawn;
}

export function codeEdge(edge: Edge): EdgeCode {
  if (edge.more) return "more";
  return edge.rarer ? "rarer" : "same";
}

/** Return the label of an edge: its probability, and what it was where it differs. */
export function labelEdge(edge: Edge, side: Side): string {
  if (side === "baseline") return formatShare(edge.baseline);
  if (side === "difference" && codeEdge(edge) !== "same") {
    return `${formatShare(edge.now ?? 0)} · was ${formatShare(edge.baseline ?? 0)}`;
  }
  return formatShare(edge.now);
}

function formatShare(value: number | null): string {
  if (value === null) return "not seen";
  return value === 0 ? "0" : value.toFixed(2);
}

export interface Place {
  x: number;
  y: number;
  radius: number;
}

export function nodeRadius(share: number): number {
  return 12 + 36 * Math.sqrt(Math.max(0, share));
}

/**
 * Place the most frequent node in the middle, start at the left, finish at the lower left and the
 * others around by share. The larger share of both sides decides, so that positions stay between
 * baseline, now and difference.
 */
export function placeNodes(nodes: readonly Node[], width: number, height: number): Map<string, Place> {
  const size = (node: Node): number => Math.max(node.baseline_share, node.now_share);
  const ranked = nodes
    .filter((node) => node.name !== START && node.name !== FINISH)
    .toSorted((a, b) => size(b) - size(a) || (a.name < b.name ? -1 : 1));
  const places = new Map<string, Place>();
  const middle = { x: width * 0.4, y: height / 2 };
  const reach = { x: width * 0.35, y: height / 2 - 44 };
  const put = (node: Node, degrees: number, far: number): void => {
    const angle = (degrees * Math.PI) / 180;
    places.set(node.name, {
      x: middle.x + Math.cos(angle) * reach.x * far,
      y: middle.y - Math.sin(angle) * reach.y * far,
      radius: nodeRadius(size(node)),
    });
  };
  for (const node of nodes) {
    if (node.name === START) places.set(START, { x: width * 0.09, y: middle.y, radius: 14 });
    if (node.name === FINISH) places.set(FINISH, { x: width * 0.17, y: height - 58, radius: 14 });
  }
  const [centre, ...around] = ranked;
  if (centre) places.set(centre.name, { ...middle, radius: nodeRadius(size(centre)) });
  spreadAngles(around.length).forEach((degrees, index) => {
    put(around[index]!, degrees, around.length > 9 && index % 2 ? 0.78 : 1);
  });
  return places;
}

/** Return angles between the lower side and the upper left, the first at the right. */
export function spreadAngles(count: number): number[] {
  if (count <= 4) return [0, 90, -52, 140].slice(0, count);
  const from = -108;
  const to = 150;
  const slots = Array.from({ length: count }, (_, index) => from + ((to - from) * index) / (count - 1));
  return slots.toSorted((a, b) => Math.abs(a) - Math.abs(b));
}

export interface Point {
  x: number;
  y: number;
}

export interface EdgeShape {
  path: string;
  /** Places for the label, best first, all outside the bend. */
  labels: Point[];
  /** Points along the curve, which labels of others keep off. */
  points: Point[];
}

const CURVE_SHARES = Array.from({ length: 21 }, (_, index) => index / 20);
const LABEL_PLACES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78];

/**
 * Return the curve of an edge between two circles, bent to its left: so that both ways are apart, and
 * around circles that lie on the straight line.
 */
export function edgeShape(from: Place, to: Place, bent: boolean, circles: readonly Place[] = []): EdgeShape {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const normal = { x: dy / length, y: -dx / length };
  const around = circles.map((circle) => (isBetween(circle, from, to) ? 2 * (circle.radius + 18) : 0));
  const bend = Math.max(bent ? Math.min(60, 12 + length * 0.12) : 0, ...around);
  const control = {
    x: (from.x + to.x) / 2 + normal.x * bend,
    y: (from.y + to.y) / 2 + normal.y * bend,
  };
  const start = leave(from, control, from.radius + 2);
  const end = leave(to, control, to.radius + 7);
  const along = (share: number, key: "x" | "y"): number => {
    const rest = 1 - share;
    return rest * rest * start[key] + 2 * rest * share * control[key] + share * share * end[key];
  };
  const at = (share: number): Point => ({ x: along(share, "x"), y: along(share, "y") });
  const labels = LABEL_PLACES.map(at).map((point) => ({ x: point.x + normal.x * 13, y: point.y + normal.y * 13 + 4 }));
  return {
    points: CURVE_SHARES.map(at),
    path: `M${px(start.x)} ${px(start.y)}Q${px(control.x)} ${px(control.y)} ${px(end.x)} ${px(end.y)}`,
    labels,
  };
}

/** Return whether a circle lies on the line between two others. */
function isBetween(circle: Place, from: Place, to: Place): boolean {
  if (circle === from || circle === to) return false;
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const along = ((circle.x - from.x) * dx + (circle.y - from.y) * dy) / length;
  const aside = Math.abs((circle.x - from.x) * dy - (circle.y - from.y) * dx) / length;
  return along > 0 && along < length && aside < circle.radius + 6;
}

/** Return the loop of an edge that leads back to its node, at the upper right. */
export function selfShape(at: Place): EdgeShape {
  const reach = at.radius + 46;
  const start = turn(at, -50, at.radius + 2);
  const end = turn(at, -4, at.radius + 7);
  const first = turn(at, -48, reach + 26);
  const second = turn(at, -2, reach + 26);
  return {
    path: `M${px(start.x)} ${px(start.y)}C${px(first.x)} ${px(first.y)} ${px(second.x)} ${px(second.y)} ${px(end.x)} ${px(end.y)}`,
    labels: [{ x: at.x + at.radius + 24, y: at.y - at.radius - 26 }],
    points: [],
  };
}

const LETTER_WIDTH = 5.8;

/** Choose a place for each label that covers neither a circle nor a label before it, and if possible no line. */
export function placeLabels(
  edges: readonly { shape: EdgeShape; label: string }[],
  circles: readonly Place[],
): Point[] {
  const taken: { x: number; y: number; half: number }[] = [];
  const curves = edges.flatMap(({ shape }) => shape.points);
  return edges.map(({ shape, label }) => {
    const half = (label.length * LETTER_WIDTH) / 2 + 3;
    const isFree = (at: Point): boolean =>
      taken.every((other) => Math.abs(other.y - at.y) > 13 || Math.abs(other.x - at.x) > other.half + half) &&
      circles.every((circle) => Math.abs(circle.x - at.x) > circle.radius + half || Math.abs(circle.y - at.y + 4) > circle.radius + 8);
    const isClear = (at: Point): boolean =>
      isFree(at) && curves.every((point) => Math.abs(point.y - at.y + 4) > 7 || Math.abs(point.x - at.x) > half);
    const at = shape.labels.find(isClear) ?? shape.labels.find(isFree) ?? shape.labels[0]!;
    taken.push({ ...at, half });
    return at;
  });
}

function leave(place: Place, towards: Point, by: number): Point {
  const dx = towards.x - place.x;
  const dy = towards.y - place.y;
  const length = Math.hypot(dx, dy) || 1;
  return { x: place.x + (dx / length) * by, y: place.y + (dy / length) * by };
}

function turn(place: Place, degrees: number, by: number): Point {
  const angle = (degrees * Math.PI) / 180;
  return { x: place.x + Math.cos(angle) * by, y: place.y + Math.sin(angle) * by };
}

export function edgeWidth(probability: number): number {
  return 1.5 + 3.5 * Math.min(1, Math.max(0, probability));
}
