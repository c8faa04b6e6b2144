import assert from "node:assert/strict";
import { test } from "node:test";

import { parseEvents } from "./events";

test("events are split at blank lines, and an unfinished one waits", () => {
  const { events, rest } = parseEvents('event: change\nid: 4\ndata: {"a":1}\n\nevent: cha');
  assert.deepEqual(events, [{ event: "change", id: "4", data: '{"a":1}' }]);
  assert.equal(rest, "event: cha");
});

test("heartbeats are no events", () => {
  assert.deepEqual(parseEvents(": still here\n\n").events, []);
});

test("several lines of data are one text", () => {
  assert.equal(parseEvents("data: a\ndata: b\n\n").events[0]?.data, "a\nb");
});

test("where the text is cut makes no difference", () => {
  const text = "event: hello\r\nid: 1\r\ndata: {}\r\n\r\nevent: change\nid: 2\ndata: {}\n\n";
  for (let cut = 0; cut <= text.length; cut += 1) {
    const first = parseEvents(text.slice(0, cut));
    const second = parseEvents(first.rest + text.slice(cut));
    assert.deepEqual([...first.events, ...second.events].map((event) => event.id), ["1", "2"]);
  }
});
