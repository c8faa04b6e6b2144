import assert from "node:assert/strict";
import { test } from "node:test";

import type { RunList, RunRow } from "../api/types";
import { matchesFilters, mend } from "./matching";

const ALL = { since: "", agent: [], state: [], severity: "", kind: [], response: [], q: "" };

function run(key: number, more: Partial<RunRow> = {}): RunRow {
  return {
    key, run_id: `r${key}`, agent: { key: 1, name: "bug-fixer" }, goal: "", version: "", task_type: "",
    state: "running", outcome: "", started_at: key, last_at: key, duration_s: 1, steps: 1, tokens: 1, cost_usd: null,
    errors: 0, peak: null, incidents: 0, top_severity: null, kinds: [], loop: null, response: null, parent: null,
    ...more,
  };
}

const list = (...rows: RunRow[]) => ({
  pages: [{ runs: rows, next: null, total: rows.length, levels: { remind: 0.3, replan: 0.5, rollback: 0.7, stop: 0.9 } } satisfies RunList],
  pageParams: [""],
});

test("a changed run stays in its place", () => {
  const { next, unknown } = mend(list(run(3), run(2), run(1)), { runs: [run(2, { steps: 9 })] });
  assert.deepEqual(next.pages[0]?.runs.map((row) => [row.key, row.steps]), [[3, 1], [2, 9], [1, 1]]);
  assert.deepEqual(unknown, []);
});

test("a run that is newer than the list waits to be shown; an older one does not", () => {
  const known = list(run(5), run(4));
  const { next, unknown } = mend(known, { runs: [run(7), run(2)] });
  assert.equal(next, known);
  assert.deepEqual(unknown.map((row) => row.key), [7]);
});

test("every filter must let a run through", () => {
  const drifting = run(1, { top_severity: "HIGH", kinds: ["loop"], response: { response: "ask", outcome: "worked", step: 3 } });
  const through = [{ severity: "MED" }, { kind: ["loop", "goal"] }, { response: ["ask"] }, { agent: ["1"] }, { state: ["running"] }];
  const held = [{ severity: "CRITICAL" }, { kind: ["goal"] }, { response: ["stop"] }, { agent: ["2"] }, { state: ["ended"] }];
  assert.deepEqual(through.map((filter) => matchesFilters(drifting, { ...ALL, ...filter })), through.map(() => true));
  assert.deepEqual(held.map((filter) => matchesFilters(drifting, { ...ALL, ...filter })), held.map(() => false));
});
