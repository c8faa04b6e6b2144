import json
import sqlite3

import pytest
from whole_program import process

from steadyhelm.hooks.client import is_hook_event
from steadyhelm.hooks.handler import handle_request
from steadyhelm.hooks.log import read_log
from steadyhelm.hooks.request import Deadline, HookRequest
from steadyhelm.hooks.status_line import build_status_line
from steadyhelm.settings import load
from steadyhelm.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.usefixtures("apart")

GUIDE = ("--agent", "claude-code", "--mode", "guide")
ENFORCE = ("--agent", "claude-code", "--mode", "enforce")


def handle_event(options, body):
    """What a hook prints, however long it takes."""
    return handle_request(HookRequest(list(options), body, Deadline(60.0)))


class Agent:
    """A coding agent that tells us what it does, as Claude Code would."""

    def __init__(self, *options, session="s1", part=""):
        self.options = options
        self.common = {"session_id": session, "transcript_path": "", "cwd": "/p"}
        self.common |= {"agent_id": part} if part else {}
        self.calls = 0

    def tell(self, event, **fields):
        said = handle_event(
            self.options, json.dumps({**self.common, "hook_event_name": event, **fields}).encode()
        )
        return json.loads(said) if said else {}

    def call(self, tool="Read", result="x = 1", call_id=None, **args):
        self.calls += 1
        call_id = call_id or f"{self.common['session_id']}-{self.calls}"
        fields = {"tool_name": tool, "tool_input": args or {"file_path": "/p/a.py"}, "tool_use_id": call_id}
        before = self.tell("PreToolUse", **fields)
        if before.get("hookSpecificOutput", {}).get("permissionDecision") == "deny":
            return before
        return self.tell("PostToolUse", tool_response={"stdout": result}, **fields)


@pytest.fixture
def store(apart):
    def look():
        return SQLiteStore(apart / "steadyhelm.db", read_only=True)

    return look


def words(answer):
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


def test_a_read_loop_comes_back_as_context():
    """
    An agent that reads the same file again and again is told so, and the user sees one short line.
    """
    agent = Agent(*GUIDE)
    answers = [agent.call() for _ in range(6)]
    said = [answer for answer in answers if answer]
    assert "Read called" in words(said[0])
    assert said[0]["systemMessage"].startswith("Steadyhelm: Read called")
    assert "\n" not in said[0]["systemMessage"]


def test_ordinary_work_is_not_spoken_to():
    """
    An agent that gets on hears nothing.
    """
    agent = Agent(*GUIDE)
    agent.tell("UserPromptSubmit", prompt="add a test for the parser")
    answers = [agent.call(file_path=f"/p/{n}.py", result=f"body {n}") for n in range(20)]
    assert [{}] * 20 == answers


def test_observing_says_nothing():
    """
    In mode observe nothing is said, and everything is kept.
    """
    agent = Agent("--agent", "claude-code", "--mode", "observe")
    assert [{}] * 8 == [agent.call() for _ in range(8)]
    assert read_log() == []


def test_enforcing_denies_and_then_stops():
    """
    In mode enforce a loop that goes on is denied with the reason, and an agent that goes on is stopped.
    """
    agent = Agent(*ENFORCE)
    answers = [agent.call() for _ in range(25)]
    denied = [it for it in answers if it.get("hookSpecificOutput", {}).get("permissionDecision") == "deny"]
    assert "Read called" in denied[0]["hookSpecificOutput"]["permissionDecisionReason"]
    stopped = [it for it in answers if it.get("continue") is False]
    assert stopped
    assert stopped[0]["stopReason"]


def test_test_fail_loop():
    """
    The same failing test run again and again is noticed.
    """
    agent = Agent(*GUIDE)
    said = []
    for n in range(6):
        fields = {"tool_name": "Bash", "tool_input": {"command": "pytest -q"}, "tool_use_id": f"b{n}"}
        agent.tell("PreToolUse", **fields)
        said.append(words(agent.tell("PostToolUseFailure", error="1 failed: test_parse", **fields)))
    assert any(said)


