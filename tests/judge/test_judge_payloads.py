"""A verdict is no payload: what was stored replays to the same decisions, whatever may be stored."""

import json

import msgspec
import pytest
from judge_endpoint import answer
from judged_monitors import list_judged, loop, run_command, wait_for
from judged_runs import JudgedRun, answer_with

PRIVATE = "a very private result"


def record(make_monitor, wait_until, endpoint, payloads, label):
    """Record a loop that is judged, and two calls after the verdict; return what was decided live."""
    endpoint.reply = answer(label)
    monitor = make_monitor(payloads=payloads)
    with monitor.run(goal="read it"):
        loop(monitor, result=PRIVATE)
        wait_for(wait_until, monitor, 1)
        loop(monitor, calls=1, result=PRIVATE)
    monitor.flush(30.0)
    incidents = monitor.store.list_incidents()
    found = sorted(monitor.store.get_drift_events(run_id=incidents[0].run_id), key=lambda it: it.timestamp)
    judged = list_judged(monitor)
    monitor.close()
    return incidents, [str(it.severity) for it in found], judged


def scan(tmp_path):
    """Return the report of a scan of everything that was stored."""
    file = tmp_path / "runs.jsonl"
    run_command("export", "-o", str(file), db=tmp_path / "s.db")
    return json.loads(run_command("scan", str(file), "--json", expect=None))["runs"][0]


@pytest.mark.parametrize("label", ["healthy", "no_progress"])
@pytest.mark.parametrize("payloads", ["full", "redacted"])
def test_a_run_is_decided_the_same_from_what_was_stored(
    make_monitor, endpoint, wait_until, tmp_path, payloads, label
):
    """
    aaa|a  the same findings and the same incident, and nobody is asked again.
    """
    incidents, severities, _ = record(make_monitor, wait_until, endpoint, payloads, label)
    again = scan(tmp_path)
    assert severities == [it["severity"] for it in again["findings"]]
    assert [(it.severity, it.message) for it in incidents] == [
        (it["severity"], it["message"]) for it in again["incidents"]
    ]
    assert 1 == len(endpoint.asked)


@pytest.mark.parametrize(("label", "severities"), [("healthy", []), ("no_progress", ["HIGH"])])
@pytest.mark.parametrize("payloads", ["hashes", "none"])
def test_a_verdict_counts_in_a_replay_also_where_no_text_was_stored(
    make_monitor, endpoint, wait_until, tmp_path, payloads, label, severities
):
    """
    aaa|a  without results rules report the fourth call, MED by itself: LOW or HIGH by the verdict.
    """
    record(make_monitor, wait_until, endpoint, payloads, label)
    again = scan(tmp_path)
    assert severities == [it["severity"] for it in again["incidents"]]
    assert 1 == len(endpoint.asked)


@pytest.mark.parametrize("payloads", ["hashes", "none"])
def test_the_quote_is_a_payload_and_the_verdict_is_none(
    make_monitor, endpoint, wait_until, tmp_path, payloads
):
    """
    Label, confidence, weight, place and cost are kept; the words of the run are not.
    """
    _, _, (judged,) = record(make_monitor, wait_until, endpoint, payloads, "healthy")
    assert ("healthy", 0.95, 0.8, 2, 700) == tuple(
        judged[name] for name in ("label", "confidence", "weight", "place", "input_tokens")
    )
    assert "" == judged["quote"]
    for path in tmp_path.iterdir():
        assert PRIVATE.encode() not in path.read_bytes()


def test_a_suspended_run_keeps_no_words_for_questions():
    """
    Where no text may be stored, the steps that a question would show are not saved; what is asked goes on.
    """
    run = JudgedRun(answer_with("unsure")).play("aabb")
    assert run.session._questioner.memory.notes.steps
    saved = msgspec.msgpack.decode(run.session.state(keeps_text=False))["judging"]["questions"]
    assert [] == saved["notes"]["steps"]
    again = JudgedRun(answer_with("unsure"))
    again.session.restore(run.session.state(keeps_text=False))
    again.trace = list(run.trace)
    again.play("b")
    assert not again.asked
    again.play("cccc")
    assert ["loop/c"] == [it.pattern for it in again.asked]


def test_a_repetition_of_different_calls_is_judged_the_same_from_a_file(
    make_monitor, endpoint, wait_until, tmp_path
):
    """
    Calls that fail alike with other arguments: a file numbers its events, and the verdict still finds them.
    """
    monitor = make_monitor()
    with monitor.run(goal="read it"):
        for number in range(6):
            monitor.record_event("tool_call", "read", input_data={"n": number}, error="no such file: a.txt")
        wait_for(wait_until, monitor, 1)
        for number in range(6, 8):
            monitor.record_event("tool_call", "read", input_data={"n": number}, error="no such file: a.txt")
    monitor.flush(30.0)
    live = [(it.severity, it.state) for it in monitor.store.list_incidents()]
    monitor.close()
    assert live == [(it["severity"], "closed") for it in scan(tmp_path)["incidents"]]
