"""Coding agents that are watched by hooks spend from their agent's budget of the day."""

import json

import pytest

from steadyhelm.hooks.handler import handle_request
from steadyhelm.hooks.request import Deadline, HookRequest


@pytest.fixture
def coding_agent(tmp_path, monkeypatch):
    """Takes steps in sessions of Claude Code, four calls a day allowed."""
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
    monkeypatch.setenv("STEADYHELM_BUDGET_DAILY_STEPS", "4")
    monkeypatch.chdir(tmp_path)

    def send(session, event, number):
        told = {"session_id": session, "hook_event_name": event, "tool_name": "Read"}
        told |= {"tool_use_id": f"{session}-{number}", "tool_input": {"file_path": f"/p/{number}.py"}}
        told |= {"tool_response": {"stdout": f"x = {number}"}} if event == "PostToolUse" else {}
        body = json.dumps(told).encode()
        options = ["--agent", "claude-code", "--mode", "enforce"]
        said = handle_request(HookRequest(options, body, Deadline(60.0)))
        return json.loads(said)["hookSpecificOutput"] if said else {}

    def call(session, number):
        before = send(session, "PreToolUse", number)
        return before or send(session, "PostToolUse", number)

    return call


def test_sessions_add_up(coding_agent):
    """
    Two sessions of two calls each use up four calls a day: the fourth is told, the next is not made.
    """
    quiet = [coding_agent("s1", 1), coding_agent("s1", 2), coding_agent("s2", 1)]
    last, refused = coding_agent("s2", 2), coding_agent("s3", 1)

    assert [{}, {}, {}] == quiet
    assert "the agent's daily budget is used up: 4 of 4 tool calls" in last["additionalContext"]
    assert refused["permissionDecision"] in {"ask", "deny"}
    assert "it opens again at" in refused["permissionDecisionReason"]