def test_edits_that_are_undone_again():
    """
    An edit that is made, undone and made again comes back as context.
    """
    agent = Agent(*GUIDE)
    said = []
    for n in range(8):
        there, back = ("a", "b") if n % 2 else ("b", "a")
        edit = {"file_path": "/p/a.py", "old_string": f"x = {there}", "new_string": f"x = {back}"}
        said.append(words(agent.call("Edit", result=f"edited {n}", **edit)))
    assert any("/p/a.py" in text for text in said)


def test_drift_of_style():
    """
    Replies that turn into filler come back as context with one of the next prompts.
    """
    agent = Agent(*GUIDE)
    said = []
    filler = "Great question! I'd be happy to help! Absolutely, let me dive right in, you are so right! "
    for n in range(14):
        said.append(words(agent.tell("UserPromptSubmit", prompt=f"now part {n} of it", prompt_id=f"p{n}")))
        plain = f"Part {n} is in module {n}: it reads the file, parses {n} lines, and returns them in order."
        reply = plain if n < 5 else f"{filler * (n - 3)} Topic {n}!!!"
        agent.tell("Stop", last_assistant_message=reply, prompt_id=f"p{n}")
    assert any(said)


def test_the_users_line_is_harmless():
    """
    A tool's name cannot move the user's cursor.
    """
    agent = Agent(*GUIDE)
    said = [agent.call("Re\x1b[2Jad\n") for _ in range(6)]
    lines = [answer["systemMessage"] for answer in said if answer]
    assert lines
    assert all(status_line.isprintable() for status_line in lines)


def test_sessions_are_kept_apart():
    """
    Two sessions that read the same file are two sessions, not a loop.
    """
    agents = [Agent(*GUIDE, session=f"s{n}") for n in range(8)]
    assert [{}] * 8 == [agent.call() for agent in agents]


def test_a_notice_told_twice_counts_once(store):
    """
    Where hooks are installed twice every notice comes twice, and is taken in once.
    """
    agent = Agent(*GUIDE)
    for n in range(6):
        for _ in range(2):
            agent.call(call_id=f"t{n}", file_path=f"/p/{n}.py", result=str(n))
    assert 6 == store().find_run("s1").tool_calls


def test_subagents_are_runs_inside_the_session(store):
    """
    A sub-agent is a run of its own, with the session as its parent, and ends by itself.
    """
    Agent(*GUIDE).call()
    helper = Agent(*GUIDE, part="a1")
    helper.call()
    helper.tell("SubagentStop", last_assistant_message="Found it.")
    run = store().find_run("s1/a1")
    assert ("claude-code/subagent", "s1", "ended", 1) == (
        *(run.agent_id, run.parent_run_id, run.state, run.tool_calls),
    )


def test_a_session_is_a_run_with_the_prompt_as_its_goal(store):
    """
    The first prompt is the run's goal; its end is the run's end.
    """
    agent = Agent(*GUIDE)
    agent.tell("UserPromptSubmit", prompt="fix the parser", prompt_id="p1")
    agent.call()
    agent.tell("Stop", last_assistant_message="Done.", prompt_id="p1")
    agent.tell("SessionEnd", reason="exit")
    run = store().find_run("s1")
    assert ("fix the parser", "ended", 3, 1, 1) == (
        *(run.goal, run.state, run.events, run.tool_calls, run.llm_calls),
    )


def test_a_session_taken_up_after_its_end(store):
    """
    A session that is resumed after its end goes on as a second run, and stays one.
    """
    agent = Agent(*GUIDE)
    agent.call()
    agent.tell("SessionEnd", reason="exit")
    agent.call(file_path="/p/b.py")
    agent.call(file_path="/p/c.py")
    assert (1, 2) == (store().find_run("s1").tool_calls, store().find_run("s1~2").tool_calls)


