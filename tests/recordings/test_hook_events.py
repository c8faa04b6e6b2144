import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.recordings.hook_events.dialects import AGENTS, DIALECTS, recognise_dialect
from steadyhelm.recordings.hook_events.hook_step import HookAnswer, simplify_result

WORDS = HookAnswer(verdict="guide", words="try another way", note="Steadyhelm: a loop")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("session_id", "conversation_id", "hook_event_name", "tool_name", "tool_input", "tool_response")
FIELDS += ("tool_output", "tool_use_id", "prompt", "agent_id", "duration_ms", "timestamp", "error", "text")


def claude(event, **fields):
    return {"hook_event_name": event, "session_id": "s", "cwd": "/p", **fields}


@pytest.mark.parametrize(
    ("agent", "payload"),
    [
        ("claude-code", claude("PreToolUse", tool_use_id="t", prompt_id="p")),
        ("claude-code", claude("SessionStart", model="m")),
        ("codex", claude("PreToolUse", model="m", permission_mode="default")),
        ("codex", claude("Stop", turn_id="1")),
        ("gemini-cli", claude("AfterTool", timestamp="2026-01-01T00:00:00Z")),
        ("gemini-cli", claude("BeforeModel")),
        ("cursor", {"hook_event_name": "preToolUse", "conversation_id": "c"}),
        ("claude-code", {}),
    ],
)
def test_agents_are_recognised(agent, payload):
    """
    An agent is recognised by the fields that only it has.
    """
    assert agent == recognise_dialect(payload).agent


@pytest.mark.parametrize("agent", AGENTS)
@given(payload=st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_payload_is_read(agent, payload):
    """
    Whatever stands in a payload, it is read as some step and answered with an object.
    """
    dialect = DIALECTS[agent]
    step = dialect.read(payload)
    assert isinstance(dialect.write(step, WORDS), dict)


@pytest.mark.parametrize("agent", AGENTS)
def test_unknown_events_are_left_alone(agent):
    """
    An event that nobody has heard of is of the kind `other`.
    """
    assert "other" == DIALECTS[agent].read({"hook_event_name": "BeforeLunch", "session_id": "s"}).kind


def test_claude_code_step():
    """
    A finished call of Claude Code gives its tool, arguments, result, id and time.
    """
    step = DIALECTS["claude-code"].read(
        claude(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": "pytest"},
            tool_response={"stdout": "1 passed", "stderr": "", "interrupted": False},
            tool_use_id="t1",
            duration_ms=12,
        )
    )
    assert ("after_tool", "Bash", {"command": "pytest"}, "1 passed", None) == (
        *(step.kind, step.tool, step.args, step.result, step.error),
    )
    assert ("s", "t1", "PostToolUse:t1", 12.0) == (step.run_id, step.call_id, step.once, step.duration_ms)


def test_claude_code_failure():
    """
    A failed call takes its error from the field for errors, never from the result's text.
    """
    step = DIALECTS["claude-code"].read(claude("PostToolUseFailure", tool_name="Bash", error="exit 1"))
    assert ("after_tool", "exit 1") == (step.kind, step.error)


def test_claude_code_subagents_stand_apart():
    """
    What a sub-agent does belongs to a run of its own inside the session.
    """
    assert "s/a7" == DIALECTS["claude-code"].read(claude("PreToolUse", agent_id="a7")).run_id


def test_claude_code_words():
    """
    Words go to the model as additional context, one line to the user.
    """
    dialect = DIALECTS["claude-code"]
    step = dialect.read(claude("PostToolUse", tool_name="Read"))
    assert {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "try another way"},
        "systemMessage": "Steadyhelm: a loop",
    } == dialect.write(step, WORDS)


@pytest.mark.parametrize("stops", [False, True])
def test_claude_code_denial_and_stop(stops):
    """
    A denial names its reason; a stop is a denial that also ends the turn.
    """
    dialect = DIALECTS["claude-code"]
    step = dialect.read(claude("PreToolUse", tool_name="Read"))
    said = dialect.write(step, HookAnswer(verdict="stop" if stops else "deny", words="why", note="line"))
    assert ("deny", "why") == (
        said["hookSpecificOutput"]["permissionDecision"],
        said["hookSpecificOutput"]["permissionDecisionReason"],
    )
    assert (False if stops else None) == said.get("continue")


def test_codex_is_never_asked_to_stop_before_a_call():
    """
    Codex takes a denial before a call and nothing stronger.
    """
    assert "stop" not in DIALECTS["codex"].can["before_tool"]


def test_codex_failure():
    """
    A command that ended with another status than 0 has failed.
    """
    response = {"output": "boom", "metadata": {"exit_code": 2}}
    step = DIALECTS["codex"].read(claude("PostToolUse", tool_name="shell", tool_response=response))
    assert "exit code 2: boom" == step.error


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nboom", "exit code 2: "),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nboom", "exit code 3: "),
        ('{"output": "boom", "metadata": {"exit_code": 4}}', "exit code 4: boom"),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine", None),
        ("the log says\nExit code: 2\nOutput:\nboom", None),
        ("Exit code: 2", None),
    ],
)
def test_codex_exit_codes_above_the_output(response, error):
    """
    An exit code above the output fails the call; one inside what a command printed does not.
    """
    step = DIALECTS["codex"].read(claude("PostToolUse", tool_name="shell", tool_response=response))
    assert step.error is None if error is None else step.error.startswith(error)


def test_gemini_step_and_answer():
    """
    Gemini CLI's result is what the model was given; a denial is a decision with a reason.
    """
    dialect = DIALECTS["gemini-cli"]
    step = dialect.read(
        claude("AfterTool", tool_name="read_file", tool_response={"llmContent": "x", "returnDisplay": "y"})
    )
    assert "x" == step.result
    before = dialect.read(claude("BeforeTool", tool_name="read_file"))
    assert {"decision": "deny", "reason": "why"} == dialect.write(
        before, HookAnswer(verdict="deny", words="why")
    )


def test_gemini_notices_are_known_again():
    """
    The same notice has the same mark, the next call of the same tool another.
    """
    read = DIALECTS["gemini-cli"].read
    first = read(claude("BeforeTool", tool_name="ls", timestamp="t1")).once
    assert first == read(claude("BeforeTool", tool_name="ls", timestamp="t1")).once
    assert first != read(claude("BeforeTool", tool_name="ls", timestamp="t2")).once


def test_cursor_step_and_answer():
    """
    Cursor's arguments and results are opened where they are a text of JSON; a denial speaks to both.
    """
    dialect = DIALECTS["cursor"]
    step = dialect.read(
        {
            "hook_event_name": "postToolUse",
            "conversation_id": "c",
            "tool_name": "Shell",
            "tool_input": '{"command": "ls"}',
            "tool_output": '{"exitCode": 1, "stdout": "no"}',
        }
    )
    assert ("c", {"command": "ls"}, "exit code 1: no") == (step.run_id, step.args, step.error)
    before = dialect.read({"hook_event_name": "preToolUse", "conversation_id": "c"})
    assert {"permission": "deny", "agent_message": "why", "user_message": "line"} == dialect.write(
        before, HookAnswer(verdict="deny", words="why", note="line")
    )


def test_times_are_no_part_of_a_result():
    """
    How long a call took does not make its result another one.
    """
    assert {"numFiles": 0} == simplify_result({"numFiles": 0, "durationMs": 31})
