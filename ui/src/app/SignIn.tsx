import { useState } from "react";
import type { FormEvent } from "react";

import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { describeError } from "../components/UndoMessage";
import { signIn } from "./session";

/** The sign-in card. The address is kept, so that signing in shows the page that was asked for. */
export function SignIn({ message }: { readonly message: string }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(message);
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    signIn(token.trim()).catch((error: unknown) => {
      setBusy(false);
      setToken("");
      setProblem(describeError(error));
    });
  };
  return (
    <main className="sign-in" id="main">
      <Card title="Sign in" padded>
        <form className="stack" onSubmit={onSubmit}>
          <p>
            Enter the token of this server. It lies in <code>server.token</code> in Steadyhelm's home folder (
            <code>~/.steadyhelm</code> unless <code>STEADYHELM_HOME</code> is set).
          </p>
          <label className="stack-tight">
            <span className="small strong">Token</span>
            <input
              className="field mono"
              type="password"
              autoComplete="current-password"
              required
              value={token}
              onChange={(event) => setToken(event.target.value)}
            />
          </label>
          {problem && (
            <p className="bad-text" role="alert">
              {problem}
            </p>
          )}
          <div>
            <Button kind="primary" submit busyWord={busy ? "Signing in…" : null}>
              Sign in
            </Button>
          </div>
          <p className="muted small">
            <code>steadyhelm serve --open</code> opens this page signed in.
          </p>
        </form>
      </Card>
    </main>
  );
}
