import { useEffect, useRef } from "react";

import { Button } from "../components/Button";
import { setKeysEnabled, useKeysEnabled } from "./keyboard";

const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ["/", "search"],
  ["j k", "next, previous row"],
  ["Enter", "open"],
  ["← →", "move the step (Shift: 10)"],
  ["[ ]", "previous, next incident of the run"],
  ["+ - 0", "zoom in, out, all"],
  ["t", "table view of the focused chart"],
  ["g then o r i a s", "go to overview, runs, incidents, agents, settings"],
  ["a", "acknowledge"],
  ["m", "mute until"],
  ["f", "false alarm"],
  ["r", "right"],
  ["c", "comment"],
  ["z", "undo the last change"],
  ["p", "pause live"],
  ["?", "this list"],
];

/** The table of keys, with the switch that turns single keys off. */
export function HelpDialog({ open, onClose }: { readonly open: boolean; readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const enabled = useKeysEnabled();
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog className="dialog" ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <div className="card-head">
        <h2 id="help-title">Keys</h2>
        <div className="end">
          <Button small onClick={onClose}>
            Close
          </Button>
        </div>
      </div>
      <dl className="key-table">
        {KEYS.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (key === "then" ? <span key={key}> then </span> : <kbd key={key}>{key}</kbd>))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label className="option key-switch">
        <input type="checkbox" checked={enabled} onChange={(event) => setKeysEnabled(event.target.checked)} />
        <span>Single keys are on. They never act while you type in a field.</span>
      </label>
    </dialog>
  );
}
