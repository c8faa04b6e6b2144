// Generated from the server's schema by `npm run types`. Schema: 6475ee5f281341e0e9cf27f8bce8a8a073c70fbb197c8f2f0b120ad9efeb1e57

/**
 * Mark as seen; `undo` takes it back. `whole_group`: every incident of the group that is in the inbox and
 * not acknowledged; with `undo`, every one acknowledged with it.
 */
export interface Acknowledge {
  readonly undo?: boolean;
  readonly whole_group?: boolean;
}

/** A row of "against normal": what was seen beside what is normal. */
export interface Against {
  readonly label: string;
  readonly unit: string;
  readonly figure: Figure;
}

/** The agent page apart from its charts. `days` covers the last 14 days, oldest first. */
export interface AgentDetail {
  readonly agent: AgentRow;
  readonly versions: readonly string[];
  readonly task_types: readonly string[];
  readonly baselines: readonly Baseline[];
  readonly declarations: readonly Declaration[];
  readonly days: readonly DayBudget[];
  readonly open_by_kind: readonly Count[];
}

/** An agent as others refer to it. */
export interface AgentName {
  readonly key: number;
  readonly name: string;
}

/**
 * One agent of the overview.
 *
 * `reason` says why it is in its state. `learnt_runs` of `required_runs` are clean runs of its newest
 * baseline. `runs`, `spend` (dollars) and `tokens` are those of the days that were asked for; for one day
 * their normal range is that of its days before, and the limit of `spend` its daily budget.
 * `drift_days` has the mean of the runs' highest drift scores per day, oldest first, for the last 7 days,
 * None for a day without runs; `drift_p95` is what is normal. `drift_now` is the score of its latest run.
 * `open_incidents` by severity, from CRITICAL to LOW, those above 0 only.
 */
export interface AgentRow {
  readonly key: number;
  readonly name: string;
  readonly state: "drifting" | "healthy" | "learning" | "silent" | "unreviewed";
  readonly reason: string;
  readonly version: string;
  readonly learnt_runs: number;
  readonly required_runs: number;
  readonly runs: Figure;
  readonly running: number;
  readonly drift_days: readonly (number | null)[];
  readonly drift_p95: number | null;
  readonly drift_now: number | null;
  readonly open_incidents: readonly Count[];
  readonly spend: Figure;
  readonly tokens: number;
  readonly last_run: number | null;
  readonly last_at: number;
}

/** A personal API key. The key itself is shown once, when it is made. */
export interface ApiKey {
  readonly id: number;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly ("admin" | "operate" | "read")[];
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly last_used_at: number | null;
}

/** All keys that were not revoked. */
export interface ApiKeys {
  readonly keys: readonly ApiKey[];
}

/** The latest changes. Pass `next` as `before` for the next page. */
export interface Audit {
  readonly rows: readonly AuditRow[];
  readonly next: number | null;
}

/** Who changed what, and when. */
export interface AuditRow {
  readonly id: number;
  readonly at: number;
  readonly by: string;
  readonly action: string;
  readonly object: string;
  readonly detail: string;
}

/**
 * A normal range along a run, at steps 1, 2, 4, 8 …; interpolate on log2(step).
 *
 * It ends where fewer than 5 clean runs go on. `runs` are the clean runs that reached each step.
 * All lists have the same length.
 */
export interface Band {
  readonly steps: readonly number[];
  readonly p5: readonly number[];
  readonly p50: readonly number[];
  readonly p95: readonly number[];
  readonly runs: readonly number[];
}

/** A baseline of the agent: one per version and type of task. */
export interface Baseline {
  readonly version: string;
  readonly task_type: string;
  readonly state: "calibrated" | "frozen" | "learning";
  readonly progress: string;
  readonly clean_runs: number;
  readonly required_runs: number;
  readonly updated_at: number | null;
  readonly excluded_runs: number;
}

/** Freeze, let learn again, or reset the baseline of a version and type of task. */
export interface BaselineChange {
  readonly action: "freeze" | "reset" | "unfreeze";
  readonly version?: string;
  readonly task_type?: string;
}

/** A loop above the strip: its range, the steps that prove it (at most 50), its tools and its words. */
export interface Bracket {
  readonly incident_id: string;
  readonly first: number;
  readonly last: number;
  readonly proof: readonly number[];
  readonly tools: readonly string[];
  readonly words: string;
  readonly level: number;
}

