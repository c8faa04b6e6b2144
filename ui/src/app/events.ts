/** The format of server-sent events, as far as our server uses it. */

export interface ServerEvent {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

/** Split the text of a stream into events. Comments, which are heartbeats, are left out. */
export function parseEvents(text: string): { events: ServerEvent[]; rest: string } {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  const events: ServerEvent[] = [];
  for (const block of blocks) {
    let event = "message";
    let id = "";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const cut = line.indexOf(":");
      if (cut <= 0) continue;
      const value = line.slice(cut + 1).replace(/^ /, "");
      const field = line.slice(0, cut);
      if (field === "event") event = value;
      else if (field === "id") id = value;
      else if (field === "data") data.push(value);
    }
    if (data.length) events.push({ event, id, data: data.join("\n") });
  }
  return { events, rest };
}
