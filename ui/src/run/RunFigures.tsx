/** Six numbers, each beside its normal range. */
import { memo } from "react";
import type { ReactNode } from "react";

import type { Figure as FigureRecord, RunDetail, RunSeries } from "../api/types";
import { RangeBar } from "../components/Bars";
import { Figure, Figures } from "../components/Card";
import { formatCount, formatDuration, formatMoney, formatRange, formatScore } from "../format";

interface NumberProps {
  label: string;
  figure: FigureRecord;
  format: (value: number | null) => string;
  unit?: ReactNode;
  /** Why the normal range is not known. */
  baseline: string;
}

function NormalFigure({ label, figure, format, unit, baseline }: NumberProps): ReactNode {
  const { value, normal, limit } = figure;
  return (
    <Figure
      label={label}
      value={value === null ? "not known" : format(value)}
      unit={unit === undefined && limit !== null ? `of ${format(limit)}` : (unit ?? undefined)}
      note={normal ? `normal ${formatRange(normal.p5, normal.p95, format)}` : baseline}
      bar={normal && value !== null && <RangeBar value={value} low={normal.p5} high={normal.p95} limit={limit} />}
    />
  );
}

export const RunFigures = memo(function RunFigures({ detail, series }: { detail: RunDetail; series: RunSeries | undefined }): ReactNode {
  const { figures, baseline } = detail;
  const peak = series && findPeakStep(series);
  const calls = detail.tools.reduce((sum, tool) => sum + tool.calls, 0);
  return (
    <Figures>
      <NormalFigure
        label="Peak drift"
        figure={{ ...figures.drift, limit: null }}
        format={formatScore}
        unit={peak ? `at step ${formatCount(peak)}` : undefined}
        baseline={baseline}
      />
      <NormalFigure label="Steps" figure={figures.steps} format={formatCount} baseline={baseline} />
      <NormalFigure label="Tokens" figure={figures.tokens} format={formatCount} unit={null} baseline={baseline} />
      <NormalFigure label="Cost" figure={figures.cost_usd} format={formatMoney} baseline={baseline} />
      <NormalFigure label="Duration" figure={figures.duration_s} format={formatDuration} baseline={baseline} />
      <NormalFigure label="Failed calls" figure={figures.failed} format={formatCount} unit={`of ${formatCount(calls)}`} baseline={baseline} />
    </Figures>
  );
});

/** Return the step of the highest score; null when there is none above 0. */
export function findPeakStep(series: RunSeries): number | null {
  let best = 0;
  let step: number | null = null;
  series.score.score.forEach((value, index) => {
    if ((value ?? 0) > best) {
      best = value ?? 0;
      step = series.score.step[index]!;
    }
  });
  return step;
}
