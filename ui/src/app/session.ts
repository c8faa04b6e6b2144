/** Who is signed in. A cookie and a header secret are both needed; the secret lives in session storage. */
import { useSyncExternalStore } from "react";

import { ApiError, del, get, keepSecret, post, readSecret } from "../api/client";
import type { Session, SignedIn } from "../api/types";
import { listenToTabs, tellTabs } from "./tabs";

export type SessionState =
  | { readonly kind: "starting" }
  | { readonly kind: "signed-out"; readonly message: string }
  | { readonly kind: "unreachable"; readonly error: ApiError }
  | { readonly kind: "signed-in"; readonly session: Session };

const OTHER_TAB_MS = 250;

let state: SessionState = { kind: "starting" };
const listeners = new Set<() => void>();

function change(next: SessionState): void {
  state = next;
  for (const listener of listeners) listener();
}

export function useSession(): SessionState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}

/** Return whether the person signed in may make changes of this kind. */
export function useScope(scope: "operate" | "admin"): boolean {
  const now = useSession();
  return now.kind === "signed-in" && now.session.scopes.includes(scope);
}

/** Take the one-time code out of the address, so that it is neither kept nor sent on. */
function takeCode(): string | null {
  const found = /[#&?]code=([^&]+)/.exec(window.location.hash);
  if (!found?.[1]) return null;
  const rest = window.location.hash.replace(found[0].slice(1), "").replace(/[?&]$/, "").replace(/\?&/, "?");
  history.replaceState(null, "", rest === "#" || rest === "" ? "#/" : rest);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return null; // no code of ours
  }
}

function askOtherTabs(): Promise<string | null> {
  return new Promise((resolve) => {
    const stop = listenToTabs((message) => {
      if (message.type === "secret") finish(message.secret);
    });
    const timer = window.setTimeout(() => finish(null), OTHER_TAB_MS);
    function finish(secret: string | null): void {
      window.clearTimeout(timer);
      stop();
      resolve(secret);
    }
    tellTabs({ type: "ask-secret" });
  });
}

async function load(): Promise<void> {
  try {
    change({ kind: "signed-in", session: await get<Session>("/session") });
  } catch (error) {
    fail(error, "");
  }
}

function fail(error: unknown, message: string): void {
  if (error instanceof ApiError && error.isSignedOut) {
    keepSecret(null);
    change({ kind: "signed-out", message });
  } else {
    const known = error instanceof ApiError ? error : new ApiError("", 0, "page", String(error));
    change({ kind: "unreachable", error: known });
  }
}

async function exchange(body: { token?: string; code?: string }): Promise<void> {
  const signedIn = await post<SignedIn>("/session", body);
  keepSecret(signedIn.secret);
  await load();
}

/** Sign in by the address's code, by the secret of this tab or of another, or show the sign-in card. */
export async function startSession(): Promise<void> {
  const code = takeCode();
  if (code) {
    try {
      await exchange({ code });
    } catch (error) {
      fail(error, "The link was used before or is too old. Sign in with the token.");
    }
    return;
  }
  const secret = readSecret() ?? (await askOtherTabs());
  if (!secret) {
    change({ kind: "signed-out", message: "" });
    return;
  }
  keepSecret(secret);
  await load();
}

/** Sign in with the token of the server's file. Raises what the server refused it with. */
export async function signIn(token: string): Promise<void> {
  await exchange({ token });
}

export async function signOut(): Promise<void> {
  await del("/session").catch(() => undefined);
  keepSecret(null);
  tellTabs({ type: "signed-out" });
  change({ kind: "signed-out", message: "" });
}

/** An answer said that the session is over. The address stays, so that signing in returns to it. */
export function noticeSignedOut(): void {
  if (state.kind !== "signed-in") return;
  keepSecret(null);
  change({ kind: "signed-out", message: "The session is over. Sign in again to go on." });
}

listenToTabs((message) => {
  const secret = readSecret();
  if (message.type === "ask-secret" && secret && state.kind === "signed-in") tellTabs({ type: "secret", secret });
  // A tab that was busy answers late.
  if (message.type === "secret" && state.kind === "signed-out") {
    keepSecret(message.secret);
    void load();
  }
  if (message.type === "signed-out" && state.kind === "signed-in") {
    keepSecret(null);
    change({ kind: "signed-out", message: "" });
  }
});
