/** What people do with an incident. Each change says what it did, and can be undone. */
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { post } from "../api/client";
import type { Acknowledge, Done, FalseAlarm, MuteRequest, NewComment, Right } from "../api/types";
import { describeError, useMessages } from "../components/UndoMessage";

export type MuteUntil = NonNullable<MuteRequest["until"]>;

export interface IncidentActions {
  /** The action that runs now, or null. */
  readonly busy: "acknowledge" | "mute" | "false-alarm" | "right" | "undo" | "comments" | null;
  readonly acknowledge: () => Promise<boolean>;
  readonly mute: (until: MuteUntil) => Promise<boolean>;
  readonly markFalse: (body: FalseAlarm) => Promise<boolean>;
  readonly markRight: () => Promise<boolean>;
  /** Take back the mark "false alarm" or "right". */
  readonly undoMark: () => Promise<boolean>;
  readonly comment: (text: string) => Promise<boolean>;
}

/** Actions on one incident, or with `wholeGroup` on every one of its group that is in the inbox. Each returns whether it was done. */
export function useIncidentActions(incidentId: string, { wholeGroup = false } = {}): IncidentActions {
  const client = useQueryClient();
  const { tell } = useMessages();
  const [busy, setBusy] = useState<IncidentActions["busy"]>(null);

  const refresh = useCallback(async () => {
    const parts = ["incidents", "incident", "precision", "overview", "run"];
    await Promise.all(parts.map((part) => client.invalidateQueries({ queryKey: ["api", part] })));
  }, [client]);

  const act = useCallback(
    async (name: NonNullable<IncidentActions["busy"]>, body: object, undo?: readonly [path: string, body: object]) => {
      const path = `/incidents/${encodeURIComponent(incidentId)}`;
      setBusy(name);
      try {
        const done = await post<Done | object>(`${path}/${name}`, body);
        const message = "message" in done ? done.message : "The comment is saved.";
        tell(message, undo && (async () => {
          await post<Done>(`${path}/${undo[0]}`, undo[1]);
          await refresh();
        }));
        await refresh();
        return true;
      } catch (error) {
        tell(`Not saved: ${describeError(error)}`);
        return false;
      } finally {
        setBusy(null);
      }
    },
    [incidentId, refresh, tell],
  );

  return {
    busy,
    acknowledge: () =>
      act("acknowledge", { whole_group: wholeGroup } satisfies Acknowledge, [
        "acknowledge",
        { undo: true, whole_group: wholeGroup } satisfies Acknowledge,
      ]),
    mute: (until) =>
      act("mute", { until, whole_group: wholeGroup } satisfies MuteRequest, [
        "mute",
        { undo: true, whole_group: wholeGroup } satisfies MuteRequest,
      ]),
    markFalse: (body) => act("false-alarm", { ...body, whole_group: wholeGroup } satisfies FalseAlarm, ["undo", {}]),
    markRight: () => act("right", { whole_group: wholeGroup } satisfies Right, ["undo", {}]),
    undoMark: () => act("undo", {}),
    comment: (text) => act("comments", { text } satisfies NewComment),
  };
}
