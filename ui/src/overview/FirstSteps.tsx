import { useState } from "react";

import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Icon } from "../components/Icon";

const INSTALL = "pip install steadyhelm";

const WATCH = `from steadyhelm import DriftMonitor

monitor = DriftMonitor("bug-fixer")
search = monitor.tool(search)

with monitor.run(goal=goal):
    agent.invoke(goal)`;

const DEMO = "steadyhelm serve --demo --open";

/** Nothing was ever recorded: which file is read, and how to fill it. */
export function FirstSteps({ database }: { readonly database: string }) {
  return (
    <Card className="first-steps">
      <div>
        <h2 className="first-title">No agent has reported yet</h2>
        <p>
          Steadyhelm reads <code>{database}</code>. As soon as an agent writes to it, it appears here.
        </p>
        <h3 className="first-demo">Run the demo</h3>
        <Snippet title="Runs of every kind and a live agent, in a store of its own" text={DEMO} />
      </div>
      <div>
        <Snippet title="1. Install" text={INSTALL} />
        <Snippet title="2. Watch an agent" text={WATCH} />
      </div>
    </Card>
  );
}

function Snippet({ title, text }: { readonly title: string; readonly text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false), // Not allowed: the text can be selected.
    );
  };
  return (
    <div className="snippet">
      <div className="snippet-head">
        <span className="small">{title}</span>
        <Button kind="quiet" small icon aria-label={copied ? "Copied" : "Copy"} title={copied ? "Copied" : "Copy"} onClick={copy}>
          <Icon name="copy" />
        </Button>
      </div>
      <pre>{text}</pre>
    </div>
  );
}