/**
 * What is left of one budget, from the limit down to 0. Units: tokens, dollars, tool calls or seconds.
 *
 * `start` is the limit at the first step, `limit` the one that holds now, `extensions` what is between.
 * `left` holds from its step to the next. `reserve` is kept for finishing in order. `band` is what clean
 * runs had used at each step, to be taken off the limit that held then.
 */
export interface BudgetLane {
  readonly meter: "cost" | "steps" | "time" | "tokens";
  readonly start: number;
  readonly limit: number;
  readonly reserve: number;
  readonly step: readonly number[];
  readonly at: readonly number[];
  readonly left: readonly number[];
  readonly extensions: readonly Extension[];
  readonly band: Band | null;
  readonly forecast: Forecast | null;
}

/**
 * One event of the stream (`event: change`): what is new since the one before.
 *
 * `runs` are the changed rows, complete, newest change first. `incidents` has the agents whose incidents
 * changed, `agents` those whose baselines or declarations did, `settings` says that keys, mutes or marks
 * changed.
 */
export interface Change {
  readonly id: number;
  readonly at: number;
  readonly runs: readonly RunRow[];
  readonly incidents: readonly number[];
  readonly agents: readonly number[];
  readonly settings: boolean;
  readonly open_incidents: number;
}

/** A channel that alerts go to. Its address is never shown, only its host. */
export interface Channel {
  readonly name: string;
  readonly host: string;
  readonly min_severity: string;
  readonly pending: number;
  readonly failed: number;
  readonly last_sent_at: number | null;
}

/** The channels, and the latest 50 deliveries. */
export interface Channels {
  readonly channels: readonly Channel[];
  readonly deliveries: readonly DeliveryRow[];
}

/** A run that this run started. `step` is the call that started it, or the latest while that goes on. */
export interface ChildRun {
  readonly run: RunRow;
  readonly step: number;
}

/**
 * At most 2,000 columns of several steps, when more steps were asked for. All lists have the same length.
 *
 * A column covers the steps `first` to `last`. `calls` are calls by tool: for the first 7 tools of
 * `RunDetail.tools`, then all others. `repeated` counts calls with an identical earlier call,
 * `repeated_inside` those of them inside an incident.
 */
export interface ColumnSeries {
  readonly first: readonly number[];
  readonly last: readonly number[];
  readonly at: readonly number[];
  readonly calls: readonly (readonly number[])[];
  readonly replies: readonly number[];
  readonly users: readonly number[];
  readonly states: readonly number[];
  readonly failed: readonly number[];
  readonly repeated: readonly number[];
  readonly repeated_inside: readonly number[];
}

/** What somebody wrote about an incident. */
export interface Comment {
  readonly id: number;
  readonly by: string;
  readonly at: number;
  readonly text: string;
}

/** A number of things, by name. */
export interface Count {
  readonly name: string;
  readonly count: number;
}

/** What one day (of UTC) cost, against the daily budget where there is one. `day` is `2026-11-16`. */
export interface DayBudget {
  readonly day: string;
  readonly runs: number;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly limit_tokens: number | null;
  readonly limit_cost_usd: number | null;
}

/** What a tool of this agent is declared as. `by` and `at` are empty for one from the settings. */
export interface Declaration {
  readonly tool: string;
  readonly kind: "" | "batch" | "idempotent" | "poll" | "read" | "schedule" | "write";
  readonly calls: number;
  readonly source: "" | "page" | "settings";
  readonly by: string;
  readonly at: number | null;
}

/** Declare a tool of the agent; an empty kind takes the declaration back. */
export interface Declare {
  readonly tool: string;
  readonly kind: "" | "batch" | "idempotent" | "poll" | "read" | "schedule" | "write";
}

/** One alert of the delivery log. */
export interface DeliveryRow {
  readonly delivery_id: string;
  readonly channel: string;
  readonly agent: string;
  readonly incident_id: string;
  readonly reason: string;
  readonly state: string;
  readonly attempts: number;
  readonly created_at: number;
  readonly error: string;
}

/** A detector that raised. The agent went on. */
export interface DetectorError {
  readonly detector: string;
  readonly count: number;
  readonly last_at: number | null;
}

/** A change was made. `message` says what, in the words of a notice with undo. */
export interface Done {
  readonly message: string;
}

/**
 * What a change would have done to the recent incidents (at most 20), before it is saved.
 *
 * `sentence` has both counts. `change` says what will be changed. `allowed` is false for a hard limit.
 */
