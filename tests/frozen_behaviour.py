"""Compare what Steadyhelm reports on recorded runs with what it reported when the digests were taken.

Each run of the labelled data is judged three ways: by the scanner, live through `record_event`, and through
hook events of Claude Code. Texts are left out, since they may be reworded; everything else must stay equal.

    python tests/frozen_behaviour.py check [--runs N] [--ways scan,live,hook]
    python tests/frozen_behaviour.py write                       # take new digests: a decision, not a fix
    python tests/frozen_behaviour.py show RUN_ID [--ways scan]   # print what a digest was made of

Runs of one file share an agent and a database, so that baselines are learnt on the way; the first N runs of
a file therefore give the same results as all of them.
"""

import argparse
import hashlib
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from steadyhelm import DriftMonitor
from steadyhelm.decisions import DriftAction
from steadyhelm.events import LLM_REQUEST, TOOL_CALL, USER_MESSAGE
from steadyhelm.findings import DriftEvent
from steadyhelm.hooks.sessions import HookSessions, build_hook_parts
from steadyhelm.incidents import Incident
from steadyhelm.recordings.hook_events.dialects import DIALECTS
from steadyhelm.recordings.run_file import ReadRun, RunFile
from steadyhelm.replay import Replayer
from steadyhelm.settings import load
from steadyhelm.stores.sqlite import SQLiteStore

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[2] / "shared" / "data")) / "runs"
DIGESTS = Path(__file__).parent / "golden" / "frozen_behaviour.json"
WAYS = ("scan", "live", "hook")

# What a detector or a kind is called today, by what it was called when the digests were taken.
RENAMED: dict[str, str] = {"chanting": "repetitive_text", "transition": "unusual_order"}
_FORMER = {new: old for old, new in RENAMED.items()}

_FIRST_RUN_AT = 2_000_000_000.0
"""When the first run starts: in the future, so that retention removes nothing."""
_RUN_S = 1_000_000.0
"""Seconds between the starts of two runs: every event of a run is long over when the next one begins."""

_FLUSH_EVERY = 200
Seen = dict[str, Any]


