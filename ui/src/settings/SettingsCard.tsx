import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { ApiError, get } from "../api/client";
import { keys } from "../api/queries";
import { Card } from "../components/Card";
import { Empty, Failure, LastGood, LoadingRows } from "../components/States";

interface SettingsCardProps<T> {
  readonly id: string;
  readonly title: string;
  readonly note?: ReactNode;
  readonly end?: ReactNode;
  /** Where its data comes from, such as `/channels`. */
  readonly path: string;
  readonly children: (data: T) => ReactNode;
}

/** A card that loads its own data: an error or a refusal stays inside it. */
export function SettingsCard<T>({ id, title, note, end, path, children }: SettingsCardProps<T>) {
  const query = useQuery({
    queryKey: keys.settings(path),
    queryFn: ({ signal }) => get<T>(path, {}, signal),
  });
  const forbidden = query.error instanceof ApiError && query.error.status === 403;
  return (
    <Card id={id} title={title} note={note} end={forbidden ? undefined : end}>
      {query.data !== undefined ? (
        <LastGood query={query}>
          <div>{children(query.data)}</div>
        </LastGood>
      ) : forbidden ? (
        <Empty>Your key may not see this: it needs the scope admin.</Empty>
      ) : query.error ? (
        <div className="card-body">
          <Failure error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : (
        <LoadingRows rows={4} widths={[140, 80, 120]} />
      )}
    </Card>
  );
}