export interface Effect {
  readonly change: string;
  readonly sentence: string;
  readonly silenced: number;
  readonly right_lost: number;
  readonly incidents: readonly Effected[];
  readonly allowed: boolean;
}

/**
 * One recent incident of the pattern: with or without the change.
 *
 * `unknown`: it could not be judged again, for example because its payloads were deleted.
 */
export interface Effected {
  readonly incident_id: string;
  readonly run_id: string;
  readonly first_step: number;
  readonly last_step: number;
  readonly at: number;
  readonly effect: "raised" | "silenced" | "unknown";
  readonly review: "" | "confirmed" | "false_alarm";
}

/** The payloads of a pair, for the diff: JSON text with sorted keys. */
export interface EvidencePair {
  readonly pair: Pair;
  readonly arguments: readonly [Payload | null, Payload | null];
  readonly results: readonly [Payload | null, Payload | null];
  readonly errors: readonly [string, string];
}

/** Leave a run out of baselines, or take it in again. A baseline that learnt it is not changed back. */
export interface ExcludeRun {
  readonly run: number;
  readonly excluded?: boolean;
}

/** A change of a limit during the run. */
export interface Extension {
  readonly step: number;
  readonly limit: number;
  readonly reason: string;
}

/**
 * Mark as a false alarm. `tool_kind` is for the reason `polls`. `whole_group`: every incident of
 * the group that is in the inbox.
 */
export interface FalseAlarm {
  readonly reason: "level" | "new_task" | "other" | "polls";
  readonly note?: string;
  readonly tool_kind?: "batch" | "poll";
  readonly whole_group?: boolean;
}

/** A number beside its normal range and its limit. `normal` is None while it is not known. */
export interface Figure {
  readonly value: number | null;
  readonly normal: Range | null;
  readonly limit: number | null;
}

/** When a budget is used up at the present rate: the step at which, as quantiles; while running only. */
export interface Forecast {
  readonly p10: number;
  readonly p50: number;
  readonly p90: number;
}

/** The run an id (or the beginning of one) belongs to: what links from alerts are resolved with. */
export interface FoundRun {
  readonly key: number;
  readonly run_id: string;
  readonly agent: AgentName;
}

/**
 * Incidents of one agent, kind and pattern. `newest` identifies the group: any member's id does.
 *
 * `days` counts incidents per day of UTC for the last 14 days, oldest first. `ongoing` counts those whose
 * drift goes on now.
 */
export interface Group {
  readonly newest: string;
  readonly agent: AgentName;
  readonly kind: "correction" | "goal" | "loop" | "resource" | "style" | "transition";
  readonly pattern: string;
  readonly message: string;
  readonly detectors: readonly string[];
  readonly severity: Severity;
  readonly count: number;
  readonly ongoing: number;
  readonly first_at: number;
  readonly last_at: number;
  readonly days: readonly number[];
  readonly first_step: number;
  readonly last_step: number;
  readonly run: number;
}

/**
 * A group opened: its newest incident in the tab of the one asked for, the runs it occurred in (at most
 * 50), and all their comments.
 */
export interface GroupDetail {
  readonly group: Group;
  readonly newest: IncidentDetail;
  readonly runs: readonly RunOfGroup[];
  readonly comments: readonly Comment[];
}

/**
 * A page of groups, the one with the latest finding first. `totals` has the groups of each tab.
 *
 * Closed incidents are grouped among the latest 2,000 that are reviewed and the latest 2,000 that ended.
 */
export interface GroupList {
  readonly groups: readonly Group[];
  readonly next: string | null;
  readonly totals: Readonly<Record<string, number>>;
}

/**
 * How well Steadyhelm itself does.
 *
 * `lost` and `errors` are counted by reason; `not_checked` are the reasons of the agents' latest runs.
 * `behind_s` is how long ago the newest step was stored, None before the first.
 */
export interface Health {
  readonly version: string;
  readonly database: string;
  readonly database_bytes: number;
  readonly runs: number;
  readonly events: number;
  readonly behind_s: number | null;
  readonly lost: readonly Count[];
  readonly errors: readonly Count[];
  readonly not_checked: readonly Reason[];
  readonly detector_errors: readonly DetectorError[];
  readonly streams: number;
  readonly started_at: number;
}

