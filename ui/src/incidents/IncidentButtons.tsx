import { useState } from "react";

import type { IncidentDetail } from "../api/types";
import { useKeys } from "../app/keyboard";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { useDismiss } from "../components/Choice";
import { useNow } from "../components/useNow";
import { formatClock, formatDay } from "../format";
import { FalseAlarmPanel } from "./FalseAlarmPanel";
import "./incident-buttons.css";
import { useIncidentActions } from "./useIncidentActions";
import type { MuteUntil } from "./useIncidentActions";

interface IncidentButtonsProps {
  readonly detail: IncidentDetail;
  /** Act on every incident of the group that is in the inbox. */
  readonly wholeGroup?: boolean;
  /** Called after a change was made, for example to go to the next row. */
  readonly onDone?: () => void;
}

/** Acknowledge, mute until, false alarm, right: the same in the inbox and beside a run. Keys a, m, f, r. */
export function IncidentButtons({ detail, wholeGroup = false, onDone }: IncidentButtonsProps) {
  const id = detail.row.incident_id;
  const actions = useIncidentActions(id, { wholeGroup });
  const mayOperate = useScope("operate");
  const [question, setQuestion] = useState<"mute" | "false-alarm" | null>(null);
  const frame = useDismiss<HTMLDivElement>(question === "mute", () => setQuestion(null));
  const { tab, review } = detail.row;
  const finish = (done: boolean) => {
    setQuestion(null);
    if (done) onDone?.();
  };
  const acknowledge = () => void actions.acknowledge().then(finish);
  const right = () => void actions.markRight().then(finish);
  useKeys(
    {
      ...(tab === "open" || tab === "muted" ? { a: acknowledge } : {}),
      m: () => setQuestion("mute"),
      f: () => setQuestion("false-alarm"),
      r: right,
    },
    mayOperate && actions.busy === null,
  );
  const refusal = mayOperate ? undefined : "Your key may read, but not change";
  const blocked = { disabled: !mayOperate, title: refusal };
  return (
    <div className="incident-actions">
      {review !== "" && (
        <p className="marked">
          {review === "false_alarm" ? "Marked as a false alarm" : "Marked right"}
          {detail.reviewed_by && ` by ${detail.reviewed_by}`}{" "}
          <button type="button" className="link-button" onClick={() => void actions.undoMark()} disabled={!mayOperate}>
            Undo
          </button>
        </p>
      )}
      {detail.mute_ends && <p className="marked">Muted {detail.mute_ends}</p>}
      <div className="incident-buttons" ref={frame}>
        <Button
          kind={question === null && tab === "open" ? "primary" : "default"}
          hotkey="a"
          onClick={acknowledge}
          busyWord={actions.busy === "acknowledge" ? "Saving…" : null}
          disabled={!mayOperate || tab === "acknowledged" || tab === "closed"}
          title={refusal ?? (tab === "acknowledged" ? `Acknowledged by ${detail.acknowledged_by}` : tab === "closed" ? (review ? "It is marked" : "It ended more than 14 days ago") : undefined)}
        >
          {tab === "acknowledged" ? "Acknowledged" : "Acknowledge"}
        </Button>
        <Button hotkey="m" aria-expanded={question === "mute"} onClick={() => setQuestion(question === "mute" ? null : "mute")} {...blocked}>
          Mute until…
        </Button>
        <Button
          hotkey="f"
          aria-expanded={question === "false-alarm"}
          onClick={() => setQuestion(question === "false-alarm" ? null : "false-alarm")}
          {...blocked}
        >
          False alarm…
        </Button>
        <Button hotkey="r" onClick={right} busyWord={actions.busy === "right" ? "Saving…" : null} {...blocked}>
          Right
        </Button>
        {question === "mute" && <MuteMenu onChoose={(until) => void actions.mute(until).then(finish)} />}
      </div>
      {question === "false-alarm" && (
        <FalseAlarmPanel
          key={id}
          incidentId={id}
          changes={detail.false_alarm_changes}
          actions={actions}
          onClose={() => setQuestion(null)}
        />
      )}
    </div>
  );
}

const HOUR = 3_600;

/** A mute always ends. */
function MuteMenu({ onChoose }: { readonly onChoose: (until: MuteUntil) => void }) {
  const now = useNow();
  const options: readonly (readonly [MuteUntil, string, string])[] = [
    ["1h", "1 hour", `until ${formatClock(now + HOUR).slice(0, 5)}`],
    ["8h", "8 hours", `until ${formatClock(now + 8 * HOUR).slice(0, 5)}`],
    ["tomorrow", "Tomorrow", `until ${formatDay(now + 24 * HOUR)} ${formatClock(now + 24 * HOUR).slice(0, 5)}`],
    ["worse", "Until it gets worse", "at most 14 days"],
    ["version", "Until the next version", "at most 14 days"],
  ];
  return (
    <div className="popover mute-menu" role="group" aria-label="Mute until">
      {options.map(([until, label, note], index) => (
        <button
          key={until}
          type="button"
          className="option"
          ref={index === 0 ? (button) => button?.focus() : undefined}
          onClick={() => onChoose(until)}
        >
          {label}
          <span className="end muted small">{note}</span>
        </button>
      ))}
    </div>
  );
}
