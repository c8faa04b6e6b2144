import { useEffect, useState } from "react";

import { post } from "../api/client";
import type { Redacted, RedactText } from "../api/types";
import { Card } from "../components/Card";
import { HostileText } from "../components/HostileText";
import { describeError } from "../components/UndoMessage";
import { formatCount } from "../format";

const WAIT_MS = 250;

/** Type a text and see what would be stored of it. Nothing is kept. */
export function RedactionCard() {
  const [text, setText] = useState("");
  const [result, setResult] = useState<Redacted | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!text) return;
    let current = true;
    const timer = window.setTimeout(() => {
      post<Redacted>("/redaction/test", { text } satisfies RedactText).then(
        (answer) => {
          if (!current) return;
          setResult(answer);
          setProblem("");
        },
        (error: unknown) => current && setProblem(describeError(error)),
      );
    }, WAIT_MS);
    return () => {
      current = false;
      window.clearTimeout(timer);
    };
  }, [text]);
  return (
    <Card id="redaction" title="Redaction tester" note="nothing you type here is stored" padded>
      <div className="tester">
        <label className="stack-tight">
          <span className="small strong">Text</span>
          <textarea
            className="field mono"
            rows={5}
            maxLength={20_000}
            spellCheck={false}
            placeholder="Paste something with a secret in it"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <div className="stack-tight">
          <span className="small strong">Stored as</span>
          <div className="stored" aria-live="polite">
            {problem ? (
              <span className="bad-text">{problem}</span>
            ) : (
              text && result && <HostileText text={result.text} whole mono />
            )}
          </div>
        </div>
      </div>
      {text && result && (
        <p className="muted small tester-rules">
          {result.rules.length === 0
            ? "Nothing would be taken out."
            : `Taken out: ${result.rules.map((rule) => `${rule.name} ${formatCount(rule.count)}×`).join(", ")}`}
        </p>
      )}
    </Card>
  );
}