/**
 * The why card. `pairs` lead to the evidence (at most 50); load a pair for its payloads.
 *
 * `proof` are the steps that are its evidence. `noticed_at` is the step of its first finding.
 * `declare` is the tool whose declaration would make this expected; empty when there is none.
 * `muted_until` is None when it is not muted; `mute_ends` says in words when. `elsewhere` counts other
 * incidents of the group. `judged` is the latest verdict of a judge that moved its severity.
 * `false_alarm_changes` says for each reason that can be given what a mark as false alarm would change.
 */
export interface IncidentDetail {
  readonly row: IncidentRow;
  readonly sentence: string;
  readonly advice: string;
  readonly hard_limit: boolean;
  readonly noticed_at: number;
  readonly detectors: readonly string[];
  readonly proof: readonly number[];
  readonly against: readonly Against[];
  readonly pairs: readonly Pair[];
  readonly said: readonly Said[];
  readonly comments: readonly Comment[];
  readonly declare: string;
  readonly declared: string;
  readonly muted_until: number | null;
  readonly mute_ends: string;
  readonly acknowledged_at: number | null;
  readonly acknowledged_by: string;
  readonly reviewed_by: string;
  readonly elsewhere: number;
  readonly judged: IncidentJudged | null;
  readonly false_alarm_changes: Readonly<Record<string, string>>;
}

/** What a judge changed about an incident. `moved_from` is None where nothing had been reported. */
export interface IncidentJudged {
  readonly step: number;
  readonly label: string;
  readonly confidence: number;
  readonly quote: string;
  readonly moved_from: Severity | null;
  readonly moved_to: Severity;
  readonly cost_usd: number | null;
}

/**
 * An incident in a list, always with its step range.
 *
 * `pattern` is what repeats or deviates, in a few words (`fetch_page`, `read → edit`, `tokens`).
 * `ongoing`: the drift goes on now; else it has ended.
 */
export interface IncidentRow {
  readonly incident_id: string;
  readonly agent: AgentName;
  readonly run: number;
  readonly run_id: string;
  readonly kind: "correction" | "goal" | "loop" | "resource" | "style" | "transition";
  readonly detector: string;
  readonly severity: Severity;
  readonly peak: number;
  readonly pattern: string;
  readonly message: string;
  readonly tab: "acknowledged" | "closed" | "muted" | "open";
  readonly ongoing: boolean;
  readonly first_step: number;
  readonly last_step: number;
  readonly opened_at: number;
  readonly last_at: number;
  readonly findings: number;
  readonly review: "" | "confirmed" | "false_alarm";
}

/**
 * What a judge answered to one question about the run.
 *
 * `label` is `none` without a verdict; `reason` says why. `asked` is False when an equal question was
 * answered before, or nobody was asked. `addressed` says that text of the run tried to tell the judge what
 * to answer. `moved` is how it moved the severity of an incident ("MED → LOW"), empty where it did not.
 */
export interface Judged {
  readonly step: number;
  readonly about: string;
  readonly subject: string;
  readonly label: string;
  readonly confidence: number;
  readonly quote: string;
  readonly reason: string;
  readonly asked: boolean;
  readonly addressed: boolean;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly moved: string;
}

/**
 * What a judge was asked about the latest 200 runs of some agents or of all, and what it changed.
 *
 * `asked` counts questions that were sent, `remembered` those answered by an equal one before; `no_verdict`
 * and `not_asked` count the others by reason. `raised`, `lowered` and `cleared` count incidents.
 * `model` is the judge in the server's settings, empty when there is none.
 */
export interface JudgingReport {
  readonly model: string;
  readonly runs: number;
  readonly asked: number;
  readonly remembered: number;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly raised: number;
  readonly lowered: number;
  readonly cleared: number;
  readonly addressed: number;
  readonly verdicts: readonly Count[];
  readonly no_verdict: readonly Count[];
  readonly not_asked: readonly Count[];
}

/** The drift scores from which each response is advised. */
export interface Levels {
  readonly remind: number;
  readonly replan: number;
  readonly rollback: number;
  readonly stop: number;
}

/**
 * The longest repetition noticed in a run: `tools` in order (one: a call repeated; several: a cycle).
 *
 * `declared` says that the tool is declared as a poll or batch tool: shown grey.
 */
export interface LoopBadge {
  readonly tools: readonly string[];
  readonly count: number;
  readonly declared: boolean;
}

/** The key that was made. `secret` is shown now and never again. */
export interface MadeKey {
  readonly key: ApiKey;
  readonly secret: string;
}

