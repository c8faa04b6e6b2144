import assert from "node:assert/strict";
import { test } from "node:test";

import {
  formatAgo, formatBytes, formatCapped, formatCount, formatDuration, formatMoney, formatPercent, formatScore, formatSteps,
} from "./format";

test("what is not known is a dash, never 0", () => {
  for (const format of [formatCount, formatScore, formatMoney, formatDuration, formatPercent, formatBytes]) {
    assert.equal(format(null), "–");
  }
});

test("numbers have separators, money two decimals", () => {
  assert.equal(formatCount(342_949), "342,949");
  assert.equal(formatMoney(12_345.6), "$12,345.60");
  assert.equal(formatMoney(0.004), "$0.00");
  assert.equal(formatScore(0.5), "0.50");
});

test("counts stop where the server stops counting", () => {
  assert.equal(formatCapped(9_999), "9,999");
  assert.equal(formatCapped(10_000), "10,000+");
});

test("durations use two units", () => {
  assert.deepEqual([0.3, 6, 139, 3_900, 273_600].map(formatDuration), ["0.3 s", "6 s", "2 m 19 s", "1 h 05 m", "3 d 4 h"]);
});

test("ages are in words", () => {
  const ages = [2, 40, 125, 7_300, 90_000, 300_000].map((age) => formatAgo(1_000_000 - age, 1_000_000));
  assert.deepEqual(ages, ["now", "40 s ago", "2 min ago", "2 h ago", "yesterday", "3 d ago"]);
});

test("a step range of one step is that step", () => {
  assert.equal(formatSteps(10, 38), "steps 10–38");
  assert.equal(formatSteps(1_010, 1_010), "step 1,010");
});
