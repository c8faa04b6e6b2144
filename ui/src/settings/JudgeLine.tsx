import { useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { Count, JudgingReport } from "../api/types";
import { HostileText } from "../components/HostileText";
import { formatCount, formatMoney, formatPlural } from "../format";

const judgeQuery = {
  queryKey: keys.settings("judge"),
  queryFn: ({ signal }: { signal: AbortSignal }) => get<JudgingReport>("/judge", {}, signal),
};

const sum = (counts: readonly Count[]): number => counts.reduce((total, each) => total + each.count, 0);
const list = (counts: readonly Count[]): string => counts.map((each) => `${each.name} (${formatCount(each.count)})`).join("; ");

/** What a judge was asked, used and changed, in one line. Nothing where there is none and none was asked. */
export function JudgeLine() {
  const { data } = useQuery(judgeQuery);
  if (!data) return null;
  const unanswered = [...data.no_verdict, ...data.not_asked];
  if (!data.model && data.asked + data.remembered + sum(unanswered) === 0) return null;
  const cost = data.cost_usd === null ? "price not known" : formatMoney(data.cost_usd);
  return (
    <p className="muted small" data-testid="judge-line">
      Judge{data.model && <> <code><HostileText text={data.model} oneLine /></code></>}: {formatPlural(data.asked, "question")} about the latest{" "}
      {formatPlural(data.runs, "run")}, {formatCount(data.tokens)} tokens, {cost}. Changed: {formatPlural(data.cleared, "incident")} cleared,{" "}
      {formatCount(data.lowered)} lowered, {formatCount(data.raised)} raised.
      {unanswered.length > 0 && <> No verdict: <HostileText text={list(unanswered)} /></>}
    </p>
  );
}