/** A response on the strip. `before` and `after` are the drift score then and when it was judged. */
export interface Marker {
  readonly step: number;
  readonly at: number;
  readonly response: string;
  readonly outcome: string;
  readonly incident_id: string;
  readonly before: number | null;
  readonly after: number | null;
}

/**
 * One metric against normal.
 *
 * Names: steps, tokens, cost_usd, duration_s, drift, failed, repeated_share, reply_length.
 */
export interface Metric {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly normal: Range | null;
  readonly points: readonly RunPoint[];
}

/** Eight metrics of the latest 60 runs. */
export interface Metrics {
  readonly metrics: readonly Metric[];
}

/**
 * Send no alerts of this agent and detector until then; `undo` ends the mute. `whole_group`: of every
 * detector of the group's incidents in the inbox; with `undo`, of every one muted with it.
 */
export interface MuteRequest {
  readonly until?: "1h" | "8h" | "tomorrow" | "version" | "worse";
  readonly undo?: boolean;
  readonly whole_group?: boolean;
}

/** Write a comment. */
export interface NewComment {
  readonly text: string;
}

/** Make a key. */
export interface NewKey {
  readonly name: string;
  readonly scopes: readonly ("admin" | "operate" | "read")[];
  readonly days?: number | null;
}

/** An action of the graph. Shares of all steps; `other` groups what is beyond 25 actions. */
export interface Node {
  readonly name: string;
  readonly baseline_share: number;
  readonly now_share: number;
}

/**
 * Everything on the overview.
 *
 * Days are days of UTC, the present one included: `days` of them were asked for. `runs`, `spend` and
 * `tokens` are the sums of all agents; for one day their normal range is that of the 30 days before.
 * `runs_before` counts the same number of days before these. What is before yesterday may be a minute old.
 * `spend_forecast_usd` is what today will have cost at its end if the rest of it is as the rest of the last
 * 7 days was; None while no cost is known. `responses` counts those of the days; with `responses_capped`
 * there are more. `lost` counts all lost records. `waiting` are runs that wait for somebody, `needs_you`
 * open incidents from high; 5 together at most. `agents` holds at most 200, in the order of the page;
 * `agents_total` says how many there are. `empty` is true while nothing was ever recorded: `database` is
 * then the path that is read.
 */
export interface Overview {
  readonly now: number;
  readonly days: number;
  readonly empty: boolean;
  readonly database: string;
  readonly runs: Figure;
  readonly runs_before: number;
  readonly agents_drifting: number;
  readonly agents_total: number;
  readonly open_incidents: number;
  readonly responses: number;
  readonly responses_capped: boolean;
  readonly response_outcomes: readonly Count[];
  readonly spend: Figure;
  readonly spend_forecast_usd: number | null;
  readonly tokens: number;
  readonly lost: number;
  readonly waiting: readonly RunRow[];
  readonly needs_you: readonly IncidentRow[];
  readonly agents: readonly AgentRow[];
}

/** Two consecutive calls of the pattern. `same_arguments` and `same_result` need no payload. */
export interface Pair {
  readonly first: number;
  readonly second: number;
  readonly tool: string;
  readonly same_arguments: boolean;
  readonly same_result: boolean;
  readonly failed_first: boolean;
  readonly failed_second: boolean;
}

/**
 * One payload as stored, as JSON text. `size` is its bytes; `text` is clipped at 64 KiB, then `clipped`.
 *
 * `redacted` names the rules that took something out.
 */
export interface Payload {
  readonly text: string;
  readonly size: number;
  readonly clipped: boolean;
  readonly redacted: readonly string[];
}

/** Right and false marks of one detector in 90 days. `precision` is None with fewer than 5 marks. */
export interface Precision {
  readonly detector: string;
  readonly right: number;
  readonly false: number;
  readonly unmarked: number;
  readonly precision: number | null;
}

/** One entry per detector that raised an incident in 90 days. */
export interface PrecisionList {
  readonly detectors: readonly Precision[];
}

/**
 * Every answer that is not a success: what happened, in a sentence for people.
 *
 * `code` is for programs: unauthorized, forbidden, not_found, invalid, too_large, too_many, conflict,
 * unavailable, page_not_built.
 */
export interface Problem {
  readonly code: string;
  readonly message: string;
}

/** What was deleted because it is older than retention allows. */
export interface Pruned {
  readonly payloads: number;
  readonly runs: number;
  readonly events: number;
}

