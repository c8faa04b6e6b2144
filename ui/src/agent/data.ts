/** The queries of an agent's page and the changes that can be made on it. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import type { UseQueryResult } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { get, post } from "../api/client";
import { keys } from "../api/queries";
import type { AgentDetail, BaselineChange, Done, ExcludeRun, Metrics, Transition, Transitions } from "../api/types";
import { describeError, useMessages } from "../components/UndoMessage";

const path = (id: string): string => `/agents/${encodeURIComponent(id)}`;

export function useAgent(id: string): UseQueryResult<AgentDetail> {
  return useQuery({
    queryKey: keys.agent(id),
    queryFn: ({ signal }) => get<AgentDetail>(path(id), {}, signal),
  });
}

/** A transition with its names as the page calls them. */
export type GraphEdge = Omit<Transition, "from_"> & { readonly from: string };
export type Graph = Omit<Transitions, "edges"> & { readonly edges: readonly GraphEdge[] };

function nameEdges(data: Transitions): Graph {
  return { ...data, edges: data.edges.map(({ from_: from, ...rest }) => ({ from, ...rest })) };
}

export function useTransitions(id: string, version: string | null, task: string | null): UseQueryResult<Graph> {
  return useQuery({
    queryKey: keys.agentPart(id, "transitions", { version, task }),
    queryFn: ({ signal }) => get<Transitions>(`${path(id)}/transitions`, { version, task_type: task }, signal),
    placeholderData: keepPreviousData,
    select: nameEdges,
  });
}

export function useMetrics(id: string): UseQueryResult<Metrics> {
  return useQuery({
    queryKey: keys.agentPart(id, "metrics"),
    queryFn: ({ signal }) => get<Metrics>(`${path(id)}/metrics`, {}, signal),
  });
}

export interface AgentActions {
  readonly busy: boolean;
  /** Each returns whether it was done; the message says what, with an undo where there is one. */
  readonly changeBaseline: (change: BaselineChange) => Promise<boolean>;
  readonly excludeRun: (run: number) => Promise<boolean>;
}

const OPPOSITE = { freeze: "unfreeze", unfreeze: "freeze" } as const;

export function useAgentActions(id: string): AgentActions {
  const client = useQueryClient();
  const { tell } = useMessages();
  const [busy, setBusy] = useState(false);
  const send = useCallback(
    async (part: string, body: BaselineChange | ExcludeRun): Promise<Done> => {
      const done = await post<Done>(`${path(id)}/${part}`, body);
      void client.invalidateQueries({ queryKey: keys.agent(id) });
      return done;
    },
    [client, id],
  );
  const act = useCallback(
    async (part: string, body: BaselineChange | ExcludeRun, undo?: BaselineChange | ExcludeRun): Promise<boolean> => {
      setBusy(true);
      try {
        const done = await send(part, body);
        tell(done.message, undo && (() => send(part, undo)));
        return true;
      } catch (error) {
        tell(`Not saved: ${describeError(error)}`);
        return false;
      } finally {
        setBusy(false);
      }
    },
    [send, tell],
  );
  return {
    busy,
    changeBaseline: (change) =>
      act("baseline", change, change.action === "reset" ? undefined : { ...change, action: OPPOSITE[change.action] }),
    excludeRun: (run) => act("exclude", { run, excluded: true }, { run, excluded: false }),
  };
}
