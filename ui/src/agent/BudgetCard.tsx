/** What each of the last days cost, against the daily budget. */
import type { ReactNode } from "react";

import type { DayBudget } from "../api/types";
import { ChartTable, TableSwitch } from "../charts/Chart";
import { DayBars } from "../charts/DayBars";
import type { Day } from "../charts/DayBars";
import { formatCount, formatMoney, formatPercent, formatPlural } from "../format";

export interface BudgetCardProps {
  days: readonly DayBudget[];
  asTable: boolean;
  setTable: (on: boolean) => void;
}

export function BudgetCard({ days, asTable, setTable }: BudgetCardProps): ReactNode {
  const money = days.some((day) => day.cost_usd !== null);
  const format = (value: number): string => (money ? formatMoney(value) : formatCount(value));
  const unit = money ? "" : " tokens";
  const bars: Day[] = days.map((day) => {
    const value = money ? (day.cost_usd ?? 0) : day.tokens;
    const limit = money ? day.limit_cost_usd : day.limit_tokens;
    const of = limit === null ? "" : ` of ${format(limit)}`;
    return { label: String(Number(day.day.slice(8))), words: `${day.day}: ${format(value)}${unit}${of}, ${formatPlural(day.runs, "run")}.`, value, limit };
  });
  const today = bars.at(-1);
  const limit = today?.limit ?? null;
  const summary = today
    ? `Today ${format(today.value)}${unit}${limit === null ? ", no daily budget is set" : ` of ${format(limit)} (${formatPercent(limit > 0 ? today.value / limit : null)})`}.`
    : "No day yet.";
  return (
    <section className="card" aria-label="Budget by day" data-lane="days">
      <header className="card-head">
        <h2>Budget by day</h2>
        <span className="muted">{limit === null ? "no daily budget" : `${format(limit)}${unit} a day`}</span>
        <div className="end"><TableSwitch name="budget by day" on={asTable} onChange={setTable} /></div>
      </header>
      {asTable ? (
        <ChartTable
          caption="Budget by day"
          head={["Day", "Runs", "Tokens", "Cost", "Budget"]}
          words={[0]}
          rows={days.map((day) => [day.day, formatCount(day.runs), formatCount(day.tokens), formatMoney(day.cost_usd), day.limit_cost_usd !== null ? formatMoney(day.limit_cost_usd) : formatCount(day.limit_tokens)])}
        />
      ) : (
        <div className="card-body">
          <DayBars label="Budget by day" summary={summary} days={bars} format={format} />
          <p className="muted small">{summary}</p>
        </div>
      )}
    </section>
  );
}
