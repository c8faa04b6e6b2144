import type { Group } from "../api/types";
import { Badge } from "../components/Badge";
import { Glyph, Severity } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { formatAgo, formatCapped, formatCount, formatPlural, formatSteps, formatTime } from "../format";

interface GroupRowProps {
  readonly group: Group;
  readonly selected: boolean;
  readonly onChoose: () => void;
}

/** One group: severity, what happens, whose, whether it goes on, since when, how often in 14 days. */
export function GroupRow({ group, selected, onChoose }: GroupRowProps) {
  const now = useNow();
  return (
    <li>
      <button type="button" className={`group ${selected ? "row-selected" : ""}`} aria-current={selected || undefined} onClick={onChoose}>
        <Severity severity={group.severity} bare />
        <span className="g-words">
          <strong className="g-message">
            <HostileText text={group.message} oneLine />
          </strong>
          <span className="g-about muted small">
            <HostileText text={group.agent.name} oneLine />
            <Badge>{group.kind}</Badge>
            <Glyph state={group.ongoing ? "drifting" : "ended"} />
            <span className="ellipsis">
              {formatSteps(group.first_step, group.last_step)} · first {formatAgo(group.first_at, now)}
            </span>
          </span>
        </span>
        <DayBars days={group.days} />
        <strong className="number g-count">
          {formatCapped(group.count)}
          <span className="narrow-only muted"> in all</span>
        </strong>
        <span className="number muted g-last" title={formatTime(group.last_at, now)}>
          {formatAgo(group.last_at, now)}
        </span>
      </button>
    </li>
  );
}

const BAR_PX = 4;
const HEIGHT_PX = 16;

/** Incidents per day, oldest left; a day without one is a dash. */
function DayBars({ days }: { readonly days: readonly number[] }) {
  const most = Math.max(...days, 1);
  const words = `${formatPlural(days.reduce((sum, day) => sum + day, 0), "incident")} in ${days.length} days, at most ${formatCount(Math.max(...days, 0))} a day`;
  return (
    <svg
      className="day-bars"
      width={days.length * BAR_PX}
      height={HEIGHT_PX}
      viewBox={`0 0 ${days.length * BAR_PX} ${HEIGHT_PX}`}
      role="img"
      aria-label={words}
    >
      {days.map((day, index) => {
        const height = day ? Math.max(3, (day / most) * HEIGHT_PX) : 1;
        return (
          <rect
            key={index}
            className={day ? "day" : "day-none"}
            x={index * BAR_PX}
            y={HEIGHT_PX - height}
            width={BAR_PX - 1}
            height={height}
          />
        );
      })}
    </svg>
  );
}
