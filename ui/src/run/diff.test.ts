/** The evidence of a loop: what changed between two calls. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { countDiff, diffValues, readResult } from "./diff";

test("one JSON key per line, keys sorted, changed values as - and +", () => {
  const diff = diffValues('{"path": "a", "command": "run"}', '{"command": "run", "path": "b"}');
  assert.deepEqual(diff.lines, [
    { sign: " ", text: '"command": "run"' },
    { sign: "-", text: '"path": "a"' },
    { sign: "+", text: '"path": "b"' },
  ]);
  assert.equal(countDiff(diff), "1 added, 1 removed, 1 unchanged");
});

test("equal calls are identical and show their first lines", () => {
  const diff = diffValues('{"path": "a"}', '{"path":"a"}');
  assert.equal(countDiff(diff), "identical");
  assert.deepEqual(diff.lines, [{ sign: " ", text: '"path": "a"' }]);
});

test("at most three unchanged lines stand around a change", () => {
  const lines = Array.from({ length: 40 }, (_, index) => `line ${index}`);
  const diff = diffValues(lines.join("\n"), lines.map((line, index) => (index === 20 ? "other" : line)).join("\n"));
  assert.equal(diff.lines.length, 8);
  assert.equal(diff.hidden, 33);
});

test("text that is nearly JSON, empty or missing is compared as it is", () => {
  assert.equal(countDiff(diffValues("{not json", "{not json")), "identical");
  assert.equal(countDiff(diffValues(null, "x")), "1 added");
  assert.deepEqual(diffValues(null, null).lines, []);
});

test("a result that is only a text is shown as it, also when it was clipped", () => {
  assert.equal(readResult('{"text":"say \\"hi\\""}'), 'say "hi"');
  assert.equal(readResult('{"text":"cut in the mid'), "cut in the mid");
  assert.equal(readResult('{"text":"cut\\'), "cut");
  for (const other of ['{"text":"a","code":1}', '{"ok":1}', "plain", ""]) assert.equal(readResult(other), other);
});