class _Clock:
    """A clock that shows the time of the event that is being recorded."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sources() -> list[str]:
    """Return the names of the run files, in order."""
    return sorted(path.name for path in DATA.glob("*.jsonl.gz"))


def observe(source: str, way: str, most: int | None = None) -> Iterator[tuple[str, Seen]]:
    """Judge the runs of a file one way, and yield what each led to."""
    runs = [run for run in RunFile(DATA / source) if isinstance(run, ReadRun) and run.events]
    ways: dict[str, Callable[[str, list[ReadRun]], Iterator[Seen]]]
    ways = {"scan": _scan, "live": _live, "hook": _hook}
    with tempfile.TemporaryDirectory() as home:
        os.environ["STEADYHELM_HOME"] = home
        names = (f"{source.partition('.')[0]}/{n}" for n in itertools.count())
        yield from zip(names, ways[way](home, runs[:most]), strict=False)


def digest(seen: Seen) -> str:
    """Return a short digest of what a run led to."""
    text = json.dumps(seen, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


# --- the three ways ---------------------------------------------------------------------------------------


def _scan(_home: str, runs: list[ReadRun]) -> Iterator[Seen]:
    replayer = Replayer(load().settings)
    for run in runs:
        report = json.loads(_json(replayer.judge(run).report))
        yield {
            "findings": [_without_text(finding) for finding in report["findings"]],
            "incidents": [_without_text(incident) for incident in report["incidents"]],
            "action": report["action"],
            "tokens_saved": report["tokens_saved"],
            "not_checked": sorted(_former(it["detector"]) for it in report["not_checked"]),
        }


def _live(home: str, runs: list[ReadRun]) -> Iterator[Seen]:
    clock = _Clock()
    monitor = DriftMonitor("frozen", db_path=Path(home) / "live.db", mode="enforce", clock=clock)
    try:
        for n, run in enumerate(runs, 1):
            began, first = _FIRST_RUN_AT + n * _RUN_S, run.events[0].timestamp
            clock.now = began
            run_id = monitor.start_run(f"run-{n}", goal=run.info.goal or None)
            decisions = []
            for place, event in enumerate(run.events):
                clock.now = began + event.timestamp - first
                if place % _FLUSH_EVERY == 0:
                    # On a busy machine the queue would run full, and events would be lost.
                    assert monitor.flush(60.0)
                decisions.append(
                    monitor.record_event(
                        event.action_type,
                        event.action_name,
                        timestamp=clock.now,
                        event_id=event.event_id,
                        token_count=event.token_count,
                        input_data=event.input_data,
                        output_data=event.output_data,
                        duration_ms=event.duration_ms,
                        metadata=event.metadata,
                        started_seq=event.started_seq,
                        call_id=event.call_id,
                        error=event.error,
                        cost_usd=event.cost_usd,
                    )
                )
            not_checked = monitor.not_checked(run_id)
            monitor.end_run(run_id)
            assert monitor.flush(60.0)
            actions = [decision.action for decision in decisions]
            yield {
                **_stored(monitor.store, "frozen", run_id),
                "verdicts": [decision.verdict for decision in decisions],
                "action": max(actions, key=lambda action: action.level).value,
                "tokens_saved": _tokens_after(run, actions),
                "not_checked": sorted(map(_former, not_checked)),
            }
    finally:
        monitor.close()


def _hook(home: str, runs: list[ReadRun]) -> Iterator[Seen]:
    clock = _Clock()
    store = SQLiteStore(Path(home) / "hook.db")
    dialect = DIALECTS["claude-code"]
    settings = load({"mode": "guide", "db_path": str(Path(home) / "hook.db")}).settings
    sessions = HookSessions(build_hook_parts(settings), dialect, store, clock)
    for n, run in enumerate(runs, 1):
        began, first = _FIRST_RUN_AT + n * _RUN_S, run.events[0].timestamp
        verdicts = []
        for at, payload in _hook_events(f"run-{n}", run):
            clock.now = began + at - first
            verdicts.append(sessions.handle(dialect.read(payload)).verdict)
        yield {**_stored(store, dialect.agent, f"run-{n}"), "verdicts": verdicts}
    store.close()


def _hook_events(session_id: str, run: ReadRun) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the run as Claude Code would report it; the calls of one batch begin before any of them ends."""
    for _, batch in itertools.groupby(run.events, key=_batch):
        events = list(batch)
        for event in events if events[0].action_type == TOOL_CALL else ():
            yield (
                event.timestamp,
                {
                    "hook_event_name": "PreToolUse",
                    "session_id": session_id,
                    "tool_name": event.action_name,
                    "tool_input": event.input_data,
                    "tool_use_id": f"call-{event.event_id}",
                },
            )
        for event in events:
            payload = _hook_event(event)
            if payload:
                yield event.timestamp, {"session_id": session_id, **payload}
    yield run.events[-1].timestamp, {"hook_event_name": "SessionEnd", "session_id": session_id}


def _batch(event: Any) -> object:
    is_batched = event.action_type == TOOL_CALL and event.started_seq is not None
    return ("batch", event.started_seq) if is_batched else event.event_id


def _hook_event(event: Any) -> dict[str, Any]:
    if event.action_type == USER_MESSAGE:
        return {"hook_event_name": "UserPromptSubmit", "prompt": _text(event.input_data)}
    if event.action_type == LLM_REQUEST:
        return {"hook_event_name": "Stop", "last_assistant_message": _text(event.output_data)}
    if event.action_type != TOOL_CALL:
        return {}
    call = {
        "tool_name": event.action_name,
        "tool_input": event.input_data,
        "tool_use_id": f"call-{event.event_id}",
        "duration_ms": event.duration_ms,
    }
    if event.error:
        return {"hook_event_name": "PostToolUseFailure", "error": event.error, **call}
    return {"hook_event_name": "PostToolUse", "tool_response": event.output_data, **call}


# --- what is compared -------------------------------------------------------------------------------------