/** The normal range of a quantity: quantiles over this many clean runs. */
export interface Range {
  readonly p5: number;
  readonly p50: number;
  readonly p95: number;
  readonly runs: number;
}

/** Why something is not known or was not checked. */
export interface Reason {
  readonly name: string;
  readonly reason: string;
}

/**
 * What a recurrence matrix is drawn from, without payloads.
 *
 * At most 200 entries; with `per_entry` above 1 an entry stands for that many steps (its first is `step`),
 * and `call` is the most frequent call in it. Two entries with the same number in `call` are the same call,
 * with the same number in `result` too also the same result; -1 is no call. `tool` is a place in
 * `RunDetail.tools`. `period` is the length of the cycle that explains most repeats, None when there is
 * none.
 */
export interface Recurrence {
  readonly first: number;
  readonly last: number;
  readonly per_entry: number;
  readonly step: readonly number[];
  readonly tool: readonly number[];
  readonly call: readonly number[];
  readonly result: readonly number[];
  readonly same_call_pairs: number;
  readonly same_result_pairs: number;
  readonly repeated_share: number | null;
  readonly period: number | null;
  readonly sentence: string;
}

/** Text to redact; it is not stored. */
export interface RedactText {
  readonly text: string;
}

/** The text as it would be stored. A marker names the rule, never the match. */
export interface Redacted {
  readonly text: string;
  readonly rules: readonly Count[];
}

/** The body of a request. Unknown fields are refused. */
export interface Request {
}

/**
 * `event: reset`: what happened in between is no longer known; load everything again.
 *
 * `event: hello` has the same shape, is the first of every stream, and says where it begins.
 */
export interface Reset {
  readonly id: number;
  readonly at: number;
  readonly open_incidents: number;
}

/** An intervention as lists show it. */
export interface ResponseMade {
  readonly response: "ask" | "block" | "remind" | "replan" | "rollback" | "stop";
  readonly outcome: "ignored" | "not_carried_out" | "unknown" | "worked" | "worse";
  readonly step: number;
}

/** How long payloads and runs are kept, and how much there is now, in rows and bytes. */
export interface Retention {
  readonly payload_days: number;
  readonly run_days: number;
  readonly tables: readonly Count[];
  readonly bytes: number;
  readonly oldest_run_at: number | null;
  readonly payloads_due: number;
  readonly runs_due: number;
}

/**
 * Mark as right. A threshold that it had raised goes back. `whole_group`: every incident of the
 * group that is in the inbox.
 */
export interface Right {
  readonly note?: string;
  readonly whole_group?: boolean;
}

/**
 * The header of the run page.
 *
 * `incidents` are the ids, in order of their first step: load each for its why card. `trace_id` and
 * `trace_url` lead to the trace elsewhere, where known. `model` is the model of the latest reply that named
 * one. `baseline` says what it is compared with ("calibrated on 40 runs", "learning 13/20"). `checked_by`
 * are detectors that looked, `not_checked` those that could not. `judged` has the latest 50 answers of a
 * judge.
 */
export interface RunDetail {
  readonly run: RunRow;
  readonly model: string;
  readonly trace_id: string | null;
  readonly trace_url: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly figures: RunFigures;
  readonly levels: Levels;
  readonly tools: readonly ToolUse[];
  readonly incidents: readonly string[];
  readonly children: readonly ChildRun[];
  readonly parent: RunRow | null;
  readonly baseline: string;
  readonly checked_by: readonly string[];
  readonly not_checked: readonly Reason[];
  readonly excluded: boolean;
  readonly judged: readonly Judged[];
}

/**
 * The six figures: steps, drift score (highest), tokens, cost in dollars, duration in seconds, failed
 * calls.
 *
 * `repeated_share` is the share of calls with an identical earlier call.
 */
export interface RunFigures {
  readonly steps: Figure;
  readonly drift: Figure;
  readonly tokens: Figure;
  readonly cost_usd: Figure;
  readonly duration_s: Figure;
  readonly failed: Figure;
  readonly repeated_share: Figure;
}

/**
 * A page of runs, newest first. Pass `next` as `after` for the next page; None: no more.
 *
 * `total` counts all runs that match, and stops at 10,000. `levels` are those of the settings now.
 */
export interface RunList {
  readonly runs: readonly RunRow[];
  readonly next: string | null;
  readonly total: number;
  readonly levels: Levels;
}

/** One incident of the group, with its run and its step range. */
export interface RunOfGroup {
  readonly incident: IncidentRow;
  readonly goal: string;
}

