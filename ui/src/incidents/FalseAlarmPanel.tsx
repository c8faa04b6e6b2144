import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { post } from "../api/client";
import { keys } from "../api/queries";
import type { Effect, Effected, FalseAlarm, IncidentDetail } from "../api/types";
import { Button } from "../components/Button";
import { HostileText } from "../components/HostileText";
import { Block, Loading } from "../components/States";
import { describeError } from "../components/UndoMessage";
import { formatSteps } from "../format";
import type { IncidentActions } from "./useIncidentActions";

type Reason = FalseAlarm["reason"];

const REASONS: readonly { readonly value: Reason; readonly label: string }[] = [
  { value: "polls", label: "It polls" },
  { value: "new_task", label: "New kind of task" },
  { value: "level", label: "Level too low" },
  { value: "other", label: "Other" },
];

interface FalseAlarmPanelProps {
  readonly incidentId: string;
  /** What each reason that can be given would change. */
  readonly changes: IncidentDetail["false_alarm_changes"];
  readonly actions: IncidentActions;
  readonly onClose: () => void;
}

/** Ask why, show what the change would have done to recent incidents, then save. */
export function FalseAlarmPanel({ incidentId, changes, actions, onClose }: FalseAlarmPanelProps) {
  const [reason, setReason] = useState<Reason>(changes["polls"] ? "polls" : "level");
  const [note, setNote] = useState("");
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  const effect = useQuery({
    queryKey: [...keys.incident(incidentId), "effect", reason],
    queryFn: () =>
      post<Effect>(`/incidents/${encodeURIComponent(incidentId)}/false-alarm/preview`, {
        reason,
      } satisfies FalseAlarm),
  });
  const save = async () => {
    if (await actions.markFalse({ reason, note })) onClose();
  };
  const refused = effect.data !== undefined && !effect.data.allowed;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- Escape closes what was opened
    <form
      className="question"
      aria-label="False alarm"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onClose();
      }}
    >
      <fieldset className="question-part">
        <legend className="strong">Why is this a false alarm?</legend>
        {REASONS.filter((each) => changes[each.value]).map((each) => (
          <label key={each.value} className="reason">
            <input
              ref={each.value === reason ? first : undefined}
              type="radio"
              name="reason"
              value={each.value}
              checked={each.value === reason}
              onChange={() => setReason(each.value)}
            />
            <span>
              {each.label}
              <span className="muted small reason-change">
                <HostileText text={changes[each.value] ?? ""} whole />
              </span>
            </span>
          </label>
        ))}
        {reason === "other" && (
          <input
            className="field"
            aria-label="What happened"
            placeholder="What happened"
            maxLength={2000}
            value={note}
            onChange={(event) => setNote(event.target.value)}
          />
        )}
      </fieldset>
      <div className="question-part question-effect" aria-live="polite">
        <EffectView effect={effect.data} error={effect.error} />
      </div>
      <div className="question-foot">
        <span className="muted small">You can undo this later: press z, or Undo here.</span>
        <Button kind="quiet" onClick={onClose}>
          Cancel
        </Button>
        <Button
          kind="primary"
          submit
          disabled={refused}
          title={refused ? "A hard limit cannot be a false alarm" : undefined}
          busyWord={actions.busy === "false-alarm" ? "Saving…" : null}
        >
          Save
        </Button>
      </div>
    </form>
  );
}

interface EffectViewProps {
  readonly effect: Effect | undefined;
  readonly error: unknown;
}

/** One box per recent incident of the pattern, and a sentence with both counts. Also for a declaration. */
export function EffectView({ effect, error }: EffectViewProps) {
  if (error) return <p className="bad-text">The effect is not known: {describeError(error)}</p>;
  if (!effect) {
    return (
      <Loading>
        <Block width={220} />
      </Loading>
    );
  }
  const count = effect.incidents.length;
  return (
    <>
      <h3>
        Effect on the last {count === 1 ? "incident" : `${count} incidents`} of this pattern
      </h3>
      <ul className="effects">
        {effect.incidents.map((each) => (
          <li key={each.incident_id} className={`effect effect-${shapeOf(each)}`} title={wordsOf(each)}>
            <span className="visually-hidden">{wordsOf(each)}</span>
            {shapeOf(each) === "lost" && <span aria-hidden="true">×</span>}
            {shapeOf(each) === "unknown" && <span aria-hidden="true">?</span>}
          </li>
        ))}
      </ul>
      <p>
        <HostileText text={effect.sentence} whole />
      </p>
    </>
  );
}

/** Dashed: would not have been raised. Red with a cross: was marked right, and would be lost. */
function shapeOf(each: Effected): "silenced" | "lost" | "raised" | "unknown" {
  return each.effect === "silenced" && each.review === "confirmed" ? "lost" : each.effect;
}

function wordsOf(each: Effected): string {
  const words = {
    silenced: "would not have been raised",
    lost: "marked right, would be lost",
    raised: "would still be raised",
    unknown: "cannot be judged again",
  };
  return `${each.run_id}, ${formatSteps(each.first_step, each.last_step)}: ${words[shapeOf(each)]}`;
}