def test_a_call_without_a_result_is_made_all_the_same(store):
    """
    A call whose result never comes is taken in when the user speaks next.
    """
    agent = Agent(*GUIDE)
    agent.tell("PreToolUse", tool_name="Bash", tool_input={"command": "sleep 9"}, tool_use_id="t1")
    agent.tell("UserPromptSubmit", prompt="never mind", prompt_id="p")
    assert 1 == store().find_run("s1").tool_calls


def test_a_result_that_is_told_before_its_call(store):
    """
    When two hooks run at once and the result is told first, the call counts once.
    """
    agent = Agent(*GUIDE)
    fields = {"tool_name": "Read", "tool_input": {"file_path": "/p/a.py"}, "tool_use_id": "t1"}
    agent.tell("PostToolUse", tool_response="x", **fields)
    agent.tell("PreToolUse", **fields)
    agent.tell("UserPromptSubmit", prompt="go on", prompt_id="p")
    assert 1 == store().find_run("s1").tool_calls


def test_words_wait_for_an_event_that_can_carry_them(apart):
    """
    What is noticed at a reply is said with the next prompt.
    """
    agent = Agent(*GUIDE)
    said = []
    for n in range(8):
        said.append(words(agent.tell("UserPromptSubmit", prompt=f"step {n} please", prompt_id=f"p{n}")))
        assert {} == agent.tell("Stop", last_assistant_message="I will look into it now.", prompt_id=f"p{n}")
    assert any(said)


def test_words_that_nobody_received_are_no_intervention(store):
    """
    Guidance that still waits when the session ends is stored as not carried out, and not judged.
    """

    def play(session, turns):
        agent = Agent(*GUIDE, session=session)
        for n in range(turns):
            said = words(agent.tell("UserPromptSubmit", prompt=f"step {n} please", prompt_id=f"p{n}"))
            if said:
                return n
            agent.tell("Stop", last_assistant_message="I will look into it now.", prompt_id=f"p{n}")
        agent.tell("SessionEnd")
        return turns

    heard_at = play("heard", 20)
    assert heard_at < 20
    play("unheard", heard_at)
    (incident,) = store().list_incidents("claude-code", "unheard")
    (intervention,) = incident.interventions
    assert "ended before" in intervention.not_carried_out
    (incident,) = store().list_incidents("claude-code", "heard")
    assert not incident.interventions[0].not_carried_out


def test_the_user_reads_that_a_call_was_blocked():
    """
    The line for the user names a blocked call as such.
    """
    agent = Agent(*ENFORCE)
    answers = [agent.call() for _ in range(8)]
    denied = next(it for it in answers if "permissionDecision" in it.get("hookSpecificOutput", {}))
    assert denied["systemMessage"].startswith("Steadyhelm blocked a call: ")


def test_tokens_come_from_the_transcript(store, apart):
    """
    A reply's tokens are read from the transcript, which may be in the middle of a line.
    """
    usage = {"input_tokens": 90, "output_tokens": 10}
    whole = json.dumps({"type": "assistant", "message": {"id": "m", "usage": usage}})
    (apart / "t.jsonl").write_text(whole + "\n" + whole[:40])
    agent = Agent(*GUIDE)
    agent.tell("Stop", last_assistant_message="Done.", transcript_path=str(apart / "t.jsonl"))
    assert 100 == store().find_run("s1").tokens


def reply_line(reply, tokens, **fields):
    message = {"id": reply, "usage": {"input_tokens": tokens, "output_tokens": 0}}
    return json.dumps({"type": "assistant", "message": message, **fields}) + "\n"


def test_tokens_are_known_while_the_turn_goes_on(store, apart):
    """
    The tokens of a reply count with the first call after it, and count once however often its line comes.
    """
    agent = Agent(*GUIDE)
    agent.common["transcript_path"] = str(apart / "t.jsonl")
    with (apart / "t.jsonl").open("a") as transcript:
        for n in range(3):
            transcript.write(reply_line(f"m{n}", 100))
            transcript.flush()
            agent.call(file_path=f"/p/{n}.py")
            transcript.write(reply_line(f"m{n}", 100))
            transcript.flush()
    agent.tell("Stop", last_assistant_message="Done.")
    assert 300 == store().find_run("s1").tokens


