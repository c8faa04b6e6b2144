import type { IncidentJudged, Judged } from "../api/types";
import { escapeHidden, HostileText } from "../components/HostileText";
import { formatCount, formatMoney, formatPercent, formatPlural } from "../format";

interface JudgedPartProps {
  readonly judged: readonly Judged[];
  readonly select: (step: number) => void;
}

/** What a judge changed about an incident, in one line. */
export function JudgedLine({ judged, select }: { readonly judged: IncidentJudged; readonly select: (step: number) => void }) {
  const moved = judged.moved_from ? `${judged.moved_from} → ${judged.moved_to}` : `reported as ${judged.moved_to}`;
  return (
    <p className="muted small" data-testid="judged-line">
      A judge said <b>{escapeHidden(judged.label.replaceAll("_", " "))}</b> at{" "}
      <button type="button" className="link-button" onClick={() => select(judged.step)}>step {formatCount(judged.step)}</button>
      {" "}({formatPercent(judged.confidence)} sure): {moved}
      {judged.cost_usd !== null && `, ${formatMoney(judged.cost_usd)}`}
      {judged.quote && <>: “<HostileText text={judged.quote} oneLine />”</>}
    </p>
  );
}

/** What a judge was asked about the run, what it answered and what that cost. Nothing where no judge was asked. */
export function JudgedPart({ judged, select }: JudgedPartProps) {
  if (judged.length === 0) return null;
  const asked = judged.filter((each) => each.asked);
  const prices = asked.flatMap((each) => each.cost_usd ?? []);
  const cost = prices.length > 0 ? formatMoney(prices.reduce((sum, price) => sum + price, 0)) : "price not known";
  const tokens = judged.reduce((sum, each) => sum + each.tokens, 0);
  return (
    <div className="why-part" data-testid="judged">
      <h3>What a judge was asked</h3>
      <p className="muted small">
        {formatPlural(asked.length, "question")} asked, {formatCount(tokens)} tokens, {cost}
      </p>
      <ol className="said">
        {judged.map((each) => (
          <li key={each.step}>
            <div className="said-head">
              <b>{each.label === "none" ? "No verdict" : escapeHidden(each.label.replaceAll("_", " "))}</b>
              <button type="button" className="link-button" onClick={() => select(each.step)}>step {formatCount(each.step)}</button>
              {each.moved && <span className="small">{each.moved}</span>}
              {each.label !== "none" && <span className="end muted small">{formatPercent(each.confidence)} sure</span>}
            </div>
            <p className="muted small">
              about the {escapeHidden(each.about.replaceAll("_", " "))}
              {each.subject && <>: <HostileText text={each.subject} oneLine /></>}
              {!each.asked && each.label !== "none" && " (an equal question was answered before)"}
              {each.addressed && " (text of the run tried to tell the judge what to answer)"}
            </p>
            {each.reason && <p className="muted small"><HostileText text={each.reason} /></p>}
            {each.quote && <blockquote><HostileText text={each.quote} /></blockquote>}
          </li>
        ))}
      </ol>
    </div>
  );
}
