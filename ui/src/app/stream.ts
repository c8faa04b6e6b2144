/**
 * The live stream. One tab reads it and tells the others, since a browser opens few connections to one host.
 *
 * The tab that holds a lock reads; when it is closed the next one gets the lock and goes on after the last
 * change that it was told, so that nothing is lost in between.
 */
import { SECRET_HEADER, apiUrl, readSecret } from "../api/client";
import type { Change, Reset } from "../api/types";
import { parseEvents } from "./events";
import type { ServerEvent } from "./events";
import { listenToTabs, tellTabs } from "./tabs";
import type { StreamState } from "./tabs";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** The server sends a heartbeat every 15 s; three missed ones mean that nobody is there. */
const SILENCE_MS = 45_000;

export interface StreamHandlers {
  /** `reached` is the number of the latest change that was told. */
  readonly onState: (state: StreamState, reached: number) => void;
  readonly onOpenIncidents: (count: number) => void;
  readonly onChange: (change: Change) => void;
  readonly onSignedOut: () => void;
}

export interface FollowedStream {
  readonly stop: () => void;
  /** Go on after "reset": everything was loaded again. */
  readonly goOn: () => void;
}

/** Follow the stream until it is stopped. */
export function followStream(handlers: StreamHandlers): FollowedStream {
  const stopped = new AbortController();
  let lastId = "";
  let state: StreamState = "connecting";
  let openIncidents = 0;
  let leading = false;

  const tellState = () => tellTabs({ type: "state", state, lastId, openIncidents });
  const setState = (next: StreamState) => {
    state = next;
    if (leading) tellState();
    handlers.onState(next, Number(lastId));
  };

  const stopListening = listenToTabs((message) => {
    if (message.type === "ask-state" && leading) tellState();
    if (leading) return;
    if (message.type === "state") {
      if (message.lastId) lastId = message.lastId;
      state = message.state;
      if (state !== "connecting") handlers.onOpenIncidents(message.openIncidents);
      handlers.onState(state, Number(lastId));
    } else if (message.type === "change") {
      lastId = String(message.change.id);
      handlers.onChange(message.change);
    }
  });

  const handle = (event: ServerEvent) => {
    if (event.id) lastId = event.id;
    if (event.event === "change") {
      const change = JSON.parse(event.data) as Change;
      lastId = String(change.id);
      openIncidents = change.open_incidents;
      tellTabs({ type: "change", change });
      handlers.onChange(change);
      // A stream that goes on after an interruption begins with what was missed.
      if (state !== "live" && state !== "reset") setState("live");
    } else if (event.event === "hello" || event.event === "reset") {
      const reset = JSON.parse(event.data) as Reset;
      lastId = String(reset.id);
      openIncidents = reset.open_incidents;
      handlers.onOpenIncidents(openIncidents);
      setState(event.event === "reset" ? "reset" : state === "reset" ? "reset" : "live");
    }
  };

  async function lead(): Promise<void> {
    leading = true;
    let wait = FIRST_WAIT_MS;
    while (!stopped.signal.aborted) {
      try {
        const answered = await readOnce(lastId, stopped.signal, handle);
        if (answered === 401) {
          handlers.onSignedOut();
          return;
        }
        if (answered === 200) wait = FIRST_WAIT_MS;
      } catch {
        // No answer, or the connection broke: both are tried again below.
      }
      if (stopped.signal.aborted) return;
      if (state !== "reset") setState("reconnecting");
      await pause(wait, stopped.signal);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  tellTabs({ type: "ask-state" });
  if ("locks" in navigator) {
    navigator.locks
      .request("steadyhelm.stream", { signal: stopped.signal }, lead)
      .catch(() => undefined); // The wait for the lock was given up with the page.
  } else {
    void lead();
  }
  return {
    stop: () => {
      stopped.abort();
      stopListening();
      leading = false;
    },
    goOn: () => setState("live"),
  };
}

/** Read one connection to its end. Returns the status it was answered with. */
async function readOnce(lastId: string, signal: AbortSignal, handle: (event: ServerEvent) => void): Promise<number> {
  const secret = readSecret();
  const silence = new AbortController();
  let timer = window.setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const answer = await fetch(apiUrl("/stream"), {
      headers: {
        Accept: "text/event-stream",
        ...(secret ? { [SECRET_HEADER]: secret } : {}),
        ...(lastId ? { "Last-Event-ID": lastId } : {}),
      },
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!answer.ok || !answer.body) return answer.status;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return answer.status;
      window.clearTimeout(timer);
      timer = window.setTimeout(() => silence.abort(), SILENCE_MS);
      const parsed = parseEvents(rest + value);
      rest = parsed.rest;
      for (const event of parsed.events) handle(event);
    }
  } finally {
    window.clearTimeout(timer);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
}
