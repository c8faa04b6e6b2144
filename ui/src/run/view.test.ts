/** The address of a run page: what is read from it, and what hostile addresses do. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { changeTables, readStep, readTables, readZoom } from "./address";

const ALL = ["drift", "steps", "loops"];

test("a step is a whole number from 1; everything else is no step", () => {
  assert.equal(readStep("38"), 38);
  for (const text of [null, "", "0", "-1", "1.5", "1e9", "9999999999", "<script>"]) assert.equal(readStep(text), null);
});

test("a window has two ends in order", () => {
  assert.deepEqual(readZoom("31-46"), { from: 31, to: 46 });
  for (const text of [null, "46-31", "1-2-3", "x-y", "-"]) assert.equal(readZoom(text), null);
});

test("view=table alone is every chart, and naming charts picks those that exist", () => {
  assert.deepEqual([...readTables("table", null, ALL)], ALL);
  assert.deepEqual([...readTables("table", "steps.nothing", ALL)], ["steps"]);
  assert.deepEqual([...readTables("chart", "steps", ALL)], []);
});

test("swapping a chart keeps the others, and the last one leaves a clean address", () => {
  assert.deepEqual(changeTables(new Set(["steps"]), "drift", true, ALL), { view: "table", charts: "drift.steps" });
  assert.deepEqual(changeTables(new Set(["steps"]), "steps", false, ALL), { view: null, charts: null });
  assert.deepEqual(changeTables(new Set(["drift", "steps"]), "loops", true, ALL), { view: "table", charts: null });
});
