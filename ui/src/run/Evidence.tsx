/** Two consecutive calls of the pattern, line by line: what was changed, and what came back. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ReactNode } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { EvidencePair, IncidentDetail, Pair, Payload } from "../api/types";
import { Segments } from "../components/Choice";
import { HostileText } from "../components/HostileText";
import { Block, Failure, Loading } from "../components/States";
import { formatCount } from "../format";
import { countDiff, diffValues } from "./diff";
import type { Diff } from "./diff";

const SHOWN_PAIRS = 3;

/** Return the pair to show first: the first that differs, else the first. */
export function chooseFirst(pairs: readonly Pair[]): number {
  const differing = pairs.findIndex((pair) => !pair.same_arguments);
  return Math.max(0, differing);
}

export function Evidence({ detail }: { detail: IncidentDetail }): ReactNode {
  const { pairs } = detail;
  const [chosen, setChosen] = useState<number | null>(null);
  const [all, setAll] = useState(false);
  const place = Math.min(chosen ?? chooseFirst(pairs), pairs.length - 1);
  const id = detail.row.incident_id;
  const query = useQuery({
    queryKey: [...keys.incident(id), "evidence", place],
    queryFn: ({ signal }) => get<EvidencePair>(`/incidents/${encodeURIComponent(id)}/evidence`, { pair: place }, signal),
    enabled: pairs.length > 0,
    placeholderData: keepPreviousData,
  });
  if (pairs.length === 0) {
    return (
      <>
        <h3>Evidence</h3>
        <p className="muted small">The evidence is the figures above: no two calls are compared.</p>
      </>
    );
  }
  const from = Math.min(Math.max(0, place - 1), Math.max(0, pairs.length - SHOWN_PAIRS));
  const shown = all ? pairs.map((_, index) => index) : pairs.slice(from, from + SHOWN_PAIRS).map((_, index) => from + index);
  const identical = pairs.filter((pair) => pair.same_arguments).length;
  return (
    <>
      <div className="evidence-head">
        <h3>Evidence</h3>
        <Segments
          label="Pairs of calls"
          value={String(place)}
          options={shown.map((index) => ({ value: String(index), label: `${formatCount(pairs[index]!.first)} → ${formatCount(pairs[index]!.second)}` }))}
          onChange={(value) => setChosen(Number(value))}
        />
      </div>
      {query.data ? (
        <PairDiff evidence={query.data} />
      ) : query.error ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading><Block width={320} height={120} /></Loading>
      )}
      <p className="evidence-foot muted small">
        {pairs.length > SHOWN_PAIRS && (
          <button type="button" className="link-button" onClick={() => setAll(!all)}>
            {all ? "Fewer pairs" : `All ${formatCount(pairs.length + 1)} calls`}
          </button>
        )}
        <span>{formatCount(identical)} of {formatCount(pairs.length)} consecutive pairs are identical</span>
      </p>
    </>
  );
}

function PairDiff({ evidence }: { evidence: EvidencePair }): ReactNode {
  const { pair, arguments: [before, after], results, errors } = evidence;
  const result = diffValues(textOf(results[0], errors[0]), textOf(results[1], errors[1]));
  const call = diffValues(before?.text ?? null, after?.text ?? null);
  return (
    <div className="diff" data-testid="diff">
      <DiffPart title="Arguments" note={countDiff(call)} diff={call} missing={!before && !after} />
      <DiffPart title="Result" note={<ResultNote pair={pair} />} diff={result} missing={result.lines.length === 0} />
    </div>
  );
}

function textOf(payload: Payload | null, error: string): string | null {
  if (error) return error;
  return payload ? unquote(payload.text) : null;
}

/** A result that is a JSON string is shown as its text. */
function unquote(text: string): string {
  if (!text.startsWith('"')) return text;
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "string" ? value : text;
  } catch {
    return text;
  }
}

function ResultNote({ pair }: { pair: Pair }): ReactNode {
  if (pair.failed_first && pair.failed_second) return <span className="bad-text">× failed both times</span>;
  return pair.same_result ? "= same result" : "≠ changed";
}

interface DiffPartProps {
  title: string;
  note: ReactNode;
  diff: Diff;
  missing: boolean;
}

function DiffPart({ title, note, diff, missing }: DiffPartProps): ReactNode {
  const [all, setAll] = useState(false);
  const lines = all ? diff.lines : diff.lines.slice(0, 12);
  return (
    <>
      <div className="diff-head">
        <span>{title}</span>
        <span className="end">{note}</span>
      </div>
      {missing && <p className="diff-none muted small">Not kept: the payloads were deleted or never recorded.</p>}
      <div className="diff-lines">
        {lines.map((line, index) => (
          <div key={index} className={`diff-line ${LOOKS[line.sign]}`}>
            <span className="diff-sign">{line.sign}</span>
            <HostileText text={line.text} mono />
          </div>
        ))}
      </div>
      {lines.length < diff.lines.length && (
        <button type="button" className="link-button small diff-more" onClick={() => setAll(true)}>
          {formatCount(diff.lines.length - lines.length)} more lines
        </button>
      )}
    </>
  );
}

const LOOKS: Readonly<Record<"+" | "-" | " ", string>> = { "+": "diff-add", "-": "diff-del", " ": "" };