/** One run of a metric, oldest first. */
export interface RunPoint {
  readonly run: number;
  readonly run_id: string;
  readonly at: number;
  readonly version: string;
  readonly value: number | null;
  readonly clean: boolean;
}

/**
 * One line of the list of runs.
 *
 * `peak` is the highest drift score, `top_severity` and `kinds` come from its incidents (empty: none).
 * `cost_usd` is None where no step had a cost. `duration_s` runs to the last step.
 */
export interface RunRow {
  readonly key: number;
  readonly run_id: string;
  readonly agent: AgentName;
  readonly goal: string;
  readonly version: string;
  readonly task_type: string;
  readonly state: "crashed" | "ended" | "running" | "stopped" | "waiting";
  readonly outcome: string;
  readonly started_at: number;
  readonly last_at: number;
  readonly duration_s: number;
  readonly steps: number;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly errors: number;
  readonly peak: number | null;
  readonly incidents: number;
  readonly top_severity: Severity | null;
  readonly kinds: readonly ("correction" | "goal" | "loop" | "resource" | "style" | "transition")[];
  readonly loop: LoopBadge | null;
  readonly response: ResponseMade | null;
  readonly parent: string | null;
}

/**
 * The four lanes for the steps `first` to `last` of `steps`.
 *
 * Either `points` or `columns` is there. `version` changes whenever the run does. `not_run` are the steps
 * that would not have run, had the agent made a new plan at the step before them: only in recordings, which
 * are runs that are over and in which nothing was said to the agent.
 */
export interface RunSeries {
  readonly run: number;
  readonly steps: number;
  readonly first: number;
  readonly last: number;
  readonly started_at: number;
  readonly version: number;
  readonly points: StepSeries | null;
  readonly columns: ColumnSeries | null;
  readonly score: ScoreSeries;
  readonly band: Band | null;
  readonly budgets: readonly BudgetLane[];
  readonly brackets: readonly Bracket[];
  readonly markers: readonly Marker[];
  readonly not_run: StepSpan | null;
}

/**
 * An intervention: what was said, and what came of it.
 *
 * `before` and `after` are drift scores; `measure` is the outcome in words ("Drift 0.54 → 0.07").
 */
export interface Said {
  readonly step: number;
  readonly at: number;
  readonly response: string;
  readonly delivered: boolean;
  readonly guidance: string;
  readonly outcome: string;
  readonly not_carried_out: string;
  readonly because: readonly string[];
  readonly before: number | null;
  readonly after: number | null;
  readonly tokens_saved: number | null;
  readonly measure: string;
}

/**
 * The drift score where it changes; it holds until the next entry. None is unknown (a gap).
 *
 * The five contributions add up to the score; one that is None was not checked at that step. `not_checked`
 * says why the latest score of the run lacks some.
 * Down-sampled to at most 2,000 entries, keeping highest and lowest.
 */
export interface ScoreSeries {
  readonly step: readonly number[];
  readonly at: readonly number[];
  readonly score: readonly (number | null)[];
  readonly goal: readonly (number | null)[];
  readonly loop: readonly (number | null)[];
  readonly budget: readonly (number | null)[];
  readonly quality: readonly (number | null)[];
  readonly stuck: readonly (number | null)[];
  readonly not_checked: readonly Reason[];
}

/** One result: a run whose id or goal begins so, an agent, or a tool with the agents that use it. */
export interface SearchHit {
  readonly kind: "agent" | "run" | "tool";
  readonly text: string;
  readonly agent: AgentName | null;
  readonly run: number | null;
  readonly severity: Severity | null;
  readonly at: number | null;
}

/** At most 20 results of a prefix search over run ids, goals, agents and tools. */
export interface SearchResults {
  readonly query: string;
  readonly hits: readonly SearchHit[];
}

/** Who is signed in. `version` is the server's version, `page` the digest of the page it serves. */
export interface Session {
  readonly by: string;
  readonly scopes: readonly ("admin" | "operate" | "read")[];
  readonly expires_at: number | null;
  readonly version: string;
  readonly page: string;
  readonly public_url: string;
  readonly demo: boolean;
}

/** Every setting as this server reads it; an agent's process may read others. */
export interface SettingList {
  readonly settings: readonly SettingValue[];
  readonly file: string;
}

/**
 * One setting: its value as text, where it comes from, its default, and what it is for.
 *
 * A secret's value is `set` or `not set`.
 */
