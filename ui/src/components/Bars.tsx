/** Numbers against what is normal, drawn small. The words beside them say the same. */

const WIDTH = 112;

interface RangeBarProps {
  readonly value: number;
  /** Normal p5 and p95. */
  readonly low: number;
  readonly high: number;
  /** The right end, such as the budget; never less than the value. */
  readonly limit?: number | null;
}

/** A line from 0 to the larger of value and budget; thick = normal, tick = now, orange when outside. */
export function RangeBar({ value, low, high, limit }: RangeBarProps) {
  const end = Math.max(value, high * 1.25, limit ?? 0) || 1;
  const x = (amount: number) => (Math.min(Math.max(amount, 0), end) / end) * WIDTH;
  const outside = value < low || value > high;
  const at = Math.min(Math.max(x(value) - 1, 0), WIDTH - 2);
  return (
    <svg className="range-bar" viewBox={`0 0 ${WIDTH} 8`} aria-hidden="true">
      <rect className="all" y="3.5" width={WIDTH} height="1" />
      <rect className="normal" x={x(low)} y="2.5" width={Math.max(x(high) - x(low), 2)} height="3" rx="1.5" />
      <rect className={outside ? "now-outside" : "now"} x={at} width="2" height="8" />
    </svg>
  );
}

interface BudgetBarProps {
  readonly spent: number;
  readonly limit: number | null;
}

/** What is spent of a budget, with notches at 50 and 80 %; amber from 80 %, red from 100 %. */
export function BudgetBar({ spent, limit }: BudgetBarProps) {
  const share = limit ? spent / limit : 0;
  const tone = share >= 1 ? "spent-bad" : share >= 0.8 ? "spent-warn" : "spent";
  return <NotchedBar share={share} tone={tone} notches={[0.5, 0.8]} />;
}

interface NotchedBarProps {
  readonly share: number;
  readonly tone: "spent" | "spent-warn" | "spent-bad" | "spent-drift";
  readonly notches: readonly number[];
  /** The part that is normal, drawn behind. */
  readonly normal?: number | null;
  readonly width?: number;
}

/** A bar from 0 to 1 that is cut at its notches. */
export function NotchedBar({ share, tone, notches, normal, width = WIDTH }: NotchedBarProps) {
  const filled = Math.min(Math.max(share, 0), 1) * width;
  return (
    <svg className="budget-bar" viewBox={`0 0 ${width} 6`} width={width} style={{ width }} aria-hidden="true">
      <rect className="all" y="1" width={width} height="4" rx="1" />
      {normal ? <rect className="normal" y="1" width={Math.min(normal, 1) * width} height="4" rx="1" opacity="0.5" /> : null}
      <rect className={tone} y="1" width={filled} height="4" rx="1" />
      {notches.map((notch) => (
        <rect key={notch} className="notch" x={notch * width - 1} width="2" height="6" />
      ))}
    </svg>
  );
}