def test_tokens_of_a_session_that_ends_without_a_reply(store, apart):
    """
    What was written after the last step counts when the session ends.
    """
    agent = Agent(*GUIDE)
    agent.common["transcript_path"] = str(apart / "t.jsonl")
    agent.tell("UserPromptSubmit", prompt="fix it")
    (apart / "t.jsonl").write_text(reply_line("m1", 70))
    agent.tell("SessionEnd", reason="other")
    assert (70, 0) == (store().find_run("s1").tokens, store().find_run("s1").llm_calls)


def test_tokens_of_a_session_taken_up_again(store, apart):
    """
    A session that goes on as a second run is not charged with what the first one cost.
    """
    agent = Agent(*GUIDE)
    agent.common["transcript_path"] = str(apart / "t.jsonl")
    (apart / "t.jsonl").write_text(reply_line("m1", 70, timestamp="2020-01-01T00:00:00.000Z"))
    agent.tell("Stop", last_assistant_message="Done.")
    agent.tell("SessionEnd", reason="other")
    with (apart / "t.jsonl").open("a") as transcript:
        transcript.write(reply_line("m2", 5, timestamp="2999-01-01T00:00:00.000Z"))
    agent.tell("Stop", last_assistant_message="Done again.")
    assert (0, 5) == (store().find_run("s1").tokens, store().find_run("s1~2").tokens)


def test_tokens_of_a_subagent(store, apart):
    """
    A sub-agent is charged with its own transcript, not with that of the session.
    """
    (apart / "main.jsonl").write_text(reply_line("m1", 1000))
    (apart / "own.jsonl").write_text(reply_line("m2", 30, isSidechain=True))
    helper = Agent(*GUIDE, part="a1")
    helper.common["transcript_path"] = str(apart / "main.jsonl")
    helper.call()
    own = str(apart / "own.jsonl")
    helper.tell("SubagentStop", last_assistant_message="Found it.", agent_transcript_path=own)
    assert 30 == store().find_run("s1/a1").tokens


def batch(*calls):
    return {
        "tool_calls": [
            {"tool_name": tool, "tool_input": {"x": 1}, "tool_use_id": call_id, "tool_response": told}
            for call_id, tool, told in calls
        ]
    }


def test_calls_that_never_ran_are_seen(store):
    """
    An unknown tool, bad arguments and a missing permission are failed calls; calls told of before count once.
    """
    agent = Agent(*GUIDE)
    agent.call(call_id="t1")
    refused = {"tool_name": "Edit", "tool_input": {"x": 1}, "tool_use_id": "t3"}
    agent.tell("PreToolUse", **refused)
    told = batch(("t1", "Read", "x = 1"), ("t2", "Nope", "<tool_use_error>no such tool</tool_use_error>"))
    told["tool_calls"] += batch(("t3", "Edit", "you have not granted it"))["tool_calls"]
    for _ in range(2):
        agent.tell("PostToolBatch", **told)
    agent.tell("UserPromptSubmit", prompt="go on")
    run = store().find_run("s1")
    assert (3, 2) == (run.tool_calls, run.errors)


def test_a_loop_of_calls_that_never_run_comes_back_as_context():
    """
    An agent that asks for an unknown tool again and again is told so, although no call is ever made.
    """
    agent = Agent(*GUIDE)
    said = [words(agent.tell("PostToolBatch", **batch((f"t{n}", "Nope", "no such tool")))) for n in range(4)]
    assert any("Nope called" in it for it in said)