export interface SettingValue {
  readonly name: string;
  readonly value: string;
  readonly source: "argument" | "default" | "environment" | "file";
  readonly origin: string;
  readonly default: string;
  readonly about: string;
}

/** The severity of a finding. LOW is noticed, not reported. */
export type Severity = "CRITICAL" | "HIGH" | "LOW" | "MED";

/** Sign in with the token of the server's file, or with the one-time code of `--open`. */
export interface SignIn {
  readonly token?: string;
  readonly code?: string;
}

/**
 * A session. A cookie is set too; every request needs both.
 *
 * Keep `secret` in session storage, and send it as the header `Steadyhelm-Secret`: a cookie goes to every
 * port of the host, the header does not. Another tab gets it from this one over a BroadcastChannel, or signs
 * in.
 */
export interface SignedIn {
  readonly secret: string;
  readonly by: string;
  readonly scopes: readonly ("admin" | "operate" | "read")[];
  readonly expires_at: number;
}

/** One step with its payloads. `pruned`: retention has deleted them. */
export interface StepDetail {
  readonly step: StepRow;
  readonly event_id: string;
  readonly call_id: string | null;
  readonly error: string | null;
  readonly arguments: Payload | null;
  readonly result: Payload | null;
  readonly metadata: Payload | null;
  readonly contributions: readonly (readonly [string, number | null])[];
  readonly pruned: boolean;
}

/** Steps, newest first. Pass `next` as `before` for the next page; None: no more. */
export interface StepPage {
  readonly steps: readonly StepRow[];
  readonly next: number | null;
  readonly counts: readonly Count[];
}

/** A line of the list of steps. `arguments` and `result` are clipped at 200 characters. */
export interface StepRow {
  readonly step: number;
  readonly at: number;
  readonly kind: "reply" | "state" | "tool" | "user";
  readonly name: string;
  readonly tool: number;
  readonly failed: boolean;
  readonly last_same: number;
  readonly same_result: number;
  readonly response: string;
  readonly arguments: string;
  readonly result: string;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly duration_ms: number;
  readonly score: number | null;
}

/**
 * One entry per step, when at most 2,000 steps were asked for. All lists have the same length.
 *
 * `at` is seconds since the run's start. `tool` is a place in `RunDetail.tools`, -1 where it is no call.
 * `last_same` is the step of the last identical call (same tool and arguments), 0 when there is none or it
 * is no call; `same_result` is 1 when the result was the same then, 0 when it changed, -1 when there is
 * nothing to compare. `incident` is 1 inside an incident. `cost_usd` is None where unknown.
 */
export interface StepSeries {
  readonly step: readonly number[];
  readonly at: readonly number[];
  readonly kind: readonly ("reply" | "state" | "tool" | "user")[];
  readonly tool: readonly number[];
  readonly failed: readonly number[];
  readonly last_same: readonly number[];
  readonly same_result: readonly number[];
  readonly incident: readonly number[];
  readonly tokens: readonly number[];
  readonly cost_usd: readonly (number | null)[];
}

/** The steps `first` to `last`. */
export interface StepSpan {
  readonly first: number;
  readonly last: number;
}

/** How a test alert went. */
export interface TestResult {
  readonly sent: boolean;
  readonly message: string;
}

/** A tool of the run; lists elsewhere refer to its place in this list (0 is the most used). */
export interface ToolUse {
  readonly name: string;
  readonly calls: number;
  readonly errors: number;
  readonly tokens: number;
  readonly duration_ms: number;
  readonly declared: string;
}

/**
 * How often `to` follows `from_`: probabilities, None where `from_` was not seen there.
 *
 * `more` and `rarer` are set where the difference passes the test and is at least 0.1.
 */
export interface Transition {
  readonly from_: string;
  readonly to: string;
  readonly baseline: number | null;
  readonly now: number | null;
  readonly baseline_count: number;
  readonly now_count: number;
  readonly more: boolean;
  readonly rarer: boolean;
}

/**
 * The graph of which action follows which: the baseline against the latest `now_runs` runs.
 *
 * `nodes` are ordered by share, `(start)` marks the beginning of a run.
 */
export interface Transitions {
  readonly version: string;
  readonly task_type: string;
  readonly baseline_runs: number;
  readonly now_runs: number;
  readonly nodes: readonly Node[];
  readonly edges: readonly Transition[];
}

/** Take back the mark and what it changed. */
export interface Undo {
}
