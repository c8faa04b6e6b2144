/** Messages after a change: shown for 8 s at the bottom left, with an undo that `z` can reach later too. */
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";

import { ApiError } from "../api/client";
import { Button } from "./Button";

const SHOWN_MS = 8_000;

interface Message {
  readonly text: string;
  readonly undo?: () => Promise<unknown>;
}

interface Messages {
  /** Say what was changed; `undo` takes it back. */
  readonly tell: (text: string, undo?: () => Promise<unknown>) => void;
  /** Take back the last change that can be, also after its message is gone. */
  readonly undoLast: () => void;
}

const Context = createContext<Messages>({ tell: () => undefined, undoLast: () => undefined });

export const useMessages = (): Messages => useContext(Context);

export function describeError(error: unknown): string {
  return error instanceof ApiError ? error.message : "Something went wrong in the page.";
}

export function MessagesProvider({ children }: { readonly children: ReactNode }) {
  const [message, setMessage] = useState<Message | null>(null);
  const undos = useRef<Message[]>([]);
  const tell = useCallback((text: string, undo?: () => Promise<unknown>) => {
    const next: Message = undo ? { text, undo } : { text };
    if (undo) undos.current = [...undos.current.slice(-19), next];
    setMessage(next);
  }, []);
  const undoLast = useCallback(() => {
    const last = undos.current.pop();
    if (!last?.undo) {
      setMessage({ text: "Nothing to undo." });
      return;
    }
    last.undo().then(
      () => setMessage({ text: `Undone: ${last.text}` }),
      (error: unknown) => setMessage({ text: `Not undone: ${describeError(error)}` }),
    );
  }, []);
  useEffect(() => {
    if (!message) return;
    const timer = window.setTimeout(() => setMessage(null), SHOWN_MS);
    return () => window.clearTimeout(timer);
  }, [message]);
  const value = useMemo(() => ({ tell, undoLast }), [tell, undoLast]);
  return (
    <Context value={value}>
      {children}
      <div role="status" aria-live="polite">
        {message && (
          <div className="message">
            <span>{message.text}</span>
            {message.undo && (
              <Button small onClick={undoLast}>
                Undo
              </Button>
            )}
          </div>
        )}
      </div>
    </Context>
  );
}