def test_a_call_that_we_refused_is_no_failed_call(store):
    """
    What Steadyhelm denied comes back with the calls of the reply, and is not taken for another failure.
    """
    agent = Agent(*ENFORCE)
    denied = {}
    while denied.get("hookSpecificOutput", {}).get("permissionDecision") != "deny":
        denied = agent.call()
    before = store().find_run("s1").errors
    agent.tell("PostToolBatch", **batch((f"s1-{agent.calls}", "Read", "PreToolUse:Read hook error")))
    assert (0, 0) == (before, store().find_run("s1").errors)


@pytest.mark.parametrize("calls", [None, 7, [None, 3], [{}], [{"tool_use_id": "t"}], [{"tool_response": []}]])
def test_odd_batches_block_nobody(calls):
    """
    A batch that makes no sense is passed over as far as it makes none.
    """
    assert {} == Agent(*GUIDE).tell("PostToolBatch", tool_calls=calls)
    assert [] == read_log()


def test_a_model_that_fails(store):
    """
    A turn that ends because the model failed is a failed reply, and its words are not the model's.
    """
    agent = Agent(*GUIDE)
    agent.tell("StopFailure", error="unknown", last_assistant_message="API Error: 500 overloaded")
    run = store().find_run("s1")
    assert (1, 1) == (run.llm_calls, run.errors)


def test_a_failure_that_only_the_transcript_tells(store, apart):
    """
    When the program is gone before its hook is done, the failure is read at the end; it counts once.
    """
    message = {"id": "m", "usage": {"input_tokens": 0}, "content": "API Error: 500"}
    (apart / "t.jsonl").write_text(json.dumps({"message": message, "isApiErrorMessage": True}) + "\n")
    for session, told in (("s1", False), ("s2", True)):
        agent = Agent(*GUIDE, session=session)
        agent.tell("UserPromptSubmit", prompt="fix it", prompt_id="p")
        if told:
            agent.tell("StopFailure", last_assistant_message="API Error: 500", prompt_id="p")
        agent.tell("SessionEnd", prompt_id="p", transcript_path=str(apart / "t.jsonl"))
        agent.tell("StopFailure", last_assistant_message="API Error: 500", prompt_id="p")
    assert (1, 1) == (store().find_run("s1").errors, store().find_run("s2").errors)
    assert 2 == len(store().list_runs("claude-code"))


def test_the_program_speaking_for_itself_is_no_user(store):
    """
    The news that a background task is done stands where prompts stand, and is none.
    """
    agent = Agent(*GUIDE)
    agent.tell("UserPromptSubmit", prompt="<task-notification>\n<task-id>a1</task-id>", prompt_id="p")
    assert ("", 1) == (store().find_run("s1").goal, store().find_run("s1").events)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b"{}", b'{"hook_event_name": "Stop"}'],
    ids=range(9),
)
def test_bad_events_are_noted_and_answered_with_nothing(body):
    """
    Whatever is not an event of a session gets no answer, and a line in the log.
    """
    assert b"" == handle_event(GUIDE, body)
    if body != b"{}":
        assert 1 == len(read_log())


def test_reasons_are_counted(store):
    """
    What could not be looked at is counted by reason in the store.
    """
    handle_event(GUIDE, b"{")
    handle_event(GUIDE, b"{")
    assert {"hook: the event is not JSON": 2} == store().get_losses()


@pytest.mark.parametrize("event", ["BeforeLunch", "SessionStart", "Notification", "PreCompact", ""])
def test_unknown_events_change_nothing(event, apart):
    """
    An event we have no use for is not even opened the store for.
    """
    assert {} == Agent(*GUIDE).tell(event)
    assert not (apart / "steadyhelm.db").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_input": "\ud800"},
        {"tool_response": "x" * 3_000_000},
        {"tool_name": None, "tool_input": [1, {"a": [None]}]},
        {"tool_use_id": {"a": 1}, "duration_ms": float("nan")},
        {"session_id": "../../etc/passwd\x00\n"},
    ],
    ids=range(5),
)
def test_odd_fields_are_taken_as_they_come(fields):
    """
    Half characters, giant results and wrong types are no reason to fall over.
    """
    assert {} == Agent(*GUIDE).tell("PostToolUse", **{"tool_name": "Read", **fields})


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 20, b"x"])
def test_a_broken_store_blocks_nobody(content, apart):
    """
    With a database that cannot be used there is no answer, a line in the log, and the file is left alone.
    """
    (apart / "steadyhelm.db").write_bytes(content)
    assert {} == Agent(*GUIDE).tell("PostToolUse", tool_name="Read")
    assert "store cannot be used" in read_log()[0]
    assert content == (apart / "steadyhelm.db").read_bytes()


