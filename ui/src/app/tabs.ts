/** What the tabs of one page tell each other: the header secret for a new tab, and the one live stream. */
import type { Change } from "../api/types";

export type StreamState = "connecting" | "live" | "reconnecting" | "reset";

export type TabMessage =
  | { readonly type: "ask-secret" }
  | { readonly type: "secret"; readonly secret: string }
  | { readonly type: "signed-out" }
  | { readonly type: "ask-state" }
  | {
      readonly type: "state";
      readonly state: StreamState;
      readonly lastId: string;
      readonly openIncidents: number;
    }
  | { readonly type: "change"; readonly change: Change };

// A channel reaches the tabs of this origin only, and an origin includes the port.
const channel = new BroadcastChannel("steadyhelm");

export function tellTabs(message: TabMessage): void {
  channel.postMessage(message);
}

export function listenToTabs(listener: (message: TabMessage) => void): () => void {
  const onMessage = (event: MessageEvent<TabMessage>) => listener(event.data);
  channel.addEventListener("message", onMessage);
  return () => channel.removeEventListener("message", onMessage);
}
