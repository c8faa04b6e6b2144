/** The geometry of the charts, without a browser. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { buildAxis, chooseInterval, showStep, zoomSpan } from "./axis";
import { arcPath, mergeColumns, placeBrackets, stackColumn, toolFill, toolLetter, nameLoop } from "./marks";
import { buildCells, CELL_CALL, CELL_NONE, CELL_RESULT, CELL_TOOL, countPairs } from "./recurrence";
import {
  bandPaths,
  bandPoints,
  findGaps,
  forecastPaths,
  heldAt,
  holdFrom,
  interpolateBand,
  leftBand,
  sparklinePath,
  stackPaths,
  stepPath,
} from "./series";
import { edgeShape, labelEdge, placeLabels, placeNodes, spreadAngles, visibleEdges } from "./transitions";

const identity = (value: number): number => value;

test("a step lies in the middle of its column, and a pixel leads back to it", () => {
  const axis = buildAxis({ kind: "steps", first: 1, last: 50, width: 610 });
  assert.equal(axis.pitch, 10);
  assert.equal(axis.x(1), 45);
  assert.equal(axis.x(50), 535);
  for (const step of [1, 2, 25, 50]) assert.equal(axis.stepAt(axis.x(step)), step);
  assert.equal(axis.stepAt(-100), 1);
  assert.equal(axis.stepAt(9_999), 50);
});

test("labels are at least 40 px apart, at 1, 2, 5, 10 steps, with separators", () => {
  assert.deepEqual([40, 20, 19, 8, 4, 3, 0.04].map((pitch) => chooseInterval(pitch, 40)), [1, 2, 5, 5, 10, 20, 1000]);
  const axis = buildAxis({ kind: "steps", first: 1, last: 10_000, width: 1_000 });
  const ticks = axis.ticks();
  assert.ok(ticks.some((tick) => tick.label === "5,000"));
  for (let index = 2; index < ticks.length; index += 1) assert.ok(ticks[index]!.x - ticks[index - 1]!.x >= 40);
});

test("the first step of a window has a label only where the next one leaves room", () => {
  const labels = [6_010, 6_230].map(
    (last) => buildAxis({ kind: "steps", first: 5_990, last, width: 1_000 }).ticks()[0]?.label,
  );
  assert.deepEqual(labels, ["5,990", "6,000"]);
});

test("a time axis keeps steps in order and finds the nearest one", () => {
  const times = [0, 1, 2, 60, 61, 120].map((seconds, index) => ({ step: index + 1, seconds }));
  const axis = buildAxis({ kind: "time", first: 1, last: 6, width: 600, times });
  for (let step = 1; step <= 6; step += 1) {
    assert.equal(axis.stepAt(axis.x(step)), step);
    if (step > 1) assert.ok(axis.x(step) > axis.x(step - 1));
  }
  assert.ok(axis.ticks().some((tick) => tick.label === "1 m"));
});

test("a run of one step has an axis", () => {
  for (const kind of ["steps", "time"] as const) {
    const axis = buildAxis({ kind, first: 1, last: 1, width: 300, times: [{ step: 1, seconds: 0 }] });
    assert.equal(axis.stepAt(axis.x(1)), 1);
    assert.ok(Number.isFinite(axis.x(1)));
  }
});

test("zooming keeps the step under the cursor inside, and the window inside the run", () => {
  assert.deepEqual(zoomSpan({ from: 1, to: 100 }, 0.5, 1, 100), { from: 1, to: 50 });
  assert.deepEqual(zoomSpan({ from: 51, to: 100 }, 4, 100, 100), { from: 1, to: 100 });
  assert.deepEqual(zoomSpan({ from: 1, to: 8 }, 0.5, 4, 100), { from: 1, to: 8 });
  assert.deepEqual(showStep({ from: 1, to: 10 }, 15, 100), { from: 6, to: 15 });
  assert.deepEqual(showStep({ from: 50, to: 60 }, 3, 100), { from: 3, to: 13 });
});

test("a score holds until the next value and leaves a gap where it is not known", () => {
  const points = [
    { step: 1, value: 0 },
    { step: 3, value: 5 },
    { step: 5, value: null },
    { step: 7, value: 2 },
  ];
  assert.equal(stepPath(points, identity, identity, 9), "M1 0H3V5H5M7 2H9");
  assert.deepEqual(findGaps(points, identity, 9), [[5, 7]]);
  assert.equal(heldAt(points, 4)?.value, 5);
  assert.equal(heldAt(points, 0), null);
});

test("what comes before the first value is not known", () => {
  assert.deepEqual(findGaps(holdFrom([{ step: 3, value: 5 }], 1), identity, 9), [[1, 3]]);
  assert.deepEqual(findGaps(holdFrom([], 4), identity, 9), [[4, 9]]);
  assert.deepEqual(findGaps(holdFrom([{ step: 1, value: 0 }], 4), identity, 9), []);
});

test("contributions stand on each other and add up to the score", () => {
  const [low, high] = stackPaths([{ step: 1, parts: [1, 2] }, { step: 2, parts: [0, 3] }], 2, identity, identity, 3);
  assert.equal(low, "M1 1V1H2V0H1Z");
  assert.equal(high, "M1 3V3H2V3H3V0H2V1H1Z");
});

test("a band is interpolated on the logarithm of the step and ends with too few runs", () => {
  const band = bandPoints({ steps: [1, 4, 16, 64], p5: [0, 2, 4, 6], p50: [0, 2, 4, 6], p95: [0, 2, 4, 6], runs: [9, 9, 5, 4] });
  assert.equal(interpolateBand(band, 2)?.p50, 1);
  assert.equal(interpolateBand(band, 8)?.p95, 3);
  assert.equal(interpolateBand(band, 16)?.p5, 4);
  assert.equal(interpolateBand(band, 17), null);
  assert.equal(bandPaths(band, { first: 1, last: 100 }, identity, identity)?.end, 16);
  assert.equal(bandPaths(band, { first: 20, last: 30 }, identity, identity), null);
});

test("what is left turns a band of what was used upside down, and follows a limit that changes", () => {
  const used = bandPoints({ steps: [1, 4], p5: [10, 10], p50: [20, 20], p95: [30, 30], runs: [5, 5] });
  const [first, before, after, last] = leftBand(used, [{ step: 1, limit: 100 }, { step: 3, limit: 50 }]);
  assert.deepEqual(first, { step: 1, p5: 70, p50: 80, p95: 90, runs: 5 });
  assert.deepEqual([before?.p50, after?.p50, last?.p50], [80, 30, 30]);
  assert.deepEqual(leftBand([], [{ step: 1, limit: 100 }]), []);
});

test("the cone of a forecast starts now and never leads back", () => {
  const { cone, median } = forecastPaths({ step: 46, left: 10 }, { p10: 40, p50: 54, p90: 56 }, identity, identity);
  assert.equal(cone, "M46 10L46 0L56 0Z");
  assert.equal(median, "M46 10L54 0");
});

test("a loop is named by its tools, by their letters, or by how often alone", () => {
  const tools = [{ name: "run_tests" }, { name: "edit" }];
  const [whole, short, shortest] = nameLoop(["edit", "gone"], tools, "9× with the same error");
  assert.equal(whole, "edit → gone 9× with the same error");
  assert.equal(short, "B → gone 9× with the same error");
  assert.equal(shortest, "B → gone 9×");
});

test("brackets never overlap in a row; the fourth is counted, not drawn", () => {
  const brackets = [1, 2, 3, 4].map((id) => ({ id: String(id), from: id, to: 20 - id, labels: [], proof: [] }));
  const { placed, hidden } = placeBrackets(brackets, { first: 2, last: 18 });
  assert.equal(hidden, 1);
  assert.deepEqual(placed.map((each) => [each.id, each.row]), [["4", 0], ["3", 1], ["2", 2]]);
  const [cut] = placeBrackets([brackets[0]!], { first: 2, last: 18 }).placed;
  assert.deepEqual([cut?.openLeft, cut?.openRight], [true, true]);
});

test("an arc is 0.8 of its radius high and stays inside its lane", () => {
  assert.equal(arcPath(0, 20, 60, 52), "M0 60A10 14 0 0 1 20 60");
  assert.equal(arcPath(0, 400, 60, 52), "M0 60A200 52 0 0 1 400 60");
});

test("tools go on with letters and repeat their fills", () => {
  assert.deepEqual([0, 1, 25, 26].map(toolLetter), ["A", "B", "Z", "A2"]);
  assert.deepEqual([0, 7, 8].map(toolFill), ["t0", "t7", "t0"]);
});

test("columns are merged until each is wide enough, and nothing is lost", () => {
  const columns = Array.from({ length: 10 }, (_, index) => ({
    first: index + 1, last: index + 1, tools: [1, 0], others: 0, failed: 1, repeated: 1, repeatedInside: 0,
  }));
  const merged = mergeColumns(columns, 1, 4);
  assert.deepEqual(merged.map((each) => [each.first, each.last]), [[1, 4], [5, 8], [9, 10]]);
  assert.equal(merged.reduce((sum, each) => sum + each.failed, 0), 10);
  assert.deepEqual(stackColumn({ ...columns[0]!, last: 4, tools: [1, 2] }), [
    { tool: 0, from: 0, to: 0.25 },
    { tool: 1, from: 0.25, to: 0.75 },
  ]);
});

test("the matrix tells the same result, a changed result, the same tool and nothing apart", () => {
  const entries = { tool: [0, 0, 0, 1, -1], call: [1, 1, 2, 3, -1], result: [7, 7, 7, 7, -1] };
  const cells = buildCells({ ...entries, result: [7, 7, 8, 9, -1] });
  const at = (row: number, column: number): number => cells[row * 5 + column]!;
  assert.equal(at(0, 1), CELL_RESULT);
  assert.equal(at(0, 2), CELL_TOOL);
  assert.equal(at(0, 3), CELL_NONE);
  assert.equal(at(4, 4), CELL_NONE);
  assert.equal(at(1, 0), at(0, 1));
  assert.equal(buildCells({ ...entries, result: [7, 8, 7, 7, -1] })[1], CELL_CALL);
  assert.equal(countPairs(cells, 5, CELL_RESULT), 1);
});

test("positions of actions are the same for baseline, now and difference", () => {
  const nodes = [
    { name: "(start)", baseline_share: 0, now_share: 0 },
    { name: "reply", baseline_share: 0.5, now_share: 0.48 },
    { name: "edit", baseline_share: 0.1, now_share: 0.29 },
  ];
  const places = placeNodes(nodes, 800, 400);
  assert.deepEqual(places.get("reply")!.x, 320);
  assert.ok(places.get("(start)")!.x < places.get("reply")!.x);
  assert.ok(places.get("edit")!.x > places.get("reply")!.x);
});

test("25 actions around the middle do not cover each other", () => {
  const angles = spreadAngles(24);
  assert.equal(new Set(angles).size, 24);
  const nodes = Array.from({ length: 25 }, (_, index) => ({ name: `n${index}`, baseline_share: 0.04, now_share: 0.04 }));
  const places = [...placeNodes(nodes, 900, 480).values()];
  places.forEach((a, i) => places.slice(i + 1).forEach((b) => assert.ok(Math.hypot(a.x - b.x, a.y - b.y) > 20)));
});

test("an edge says what it was only where it differs, and rare edges are not drawn", () => {
  const edge = { from: "a", to: "b", baseline: 0.31, now: 0.58, more: true, rarer: false };
  assert.equal(labelEdge(edge, "difference"), "0.58 · was 0.31");
  assert.equal(labelEdge(edge, "baseline"), "0.31");
  const faint = { from: "a", to: "c", baseline: 0.02, now: 0.02, more: false, rarer: false };
  const gone = { from: "a", to: "d", baseline: 0.11, now: 0, more: false, rarer: true };
  assert.deepEqual(visibleEdges([edge, faint, gone], "difference").map((each) => each.code), ["more", "rarer"]);
  assert.deepEqual(visibleEdges([edge, faint, gone], "now").map((each) => each.edge.to), ["b"]);
});

test("two edges between the same actions bend apart", () => {
  const a = { x: 0, y: 0, radius: 10 };
  const b = { x: 100, y: 0, radius: 10 };
  assert.notEqual(Math.sign(edgeShape(a, b, true).labels[0]!.y - 4), Math.sign(edgeShape(b, a, true).labels[0]!.y - 4));
});

test("an edge goes around a circle that lies on its line", () => {
  const [a, b, c] = [{ x: 0, y: 0, radius: 10 }, { x: 200, y: 0, radius: 10 }, { x: 100, y: 0, radius: 30 }];
  const { points } = edgeShape(a, b, false, [a, b, c]);
  for (const point of points) assert.ok(Math.hypot(point.x - c.x, point.y - c.y) > c.radius);
});

test("labels of edges that cross keep apart from each other and from circles", () => {
  const circles = [{ x: 0, y: 0, radius: 30 }, { x: 300, y: 0, radius: 30 }, { x: 250, y: 120, radius: 20 }];
  const [a, b, c] = circles as [(typeof circles)[0], (typeof circles)[0], (typeof circles)[0]];
  const edges = [edgeShape(a, b, true), edgeShape(b, a, true), edgeShape(a, c, true), edgeShape(c, a, true)];
  const places = placeLabels(edges.map((shape) => ({ shape, label: "0.02 · was 0.19" })), circles);
  places.forEach((one, i) => places.slice(i + 1).forEach((other) => {
    assert.ok(Math.abs(one.y - other.y) > 13 || Math.abs(one.x - other.x) > 80);
  }));
});

test("a sparkline breaks on a day without runs", () => {
  assert.equal(sparklinePath([0, null, 0.8], 108, 32), "M4 29M104 3");
});