def test_a_locked_store_is_waited_for_only_so_long(apart):
    """
    While another process holds the database the agent goes on without an answer.
    """
    Agent(*GUIDE).call()
    holder = sqlite3.connect(apart / "steadyhelm.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert {} == Agent(*GUIDE).tell("PostToolUse", tool_name="Read", tool_use_id="late")
    finally:
        holder.close()
    assert "store cannot be used" in read_log()[0]


@pytest.mark.parametrize("options", [("--agent", "emacs"), ("--mode", "shout"), ("--verbose",)])
def test_wrong_options_block_nobody(options):
    """
    A wrong option in somebody's settings gives no answer and a line in the log.
    """
    assert b"" == handle_event(options, b'{"session_id": "s", "hook_event_name": "Stop"}')
    assert "is invalid" in read_log()[0]


def test_turned_off(monkeypatch, apart):
    """
    With everything turned off nothing is looked at.
    """
    monkeypatch.setenv("STEADYHELM_DISABLED", "1")
    assert {} == Agent(*GUIDE).call()
    assert not (apart / "steadyhelm.db").exists()


def test_log_holds_harmless_text_only():
    """
    What stands in the log cannot move anybody's cursor.
    """
    handle_event(("--agent", "\x1b[2J\n"), b"{}")
    assert "\x1b" not in read_log()[0]


def status(session="s1", **payload):
    return build_status_line({"session_id": session, **payload}, load().settings).decode()


def test_status_line_of_a_session_going_well():
    """
    The status line says that a session is on course, and how much it has done.
    """
    agent = Agent(*GUIDE)
    agent.call()
    agent.call(file_path="/p/b.py")
    window = {"total_input_tokens": 12_000, "total_output_tokens": 345}
    assert "steadyhelm: on course · 2 calls · 12k tokens" == status(context_window=window)


def test_status_line_of_a_session_in_a_loop():
    """
    The status line names the drift that is going on, in one line of harmless text.
    """
    agent = Agent(*GUIDE)
    for _ in range(6):
        agent.call()
    assert "steadyhelm: drifting: loop · 6 calls · 1 incident" == status()


@pytest.mark.parametrize("session", ["", "never heard of", "\x1b[31m", None, {"a": 1}])
def test_status_line_of_an_unknown_session(session):
    """
    Of a session it knows nothing about, it says that it is watching.
    """
    assert "steadyhelm: watching" == status(session)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hook"], True),
        (["hook", "--agent", "codex"], True),
        (["hook", "statusline"], True),
        (["hook", "--agent", "codex", "--mode", "guide"], True),
        (["hook", "--agent", "codex", '{"type": "agent-turn-complete"}'], True),
        (["hook", "install", "--agent", "codex"], False),
        (["hook", "--agent", "codex", "instal"], False),
        (["hook", "--help"], False),
        (["scan", "hook"], False),
        ([], False),
    ],
)
def test_events_are_told_from_commands(arguments, expected):
    """
    What an agent runs is told apart from what a person types before anything is loaded.
    """
    assert expected is is_hook_event(arguments)


@pytest.mark.parametrize(("typed", "meant"), [("instal", "install"), ("stauts", "status")])
def test_a_misspelt_command_suggests_the_right_one(typed, meant):
    """
    A misspelt command is answered, with a status that no agent takes for a refusal, as it would take 2.
    """
    answer = process("hook", typed)

    assert f"Did you mean '{meant}'" in answer.err
    assert 1 == answer.status