def _stored(store: Any, agent_id: str, run_id: str) -> Seen:
    places = {event.event_id: event.seq for event in store.get_run_traces(agent_id, run_id)}
    findings = store.get_drift_events(agent_id, run_id=run_id, limit=1_000_000)
    incidents = store.list_incidents(agent_id=agent_id, run_id=run_id, limit=1_000_000)
    return {
        "findings": sorted((_finding(it, places) for it in findings), key=str),
        "incidents": sorted((_incident(it) for it in incidents), key=str),
    }


def _finding(finding: DriftEvent, places: dict[str, int]) -> Seen:
    return {
        "at": places.get(finding.event_id, -1),
        "detector": _former(finding.detector),
        "kind": _former(finding.kind),
        "severity": finding.severity.value,
        "score": round(finding.score, 4),
        "evidence": sorted(places.get(proof, -1) for proof in finding.event_ids),
    }


def _incident(incident: Incident) -> Seen:
    return {
        "kind": _former(incident.kind),
        "from": incident.opened_seq,
        "to": incident.last_seq,
        "peak": round(incident.peak, 4),
        "severity": incident.severity.value,
        "state": incident.state,
        "interventions": [[it.action.value, it.seq, it.outcome] for it in incident.interventions],
    }


def _without_text(record: Seen) -> Seen:
    named = {key: _former(value) if key in {"detector", "kind"} else value for key, value in record.items()}
    del named["message"]
    return named


def _tokens_after(run: ReadRun, actions: list[DriftAction]) -> int | None:
    """Sum the tokens spent between the first new plan and the user's next message."""
    level = DriftAction.SUMMARIZE_REPLAN.level
    place = next((n for n, action in enumerate(actions) if action.level >= level), None)
    if place is None:
        return None
    after = itertools.takewhile(lambda it: it.action_type != USER_MESSAGE, run.events[place + 1 :])
    return sum(event.token_count for event in after)


def _former(name: str) -> str:
    return _FORMER.get(name, name)


def _text(value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    return value if isinstance(value, str) else json.dumps(value)


def _json(record: Any) -> str:
    import msgspec

    return msgspec.json.encode(record).decode()


# --- the command ------------------------------------------------------------------------------------------


def take_digests(source: str, way: str, most: int | None = None) -> dict[str, str]:
    """Return the digest of every run of a file, judged one way."""
    return {run: digest(seen) for run, seen in observe(source, way, most)}


def expected(source: str, way: str, most: int | None = None) -> dict[str, str]:
    """Return the committed digests of the first runs of a file."""
    kept: dict[str, str] = json.loads(DIGESTS.read_text())[way]
    ours = [run for run in kept if run.startswith(source.partition(".")[0] + "/")]
    return {run: kept[run] for run in sorted(ours, key=lambda run: int(run.rpartition("/")[2]))[:most]}


def _take_all(ways: list[str], most: int | None) -> dict[str, dict[str, str]]:
    taken: dict[str, dict[str, str]] = {way: {} for way in ways}
    with ProcessPoolExecutor() as pool:
        jobs = [(way, pool.submit(take_digests, source, way, most)) for way in ways for source in sources()]
        for way, job in jobs:
            taken[way] |= job.result()
    return taken


def main() -> int:
    """Run the command line; return 1 when a digest differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=("check", "write", "show"))
    parser.add_argument("run", nargs="?")
    parser.add_argument("--runs", type=int, help="only the first runs of each file")
    parser.add_argument("--ways", default=",".join(WAYS))
    given = parser.parse_args()
    ways = given.ways.split(",")
    if given.command == "show":
        source = next(it for it in sources() if it.startswith(given.run.partition("/")[0]))
        most = int(given.run.rpartition("/")[2]) + 1
        for way in ways:
            seen = dict(observe(source, way, most))[given.run]
            print(way, json.dumps(seen, indent=1, sort_keys=True))
        return 0
    taken = _take_all(ways, given.runs)
    if given.command == "write":
        DIGESTS.write_text(json.dumps(taken, indent=0, sort_keys=True) + "\n")
        return 0
    changed = 0
    for way in ways:
        for source in sources():
            for run, kept in expected(source, way, given.runs).items():
                if taken[way].get(run) != kept:
                    changed += 1
                    print(f"{way}\t{run}\twas {kept}, is {taken[way].get(run)}")
    print(f"{sum(map(len, taken.values()))} digests, {changed} changed", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
